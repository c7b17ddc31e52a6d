//! Calls: a request and a reply for each, both plain data.

use bytemuck::{Pod, Zeroable};

macro_rules! ops {
    ($($(#[$meta:meta])* $name:ident = $value:literal,)*) => {
        /// What a thread asks of the engine when it gives the token away.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Op { $($(#[$meta])* $name = $value,)* }

        impl Op {
            /// The call of this number, if there is one.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number { $($value => Some(Self::$name),)* _ => None }
            }
        }
    };
}

ops! {
    /// Nothing to see now: come back at the next event of this process, or after a while. [`Handle`] of the completion queue that was
    /// empty; no reply.
    Poll = 1,
    /// Come back at once, with everything up to this thread's clock done.
    Sync = 2,
    /// [`Sleep`] / [`WaitReply`].
    Sleep = 3,
    /// [`WaitRequest`] followed by [`WaitEntry`]s / [`WaitReply`] followed by as many [`WaitEntry`]s with `ready` set.
    Wait = 4,
    /// Going into the operating system: do not wait for this thread. No reply; [`crate::attach::Back`] ends it.
    Away = 5,
    /// A new thread of this process: reply [`ThreadReply`].
    ThreadNew = 6,
    /// This thread ends. No reply.
    ThreadExit = 7,
    /// A child process is about to be made: reply [`ForkReply`].
    Fork = 8,
    /// The child of this ticket did not come to be: [`Ticket`].
    ForkCancel = 9,
    /// The image is about to be replaced; reply [`ForkReply`] with the ticket for the new image.
    Exec = 10,
    /// The process ends: [`Exit`]. No reply.
    ProcessExit = 11,
    /// [`Alarm`] / [`AlarmReply`].
    Alarm = 12,
    /// A `while` loop spins on memory: come back when registered memory of this process was written, or after a while.
    /// [`SpinTarget`], or nothing when any write counts.
    SpinWait = 13,
    /// [`ProcessNumber`], as programs know it / [`ProcessNumber`] of the system, or 0.
    FindProcess = 14,

    /// [`Name`] / [`AddressReply`].
    Resolve = 30,
    /// [`AddressReply`] / [`Name`].
    ReverseResolve = 31,
    /// [`SocketNew`] / [`Object`].
    SocketNew = 32,
    /// [`SocketAddress`] / [`SocketAddress`] with the port that was taken.
    SocketBind = 33,
    /// [`SocketListen`].
    SocketListen = 34,
    /// [`Object`] / [`SocketAccepted`]; EAGAIN when nobody is there yet.
    SocketAccept = 35,
    /// [`SocketAddress`]: starts connecting; then wait for writable and ask [`Op::SocketError`]. ENETUNREACH: not one of ours.
    SocketConnect = 36,
    /// [`Object`] / status: 0 connected, EINPROGRESS, ECONNREFUSED, ...
    SocketError = 37,
    /// [`SocketData`] followed by bytes / [`Count`]; EAGAIN when the peer's window is full.
    SocketSend = 38,
    /// [`SocketReceive`] / [`Count`] followed by bytes; count 0 is the end; EAGAIN when nothing is there yet.
    SocketReceive = 39,
    /// [`SocketShutdown`].
    SocketShutdown = 40,
    /// [`Object`] / [`SocketNames`].
    SocketNames = 41,
    /// [`Object`]: one reference less (sockets, channels, timers).
    ObjectClose = 42,
    /// [`Object`]: one reference more (dup, fork keeps references by itself).
    ObjectRetain = 43,
    /// [`TimerNew`] / [`Object`]: a timerfd.
    TimerNew = 44,
    /// [`TimerSet`] / [`TimerSet`] with the former setting.
    TimerSet = 45,
    /// [`Object`] / [`Count`]: expirations since the last read; EAGAIN when none.
    TimerRead = 46,

    /// No request / [`DeviceList`].
    DeviceList = 100,
    /// [`PortQuery`] / [`PortReply`].
    PortQuery = 101,
    /// [`Hca`] / [`Handle`].
    AllocPd = 102,
    /// [`Handle`].
    DeallocPd = 103,
    /// [`RegisterMr`] / [`RegisterMrReply`].
    RegisterMr = 104,
    /// [`Handle`].
    DeregisterMr = 105,
    /// [`CreateCq`] / [`CreateCqReply`].
    CreateCq = 106,
    /// [`Handle`] / [`Count`]: events ever raised for it.
    DestroyCq = 107,
    /// [`Hca`] / [`Object`]: a completion channel.
    CreateChannel = 108,
    /// [`Object`] / [`ChannelEvent`]; EAGAIN when there is none.
    ChannelRead = 109,
    /// [`QpFields`] (its `init` part) / [`QpFields`].
    CreateQp = 110,
    /// [`ModifyQp`] / [`QpFields`].
    ModifyQp = 111,
    /// [`QpName`] / [`QpFields`].
    QueryQp = 112,
    /// [`QpName`].
    DestroyQp = 113,
    /// [`CreateAh`] / [`AhReply`].
    CreateAh = 114,
    /// [`Handle`].
    DestroyAh = 115,
    /// [`Hca`] / [`Object`]: the channel of asynchronous events of a context.
    CreateAsyncChannel = 116,
    /// [`Object`] / [`AsyncEvent`]; EAGAIN when there is none.
    AsyncRead = 117,
    /// [`ResizeCq`] / [`CreateCqReply`] with the new ring. What the old one holds is still to be taken from it, first.
    ResizeCq = 118,
    /// [`ReregisterMr`] / [`RegisterMrReply`].
    ReregisterMr = 119,
    /// [`SrqFields`] / [`SrqFields`].
    CreateSrq = 120,
    /// [`SrqFields`], whose `mask` says what changes / [`SrqFields`].
    ModifySrq = 121,
    /// [`Handle`] / [`SrqFields`].
    QuerySrq = 122,
    /// [`Handle`].
    DestroySrq = 123,
    /// [`AllocMw`] / [`RegisterMrReply`].
    AllocMw = 124,
    /// [`Handle`].
    DeallocMw = 125,
    /// [`OpenXrcd`] / [`Handle`]; EAGAIN when it is not there and was not to be made.
    OpenXrcd = 126,
    /// [`Handle`].
    CloseXrcd = 127,
    /// [`OpenQp`] / [`QpFields`]: one reference more to a queue pair of the domain.
    OpenQp = 128,
    /// [`Multicast`].
    AttachMulticast = 129,
    /// [`Multicast`].
    DetachMulticast = 130,
    /// In wall pace: [`DatagramReceiver`] / [`Handle`]: its entry in the table of queue pairs plus one, or 0.
    FindDatagramReceiver = 131,
    /// In wall pace: [`XrcQueue`] / [`Handle`]: its entry in that table plus one, or 0.
    FindXrcQueue = 132,
    /// In wall pace: [`Multicast`] / [`GroupMembers`], and so many [`DatagramReceiver`]s that hear what this queue pair sends to the group.
    FindGroup = 133,
    /// In wall pace: [`EventSocket`]: where the program hears of a channel's events, one byte for each; without a name, nothing new /
    /// [`EventSocket`]: from where the engine sends them to this process. The program connects its socket to that name before its own
    /// socket has one, so the kernel lets nobody else send there.
    EventSocket = 134,
}

macro_rules! pod {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident: $ty:ty,)* })*) => {
        $($(#[$meta])* #[repr(C)] #[derive(Clone, Copy, Debug, Pod, Zeroable)] pub struct $name { $($(#[$fmeta])* pub $field: $ty,)* })*
    };
}

pod! {
    /// `polls`: [`polls_of`] tells the two parts. A thread that only polls looks then at what other processes of the run may have done;
    /// nothing else ends the wait.
    pub struct Sleep { pub until_ps: u64, pub polls: u64, }
    /// `deadline_ps` is `u64::MAX` for no end. `reason` is a [`reason`].
    pub struct WaitRequest { pub deadline_ps: u64, pub count: u32, pub reason: u32, }
    /// `interest` and `ready` are [`readiness`] bits.
    pub struct WaitEntry { pub object: u32, pub interest: u32, pub ready: u32, pub reserved: u32, }
    /// `interrupted`: a signal came. Otherwise `ready_count` entries are ready; 0 means the deadline came.
    pub struct WaitReply { pub ready_count: u32, pub interrupted: u32, }
    /// The word that the loop looks at: writes elsewhere need not wake it.
    pub struct SpinTarget { pub address: u64, pub len: u64, }
    pub struct ThreadReply { pub slot: u32, pub reserved: u32, }
    pub struct Ticket { pub ticket: u64, }
    pub struct ForkReply { pub ticket: u64, pub process: u32, pub virtual_pid: u32, }
    pub struct ProcessNumber { pub number: u32, pub reserved: u32, }
    pub struct Exit { pub status: i32, pub reserved: u32, }
    /// Raises `signal` at `at_ps` (0: never) and then every `interval_ps` (0: once). One timer per `signal` and process.
    pub struct Alarm { pub at_ps: u64, pub interval_ps: u64, pub signal: u32, pub reserved: u32, }
    /// The former setting.
    pub struct AlarmReply { pub at_ps: u64, pub interval_ps: u64, }

    /// A name of at most 255 bytes.
    pub struct Name { pub len: u32, pub bytes: [u8; 256], }
    /// IPv4 as a big-endian number.
    pub struct AddressReply { pub address: u32, pub reserved: u32, }
    /// `datagram`: 0 stream, 1 datagram.
    pub struct SocketNew { pub datagram: u32, pub reserved: u32, }
    pub struct Object { pub object: u32, pub reserved: u32, }
    pub struct SocketAddress { pub object: u32, pub address: u32, pub port: u32, pub reserved: u32, }
    pub struct SocketListen { pub object: u32, pub backlog: u32, }
    pub struct SocketAccepted { pub object: u32, pub address: u32, pub port: u32, pub reserved: u32, }
    pub struct SocketData { pub object: u32, pub len: u32, }
    /// `peek`: leave the bytes there.
    pub struct SocketReceive { pub object: u32, pub len_max: u32, pub peek: u32, pub reserved: u32, }
    /// `how` as `shutdown(2)` numbers it.
    pub struct SocketShutdown { pub object: u32, pub how: u32, }
    pub struct SocketNames { pub local_address: u32, pub local_port: u32, pub peer_address: u32, pub peer_port: u32, pub connected: u32, pub listening: u32, }
    pub struct Count { pub count: u64, }
    pub struct TimerNew { pub reserved: u64, }
    pub struct TimerSet { pub object: u32, pub reserved: u32, pub at_ps: u64, pub interval_ps: u64, }

    pub struct Hca { pub hca: u32, pub reserved: u32, }
    pub struct Handle { pub handle: u32, pub reserved: u32, }
    /// `count` entries of [`Device`] follow.
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
        pub max_multicast_groups: u32, pub max_multicast_members: u32, pub gid_table_len: u32, pub on_demand_paging: u32, pub atomic_write: u32, pub reserved: u32,
    }
    pub struct PortQuery { pub hca: u32, pub port: u32, }
    /// Codes as `struct ibv_port_attr` has them; GIDs in network order.
    pub struct PortReply {
        /// 4 = active, 1 = down.
        pub state: u32, pub lid: u32, pub sm_lid: u32, pub mtu_max_code: u32, pub mtu_active_code: u32,
        /// Number code of `max_vl_num`: 1, 2, 4, 8, 15 lanes as 1..5.
        pub vl_cap_code: u32, pub width_code: u32, pub speed_code: u32,
        /// 5 = link up, 3 = disabled, 2 = polling.
        pub physical_state: u32, pub pkey_count: u32,
        /// As `struct ibv_port_attr` has it: 1 InfiniBand, 2 Ethernet.
        pub link_layer: u32,
        /// Of the network interface of an Ethernet port; 0 for none.
        pub interface_index: u32,
        /// The GID table, as far as it is filled.
        pub gid_count: u32,
        pub gids: [[u8; 16]; 2],
        pub pkeys: [u16; 32],
    }
    pub struct RegisterMr { pub pd: u32, pub hca: u32, pub address: u64, pub len_bytes: u64, pub iova: u64, /** `IBV_ACCESS_` bits. */ pub access: u32, /** 1: its pages lie in the process's file of memory. */ pub shared: u32, }
    pub struct RegisterMrReply { pub handle: u32, pub lkey: u32, pub rkey: u32, pub reserved: u32, }
    /// `channel` is an [`Object`] or 0; `cookie` comes back in [`ChannelEvent`].
    pub struct CreateCq { pub hca: u32, pub entries: u32, pub channel: u32, /** 1: peers must not put anything in. */ pub own_only: u32, pub cookie: u64, }
    /// Where the ring lies in the shared file.
    pub struct CreateCqReply { pub handle: u32, pub capacity: u32, pub ring_offset: u64, /** In wall pace: where in the file of memory the ring of remote CQEs is, or 0. */ pub remote_cqe_ring: u64, }
    /// `window_type` 1 or 2, as `enum ibv_mw_type`.
    pub struct AllocMw { pub hca: u32, pub pd: u32, pub window_type: u32, pub reserved: u32, }
    /// A domain of extended reliable connections. `has_file`: shared with those who name the same file.
    pub struct OpenXrcd { pub hca: u32, pub has_file: u32, pub device: u64, pub inode: u64, pub create: u32, pub exclusive: u32, }
    pub struct Multicast { pub hca: u32, pub qpn: u32, pub mlid: u32, pub reserved: u32, pub mgid: [u8; 16], }
    pub struct DatagramReceiver { pub lid: u32, pub qpn: u32, }
    /// Of a queue pair of the program, to a receiver.
    pub struct DatagramWay { pub hca: u32, pub from: u32, pub lid: u32, pub qpn: u32, }
    /// `version`: [`crate::tables::Tables::groups`] as it was then.
    pub struct GroupMembers { pub version: u32, pub count: u32, }
    /// `name_len` bytes of `name` are the abstract name that the kernel has given to a socket. `object` is a channel.
    pub struct EventSocket { pub object: u32, pub name_len: u32, pub name: [u8; 8], }
    pub struct XrcQueue { pub hca: u32, pub qpn: u32, pub number: u32, pub reserved: u32, }
    pub struct OpenQp { pub xrcd: u32, pub qpn: u32, }
    /// A shared receive queue. `mask` as `enum ibv_srq_attr_mask`.
    pub struct SrqFields { pub hca: u32, pub handle: u32, pub pd: u32, pub mask: u32, pub max_wr: u32, pub max_sge: u32, pub limit: u32,
        /** Number by which messages name it. */ pub number: u32,
        /** Of extended reliable connections: domain and completion queue; else 0. */ pub xrcd: u32, pub cq: u32,
        /** In wall pace: its entry among those of queue pairs, plus one, or 0. */ pub direct: u32,
    }
    pub struct ResizeCq { pub cq: u32, pub entries: u32, }
    /// `change` as `enum ibv_rereg_mr_flags`: only what it names is looked at.
    pub struct ReregisterMr { pub mr: u32, pub change: u32, pub pd: u32, /** `IBV_ACCESS_` bits. */ pub access: u32, pub address: u64, pub len_bytes: u64, pub iova: u64, }
    pub struct ChannelEvent { pub cookie: u64, pub cq: u32, pub reserved: u32, }
    /// `event` as `enum ibv_event_type`; `element` is a QP number, CQ or SRQ handle or port.
    pub struct AsyncEvent { pub event: u32, pub element: u32, }
    pub struct QpName { pub hca: u32, pub qpn: u32, }
    /// An address vector.
    pub struct AddressVector {
        pub dlid: u32, pub service_level: u32, pub source_path_bits: u32, pub static_rate: u32, pub port: u32, pub is_global: u32,
        pub dgid: [u8; 16], pub flow_label: u32, pub sgid_index: u32, pub hop_limit: u32, pub traffic_class: u32,
    }
    pub struct CreateAh { pub pd: u32, pub hca: u32, pub vector: AddressVector, }
    /// `dlid`: where it leads to, on Ethernet what its GID was resolved to. `link_layer` as `struct ibv_port_attr` has it.
    pub struct AhReply { pub handle: u32, pub dlid: u32, pub link_layer: u32, /** The source's, where it has one, as a big-endian number. */ pub source_ipv4: u32, }
    /// A queue pair: what it was made with and its attributes, numbered as `struct ibv_qp_attr` numbers them.
    pub struct QpFields {
        pub hca: u32, pub qpn: u32,
        /// 2 = RC, 3 = UC, 4 = UD, 9 and 10 = sending and receiving side of XRC.
        pub qp_type: u32, pub pd: u32, pub send_cq: u32, pub recv_cq: u32, /** Shared receive queue, or 0. */ pub srq: u32, /** Domain, or 0. */ pub xrcd: u32, pub signal_all: u32, pub block_own_multicast: u32,
        pub max_send_wr: u32, pub max_recv_wr: u32, pub max_send_sge: u32, pub max_recv_sge: u32, pub max_inline: u32,
        pub state: u32, pub current_state: u32, pub path_mtu_code: u32, pub qkey: u32, pub receive_psn: u32, pub send_psn: u32,
        pub dest_qpn: u32, /** `IBV_ACCESS_` bits. */ pub access: u32, pub pkey_index: u32, pub port: u32,
        pub max_rd_atomic: u32, pub max_dest_rd_atomic: u32, pub min_rnr_timer: u32, pub timeout: u32, pub retry_count: u32, pub rnr_retry: u32,
        /** On the way to SQD: raise an event when the send queue is drained. */ pub drained_event: u32, pub draining: u32,
        /** In wall pace: entry in the table of queue pairs plus one, or 0. */ pub direct: u32, pub reserved: u32,
        /** In wall pace: what completes before this moment is not for the queue pair as it is now; 0 for nothing said. Low and high half. */ pub since_ps: [u32; 2],
        pub vector: AddressVector,
    }
    /// `mask` as `enum ibv_qp_attr_mask`.
    pub struct ModifyQp { pub mask: u32, pub reserved: u32, pub fields: QpFields, }
}

/// Why a thread waits, for those who ask what a run waits for. The engine acts on none of them.
pub mod reason {
    /// Nothing beside what the request says.
    pub const NONE: u32 = 0;
    /// A lock, a condition, a barrier, a semaphore, or the end of a thread.
    pub const LOCK: u32 = 1;
    pub const CHILD: u32 = 2;
    pub const SIGNAL: u32 = 3;
    /// A pipe, a file, or another descriptor of the operating system.
    pub const DESCRIPTOR: u32 = 4;
}

/// [`Sleep::polls`] of a thread that only polls again, or sleeps, for this [`reason`].
pub const fn polls(only_polls: bool, reason: u32) -> u64 {
    only_polls as u64 | (reason as u64) << 32
}

/// The two parts of [`Sleep::polls`].
pub const fn polls_of(polls: u64) -> (bool, u32) {
    (polls as u32 != 0, (polls >> 32) as u32)
}

/// Bits of [`WaitEntry::interest`] and [`WaitEntry::ready`].
pub mod readiness {
    pub const READABLE: u32 = 1;
    pub const WRITABLE: u32 = 2;
    pub const HANG_UP: u32 = 4;
    pub const ERROR: u32 = 8;
}
