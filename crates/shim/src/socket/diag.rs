//! Lists of the host's sockets: `/proc/net/tcp`, `tcp6`, `udp` and `udp6`. Sockets of sock_diag(7)
//! answer `ss`.

use super::route::{Message, Request};
use crate::runtime::world::active;
use crate::socket::modelled::is_modelled;
use libc::c_int;
use softband_client as client;
use softband_ipc::calls::{SocketPlace, SocketRecord, op};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_MULTI: u16 = 2;
/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// Attribute with `struct tcp_info` (`INET_DIAG_INFO`).
const INFO: u16 = 2;
/// Bytes of messages in one datagram.
const DATAGRAM_BYTES: usize = 8_192;
/// Sockets in a list, at most. A host with more shows the first.
const SOCKETS_MAX: usize = 1 << 16;

/// Returns whether the engine lists the host's sockets.
pub fn is_listed() -> bool {
    active() && is_modelled()
}

/// Returns the sockets of a protocol and a family.
fn sockets(protocol: c_int, family: c_int) -> impl Iterator<Item = SocketRecord> {
    let mut at = SocketPlace::first();
    let next = move || {
        let record = client::call::<op::ReadSocket>(&at).ok()?;
        at = SocketPlace::behind(&record);
        Some(record)
    };
    let is_wanted = move |record: &SocketRecord| record.protocol == protocol as u32 && record.family == family as u32;
    std::iter::from_fn(next).take(SOCKETS_MAX).filter(is_wanted)
}

/// Returns the text of a table of `/proc/net`, by its name.
pub fn table(name: &[u8]) -> Option<String> {
    let (protocol, family) = match name {
        b"tcp" => (libc::IPPROTO_TCP, libc::AF_INET),
        b"tcp6" => (libc::IPPROTO_TCP, libc::AF_INET6),
        b"udp" => (libc::IPPROTO_UDP, libc::AF_INET),
        b"udp6" => (libc::IPPROTO_UDP, libc::AF_INET6),
        // The host's TCP/IP has no UDP-Lite.
        b"udplite" => return Some(head(libc::IPPROTO_UDP, false)),
        b"udplite6" => return Some(head(libc::IPPROTO_UDP, true)),
        _ => return None,
    };
    let is_v6 = family == libc::AF_INET6;
    let mut text = head(protocol, is_v6);
    for (number, of) in sockets(protocol, family).enumerate() {
        text += &line(number, &of, protocol, is_v6);
    }
    Some(text)
}

fn head(protocol: c_int, is_v6: bool) -> String {
    let addresses =
        if is_v6 { "local_address                         remote_address                        " } else { "local_address rem_address   " };
    let rest = if protocol == libc::IPPROTO_UDP { " ref pointer drops" } else { "" };
    format!("  sl  {addresses}st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode{rest}\n")
}

fn line(number: usize, of: &SocketRecord, protocol: c_int, is_v6: bool) -> String {
    let (local, peer) = (digits(&of.local.ip, is_v6), digits(&of.peer.ip, is_v6));
    let (state, unsent, unread, inode) = (of.state, of.unsent, of.unread, of.object);
    let rest = if protocol == libc::IPPROTO_UDP { format!("2 0 {}", of.drops) } else { "1 0 20 4 0 10 -1".to_owned() };
    let ports = (of.local.port, of.peer.port);
    format!(
        "{number:4}: {local}:{:04X} {peer}:{:04X} {state:02X} {unsent:08X}:{unread:08X} 00:00000000 00000000 {:5} {:8} {inode} {rest}\n",
        ports.0, ports.1, 0, 0
    )
}

/// Returns an address as `/proc/net` writes it: words in the byte order of the machine.
fn digits(ip: &[u8; 16], is_v6: bool) -> String {
    let words = ip.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    words.skip(if is_v6 { 0 } else { 3 }).map(|word| format!("{word:08X}")).collect()
}

/// Returns the answers to the requests in `bytes`, as datagrams for the socket of this port.
pub fn answers(bytes: &[u8], port: u32) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    let mut rest = bytes;
    while let Some((request, behind)) = Request::first(rest) {
        rest = behind;
        answer(&request, port, &mut datagrams);
    }
    datagrams
}

fn answer(request: &Request, port: u32, datagrams: &mut Vec<Vec<u8>>) {
    let head = |kind: u16, flags: u16| (kind, flags, request.sequence, port);
    let wanted = request.body.first_chunk::<8>().filter(|_| request.kind == BY_FAMILY);
    let inet =
        wanted.map(|bytes| (c_int::from(bytes[0]), c_int::from(bytes[1]))).filter(|(family, _)| [libc::AF_INET, libc::AF_INET6].contains(family));
    // Programs read the files of other families after this error.
    let refusal = || {
        let fixed = [(-libc::ENOENT).to_ne_bytes().as_slice(), request.header].concat();
        Message::new(head(NLMSG_ERROR, 0), &fixed).bytes()
    };
    let message = |of: &SocketRecord, flags: u16| {
        let message = Message::new(head(BY_FAMILY, flags), &description(of));
        let info = of.info.get(..of.info_len as usize).unwrap_or_default();
        if info.is_empty() { message } else { message.with(INFO, info) }.bytes()
    };
    let (Some((family, protocol)), Some(wanted)) = (inet, wanted) else { return datagrams.push(refusal()) };
    if !request.is_dump() {
        let found = sockets(protocol, family).find(|of| has_ends(of, request.body));
        return datagrams.push(found.map_or_else(refusal, |of| message(&of, 0)));
    }
    let states = u32::from_ne_bytes([wanted[4], wanted[5], wanted[6], wanted[7]]);
    let mut datagram = Vec::new();
    for of in sockets(protocol, family).filter(|of| states & 1 << of.state != 0) {
        let bytes = message(&of, NLM_F_MULTI);
        if datagram.len() + bytes.len() > DATAGRAM_BYTES {
            datagrams.push(std::mem::take(&mut datagram));
        }
        datagram.extend(bytes);
    }
    datagrams.extend((!datagram.is_empty()).then_some(datagram));
    datagrams.push(Message::new(head(NLMSG_DONE, NLM_F_MULTI), &0_i32.to_ne_bytes()).bytes());
}

/// Returns whether a socket has the ports and addresses of a question about one socket (`struct
/// inet_diag_req_v2`), in the form of its answer.
fn has_ends(of: &SocketRecord, question: &[u8]) -> bool {
    question.get(8..44) == description(of).get(4..40)
}

/// Returns `struct inet_diag_msg` of linux/inet_diag.h.
fn description(of: &SocketRecord) -> Vec<u8> {
    let mut bytes = vec![of.family as u8, of.state as u8, 0, 0];
    for end in [&of.local, &of.peer] {
        bytes.extend((end.port as u16).to_be_bytes());
    }
    for end in [&of.local, &of.peer] {
        let is_v6 = of.family == libc::AF_INET6 as u32;
        let mut ip = if is_v6 { end.ip.to_vec() } else { end.ip[12..].to_vec() };
        ip.resize(16, 0);
        bytes.extend(ip);
    }
    // Interface, cookie, time of the timer, queues, user, inode.
    let queues = [of.unread, of.unsent].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let words = [of.device, of.object, 0, 0, queues[0], queues[1], 0, of.object];
    bytes.extend(words.into_iter().flat_map(u32::to_ne_bytes));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_ipc::calls::Endpoint;

    fn record() -> SocketRecord {
        SocketRecord {
            place: 0,
            unread: 1,
            unsent: 8,
            drops: 0,
            local: Endpoint::v4((0x7f00_0001, 8080)),
            peer: Endpoint { ip: [0; 16], port: 0, scope: 0 },
            protocol: 0,
            family: libc::AF_INET as u32,
            state: 10,
            object: 7,
            device: 0,
            info_len: 0,
            info: [0; 104],
        }
    }

    #[test]
    fn a_line_has_the_form_of_the_kernel() {
        let line = line(0, &record(), libc::IPPROTO_TCP, false);
        assert_eq!(line, "   0: 0100007F:1F90 00000000:0000 0A 00000008:00000001 00:00000000 00000000     0        0 7 1 0 20 4 0 10 -1\n");
        assert_eq!(digits(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], true), "000080FE000000000000000001000000");
    }

    #[test]
    fn a_host_has_no_sockets_of_udp_lite() {
        assert_eq!([&b"udplite"[..], b"udplite6", b"udp7"].map(|name| table(name).map(|text| text.lines().count())), [Some(1), Some(1), None]);
    }

    #[test]
    fn a_question_about_one_socket_has_its_ends() {
        let question = |record: &SocketRecord| [&[0; 8], &description(record)[4..]].concat();
        assert!(has_ends(&record(), &question(&record())));
        let other = SocketRecord { local: Endpoint::v4((0x7f00_0001, 8081)), ..record() };
        assert!(!has_ends(&record(), &question(&other)));
        assert!(!has_ends(&record(), &[0; 8]));
    }

    #[test]
    fn a_description_has_the_length_of_the_header() {
        let bytes = description(&record());
        assert_eq!((bytes.len(), bytes[1], &bytes[4..6], &bytes[8..12]), (72, 10, &[0x1f, 0x90][..], &[127, 0, 0, 1][..]));
    }
}
