//! The command line's side of a persistent fabric.

use anyhow::{Context, anyhow, bail};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use softband_ipc::command::{Command, CommandReply, kind};
use softband_ipc::environment;
use softband_metrics::ports::Port;
use std::io::{Read, Seek};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Size of the argument of a command, in bytes.
const ARGUMENT_BYTES: usize = 112;

/// Environment variables that place a program on a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pass {
    pub variables: Vec<(String, String)>,
}

impl Pass {
    /// Returns the variables. Variables of the dynamic linker also get the caller's values: a path
    /// at its end, preloaded libraries before ours.
    pub fn merged(&self) -> impl Iterator<Item = (&str, String)> {
        self.variables.iter().map(|(name, value)| match name.as_str() {
            "LD_PRELOAD" => (name.as_str(), crate::linker::preload_list(std::env::var(name).ok().as_deref(), Path::new(value))),
            "LD_LIBRARY_PATH" => (name.as_str(), crate::linker::joined(Path::new(value), name, ':')),
            _ => (name.as_str(), value.clone()),
        })
    }

    /// Returns a pass with the libraries in `folder`. Of the engine's variables it keeps those that
    /// place the program, because the engine may be another user's.
    ///
    /// # Errors
    /// If the dynamic linker does not accept the folder.
    pub fn with_libraries(self, folder: &Path) -> anyhow::Result<Self> {
        let text = folder.to_str().filter(|text| !text.contains([' ', '\t', '\n', ':', ';', '$']));
        let text = text.with_context(|| {
            format!("the dynamic linker accepts no blank, colon, semicolon or dollar sign in {}\n  help: move the installation", folder.display())
        })?;
        let own = |(name, value): (String, String)| match name.as_str() {
            "LD_PRELOAD" => Some((name, format!("{text}/libsoftband.so"))),
            "LD_LIBRARY_PATH" | environment::LIBRARIES => Some((name, text.to_owned())),
            environment::ENGINE | environment::TICKET | environment::HOST | environment::HOSTS | environment::FILES | "OSM_CACHE_DIR" => {
                Some((name, value))
            }
            _ => None,
        };
        Ok(Self { variables: self.variables.into_iter().filter_map(own).collect() })
    }
}

/// A connection to the engine of a persistent fabric.
#[derive(Debug)]
pub struct Remote(OwnedFd);

impl Remote {
    /// Connects to the engine with this name. Returns `None` if the engine does not run.
    ///
    /// # Errors
    /// If the system refuses sockets.
    pub fn connect(engine: &str) -> anyhow::Result<Option<Self>> {
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        match rustix::net::connect(&socket, &crate::control::socket::address(engine)?) {
            Ok(()) => Ok(Some(Self(socket))),
            Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error).context("cannot reach the engine"),
        }
    }

    /// Returns the variables for a program on `host`.
    ///
    /// # Errors
    /// If the fabric has no such host. The message suggests its hosts.
    pub fn pass(&self, host: &str) -> anyhow::Result<Pass> {
        let (status, text) = self.ask(kind::TICKET, host)?;
        match status {
            0 => Ok(serde_json::from_value(text)?),
            libc::ENOENT => {
                let hosts: Vec<String> = serde_json::from_value(text)?;
                let known: Vec<&str> = hosts.iter().map(String::as_str).collect();
                bail!("the fabric has no host `{host}`\n  help: {}", softband_catalog::suggest(host, "hosts", &known))
            }
            other => Err(refusal(other)),
        }
    }

    /// Returns the counters of all ports.
    ///
    /// # Errors
    /// If the engine does not answer.
    pub fn ports(&self) -> anyhow::Result<Vec<Port>> {
        match self.ask(kind::METRICS, "")? {
            (0, text) => Ok(serde_json::from_value(text)?),
            (other, _) => Err(refusal(other)),
        }
    }

    /// Returns the status of the fabric: hosts, devices, programs.
    ///
    /// # Errors
    /// If the engine does not answer.
    pub fn status(&self) -> anyhow::Result<Value> {
        match self.ask(kind::STATUS, "")? {
            (0, text) => Ok(text),
            (other, _) => Err(refusal(other)),
        }
    }

    /// Injects a fault. Its words are those of `FaultKind::of_words`.
    ///
    /// # Errors
    /// If the words mean nothing on this fabric. The message states the valid words.
    pub fn fault(&self, words: &[String]) -> anyhow::Result<()> {
        let text = words.join(" ");
        if text.len() >= ARGUMENT_BYTES {
            bail!("no fault is as long as `{text}`");
        }
        match self.ask(kind::FAULT, &text)? {
            (0, _) => Ok(()),
            (libc::ENOENT, why) => bail!("{}", why.as_str().unwrap_or("the fabric knows no port, host or switch of this name")),
            (other, _) => Err(refusal(other)),
        }
    }

    /// Captures packets to a file that this process has open, until [`Remote::end_capture`].
    ///
    /// # Errors
    /// If a name is no port, or if another capture is under way.
    pub fn capture(&self, file: &std::fs::File, ports: &[String]) -> anyhow::Result<()> {
        let text = format!("{} {}", file.as_raw_fd(), ports.join(" "));
        if text.len() >= ARGUMENT_BYTES {
            bail!("the names of these ports are too long\n  help: name fewer ports, or hosts and switches");
        }
        match self.ask(kind::CAPTURE, text.trim_end())? {
            (0, _) => Ok(()),
            (libc::EINVAL | libc::EBUSY, Value::String(why)) => bail!(why),
            (other, _) => Err(refusal(other)),
        }
    }

    /// Ends the capture of this process.
    ///
    /// # Errors
    /// If the engine does not answer.
    pub fn end_capture(&self) -> anyhow::Result<()> {
        match self.ask(kind::CAPTURE, "")? {
            (0, _) => Ok(()),
            (other, _) => Err(refusal(other)),
        }
    }

    /// Checks whether the engine has ended.
    pub fn has_ended(&self) -> bool {
        let peeked = rustix::net::recv(&self.0, &mut [0u8; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        !matches!(peeked, Err(rustix::io::Errno::AGAIN))
    }

    /// Ends the engine.
    ///
    /// # Errors
    /// If the engine does not answer.
    pub fn down(&self) -> anyhow::Result<()> {
        match self.ask(kind::DOWN, "")? {
            (0, _) => Ok(()),
            (other, _) => Err(refusal(other)),
        }
    }

    /// Waits until the engine's process has ended, at most for `limit`.
    pub fn await_end(&self, limit: std::time::Duration) {
        let _ = rustix::net::sockopt::set_socket_timeout(&self.0, rustix::net::sockopt::Timeout::Recv, Some(limit));
        // The engine has sent all its answers. The next event is the end of the connection.
        let _ = rustix::net::recv(&self.0, &mut [0u8; 1][..], RecvFlags::empty());
    }

    fn ask(&self, kind: u32, argument: &str) -> anyhow::Result<(i32, Value)> {
        let mut command = Command { version: softband_ipc::VERSION, kind, argument: [0; ARGUMENT_BYTES] };
        // One byte stays zero. No host has a longer name.
        let len = argument.len().min(ARGUMENT_BYTES - 1);
        command.argument[..len].copy_from_slice(&argument.as_bytes()[..len]);
        rustix::net::send(&self.0, bytemuck::bytes_of(&command), SendFlags::NOSIGNAL).context("the engine hung up")?;
        let mut reply: CommandReply = bytemuck::Zeroable::zeroed();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [std::io::IoSliceMut::new(bytemuck::bytes_of_mut(&mut reply))];
        let received = rustix::net::recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC).context("the engine hung up")?;
        if received.bytes < size_of::<CommandReply>() {
            bail!("the engine does not answer: is the fabric another user's?");
        }
        let file = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        let mut file = std::fs::File::from(file.context("the engine's answer is empty")?);
        let mut text = String::new();
        file.rewind()?;
        file.read_to_string(&mut text)?;
        Ok((reply.status, serde_json::from_str(&text)?))
    }
}

fn refusal(errno: i32) -> anyhow::Error {
    match errno {
        libc::EPROTO => anyhow!("the fabric was brought up by another version of softband: use that one, or bring it down and up again"),
        libc::EHOSTDOWN => anyhow!("the host has died: bring the fabric down and up again"),
        libc::EOPNOTSUPP => anyhow!("programs cannot be added to a run: bring a fabric up with softband up"),
        other => anyhow!("the engine refuses: {}", std::io::Error::from_raw_os_error(other)),
    }
}
