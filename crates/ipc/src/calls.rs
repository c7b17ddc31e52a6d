//! Calls: each has a request and a reply, both plain data. [`table`] lists the calls.

pub mod table;

use bytemuck::{Pod, Zeroable};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
pub use table::{Call, Cost, Message, Op, Paces, WithTail, op};

macro_rules! pod {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident: $ty:ty,)* })*) => {
        $($(#[$meta])* #[repr(C)] #[derive(Clone, Copy, Debug, Pod, Zeroable)] pub struct $name { $($(#[$fmeta])* pub $field: $ty,)* })*
    };
}

pod! {
    /// [`polls_of`] splits `polls`. A thread that only polls checks at `until_ps` for actions of
    /// other processes of the run. Nothing else ends its wait.
    pub struct Sleep { pub until_ps: u64, pub polls: u64, }
    /// `deadline_ps` is `u64::MAX` for no deadline. `reason` is a [`reason`].
    pub struct WaitRequest { pub deadline_ps: u64, pub count: u32, pub reason: u32, }
    /// `interest` and `ready` are [`readiness`] bits. `seen` is the number of the object's last edge that
    /// the program knows; the reply has the number of the last one.
    #[derive(PartialEq, Eq)]
    pub struct WaitEntry { pub object: u32, pub interest: u32, pub ready: u32, pub seen: u32, }
    /// `interrupted`: a signal arrived. Otherwise `ready_count` entries are ready; 0 means that the
    /// deadline has passed.
    pub struct WaitReply { pub ready_count: u32, pub interrupted: u32, }
    /// The word on which the loop spins. Writes elsewhere need not wake it.
    pub struct SpinTarget { pub address: u64, pub len: u64, }
    pub struct ThreadReply { pub slot: u32, pub reserved: u32, }
    pub struct Ticket { pub ticket: u64, }
    pub struct ForkReply { pub ticket: u64, pub process: u32, pub virtual_pid: u32, }
    /// Ticket of an image on another host, and the host's folder ([`crate::environment::FILES`]). The
    /// length is 0 if the host has no folder.
    pub struct Placement { pub ticket: u64, pub len: u32, pub reserved: u32, pub files: [u8; 1024], }
    /// A shared mapping under the number `range`, from `start` to `end` in the process. `kind` is a
    /// [`mapping`]; all mappings of one host with the same `kind`, `space` and `number` are of the
    /// same memory. `writable` is 0 if the process may only read it.
    pub struct SharedMapping { pub range: u32, pub kind: u32, pub space: u64, pub number: u64, pub start: u64, pub end: u64, pub writable: u64, }
    pub struct SharedRange { pub range: u32, pub reserved: u32, }
    pub struct Pause { pub until_ps: u64, }
    pub struct ProcessNumber { pub number: u32, pub reserved: u32, }
    pub struct Exit { pub status: i32, pub reserved: u32, }
    /// Raises `signal` at `at_ps` (0: never) and then every `interval_ps` (0: once). Each process
    /// has one timer per `signal`.
    pub struct Alarm { pub at_ps: u64, pub interval_ps: u64, pub signal: u32, pub reserved: u32, }
    /// The former setting.
    pub struct AlarmReply { pub at_ps: u64, pub interval_ps: u64, }

    /// A name of at most 255 bytes.
    pub struct Name { pub len: u32, pub bytes: [u8; 256], }
    /// Addresses of a name: of IPv4 as a big-endian number, and of IPv6 in network order. Zeros stand
    /// for no address.
    pub struct AddressReply { pub address: u32, pub v6: [u8; 16], }
    /// Place of an interface in the order of their numbers, from 0 (`lo`), or of a route.
    pub struct InterfacePlace { pub place: u32, pub reserved: u32, }
    /// IPv4 address as a big-endian number, with the bits of its prefix.
    pub struct InterfaceAddress { pub address: u32, pub prefix: u32, }
    /// IPv6 address in network order, with the bits of its prefix.
    pub struct InterfaceAddressV6 { pub address: [u8; 16], pub prefix: u32, }
    /// A network interface ([`crate::interfaces::Interface`]). A name ends at the first zero.
    pub struct InterfaceRecord {
        pub name: [u8; 16],
        pub hardware_address: [u8; 20],
        pub hardware_broadcast: [u8; 20],
        pub index: u32,
        pub flags: u32,
        pub mtu: u32,
        pub queue_packets: u32,
        pub hardware: u32,
        pub hardware_len: u32,
        pub address_count: u32,
        pub counts_packets: u32,
        pub addresses: [InterfaceAddress; 16],
        pub addresses_v6: [InterfaceAddressV6; 17],
        pub address_v6_count: u32,
        pub speed_megabits: u32,
        pub reserved: u32,
        pub received_packets: u64,
        pub received_bytes: u64,
        pub received_dropped: u64,
        pub sent_packets: u64,
        pub sent_bytes: u64,
        pub sent_dropped: u64,
    }
    /// A route through another host ([`crate::interfaces::Route`]).
    pub struct RouteRecord { pub network: u32, pub prefix: u32, pub gateway: u32, pub index: u32, }
    /// `datagram`: 0 stream, 1 datagram, 2 stream of SDP. `family` as in `socket(2)`.
    pub struct SocketNew { pub datagram: u32, pub family: u32, }
    pub struct Object { pub object: u32, pub reserved: u32, }
    /// Address of a socket in network order. IPv4 is a mapped address (RFC 4291, 2.5.5.2). `scope` is the
    /// number of a link-local address's interface, or 0.
    #[derive(PartialEq, Eq)]
    pub struct Endpoint { pub ip: [u8; 16], pub port: u32, pub scope: u32, }
    /// `flags` are of [`datagram`] and [`transport`].
    pub struct SocketAddress { pub object: u32, pub flags: u32, pub at: Endpoint, }
    /// `flags` are of [`transport`].
    pub struct SocketListen { pub object: u32, pub backlog: u32, pub flags: u32, pub reserved: u32, }
    pub struct SocketAccepted { pub object: u32, pub reserved: u32, pub peer: Endpoint, }
    /// `flags` are of [`stream`]. `rest`: bytes of the call behind these, if the call waits.
    pub struct SocketData { pub object: u32, pub len: u32, pub flags: u32, pub rest: u32, }
    /// `peek`: do not remove the bytes. `flags` are of [`stream`]. `rest`: bytes that the call wants beyond
    /// `len_max`.
    pub struct SocketReceive { pub object: u32, pub len_max: u32, pub peek: u32, pub flags: u32, pub rest: u32, pub reserved: u32, }
    /// A part of a datagram, from `offset` on. `flags` are of [`datagram`].
    pub struct DatagramSend { pub object: u32, pub len: u32, pub offset: u32, pub flags: u32, pub to: Endpoint, pub way: DatagramWish, }
    /// Way of one datagram, by control messages: its source address, the number of its interface, and its
    /// hop limit. Zeros mean that of the socket.
    pub struct DatagramWish { pub source: [u8; 16], pub interface: u32, pub hop_limit: u32, }
    /// `peek`: do not remove the datagram. An `offset` asks for the rest of the last one.
    pub struct DatagramReceive { pub object: u32, pub len_max: u32, pub peek: u32, pub offset: u32, }
    /// `len` bytes of a datagram of `whole` bytes follow. `to` is its destination, `interface` the number
    /// of the interface on which it came, or 0. `at` is the simulated time of its arrival in picoseconds.
    pub struct DatagramReceived { pub len: u32, pub whole: u32, pub from: Endpoint, pub to: [u8; 16], pub interface: u32, pub hop_limit: u32, pub at: u64, }
    /// Bytes of a file (its device and inode) from `offset` on.
    #[derive(PartialEq, Eq)]
    pub struct DiskTransfer { pub device: u64, pub inode: u64, pub offset: u64, pub bytes: u64, }
    /// `device`: N of `umadN`, or with `is_manager` of `issmN`.
    pub struct MadOpen { pub device: u32, pub is_manager: u32, }
    /// An agent as `struct ib_user_mad_reg_req` and `ib_user_mad_reg_req2` describe it. The reply has
    /// its `id`. `is_newer`: the program used the latter.
    pub struct MadAgent {
        pub object: u32, pub id: u32, pub qpn: u32, pub class: u32, pub class_version: u32, pub oui: u32, pub rmpp_version: u32, pub own_rmpp: u32, pub is_newer: u32, pub reserved: u32,
        /** Bit n is method n. Low half first. */ pub methods: [u64; 2],
    }
    pub struct MadAgentName { pub object: u32, pub id: u32, }
    /// A part of a record of umad, from `offset` on. `more`: another part follows.
    pub struct MadSend { pub object: u32, pub len: u32, pub offset: u32, pub more: u32, }
    /// `room`: bytes of the reader's buffer. An `offset` asks for the rest of the last record.
    pub struct MadReceive { pub object: u32, pub room: u32, pub offset: u32, pub reserved: u32, }
    /// `len` bytes of `whole` follow. `error`: errno that the reader gets with them, or 0.
    pub struct MadReceived { pub len: u32, pub whole: u32, pub error: u32, pub reserved: u32, }
    /// A command of `/dev/infiniband/rdma_cm`: its number, and the room for its reply. Its `len` bytes
    /// follow, and for SET_OPTION the value.
    pub struct CmCommand { pub object: u32, pub number: u32, pub len: u32, pub room: u32, }
    /// `len` bytes follow. `withdrawn`: unread events that the channel has lost. In wall pace their
    /// bytes still announce them.
    pub struct CmReply { pub len: u32, pub withdrawn: u32, }
    /// `name` is of [`socket_option`]. With `set`, the option first takes the value.
    pub struct SocketOption { pub object: u32, pub name: u32, pub value: u32, pub set: u32, }
    /// An option as `setsockopt` names it. With `set`, `len` bytes of its value follow; else `len` is
    /// the room for the value.
    pub struct SocketSetting { pub object: u32, pub level: u32, pub name: u32, pub len: u32, pub set: u32, pub reserved: u32, }
    /// `how` as numbered by `shutdown(2)`.
    pub struct SocketShutdown { pub object: u32, pub how: u32, }
    /// A socket of the kernel that a program has bound, in wall pace: its address there as a big-endian
    /// number, its port, and the backlog of a listening socket.
    pub struct RelaySocket { pub address: u32, pub port: u32, pub datagram: u32, pub backlog: u32, }
    pub struct SocketNames { pub local: Endpoint, pub peer: Endpoint, pub connected: u32, pub listening: u32, }
    /// Asks for the socket behind the place `after`, or for the first. All connections in TIME_WAIT have the
    /// place [`SocketPlace::TIME_WAIT`]. Their addresses tell them apart.
    pub struct SocketPlace { pub after: u64, pub is_first: u32, pub reserved: u32, pub local: Endpoint, pub peer: Endpoint, }
    /// A socket in the list of a host. `state` as in tcp_states.h. `object` is 0 for a socket of no
    /// program. The first `info_len` bytes of `info` are a `struct tcp_info`. `device` is the number of
    /// the interface to which the socket is bound, or 0.
    pub struct SocketRecord {
        pub place: u64, pub unread: u64, pub unsent: u64, pub drops: u64,
        pub local: Endpoint, pub peer: Endpoint,
        pub protocol: u32, pub family: u32, pub state: u32, pub object: u32, pub device: u32, pub info_len: u32,
        pub info: [u8; 104],
    }
    pub struct Count { pub count: u64, }
    /// Counter of a port: the name of its HCA follows, then that of the counter.
    pub struct CounterName { pub device_len: u32, pub port: u32, }
    /// Setting of the kernel's network: its name below `/proc/sys/net` follows, then its value.
    pub struct SettingName { pub name_len: u32, pub reserved: u32, }
    pub struct TimerNew { pub reserved: u64, }
    pub struct TimerSet { pub object: u32, pub reserved: u32, pub at_ps: u64, pub interval_ps: u64, }

    pub struct Hca { pub hca: u32, pub reserved: u32, }
    pub struct Handle { pub handle: u32, pub reserved: u32, }
    /// `count` entries of [`Device`] follow it.
    pub struct DeviceList { pub count: u32, pub reserved: u32, }
    /// One HCA of the host.
    pub struct Device {
        pub hca: u32, pub vendor_id: u32, pub vendor_part_id: u32, pub hardware_version: u32,
        pub node_guid: u64,
        /// NUL-padded.
        pub name: [u8; 64], pub firmware_version: [u8; 64], pub board_id: [u8; 64],
        pub ports: u32, pub max_qp: u32, pub max_qp_wr: u32, pub max_sge: u32, pub max_cq: u32, pub max_cqe: u32, pub max_mr: u32,
        pub max_pd: u32, pub max_ah: u32, pub max_inline: u32, pub max_rd_atomic: u32,
        pub max_srq: u32, pub max_srq_wr: u32, pub max_srq_sge: u32, pub max_xrcd: u32, pub max_mw: u32,
        pub max_multicast_groups: u32, pub max_multicast_members: u32, pub gid_table_len: u32, pub on_demand_paging: u32, pub atomic_write: u32, pub doorbell_carries_wqe: u32,
    }
    pub struct PortQuery { pub hca: u32, pub port: u32, }
    /// Codes as in `struct ibv_port_attr`; GIDs in network order.
    pub struct PortReply {
        /// 4 = active, 1 = down.
        pub state: u32, pub lid: u32, pub lmc: u32, pub sm_lid: u32, pub mtu_max_code: u32, pub mtu_active_code: u32,
        /// Number code of `max_vl_num`: 1, 2, 4, 8, 15 lanes as 1..5.
        pub vl_cap_code: u32, pub width_code: u32, pub speed_code: u32,
        /// 5 = link up, 3 = disabled, 2 = polling.
        pub physical_state: u32, pub pkey_count: u32,
        /// As in `struct ibv_port_attr`: 1 InfiniBand, 2 Ethernet.
        pub link_layer: u32,
        /// Index of the network interface of an Ethernet port; 0 for none.
        pub interface_index: u32,
        /// Number of filled entries of the GID table.
        pub gid_count: u32,
        pub gids: [[u8; 16]; 2],
        pub pkeys: [u16; 32],
    }
    pub struct RegisterMr { pub pd: u32, pub hca: u32, pub address: u64, pub len_bytes: u64, pub iova: u64, /** `IBV_ACCESS_` bits. */ pub access: u32, /** 1: its pages lie in the process's memory file. */ pub shared: u32, }
    pub struct RegisterMrReply { pub handle: u32, pub lkey: u32, pub rkey: u32, pub reserved: u32, }
    /// `channel` is an [`Object`] or 0. [`ChannelEvent`] returns `cookie`.
    pub struct CreateCq { pub hca: u32, pub entries: u32, pub channel: u32, /** 1: peers must not put CQEs in. */ pub own_only: u32, pub cookie: u64, }
    /// `ring_offset`: offset of the ring in the shared file, in bytes.
    pub struct CreateCqReply { pub handle: u32, pub capacity: u32, pub ring_offset: u64, /** In wall pace: offset of the ring of remote CQEs in the memory file, or 0. */ pub remote_cqe_ring: u64, }
    /// `window_type` 1 or 2, as `enum ibv_mw_type`.
    pub struct AllocMw { pub hca: u32, pub pd: u32, pub window_type: u32, pub reserved: u32, }
    /// An XRC domain. With `has_file`, all programs that name the same file share the domain.
    pub struct OpenXrcd { pub hca: u32, pub has_file: u32, pub device: u64, pub inode: u64, pub create: u32, pub exclusive: u32, }
    pub struct Multicast { pub hca: u32, pub qpn: u32, pub mlid: u32, pub reserved: u32, pub mgid: [u8; 16], }
    pub struct DatagramReceiver { pub lid: u32, pub qpn: u32, }
    /// From a queue pair of the program to a receiver.
    pub struct DatagramWay { pub hca: u32, pub from: u32, pub lid: u32, pub qpn: u32, }
    /// `version`: `groups` of the tables at the time of the reply.
    pub struct GroupMembers { pub version: u32, pub count: u32, }
    /// `name_len` bytes of `name` are the abstract name that the kernel gave to a socket. `object`
    /// is a channel.
    pub struct EventSocket { pub object: u32, pub name_len: u32, pub name: [u8; 8], }
    pub struct XrcQueue { pub hca: u32, pub qpn: u32, pub number: u32, pub reserved: u32, }
    pub struct OpenQp { pub xrcd: u32, pub qpn: u32, }
    /// A shared receive queue. `mask` as in `enum ibv_srq_attr_mask`.
    pub struct SrqFields { pub hca: u32, pub handle: u32, pub pd: u32, pub mask: u32, pub max_wr: u32, pub max_sge: u32, pub limit: u32,
        /** Its number in messages. */ pub number: u32,
        /** With XRC: domain and CQ; otherwise 0. */ pub xrcd: u32, pub cq: u32,
        /** In wall pace: its index in the table of queue pairs plus one, or 0. */ pub direct: u32,
    }
    pub struct ResizeCq { pub cq: u32, pub entries: u32, }
    /// `change` as in `enum ibv_rereg_mr_flags`. The engine reads only the fields that it selects.
    pub struct ReregisterMr { pub mr: u32, pub change: u32, pub pd: u32, /** `IBV_ACCESS_` bits. */ pub access: u32, pub address: u64, pub len_bytes: u64, pub iova: u64, }
    pub struct ChannelEvent { pub cookie: u64, pub cq: u32, pub reserved: u32, }
    /// `event` as in `enum ibv_event_type`; `element` is a QP number, CQ or SRQ handle or port.
    pub struct AsyncEvent { pub event: u32, pub element: u32, }
    pub struct QpName { pub hca: u32, pub qpn: u32, }
    /// An address vector.
    pub struct AddressVector {
        pub dlid: u32, pub service_level: u32, pub source_path_bits: u32, pub static_rate: u32, pub port: u32, pub is_global: u32,
        pub dgid: [u8; 16], pub flow_label: u32, pub sgid_index: u32, pub hop_limit: u32, pub traffic_class: u32,
    }
    pub struct CreateAh { pub pd: u32, pub hca: u32, pub vector: AddressVector, }
    /// `dlid`: the destination; on Ethernet the LID to which its GID resolves. `link_layer` as in
    /// `struct ibv_port_attr`.
    pub struct AhReply { pub handle: u32, pub dlid: u32, pub link_layer: u32, /** IPv4 address of the source as a big-endian number; 0 if it has none. */ pub source_ipv4: u32, }
    /// A queue pair: its creation fields and its attributes, numbered as in `struct ibv_qp_attr`.
    pub struct QpFields {
        pub hca: u32, pub qpn: u32,
        /// 2 = RC, 3 = UC, 4 = UD, 9 and 10 = send and receive side of XRC.
        pub qp_type: u32, pub pd: u32, pub send_cq: u32, pub recv_cq: u32, /** Shared receive queue, or 0. */ pub srq: u32, /** Domain, or 0. */ pub xrcd: u32, pub signal_all: u32, pub block_own_multicast: u32,
        pub max_send_wr: u32, pub max_recv_wr: u32, pub max_send_sge: u32, pub max_recv_sge: u32, pub max_inline: u32,
        pub state: u32, pub current_state: u32, pub path_mtu_code: u32, pub qkey: u32, pub receive_psn: u32, pub send_psn: u32,
        pub dest_qpn: u32, /** `IBV_ACCESS_` bits. */ pub access: u32, pub pkey_index: u32, pub port: u32,
        pub max_rd_atomic: u32, pub max_dest_rd_atomic: u32, pub min_rnr_timer: u32, pub timeout: u32, pub retry_count: u32, pub rnr_retry: u32,
        /** On the way to SQD: raise an event when the send queue has drained. */ pub drained_event: u32, pub draining: u32,
        /** In wall pace: index in the table of queue pairs plus one, or 0. */ pub direct: u32, pub reserved: u32,
        /** In wall pace: time before which completions do not belong to this queue pair; 0 for no time. Low and high half. */ pub since_ps: [u32; 2],
        pub vector: AddressVector,
    }
    /// `mask` as in `enum ibv_qp_attr_mask`.
    pub struct ModifyQp { pub mask: u32, pub reserved: u32, pub fields: QpFields, }
    /// Options of enhanced connection establishment, as in `struct ibv_ece`.
    pub struct Ece { pub vendor_id: u32, pub options: u32, pub comp_mask: u32, pub reserved: u32, }
    pub struct SetEce { pub qp: QpName, pub ece: Ece, }
}

impl SocketPlace {
    /// [`SocketPlace::after`] and [`SocketRecord::place`] of a connection in TIME_WAIT.
    pub const TIME_WAIT: u64 = u64::MAX;

    /// Returns the begin of the list.
    pub fn first() -> Self {
        Self { is_first: 1, ..Self::zeroed() }
    }
    /// Returns the place behind a socket of the list.
    pub fn behind(record: &SocketRecord) -> Self {
        Self { after: record.place, is_first: 0, reserved: 0, local: record.local, peer: record.peer }
    }
}

impl SocketSetting {
    /// Error of an option that the protocol of the socket lacks: the program gets ENOPROTOOPT. With
    /// ENOPROTOOPT itself, the placeholder keeps the option. No call of the kernel fails so.
    pub const REFUSED: i32 = i32::MAX;
}

impl SocketNew {
    /// [`SocketNew::datagram`] of a stream of SDP.
    pub const SDP: u32 = 2;
    /// [`SocketNew::datagram`] of a socket for ICMP echo.
    pub const ECHO: u32 = 3;
}

impl Endpoint {
    /// Returns an address of IPv4 as a big-endian number, with a port. The address of any host is that
    /// of IPv6.
    pub fn v4((address, port): (u32, u16)) -> Self {
        let ip = if address == 0 { Ipv6Addr::UNSPECIFIED } else { Ipv4Addr::from(address).to_ipv6_mapped() };
        Self { ip: ip.octets(), port: port.into(), scope: 0 }
    }

    /// Returns the address without its port, of IPv4 if it is mapped.
    pub fn address(&self) -> IpAddr {
        Ipv6Addr::from(self.ip).to_canonical()
    }
}

impl From<std::net::SocketAddr> for Endpoint {
    fn from(of: std::net::SocketAddr) -> Self {
        let (ip, scope) = match of {
            std::net::SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), 0),
            std::net::SocketAddr::V6(v6) => (*v6.ip(), v6.scope_id()),
        };
        Self { ip: ip.octets(), port: of.port().into(), scope }
    }
}

impl RegisterMr {
    /// `IBV_ACCESS_ON_DEMAND`: the kernel pins no page of the region.
    pub const ACCESS_ON_DEMAND: u32 = 0x40;

    /// Returns how many bytes the kernel pins for the region.
    pub const fn pinned_bytes(&self) -> u64 {
        if self.access & Self::ACCESS_ON_DEMAND == 0 { self.len_bytes } else { 0 }
    }
}

/// Reason of a thread's wait, for reports about a run. The engine does not act on it.
pub mod reason {
    /// No reason beside the request itself.
    pub const NONE: u32 = 0;
    /// A lock, a condition, a barrier, a semaphore, or the end of a thread.
    pub const LOCK: u32 = 1;
    pub const CHILD: u32 = 2;
    pub const SIGNAL: u32 = 3;
    /// A pipe, a file, or another descriptor of the operating system.
    pub const DESCRIPTOR: u32 = 4;
}

/// Values of [`SharedMapping::kind`]: the name space of shared memory.
pub mod mapping {
    /// `space` is the file's device, `number` its inode.
    pub const FILE: u32 = 0;
    /// `number` is the identifier of a System V segment.
    pub const SYSTEM_V: u32 = 1;
    /// Memory without a name, which children inherit: `space` is the process that made it, `number`
    /// its own count.
    pub const ANONYMOUS: u32 = 2;
    /// As [`FILE`], for a file on a disk.
    pub const DISK_FILE: u32 = 3;
}

/// Returns [`Sleep::polls`] of a thread that only polls again, or sleeps, for this [`reason`].
pub const fn polls(only_polls: bool, reason: u32) -> u64 {
    only_polls as u64 | (reason as u64) << 32
}

/// Splits [`Sleep::polls`] into its two parts.
pub const fn polls_of(polls: u64) -> (bool, u32) {
    (polls as u32 != 0, (polls >> 32) as u32)
}

/// Bits of the flags of a socket address and of a datagram.
pub mod datagram {
    /// Another part of the same datagram follows.
    pub const MORE: u32 = 1;
    /// The address is absent: send to the peer, or connect to nobody.
    pub const NO_ADDRESS: u32 = 2;
    /// The program named the address as one of IPv6. It may be mapped.
    pub const IS_V6: u32 = 4;
    /// The program named the address as one of SDP (AF_INET_SDP).
    pub const IS_SDP: u32 = 8;
}

/// Bits of the flags of stream data, on a network that packets cross.
pub mod stream {
    /// The last byte is urgent; the program asks for the urgent byte alone (`MSG_OOB`).
    pub const URGENT: u32 = 1;
    /// More data follows (`MSG_MORE`).
    pub const MORE: u32 = 2;
    /// The program has paid for the call whose part this is.
    pub const IS_PAID: u32 = 4;
    /// The call waits until it is whole.
    pub const WAITS: u32 = 8;
    /// In the count of sent bytes: the call ends when the socket is writable.
    pub const AWAITS_PEER: u64 = 1 << 63;
}

/// Bits of the flags of a socket address and of `listen`: rules that redirect TCP to SDP.
pub mod transport {
    /// The socket uses SDP.
    pub const SDP: u32 = 1 << 8;
    /// A server takes both protocols. A client uses SDP if the server does.
    pub const EITHER: u32 = 1 << 9;
}

/// Values of [`SocketOption::name`].
pub mod socket_option {
    pub const RECEIVE_BUFFER: u32 = 1;
    pub const SEND_BUFFER: u32 = 2;
    pub const ONLY_V6: u32 = 3;
    /// Several datagram sockets may share an address.
    pub const SHARE_ADDRESS: u32 = 4;
    /// Bytes that a connected stream socket takes now. Nothing sets it.
    pub const ROOM: u32 = 5;
    /// Bytes that wait for the program (`FIONREAD`). Nothing sets it.
    pub const UNREAD: u32 = 6;
    /// Bytes that the peer has not acknowledged (`SIOCOUTQ`). Nothing sets it.
    pub const UNSENT: u32 = 7;
    /// Whether the next byte is the urgent one (`SIOCATMARK`). Nothing sets it.
    pub const AT_MARK: u32 = 8;
    /// 1: urgent data raises SIGURG in the calling process (`F_SETOWN`); 0: in none.
    pub const OWNER: u32 = 9;
}

/// Bits of [`WaitEntry::interest`] and [`WaitEntry::ready`].
pub mod readiness {
    pub const READABLE: u32 = 1;
    pub const WRITABLE: u32 = 2;
    pub const HANG_UP: u32 = 4;
    pub const ERROR: u32 = 8;
    /// The peer sends no more.
    pub const PEER_ENDED: u32 = 16;
    /// All states: an edge of this kind concerns any interest.
    pub const ANY: u32 = 31;
    /// Urgent data waits.
    pub const URGENT: u32 = 32;
    /// The peer has all data of a socket that sends no more, or never will.
    pub const DRAINED: u32 = 64;
    /// In an interest: only edges behind `seen` count.
    pub const EDGE: u32 = 1 << 31;
    /// In an interest: of the threads that wait so for one object, an edge wakes one.
    pub const EXCLUSIVE: u32 = 1 << 30;
}

impl CmCommand {
    /// Number of a command that no program writes: it announces the unread events again.
    pub const ANNOUNCE: u32 = u32::MAX;
}
