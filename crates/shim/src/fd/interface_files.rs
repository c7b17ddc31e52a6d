//! The counts of network interfaces (`/proc/net/dev` and `/sys/class/net/NAME/statistics`), if the
//! engine counts packets, and the tables of sockets (`/proc/net/tcp`). Each open asks the engine, and
//! opens a file in memory with the answer.

use crate::fd::random_files;
use crate::runtime::attach::attached;
use crate::runtime::world::{active, keeping_errno};
use crate::socket::{diag, interfaces};
use rustix::fd::OwnedFd;
use softband_ipc::interfaces::{Counters, device_table};

/// Names of the table of all interfaces.
const TABLES: [&[u8]; 2] = [b"/proc/net/dev", b"/proc/self/net/dev"];
/// Folders of the tables of sockets.
const SOCKETS: [&[u8]; 2] = [b"/proc/net/", b"/proc/self/net/"];
/// Folder of the interfaces.
const CLASS: &[u8] = b"/sys/class/net/";

/// Returns a file that replaces `path`, if `path` names counts.
pub(super) fn instead_of(path: &[u8]) -> Option<OwnedFd> {
    let is_table = TABLES.contains(&path);
    let sockets = SOCKETS.iter().find_map(|folder| path.strip_prefix(*folder)).filter(|name| name.starts_with(b"tcp") || name.starts_with(b"udp"));
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
    use super::place;
    use softband_ipc::interfaces::Counters;

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
