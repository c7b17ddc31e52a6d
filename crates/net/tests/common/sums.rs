//! Right checksums for any bytes, so that changed packets reach the code behind the check. The fuzz
//! target uses this file, too.

/// Returns the sum of RFC 1071 over bytes at even offsets.
fn sum(bytes: &[u8]) -> u64 {
    bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0))).sum()
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Writes the checksum of `bytes` at `at`, if they reach so far. `more` is the sum of a pseudo header.
fn write(bytes: &mut [u8], at: usize, more: u64) {
    if bytes.len() >= at + 2 {
        bytes[at..at + 2].fill(0);
        let sum = folded(sum(bytes) + more);
        bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Writes the checksum of a transport protocol behind a pseudo header.
fn mend_content(protocol: u8, content: &mut [u8], addresses: u64) {
    let pseudo = |len: usize| addresses + u64::from(protocol) + len as u64;
    match protocol {
        1 => write(content, 2, 0),
        6 => write(content, 16, pseudo(content.len())),
        // The length field of UDP counts, and 0 is no checksum.
        17 if content.len() >= 8 && content[6..8] != [0, 0] => {
            let len = usize::from(u16::from_be_bytes([content[4], content[5]])).min(content.len());
            write(&mut content[..len], 6, pseudo(len));
        }
        58 => write(content, 2, pseudo(content.len())),
        _ => {}
    }
}

/// Writes right checksums into a packet of IPv4 or IPv6, as far as its headers reach.
pub(crate) fn mend(bytes: &mut [u8]) {
    match bytes.first().map(|first| first >> 4) {
        Some(4) if bytes.len() >= 20 => {
            let header = usize::from(bytes[0] & 15) * 4;
            let len = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
            let (protocol, addresses) = (bytes[9], sum(&bytes[12..20]));
            if let Some(header) = bytes.get_mut(..header) {
                write(header, 10, 0);
            }
            if let Some(content) = bytes.get_mut(header..len) {
                mend_content(protocol, content, addresses);
            }
        }
        Some(6) if bytes.len() >= 40 => {
            let len = 40 + usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
            let (mut next, mut at, addresses) = (bytes[6], 40, sum(&bytes[8..40]));
            while let (0 | 43 | 44 | 60, true) = (next, bytes.len() >= at + 8) {
                let units = if next == 44 { 0 } else { usize::from(bytes[at + 1]) };
                (next, at) = (bytes[at], at + 8 + units * 8);
            }
            if let Some(content) = bytes.get_mut(at..len) {
                mend_content(next, content, addresses);
            }
        }
        _ => {}
    }
}
