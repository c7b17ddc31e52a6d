//! Facts of an interface's driver (`SIOCETHTOOL`, linux/ethtool.h). Commands beside these fail
//! (EOPNOTSUPP), as with a driver that lacks them.

use libc::c_int;
use softband_ipc::interfaces::{Counters, Interface, flag, hardware};

const GET_SETTINGS: u32 = 0x1;
const GET_DRIVER: u32 = 0x3;
const GET_LINK: u32 = 0xa;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_SET_SIZES: u32 = 0x37;

/// Number of the set of names of counters (`ETH_SS_STATS`).
const STATISTICS: u32 = 1;
/// Bytes of a name (`ETH_GSTRING_LEN`).
const NAME_BYTES: usize = 32;
/// Bytes of `struct ethtool_drvinfo` and `struct ethtool_cmd`.
const DRIVER_BYTES: usize = 196;
const SETTINGS_BYTES: usize = 44;
/// Offset of `n_stats` in `struct ethtool_drvinfo`.
const COUNT_AT: usize = 180;

/// Reads one of the counts.
type Count = fn(&Counters) -> u64;
const COUNTS: [(&str, Count); 6] = [
    ("rx_packets", |counters| counters.received_packets),
    ("rx_bytes", |counters| counters.received_bytes),
    ("rx_dropped", |counters| counters.received_dropped),
    ("tx_packets", |counters| counters.sent_packets),
    ("tx_bytes", |counters| counters.sent_bytes),
    ("tx_dropped", |counters| counters.sent_dropped),
];

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    for (room, byte) in bytes.iter_mut().skip(at).zip(value) {
        *room = *byte;
    }
}

/// Returns the number of words of a command that say its question. An unknown command may have no
/// more than its number.
pub fn words(number: u32) -> usize {
    if matches!(number, GET_STRINGS | GET_SET_SIZES) { 3 } else { 1 }
}

/// Returns the answer to a command. `head` holds its [`words`].
pub fn answer(interface: &Interface, head: [u32; 3]) -> Result<Vec<u8>, c_int> {
    let counters = interface.counters.unwrap_or_default();
    let has_counts = interface.counters.is_some();
    let count = if has_counts { COUNTS.len() as u32 } else { 0 };
    Ok(match head[0] {
        GET_DRIVER => {
            let mut bytes = vec![0; DRIVER_BYTES];
            put(&mut bytes, 0, &head[0].to_ne_bytes());
            put(&mut bytes, 4, driver(interface).as_bytes());
            put(&mut bytes, COUNT_AT, &count.to_ne_bytes());
            bytes
        }
        GET_LINK => [head[0], u32::from(interface.flags & flag::RUNNING != 0)].into_iter().flat_map(u32::to_ne_bytes).collect(),
        GET_SETTINGS if interface.speed_megabits != 0 => settings(interface),
        // The mask of wanted sets follows two words.
        GET_SET_SIZES => {
            let mask = u64::from(head[2]) & 1 << STATISTICS;
            let mut bytes = [head[0], 0].into_iter().flat_map(u32::to_ne_bytes).collect::<Vec<u8>>();
            bytes.extend(mask.to_ne_bytes());
            bytes.extend(count.to_ne_bytes().into_iter().filter(|_| mask != 0));
            bytes
        }
        GET_STRINGS if head[1] == STATISTICS && has_counts => {
            let mut bytes = [head[0], head[1], count].into_iter().flat_map(u32::to_ne_bytes).collect::<Vec<u8>>();
            for (name, _) in COUNTS {
                let at = bytes.len();
                bytes.resize(at + NAME_BYTES, 0);
                put(&mut bytes, at, name.as_bytes());
            }
            bytes
        }
        GET_STATISTICS if has_counts => {
            let mut bytes = [head[0], count].into_iter().flat_map(u32::to_ne_bytes).collect::<Vec<u8>>();
            bytes.extend(COUNTS.into_iter().flat_map(|(_, count)| count(&counters).to_ne_bytes()));
            bytes
        }
        _ => return Err(libc::EOPNOTSUPP),
    })
}

/// Returns `struct ethtool_cmd` of a full-duplex link of fixed speed.
fn settings(interface: &Interface) -> Vec<u8> {
    const FULL_DUPLEX: u8 = 1;
    const PORT_OTHER: u8 = 0xff;
    let [low, high] = [interface.speed_megabits & 0xffff, interface.speed_megabits >> 16].map(|half| half as u16);
    let mut bytes = vec![0; SETTINGS_BYTES];
    put(&mut bytes, 0, &GET_SETTINGS.to_ne_bytes());
    put(&mut bytes, 12, &low.to_ne_bytes());
    put(&mut bytes, 14, &[FULL_DUPLEX, PORT_OTHER]);
    put(&mut bytes, 28, &high.to_ne_bytes());
    bytes
}

/// Returns the name of the driver: that of Linux for IPoIB, and of this library for others.
fn driver(interface: &Interface) -> &'static str {
    if interface.hardware == hardware::INFINIBAND { "ib_ipoib" } else { "softband" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_ipc::interfaces::management;

    fn interface() -> Interface {
        Interface { speed_megabits: 100_000, counters: Some(Counters { sent_bytes: 7, ..Counters::default() }), ..management(1) }
    }

    #[test]
    fn an_unknown_command_is_its_number() {
        assert_eq!([GET_LINK, GET_STATISTICS, GET_STRINGS, 0x99].map(words), [1, 1, 3, 1]);
    }

    #[test]
    fn counters_have_names_and_values() {
        let answer = |head| answer(&interface(), head).unwrap();
        assert_eq!(answer([GET_SET_SIZES, 0, 1 << STATISTICS]).len(), 20);
        let names = answer([GET_STRINGS, STATISTICS, 0]);
        assert_eq!((names.len(), &names[12..22]), (12 + 6 * NAME_BYTES, &b"rx_packets"[..]));
        let values = answer([GET_STATISTICS, 6, 0]);
        assert_eq!((values.len(), values[8 + 4 * 8]), (8 + 6 * 8, 7));
    }

    #[test]
    fn a_link_has_its_speed() {
        let bytes = answer(&interface(), [GET_SETTINGS, 0, 0]).unwrap();
        let half = |at: usize| u32::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
        assert_eq!((bytes.len(), half(12) | half(28) << 16), (SETTINGS_BYTES, 100_000));
        assert_eq!(answer(&management(1), [GET_SETTINGS, 0, 0]), Err(libc::EOPNOTSUPP));
        assert_eq!(answer(&interface(), [0x99, 0, 0]), Err(libc::EOPNOTSUPP));
        assert_eq!(answer(&interface(), [GET_DRIVER, 0, 0]).unwrap().len(), DRIVER_BYTES);
    }
}
