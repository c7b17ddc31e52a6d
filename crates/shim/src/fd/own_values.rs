//! The host's own values of the kernel's settings (`/proc/sys`, and some files of `/sys`). A program
//! that writes one gets a file in memory in place of the kernel's file. Its writes change the value
//! in the folder of the host, so all programs of the host read it and the machine keeps its own.
//! The engine learns the values on which the modelled TCP/IP depends.

use crate::clib::real;
use crate::fd::{counter_files, files, random_files, stdio};
use crate::runtime::world::{active, fail, keeping_errno, walled};
use libc::{c_int, ssize_t};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use softband_client::{Errno, call_with_tail, warn};
use softband_ipc::calls::{SettingName, op};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};

/// Beginning of the names of such files in memory. The path of the value follows.
const FILE: &str = "softband-value:";
/// Beginning of the names of files that a program only reads.
const FILE_TO_READ: &str = "softband-shown:";
/// Folder of the values below the host's folder. They mirror the paths of the kernel's files.
const OWN: &str = "/own";
/// Longest text of a value.
const LEN_MAX: usize = 4096;
pub const HOST_NAME: &[u8] = b"/proc/sys/kernel/hostname";
pub const DOMAIN_NAME: &[u8] = b"/proc/sys/kernel/domainname";
/// Settings of the network. The modelled network has a part of them.
const NETWORK: &[u8] = b"/proc/sys/net/";

/// Whether this process has opened such a file; most never do.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// Notes at the start of the process that it inherited such a file as a standard stream.
pub fn adopt() {
    if (0..=2).any(|fd| path_of_value(fd).is_some()) {
        note_use();
    }
}

fn note_use() {
    if !IS_USED.swap(true, Ordering::AcqRel) && walled() {
        // The streams of the C library lead to this module from now on.
        stdio::install();
    }
}

/// Returns the place of a value in the host's folder.
fn place(path: &[u8]) -> Option<CString> {
    CString::new([files::folder()?, OWN.as_bytes(), path].concat()).ok()
}

fn read_file(path: &CStr) -> Option<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    read_all(&file)
}

fn read_all(file: impl AsFd) -> Option<Vec<u8>> {
    let mut bytes = vec![0; LEN_MAX];
    let mut len = 0;
    while len < LEN_MAX {
        match rustix::io::pread(&file, &mut bytes[len..], len as u64) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(_) => return None,
        }
    }
    bytes.truncate(len);
    Some(bytes)
}

/// Returns the host's own value of a setting, if it has one.
pub fn get(path: &[u8]) -> Option<Vec<u8>> {
    read_file(&place(path)?)
}

/// Returns the value that programs of this host read.
fn present(path: &[u8]) -> Vec<u8> {
    let machines = || read_file(&CString::new(path).ok()?);
    get(path).or_else(machines).unwrap_or_default()
}

/// Puts the host's own value behind the descriptor of the kernel's file. Returns the descriptor.
pub(super) fn put_behind(fd: c_int, path: &[u8], flags: c_int) -> c_int {
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    let replaced = keeping_errno(|| {
        if !writes && get(path).is_none() {
            return Some(()); // the machine's value is the host's
        }
        let text = if flags & libc::O_ACCMODE == libc::O_WRONLY { Vec::new() } else { present(path) };
        let file = new_file(if writes { FILE } else { FILE_TO_READ }, path, &text)?;
        if writes {
            note_use();
        }
        replace(fd, &file)
    });
    if replaced.is_none() {
        real::close(fd);
        return fail(libc::ENOMEM);
    }
    fd
}

fn new_file(kind: &str, path: &[u8], text: &[u8]) -> Option<OwnedFd> {
    let file = memfd_create([kind.as_bytes(), path].concat(), MemfdFlags::CLOEXEC).ok()?;
    (rustix::io::pwrite(&file, text, 0).ok()? == text.len()).then_some(file)
}

/// Makes `fd` a descriptor of `file`, and keeps its flags.
fn replace(fd: c_int, file: &OwnedFd) -> Option<()> {
    // SAFETY: both calls take numbers.
    let flags = unsafe { kernel!(libc::SYS_fcntl, fd, libc::F_GETFD) } as c_int;
    let close = if flags & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 };
    // SAFETY: the call takes numbers, and this library has no use of the former file.
    (unsafe { kernel!(libc::SYS_dup3, file.as_raw_fd(), fd, close) } >= 0).then_some(())
}

/// Returns the path of the value behind a descriptor.
fn path_of_value(fd: c_int) -> Option<Vec<u8>> {
    // SAFETY: the command takes no argument. Only files in memory have seals.
    if unsafe { kernel!(libc::SYS_fcntl, fd, libc::F_GET_SEALS) } < 0 {
        return None;
    }
    let link = counter_files::target_of(&random_files::path_of(fd))?;
    link.strip_prefix(b"/memfd:")?.strip_prefix(FILE.as_bytes())?.strip_suffix(b" (deleted)").map(<[u8]>::to_vec)
}

/// Returns whether writes to a descriptor change a value.
pub(super) fn is_value(fd: c_int) -> bool {
    IS_USED.load(Ordering::Relaxed) && keeping_errno(|| path_of_value(fd).is_some())
}

/// Changes the value behind a descriptor. Returns `None` for other descriptors.
#[inline]
pub(super) fn write(fd: c_int, text: &[u8]) -> Option<ssize_t> {
    if !IS_USED.load(Ordering::Relaxed) {
        return None;
    }
    let path = keeping_errno(|| path_of_value(fd))?;
    Some(match keeping_errno(|| set(&path, text)) {
        Ok(()) => {
            keeping_errno(|| refill(fd, &present(&path)));
            text.len() as ssize_t
        }
        Err(errno) => fail(errno),
    })
}

/// Gives the file behind a descriptor the present value. Its former text would count as a write when the
/// descriptor closes.
fn refill(fd: c_int, text: &[u8]) {
    // SAFETY: the program keeps the descriptor during the call.
    let file = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
    if rustix::fs::ftruncate(file, 0).is_ok() {
        let _ = rustix::io::pwrite(file, text, 0);
    }
}

/// Takes a text that reached the file past this library, before its descriptor closes.
#[inline]
pub(super) fn before_close(fd: c_int) {
    if IS_USED.load(Ordering::Relaxed) {
        keeping_errno(|| {
            let Some(path) = path_of_value(fd) else { return };
            // SAFETY: the program has not closed the descriptor yet.
            let text = read_all(unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) }).unwrap_or_default();
            if !text.is_empty() && text != present(&path) {
                let _ = set(&path, &text);
            }
        });
    }
}

/// Gives a setting a value on this host.
pub fn set(path: &[u8], text: &[u8]) -> Result<(), c_int> {
    let value = in_form(text, &present(path))?;
    tell_engine(path, &value)?;
    store(path, &value).ok_or(libc::EIO)
}

/// Tells the engine, which knows the settings of its TCP/IP.
fn tell_engine(path: &[u8], value: &[u8]) -> Result<(), c_int> {
    let Some(name) = path.strip_prefix(NETWORK) else { return Ok(()) };
    if active() {
        let head = SettingName { name_len: name.len() as u32, reserved: 0 };
        match call_with_tail::<op::ChangeSetting>(&head, &[name, value].concat(), &mut []) {
            Err(Errno(libc::ENOENT)) => {}
            other => return other.map(|_| ()).map_err(|Errno(errno)| errno),
        }
    }
    let name = String::from_utf8_lossy(name).replace('/', ".");
    warn::once(&format!("this host keeps its value of net.{name}, which has no effect on the fabric"));
    Ok(())
}

/// Replaces the file of a value at once, so a reader gets the old or the new text.
fn store(path: &[u8], value: &[u8]) -> Option<()> {
    let place = place(path)?;
    let bytes = place.as_bytes();
    let start = files::folder()?.len();
    for (at, _) in bytes.iter().enumerate().skip(start + 1).filter(|(_, byte)| **byte == b'/') {
        let _ = rustix::fs::mkdir(&bytes[..at], Mode::from_raw_mode(0o755));
    }
    let nascent = [bytes, format!(".{}", rustix::process::getpid().as_raw_nonzero()).as_bytes()].concat();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = rustix::fs::open(nascent.as_slice(), flags, Mode::from_raw_mode(0o644)).ok()?;
    (rustix::io::write(&file, value).ok()? == value.len()).then_some(())?;
    rustix::fs::rename(nascent.as_slice(), bytes).ok()
}

fn number(word: &str) -> Option<i128> {
    let (is_negative, digits) = word.strip_prefix('-').map_or((false, word), |digits| (true, digits));
    let value = match digits.strip_prefix("0x") {
        Some(digits) => i128::from(u64::from_str_radix(digits, 16).ok()?),
        None => i128::from(digits.parse::<u64>().ok()?),
    };
    Some(if is_negative { -value } else { value })
}

/// Returns a text as the kernel shows it: numbers with tabs between them, the chosen word of a list
/// in brackets, or a line. Fails with EINVAL if the text has another kind than the present value.
fn in_form(text: &[u8], present: &[u8]) -> Result<Vec<u8>, c_int> {
    let text: Vec<u8> = text.iter().copied().skip_while(|byte| *byte == 0).take_while(|byte| !matches!(byte, b'\n' | 0)).collect();
    let text = String::from_utf8(text).map_err(|_| libc::EINVAL)?;
    let (text, present) = (text.trim(), String::from_utf8_lossy(present));
    let words: Vec<&str> = present.split_whitespace().collect();
    if words.iter().any(|word| word.starts_with('[') && word.ends_with(']')) {
        let plain = |word: &&str| word.trim_matches(['[', ']']).to_owned();
        let all: Vec<String> = words.iter().map(plain).collect();
        if !all.iter().any(|word| word == text) {
            return Err(libc::EINVAL);
        }
        let shown: Vec<String> = all.into_iter().map(|word| if word == text { format!("[{word}]") } else { word }).collect();
        return Ok(format!("{}\n", shown.join(" ")).into_bytes());
    }
    if words.is_empty() || words.iter().any(|word| number(word).is_none()) {
        return Ok(format!("{text}\n").into_bytes());
    }
    // A shorter list leaves the last numbers alone, and the kernel ignores further ones.
    let given: Vec<&str> = text.split_whitespace().take(words.len()).collect();
    if given.is_empty() || given.iter().any(|word| number(word).is_none()) {
        return Err(libc::EINVAL);
    }
    let all = given.iter().filter_map(|word| number(word)).chain(words[given.len()..].iter().filter_map(|word| number(word)));
    Ok(format!("{}\n", all.map(|number| number.to_string()).collect::<Vec<_>>().join("\t")).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::in_form;

    fn shown(text: &str, present: &str) -> Result<String, i32> {
        in_form(text.as_bytes(), present.as_bytes()).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn a_value_has_the_form_of_the_kernel() {
        assert_eq!(shown("71", "75\n"), Ok("71\n".into()));
        assert_eq!(shown("1 2  3\n", "4\t5\t6\n"), Ok("1\t2\t3\n".into()));
        assert_eq!(shown("9", "4\t5\t6\n"), Ok("9\t5\t6\n".into()));
        assert_eq!(shown("-1", "0\n"), Ok("-1\n".into()));
        assert_eq!(shown("many", "0\n"), Err(libc::EINVAL));
        assert_eq!(shown("", "0\n"), Err(libc::EINVAL));
        assert_eq!(shown("reno", "cubic\n"), Ok("reno\n".into()));
        assert_eq!(shown("never", "always [madvise] never\n"), Ok("always madvise [never]\n".into()));
        assert_eq!(shown("maybe", "always [madvise] never\n"), Err(libc::EINVAL));
    }
}
