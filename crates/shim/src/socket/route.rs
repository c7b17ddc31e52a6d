//! Answers to requests for links, addresses and routes (rtnetlink(7)), and for HCAs
//! (`rdma/rdma_netlink.h`). The numbers of both protocols differ.

mod table;

use softband_ipc::interfaces::{Address, AddressV6, Counters, Interface, Route as Gateway};
use table::{route_to, routes, routes_v6};

/// Bytes of `nlmsghdr`.
const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_MULTI: u16 = 2;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
/// Distance between the messages of one kind: new, delete, get, set.
const KINDS: u16 = 4;
const GET: u16 = 2;

/// Least number of a message about HCAs: the number of the first client, in the upper six bits.
const RDMA_KINDS: u16 = 1 << 10;
/// `RDMA_NLDEV_CMD_GET` of the client `RDMA_NL_NLDEV`.
const RDMA_GET: u16 = (5 << 10) + 1;
const RDMA_DEVICE_INDEX: u16 = 1;

const IFLA_ADDRESS: u16 = 1;
const IFLA_BROADCAST: u16 = 2;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_QDISC: u16 = 6;
const IFLA_TXQLEN: u16 = 13;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_STATS64: u16 = 23;
const IFLA_ALT_IFNAME: u16 = 53;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_LABEL: u16 = 3;
const IFA_BROADCAST: u16 = 4;
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;

/// `IF_OPER_UNKNOWN`, which Linux reports for loopback, and `IF_OPER_UP`.
const OPERATES: [u8; 2] = [0, 6];
const IFA_F_PERMANENT: u8 = 0x80;
const SCOPE_UNIVERSE: u8 = 0;
const SCOPE_LINK: u8 = 253;
const SCOPE_HOST: u8 = 254;

/// A request of a program.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub kind: u16,
    flags: u16,
    pub sequence: u32,
    pub header: &'a [u8],
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Takes the first request of `bytes`. Returns it with the rest.
    pub fn first(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let header = bytes.get(..HEADER)?;
        let len = word(header, 0) as usize;
        let body = bytes.get(HEADER..len)?;
        let number = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let request = Self { kind: number(4), flags: number(6), sequence: word(header, 8), header, body };
        Some((request, bytes.get(len.next_multiple_of(4)..).unwrap_or_default()))
    }

    /// Returns whether the program asks for all objects. Linux lists addresses in any case.
    pub fn is_dump(&self) -> bool {
        self.flags & NLM_F_DUMP == NLM_F_DUMP
    }

    /// Returns the value of an attribute behind a fixed part of `fixed` bytes.
    fn attribute(&self, fixed: usize, wanted: u16) -> Option<&'a [u8]> {
        let mut rest = self.body.get(fixed..)?;
        while rest.len() >= 4 {
            let (len, kind) = (usize::from(u16::from_ne_bytes([rest[0], rest[1]])), u16::from_ne_bytes([rest[2], rest[3]]) & 0x3FFF);
            let value = rest.get(4..len)?;
            if kind == wanted {
                return Some(value);
            }
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        None
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
}

/// A message under construction. Its length stands in front when it is complete.
pub struct Message(Vec<u8>);

impl Message {
    pub fn new((kind, flags, sequence, port): (u16, u16, u32, u32), fixed: &[u8]) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(port.to_ne_bytes());
        bytes.extend(fixed);
        Self(bytes)
    }

    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub fn bytes(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}

/// Interfaces of the host, and its routes through other hosts.
type Network<'a> = (&'a [Interface], &'a [Gateway]);

/// Returns the answers to the requests in `bytes`, as datagrams for the socket of this port.
pub fn answers(bytes: &[u8], network: Network, port: u32) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    let mut rest = bytes;
    while let Some((request, behind)) = Request::first(rest) {
        rest = behind;
        answer(&request, network, port, &mut datagrams);
    }
    datagrams
}

fn answer(request: &Request, (interfaces, gateways): Network, port: u32, datagrams: &mut Vec<Vec<u8>>) {
    let lists = request.is_dump() || request.kind == RTM_GETADDR;
    let flags = if lists { NLM_F_MULTI } else { 0 };
    let head = |kind: u16| (kind, flags, request.sequence, port);
    let found: Result<Vec<Message>, i32> = match request.kind {
        RTM_GETLINK => links(request, interfaces).map(|links| links.iter().map(|one| link(one, head(RTM_NEWLINK))).collect()),
        RTM_GETADDR => {
            let v4 = addresses(request, interfaces).map(|(by, own)| address(by, own, head(RTM_NEWADDR)));
            let v6 = addresses_v6(request, interfaces).map(|(by, own)| address_v6(by, own, head(RTM_NEWADDR)));
            Ok(v4.chain(v6).collect())
        }
        RTM_GETROUTE if lists => {
            let v4 = if has_v4(request) { routes((interfaces, gateways)) } else { Vec::new() };
            let v6 = if has_v6(request) { routes_v6(interfaces) } else { Vec::new() };
            Ok(v4.iter().chain(&v6).map(|route| route.message(head(RTM_NEWROUTE))).collect())
        }
        RTM_GETROUTE => route_to(request, (interfaces, gateways), head(RTM_NEWROUTE)).map(|route| vec![route]),
        // This library knows no HCAs. UCX looks only whether the answer says that an HCA is a part of another.
        RDMA_GET if !lists => match request.attribute(0, RDMA_DEVICE_INDEX) {
            Some(index) => Ok(vec![Message::new(head(RDMA_GET), &[]).with(RDMA_DEVICE_INDEX, index)]),
            None => Err(libc::EINVAL),
        },
        kind if kind >= RDMA_KINDS => {
            if lists {
                Ok(Vec::new())
            } else {
                Err(libc::EOPNOTSUPP)
            }
        }
        // Other tables are empty (neighbours, rules).
        kind if kind >= RTM_NEWLINK && kind % KINDS == GET => {
            if lists {
                Ok(Vec::new())
            } else {
                Err(libc::EOPNOTSUPP)
            }
        }
        kind if kind >= RTM_NEWLINK => Err(libc::EPERM),
        _ => Ok(Vec::new()),
    };
    match found {
        Ok(messages) => {
            let bytes: Vec<u8> = messages.into_iter().flat_map(Message::bytes).collect();
            datagrams.extend((!bytes.is_empty()).then_some(bytes));
            if lists {
                datagrams.push(Message::new(head(NLMSG_DONE), &0_i32.to_ne_bytes()).bytes());
            } else if request.flags & NLM_F_ACK != 0 {
                datagrams.push(error(0, request, port));
            }
        }
        Err(errno) => datagrams.push(error(errno, request, port)),
    }
}

/// Returns the answer to a request that fails, or an acknowledgement.
fn error(errno: i32, request: &Request, port: u32) -> Vec<u8> {
    let mut fixed = (-errno).to_ne_bytes().to_vec();
    fixed.extend(request.header);
    if errno != 0 {
        fixed.extend(request.body);
    }
    Message::new((NLMSG_ERROR, 0, request.sequence, port), &fixed).bytes()
}

/// Returns whether the request includes IPv4, by the family at its beginning.
fn has_v4(request: &Request) -> bool {
    let family = request.body.first().copied().unwrap_or(0);
    family == 0 || libc::c_int::from(family) == libc::AF_INET
}

/// Returns whether the request includes IPv6.
fn has_v6(request: &Request) -> bool {
    let family = request.body.first().copied().unwrap_or(0);
    family == 0 || libc::c_int::from(family) == libc::AF_INET6
}

fn links(request: &Request, interfaces: &[Interface]) -> Result<Vec<Interface>, i32> {
    const FIXED: usize = 16;
    let index = word(request.body, 4);
    let name = request.attribute(FIXED, IFLA_IFNAME).or_else(|| request.attribute(FIXED, IFLA_ALT_IFNAME));
    let name = name.map(|name| name.split(|byte| *byte == 0).next().unwrap_or_default());
    if request.is_dump() {
        return Ok(interfaces.to_vec());
    }
    let is_it = |one: &&Interface| if index != 0 { one.index == index } else { name == Some(one.name.as_bytes()) };
    interfaces.iter().find(is_it).map(|one| vec![one.clone()]).ok_or(libc::ENODEV)
}

fn link(interface: &Interface, head: (u16, u16, u32, u32)) -> Message {
    let mut fixed = vec![0, 0];
    fixed.extend(interface.hardware.to_ne_bytes());
    fixed.extend(interface.index.to_ne_bytes());
    fixed.extend(interface.flags.to_ne_bytes());
    fixed.extend([0; 4]);
    let operates = OPERATES[usize::from(!interface.is_loopback())];
    let message = Message::new(head, &fixed)
        .with(IFLA_IFNAME, &terminated(&interface.name))
        .with(IFLA_TXQLEN, &interface.queue_packets.to_ne_bytes())
        .with(IFLA_OPERSTATE, &[operates])
        .with(IFLA_MTU, &interface.mtu.to_ne_bytes())
        .with(IFLA_QDISC, b"noqueue\0")
        .with(IFLA_ADDRESS, &interface.hardware_address)
        .with(IFLA_BROADCAST, &interface.hardware_broadcast);
    match &interface.counters {
        Some(counters) => message.with(IFLA_STATS64, &statistics(counters)),
        None => message,
    }
}

/// Returns the counters as `rtnl_link_stats64`. Those behind the drops stay zero.
fn statistics(counters: &Counters) -> Vec<u8> {
    const NUMBERS: usize = 24;
    let (received, sent) = (counters.received_packets, counters.sent_packets);
    let known = [received, sent, counters.received_bytes, counters.sent_bytes, 0, 0, counters.received_dropped, counters.sent_dropped];
    known.into_iter().chain(std::iter::repeat(0)).take(NUMBERS).flat_map(u64::to_ne_bytes).collect()
}

fn each_address(interfaces: &[Interface]) -> impl Iterator<Item = (&Interface, Address)> {
    interfaces.iter().flat_map(|interface| interface.addresses.iter().map(move |own| (interface, *own)))
}

fn terminated(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

fn addresses<'a>(request: &Request, interfaces: &'a [Interface]) -> impl Iterator<Item = (&'a Interface, Address)> {
    let (wanted, index) = (has_v4(request), word(request.body, 4));
    each_address(interfaces).filter(move |(one, _)| wanted && (index == 0 || one.index == index))
}

fn address(interface: &Interface, of: Address, head: (u16, u16, u32, u32)) -> Message {
    let scope = if interface.is_loopback() { SCOPE_HOST } else { SCOPE_UNIVERSE };
    let mut fixed = vec![libc::AF_INET as u8, of.prefix, IFA_F_PERMANENT, scope];
    fixed.extend(interface.index.to_ne_bytes());
    let own = of.address.to_be_bytes();
    // Lifetimes without an end, and no times of change.
    let lifetimes = [[0xff; 8], [0; 8]].concat();
    let message = Message::new(head, &fixed).with(IFA_ADDRESS, &own).with(IFA_LOCAL, &own);
    let message = match interface.broadcast(of) {
        Some(broadcast) => message.with(IFA_BROADCAST, &broadcast.to_be_bytes()),
        None => message,
    };
    message.with(IFA_LABEL, &terminated(&interface.name)).with(IFA_FLAGS, &u32::from(IFA_F_PERMANENT).to_ne_bytes()).with(IFA_CACHEINFO, &lifetimes)
}

fn each_v6(interfaces: &[Interface]) -> impl Iterator<Item = (&Interface, AddressV6)> {
    interfaces.iter().flat_map(|interface| interface.addresses_v6.iter().map(move |own| (interface, *own)))
}

fn addresses_v6<'a>(request: &Request, interfaces: &'a [Interface]) -> impl Iterator<Item = (&'a Interface, AddressV6)> {
    let (wanted, index) = (has_v6(request), word(request.body, 4));
    each_v6(interfaces).filter(move |(one, _)| wanted && (index == 0 || one.index == index))
}

fn address_v6(interface: &Interface, of: AddressV6, head: (u16, u16, u32, u32)) -> Message {
    let scope = match () {
        () if interface.is_loopback() => SCOPE_HOST,
        () if of.is_of_link() => SCOPE_LINK,
        () => SCOPE_UNIVERSE,
    };
    let mut fixed = vec![libc::AF_INET6 as u8, of.prefix, IFA_F_PERMANENT, scope];
    fixed.extend(interface.index.to_ne_bytes());
    let lifetimes = [[0xff; 8], [0; 8]].concat();
    Message::new(head, &fixed)
        .with(IFA_ADDRESS, &of.address.octets())
        .with(IFA_CACHEINFO, &lifetimes)
        .with(IFA_FLAGS, &u32::from(IFA_F_PERMANENT).to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_ipc::interfaces::of_host;

    /// A route to 10.2.0.0/16 through 198.18.0.3.
    const GATEWAY: Gateway = Gateway { network: Address { address: 0x0A02_0000, prefix: 16 }, gateway: 0xC612_0003, index: 2 };

    fn ask(kind: u16, flags: u16, body: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let request = Message::new((kind, flags, 7, 0), body).bytes();
        let datagrams = answers(&request, (&of_host(0xC612_0002), &[GATEWAY]), 99).concat();
        let mut rest = datagrams.as_slice();
        let mut messages = Vec::new();
        while let Some((message, behind)) = Request::first(rest) {
            assert_eq!((message.sequence, word(message.header, 12)), (7, 99));
            messages.push((message.kind, message.body.to_vec()));
            rest = behind;
        }
        messages
    }

    fn kinds(messages: &[(u16, Vec<u8>)]) -> Vec<u16> {
        messages.iter().map(|(kind, _)| *kind).collect()
    }

    #[test]
    fn a_dump_lists_both_interfaces_and_ends() {
        let links = ask(RTM_GETLINK, NLM_F_DUMP, &[0; 16]);
        assert_eq!(kinds(&links), [RTM_NEWLINK, RTM_NEWLINK, NLMSG_DONE]);
        assert!(links[1].1.windows(5).any(|part| part == b"eth0\0"));
        let addresses = ask(RTM_GETADDR, NLM_F_DUMP, &[libc::AF_INET as u8, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(kinds(&addresses), [RTM_NEWADDR, RTM_NEWADDR, NLMSG_DONE]);
        assert!(addresses[1].1.windows(4).any(|part| part == [198, 18, 0, 2]));
        assert_eq!(kinds(&ask(RTM_GETADDR, NLM_F_DUMP, &[libc::AF_INET6 as u8, 0, 0, 0, 0, 0, 0, 0])), [NLMSG_DONE]);
    }

    #[test]
    fn one_link_is_found_by_number_and_unknown_ones_are_errors() {
        let by_number = |index: u8| ask(RTM_GETLINK, 0, &[0, 0, 0, 0, index, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(kinds(&by_number(2)), [RTM_NEWLINK]);
        let missing = by_number(5);
        assert_eq!((kinds(&missing), word(&missing[0].1, 0) as i32), (vec![NLMSG_ERROR], -libc::ENODEV));
    }

    #[test]
    fn a_route_leads_to_hosts_and_to_nothing_else() {
        let to = |address: [u8; 4]| ask(RTM_GETROUTE, 0, &[[2, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].as_slice(), &[8, 0, 1, 0], &address].concat());
        let found = to([198, 18, 0, 1]);
        assert_eq!(kinds(&found), [RTM_NEWROUTE]);
        assert_eq!(found[0].1[5], table::RTPROT_UNSPEC);
        let far = to([10, 2, 0, 9]);
        let gateway = [8, 0, 5, 0, 198, 18, 0, 3];
        assert!(far[0].1.windows(8).any(|part| part == gateway), "{far:?}");
        let all = ask(RTM_GETROUTE, NLM_F_DUMP, &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(all.iter().any(|(_, body)| body[1] == 16 && body.windows(8).any(|part| part == gateway)), "{all:?}");
        let away = to([192, 0, 2, 1]);
        assert_eq!(word(&away[0].1, 0) as i32, -libc::ENETUNREACH);
    }

    #[test]
    fn an_hca_is_a_part_of_no_other() {
        let ask_for = |flags: u16| ask(RDMA_GET, flags, &[8, 0, 1, 0, 3, 0, 0, 0]);
        assert_eq!(ask_for(0), [(RDMA_GET, vec![8, 0, 1, 0, 3, 0, 0, 0])]);
        assert_eq!(kinds(&ask_for(NLM_F_DUMP)), [NLMSG_DONE]);
        assert_eq!(word(&ask(RDMA_GET + 1, 0, &[])[0].1, 0) as i32, -libc::EOPNOTSUPP);
    }

    #[test]
    fn changes_are_refused() {
        let refused = ask(RTM_NEWADDR, 1, &[0; 8]);
        assert_eq!(word(&refused[0].1, 0) as i32, -libc::EPERM);
    }

    #[test]
    fn nonsense_gets_no_answer() {
        assert!(answers(&[1, 2, 3], (&of_host(1), &[]), 1).is_empty());
        assert!(answers(&[0xff; 64], (&of_host(1), &[]), 1).is_empty());
    }
}
