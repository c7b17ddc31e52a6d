//! Files of network interfaces' counts (`/proc/net/dev` and `/sys/class/net/NAME/statistics`), if the
//! engine counts packets, and of tables of sockets (`/proc/net/tcp`). At each open, this library asks
//! the engine, and opens a file in memory with the answer.

use crate::fd::random_files;
use crate::process::pid;
use crate::runtime::attach::attached;
use crate::runtime::world::{active, keeping_errno};
use crate::socket::{diag, interfaces};
use rustix::fd::OwnedFd;
use softband_ipc::interfaces::{Counters, device_table};

/// Folder of the interfaces.
const CLASS: &[u8] = b"/sys/class/net/";

/// Returns a file that replaces `path`, if `path` names counts.
pub(super) fn instead_of(path: &[u8]) -> Option<OwnedFd> {
    let name = network_table(path);
    let is_table = name == Some(b"dev");
    let sockets = name.filter(|name| name.starts_with(b"tcp") || name.starts_with(b"udp"));
    if !(is_table || sockets.is_some() || path.starts_with(CLASS)) || !attached() || !active() {
        return None;
    }
    if let Some(name) = sockets.filter(|_| diag::is_listed()) {
        return keeping_errno(|| random_files::new_file("softband-sockets", diag::table(name)?.as_bytes()));
    }
    keeping_errno(|| {
        let text = if is_table { table()? } else { value(path)? };
        random_files::new_file("softband-interfaces", format!("{text}\n").as_bytes())
    })
}

/// Returns the name of a table of this process's network, by any path of it below `/proc`.
pub(super) fn network_table(path: &[u8]) -> Option<&[u8]> {
    let below = path.strip_prefix(b"/proc/")?;
    if let Some(name) = below.strip_prefix(b"net/") {
        return Some(name);
    }
    let (process, mut below) = first_part(below)?;
    let number = || std::str::from_utf8(process).ok()?.parse().ok();
    if !matches!(process, b"self" | b"thread-self") && number() != Some(pid::own_number()) {
        return None;
    }
    // Threads share the network of their process.
    if let Some(thread) = below.strip_prefix(b"task/") {
        below = first_part(thread)?.1;
    }
    below.strip_prefix(b"net/")
}

/// Returns the first part of a path, and the path below it.
fn first_part(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = path.iter().position(|byte| *byte == b'/')?;
    Some((&path[..end], &path[end + 1..]))
}

fn table() -> Option<String> {
    let all = interfaces::own();
    all.iter().any(|interface| interface.counters.is_some()).then(|| device_table(&all))
}

fn value(path: &[u8]) -> Option<String> {
    let (name, count) = place(path)?;
    let interface = interfaces::of_name(name)?;
    Some(count(&interface.counters?).to_string())
}

/// Reads one of the counts.
type Count = fn(&Counters) -> u64;

/// Returns the name of the interface and the count that a path names.
fn place(path: &[u8]) -> Option<(&[u8], Count)> {
    let mut parts = path.strip_prefix(CLASS)?.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    let (name, folder, count) = (parts.next()?, parts.next()?, parts.next()?);
    let count: Count = match count {
        b"rx_packets" => |counters| counters.received_packets,
        b"rx_bytes" => |counters| counters.received_bytes,
        b"rx_dropped" => |counters| counters.received_dropped,
        b"tx_packets" => |counters| counters.sent_packets,
        b"tx_bytes" => |counters| counters.sent_bytes,
        b"tx_dropped" => |counters| counters.sent_dropped,
        _ => return None,
    };
    (folder == b"statistics" && parts.next().is_none()).then_some((name, count))
}

#[cfg(test)]
mod tests {
    use super::{network_table, pid, place};
    use softband_ipc::interfaces::Counters;

    #[test]
    fn a_table_of_the_network_has_several_paths() {
        let own = pid::own_number();
        for folder in ["net", "self/net", "thread-self/net", "self/task/7/net", &format!("{own}/net"), &format!("{own}/task/{own}/net")] {
            assert_eq!(network_table(format!("/proc/{folder}/tcp6").as_bytes()), Some(&b"tcp6"[..]), "{folder}");
        }
        for other in ["/proc/tcp", "/proc/self/tcp", "/proc/1/net/tcp", "/proc/self/task/net/tcp", "/sys/net/tcp"] {
            assert_eq!(network_table(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_count_belongs_to_an_interface() {
        let counters = Counters { received_bytes: 7, ..Counters::default() };
        let (name, count) = place(b"/sys/class/net/ib0/statistics/rx_bytes").unwrap();
        assert_eq!((name, count(&counters)), (&b"ib0"[..], 7));
        for other in
            ["/sys/class/net/ib0/mtu", "/sys/class/net/ib0/statistics", "/sys/class/net/ib0/statistics/rx_bytes/x", "/sys/class/net/ib0/x/rx_bytes"]
        {
            assert!(place(other.as_bytes()).is_none(), "{other}");
        }
    }
}
