//! The machine's kernel in a network namespace of its own, behind a TUN device.

use super::lab::{MTU_BYTES, address};
use softband_model::parts::{BufferSizes, CongestionControl};
use softband_net::KernelPart;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

/// `_IOW('T', 202, int)` and flags of `linux/if_tun.h`: IP packets without a header.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const IFF_TUN: u16 = 0x0001;
const IFF_NO_PI: u16 = 0x1000;
/// Bytes of `struct ifreq`, whose name has 16.
const IFREQ_BYTES: usize = 40;
const IFREQ_FLAGS: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

/// Namespace with a thread in it that starts programs.
pub(crate) struct Machine {
    tun: File,
    jobs: Sender<Job>,
}

impl Machine {
    /// Returns a host, or the reason why this machine offers none. Its packets go to `packets`.
    pub(crate) fn new(side: usize, kernel: &KernelPart, packets: Sender<(usize, Vec<u8>)>) -> Result<Self, String> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let (made, result) = mpsc::channel();
        let settings = settings(kernel);
        thread::spawn(move || {
            let tun = enter(side, &settings);
            let is_made = tun.is_ok();
            let is_heard = made.send(tun).is_ok();
            if is_made && is_heard {
                // Threads of a thread share its namespace.
                queue.into_iter().for_each(|job| drop(thread::spawn(job)));
            }
        });
        let tun = result.recv().map_err(|_| "the thread of the namespace ended".to_owned())??;
        let mut reader = tun.try_clone().map_err(|error| error.to_string())?;
        thread::spawn(move || {
            let mut bytes = [0; 65_536];
            while let Ok(len) = reader.read(&mut bytes) {
                if packets.send((side, bytes[..len].to_vec())).is_err() {
                    return;
                }
            }
        });
        Ok(Self { tun, jobs })
    }

    /// Starts a program on the host. Its result comes through the channel.
    pub(crate) fn spawn<T: Send + 'static>(&self, program: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
        let (sender, result) = mpsc::channel();
        let job: Job = Box::new(move || drop(sender.send(program())));
        assert!(self.jobs.send(job).is_ok(), "the thread of the namespace runs");
        result
    }

    /// Hands the host a packet of the wire.
    pub(crate) fn receive(&self, packet: &[u8]) {
        // A kernel whose queue is full loses packets, as a wire does.
        let _ = (&self.tun).write(packet);
    }
}

/// Returns the settings that make the machine's kernel comparable to a part: files and values.
fn settings(kernel: &KernelPart) -> Vec<(&'static str, String)> {
    let buffers = |sizes: BufferSizes| format!("4096 {} {}", sizes.initial_bytes, sizes.max_bytes);
    let congestion = match kernel.congestion_control {
        CongestionControl::Reno => "reno",
        CongestionControl::Bic => "bic",
        CongestionControl::Cubic => "cubic",
    };
    vec![
        ("ipv6/conf/all/disable_ipv6", "1".into()),
        ("ipv4/tcp_rmem", buffers(kernel.receive_buffer)),
        ("ipv4/tcp_wmem", buffers(kernel.send_buffer)),
        ("ipv4/tcp_congestion_control", congestion.into()),
        ("ipv4/tcp_no_metrics_save", "1".into()),
        ("ipv4/tcp_ecn", "0".into()),
    ]
}

/// Moves the calling thread into a new namespace, and returns its TUN device.
fn enter(side: usize, settings: &[(&str, String)]) -> Result<File, String> {
    // SAFETY: the call takes flags alone, and changes the calling thread alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(format!("no network namespace: {}", io::Error::last_os_error()));
    }
    let failed = |what: &str, error: io::Error| format!("{what}: {error}");
    let path = "/dev/net/tun";
    let tun = OpenOptions::new().read(true).write(true).open(path).map_err(|error| failed(path, error))?;
    let mut request = [0_u8; IFREQ_BYTES];
    request[..5].copy_from_slice(b"wire0");
    request[IFREQ_FLAGS..IFREQ_FLAGS + 2].copy_from_slice(&(IFF_TUN | IFF_NO_PI).to_ne_bytes());
    // SAFETY: the descriptor is open, and the request has the size of a `struct ifreq`.
    if unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETIFF as _, request.as_mut_ptr()) } != 0 {
        return Err(failed("TUNSETIFF", io::Error::last_os_error()));
    }
    for (name, value) in settings {
        let path = format!("/proc/sys/net/{name}");
        fs::write(&path, value).or_else(|error| if name.starts_with("ipv6") { Ok(()) } else { Err(failed(&path, error)) })?;
    }
    ip(&["address", "add", &format!("{}/24", address(side)), "dev", "wire0"])?;
    ip(&["link", "set", "wire0", "mtu", &MTU_BYTES.to_string(), "up"])?;
    Ok(tun)
}

fn ip(words: &[&str]) -> Result<(), String> {
    let done = Command::new("ip").args(words).output().map_err(|error| format!("ip: {error}"))?;
    if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
}
