//! The table of calls, and the code that both sides derive from it.

use super::*;
use Cost::{ControlVerb, ControlVerbAndPages, ControlVerbFirst, Free};
use bytemuck::Pod;

/// Passes the table of calls to the macro `$with`.
///
/// Each row states the name and the number of a call, the engine's handler with its request and its
/// reply, the [`Cost`], and the [`Paces`]. A new call needs a row here, its data in [`crate::calls`],
/// a handler in the engine, and a caller. Without the handler, the engine does not compile.
#[macro_export]
macro_rules! for_each_call {
    ($with:ident) => {
        $with! {
            /// An empty poll of this CQ: resume at the next event of this process, or after a while.
            Poll = 1, poll(Handle) -> (), Free, Virtual;
            /// Resume immediately, after all events up to this thread's clock.
            Sync = 2, sync() -> (), Free, Any;
            /// The thread sleeps.
            Sleep = 3, sleep(Sleep) -> WaitReply, Free, Virtual;
            /// The reply repeats the entries with `ready` set.
            Wait = 4, wait(WithTail<WaitRequest, WaitEntry>) -> WithTail<WaitReply, WaitEntry>, Free, Virtual;
            /// The thread enters the operating system: do not wait for it.
            /// [`crate::attach::word::BACK`] ends this state in place of a reply.
            Away = 5, away() -> (), Free, Virtual;
            /// A new thread of this process.
            ThreadNew = 6, thread_new() -> ThreadReply, Free, Virtual;
            /// This thread ends. The engine does not reply.
            ThreadExit = 7, thread_exit() -> (), Free, Virtual;
            /// The process is about to create a child.
            Fork = 8, fork_child() -> ForkReply, Free, Any;
            /// The child of this ticket was not created.
            ForkCancel = 9, fork_cancel(Ticket) -> (), Free, Any;
            /// An exec is about to replace the image. The ticket is for the new image.
            Exec = 10, exec() -> ForkReply, Free, Any;
            /// The process ends. The engine does not reply.
            ProcessExit = 11, process_exit(Exit) -> (), Free, Any;
            /// Sets a timer that raises a signal.
            Alarm = 12, alarm(Alarm) -> AlarmReply, Free, Virtual;
            /// A `while` loop spins on memory: resume after a write to registered memory of this
            /// process, or after a while. Without a target, any write counts.
            SpinWait = 13, spin_wait(WithTail<(), SpinTarget>) -> (), Free, Virtual;
            /// From the virtual id of a process to its number on the host, or 0.
            FindProcess = 14, find_process(ProcessNumber) -> ProcessNumber, Free, Any;
            /// An exec is about to replace the image, and the new image belongs on the host of this
            /// name.
            ExecOn = 15, exec_on(Name) -> Placement, Free, Any;
            /// The process has a shared mapping under this number. The call replaces a former mapping.
            MapShared = 16, map_shared(SharedMapping) -> (), Free, Virtual;
            /// The process has no shared mapping under this number any more.
            UnmapShared = 17, unmap_shared(SharedRange) -> (), Free, Virtual;
            /// The thread polls: resume at the next event of this process, or at this time.
            Pause = 18, pause(Pause) -> (), Free, Virtual;
            /// The thread has written memory of the process with this virtual id.
            WroteMemory = 19, wrote_memory(ProcessNumber) -> (), Free, Virtual;
            /// The thread has written to a descriptor of the kernel that others may await.
            KernelWritten = 20, kernel_written() -> (), Free, Virtual;
            /// A signal has come for the process of this number on the host, whose first thread handles
            /// it: the wait of that thread ends. ESRCH if the process is not of the run.
            Interrupt = 21, interrupt(ProcessNumber) -> (), Free, Virtual;
            /// A signal ends the process of this number on the host: its end belongs to this moment.
            /// Number 0 stands for all processes that a signal to a group ends.
            AwaitEnd = 22, await_end(ProcessNumber) -> (), Free, Virtual;

            /// From the name of a host to its address.
            Resolve = 30, resolve(Name) -> AddressReply, Free, Any;
            /// From the address of a host to its name.
            ReverseResolve = 31, reverse_resolve(AddressReply) -> Name, Free, Any;
            /// Creates a socket.
            SocketNew = 32, socket_new(SocketNew) -> Object, Free, Virtual;
            /// The reply has the bound port.
            SocketBind = 33, socket_bind(SocketAddress) -> SocketAddress, Free, Virtual;
            /// The socket accepts connections.
            SocketListen = 34, socket_listen(SocketListen) -> (), Free, Virtual;
            /// Takes a connection. EAGAIN while no connection waits.
            SocketAccept = 35, socket_accept(Object) -> SocketAccepted, Free, Virtual;
            /// Starts to connect. The program then waits for writable and calls
            /// [`crate::calls::Op::SocketError`]. ENETUNREACH if no host of the fabric has the address.
            SocketConnect = 36, socket_connect(SocketAddress) -> (), Free, Virtual;
            /// The status tells the state: 0 connected, EINPROGRESS, ECONNREFUSED, ...
            SocketError = 37, socket_error(Object) -> (), Free, Virtual;
            /// Sends bytes. EAGAIN when the peer's window is full.
            SocketSend = 38, socket_send(WithTail<SocketData, u8>) -> Count, Free, Virtual;
            /// Receives bytes. A count of 0 is the end; EAGAIN while no bytes wait.
            SocketReceive = 39, socket_receive(SocketReceive) -> WithTail<Count, u8>, Free, Virtual;
            /// A program listens or receives datagrams at its kernel's socket, and the engine relays to it
            /// (`--network modelled` at wall pace). EADDRINUSE if the address is taken.
            RelaySocket = 52, relay_socket(RelaySocket) -> (), Free, Any;
            /// Ends one or both directions of a connection.
            SocketShutdown = 40, socket_shutdown(SocketShutdown) -> (), Free, Virtual;
            /// Names of the socket and of its peer.
            SocketNames = 41, socket_names(Object) -> SocketNames, Free, Virtual;
            /// Releases one reference (sockets, channels, timers).
            ObjectClose = 42, object_close(Object) -> (), Free, Any;
            /// Ends a connection that the caller alone holds, as `close` does. The count is 1 if `close` waits
            /// ([`crate::calls::readiness::DRAINED`]). The object stays.
            SocketLinger = 51, socket_linger(Object) -> Count, Free, Virtual;
            /// Adds one reference (dup; a fork keeps references by itself).
            ObjectRetain = 43, object_retain(Object) -> (), Free, Any;
            /// Sends a datagram to the address or to the peer. EAGAIN while the buffer is full.
            DatagramSend = 47, datagram_send(WithTail<DatagramSend, u8>) -> (), Free, Virtual;
            /// Receives a datagram. EAGAIN while none waits.
            DatagramReceive = 48, datagram_receive(DatagramReceive) -> WithTail<DatagramReceived, u8>, Free, Virtual;
            /// Reads or sets an option. ENOPROTOOPT if the engine does not have it.
            SocketOption = 49, socket_option(SocketOption) -> SocketOption, Free, Virtual;
            /// Reads or sets an option by its name in Linux. ENOPROTOOPT if the engine does not have it.
            SocketSetting = 50, socket_setting(WithTail<SocketSetting, u8>) -> WithTail<Count, u8>, Free, Virtual;
            /// Creates a timerfd.
            TimerNew = 44, timer_new(TimerNew) -> Object, Free, Virtual;
            /// The reply has the former setting.
            TimerSet = 45, timer_set(TimerSet) -> TimerSet, Free, Virtual;
            /// Expirations since the last read; EAGAIN if none.
            TimerRead = 46, timer_read(Object) -> Count, Free, Virtual;

            /// A request to the disk of the program's host: resume at its end. ENODEV without a
            /// disk.
            DiskTransfer = 53, disk_transfer(DiskTransfer) -> (), Free, Virtual;

            /// Opens a MAD device. ENXIO without that device. EBUSY if a device for one subnet manager
            /// is open.
            MadOpen = 60, mad_open(MadOpen) -> Object, Free, Any;
            /// Adds an agent to an open MAD device.
            MadRegister = 61, mad_register(MadAgent) -> MadAgent, Free, Any;
            /// Removes an agent.
            MadUnregister = 62, mad_unregister(MadAgentName) -> (), Free, Any;
            /// Headers have a P_Key index. EINVAL after the first agent.
            MadEnablePkey = 63, mad_enable_pkey(Object) -> (), Free, Any;
            /// Sends a MAD.
            MadSend = 64, mad_send(WithTail<MadSend, u8>) -> (), Free, Any;
            /// Takes a MAD, or a report that a request has no answer. EAGAIN while none waits.
            MadReceive = 65, mad_receive(MadReceive) -> WithTail<MadReceived, u8>, Free, Any;

            /// Reads a counter of a port of the program's host. ENOENT without it.
            ReadCounter = 66, read_counter(WithTail<CounterName, u8>) -> Count, Free, Any;
            /// An interface of the program's host, with its counters. ENODEV behind the last.
            ReadInterface = 67, read_interface(InterfacePlace) -> InterfaceRecord, Free, Any;
            /// A route of the program's host through another host. ENOENT behind the last.
            ReadRoute = 68, read_route(InterfacePlace) -> RouteRecord, Free, Any;
            /// A socket in the list of the program's host. ENOENT behind the last.
            ReadSocket = 69, read_socket(SocketPlace) -> SocketRecord, Free, Virtual;

            /// Changes a setting of the modelled TCP/IP of the program's host. ENOENT for a setting
            /// that the model does not have.
            ChangeSetting = 75, change_setting(WithTail<SettingName, u8>) -> (), Free, Any;

            /// Opens a channel of the connection manager.
            CmOpen = 70, cm_open() -> Object, Free, Any;
            /// Carries out a command of a channel. EAGAIN while no event waits.
            CmCommand = 71, cm_command(WithTail<CmCommand, u8>) -> WithTail<CmReply, u8>, Free, Any;

            /// The HCAs of the program's host.
            DeviceList = 100, device_list() -> WithTail<DeviceList, Device>, Free, Any;
            /// `ibv_query_port`.
            PortQuery = 101, port_query(PortQuery) -> PortReply, Free, Any;
            /// `ibv_alloc_pd`.
            AllocPd = 102, alloc_pd(Hca) -> Handle, ControlVerb, Any;
            /// `ibv_dealloc_pd`.
            DeallocPd = 103, dealloc_pd(Handle) -> (), Free, Any;
            /// `ibv_reg_mr`.
            RegisterMr = 104, register_mr(RegisterMr) -> RegisterMrReply, ControlVerbAndPages(RegisterMr::pinned_bytes), Any;
            /// `ibv_dereg_mr`.
            DeregisterMr = 105, deregister_mr(Handle) -> (), Free, Any;
            /// `ibv_create_cq`.
            CreateCq = 106, create_cq(CreateCq) -> CreateCqReply, ControlVerb, Any;
            /// `ibv_destroy_cq`. The count is that of all events raised for the CQ.
            DestroyCq = 107, destroy_cq(Handle) -> Count, Free, Any;
            /// A completion channel.
            CreateChannel = 108, create_channel(Hca) -> Object, Free, Any;
            /// Takes an event of a completion channel. EAGAIN if no event waits.
            ChannelRead = 109, channel_read(Object) -> ChannelEvent, Free, Any;
            /// `ibv_create_qp`. The engine reads the fields for creation.
            CreateQp = 110, create_qp(QpFields) -> QpFields, ControlVerb, Any;
            /// `ibv_modify_qp`.
            ModifyQp = 111, modify_qp(ModifyQp) -> QpFields, ControlVerb, Any;
            /// `ibv_query_qp`.
            QueryQp = 112, query_qp(QpName) -> QpFields, Free, Any;
            /// `ibv_destroy_qp`. The count is that of the unread events of the QP.
            DestroyQp = 113, destroy_qp(QpName) -> Count, Free, Any;
            /// `ibv_create_ah`.
            CreateAh = 114, create_ah(CreateAh) -> AhReply, ControlVerb, Any;
            /// `ibv_destroy_ah`.
            DestroyAh = 115, destroy_ah(Handle) -> (), Free, Any;
            /// The channel of asynchronous events of a context.
            CreateAsyncChannel = 116, create_async_channel(Hca) -> Object, Free, Any;
            /// Takes an asynchronous event. EAGAIN if no event waits.
            AsyncRead = 117, async_read(Object) -> AsyncEvent, Free, Any;
            /// `ibv_resize_cq`. The reply names the new ring. The program first takes the
            /// completions in the old ring.
            ResizeCq = 118, resize_cq(ResizeCq) -> CreateCqReply, ControlVerbFirst, Any;
            /// `ibv_rereg_mr`.
            ReregisterMr = 119, reregister_mr(ReregisterMr) -> RegisterMrReply, ControlVerb, Any;
            /// `ibv_create_srq`.
            CreateSrq = 120, create_srq(SrqFields) -> SrqFields, ControlVerb, Any;
            /// `ibv_modify_srq`. `mask` selects the changes.
            ModifySrq = 121, modify_srq(SrqFields) -> SrqFields, ControlVerb, Any;
            /// `ibv_query_srq`.
            QuerySrq = 122, query_srq(Handle) -> SrqFields, Free, Any;
            /// `ibv_destroy_srq`. The count is that of the unread events of the SRQ.
            DestroySrq = 123, destroy_srq(Handle) -> Count, Free, Any;
            /// `ibv_alloc_mw`.
            AllocMw = 124, alloc_mw(AllocMw) -> RegisterMrReply, ControlVerb, Any;
            /// `ibv_dealloc_mw`.
            DeallocMw = 125, dealloc_mw(Handle) -> (), Free, Any;
            /// `ibv_open_xrcd`. EAGAIN if the domain does not exist and `create` is 0.
            OpenXrcd = 126, open_xrcd(OpenXrcd) -> Handle, Free, Any;
            /// `ibv_close_xrcd`.
            CloseXrcd = 127, close_xrcd(Handle) -> (), Free, Any;
            /// `ibv_open_qp`: adds one reference to a queue pair of the domain.
            OpenQp = 128, open_qp(OpenQp) -> QpFields, Free, Any;
            /// `ibv_attach_mcast`.
            AttachMulticast = 129, attach_multicast(Multicast) -> (), ControlVerb, Any;
            /// `ibv_detach_mcast`.
            DetachMulticast = 130, detach_multicast(Multicast) -> (), ControlVerb, Any;
            /// In wall pace: the receiver's index in the table of queue pairs plus one, or 0.
            FindDatagramReceiver = 131, find_datagram_receiver(DatagramWay) -> Handle, Free, Any;
            /// In wall pace: the queue's index in that table plus one, or 0.
            FindXrcQueue = 132, find_xrc_queue(XrcQueue) -> Handle, Free, Any;
            /// In wall pace: the receivers of messages from this queue pair to the group.
            FindGroup = 133, find_group(Multicast) -> WithTail<GroupMembers, DatagramReceiver>, Free, Any;
            /// In wall pace: the request names the socket where the program gets one byte for each
            /// event of a channel. Without a name, it changes nothing. The reply names the socket
            /// from which the engine sends. The program connects its socket to that name before its
            /// own socket has a name. The kernel therefore lets no other process send there.
            EventSocket = 134, note_event_socket(EventSocket) -> EventSocket, Free, Any;
            /// `ibv_query_ece`.
            QueryEce = 135, query_ece(QpName) -> Ece, Free, Any;
            /// `ibv_set_ece`. EINVAL for options that the HCA does not have.
            SetEce = 136, set_ece(SetEce) -> (), Free, Any;
        }
    };
}

/// A row of the table as a type: the request and the reply that belong to an [`Op`].
pub trait Call {
    const OP: Op;
    const COST: Cost<Self::Request>;
    type Request: Message;
    type Reply: Message;
}

/// Simulated time that a successful call costs its thread.
#[derive(Clone, Copy, Debug)]
pub enum Cost<Request> {
    Free,
    /// The call acts at once. Then the thread pays `control_verb` of its host.
    ControlVerb,
    /// As [`Cost::ControlVerb`], plus `register_page` for each page of the returned bytes.
    ControlVerbAndPages(fn(&Request) -> u64),
    /// The thread pays `control_verb` before the call acts. The call therefore sees completions that
    /// arrive while it is on its way to the HCA.
    ControlVerbFirst,
}

/// Paces in which the engine serves a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paces {
    Any,
    /// The call waits in simulated time or moves it. Programs in wall pace do not need it: their
    /// threads, timers and sockets are the host's.
    Virtual,
}

/// A request or a reply: plain data, or plain data with a tail.
pub trait Message: Sized {
    type Head: Pod;
    /// Element of the tail; `()` without a tail.
    type Element: Pod;

    /// Reads a message from the front of `bytes`. Returns `None` if they are too few.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;

    /// Returns the bytes of the head and of the tail.
    fn parts(&self) -> [&[u8]; 2];
}

impl<T: Pod> Message for T {
    type Head = T;
    type Element = ();

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.get(..size_of::<T>()).map(bytemuck::pod_read_unaligned)
    }

    fn parts(&self) -> [&[u8]; 2] {
        [bytemuck::bytes_of(self), &[]]
    }
}

/// A head, and elements after it. A sender may state another number of elements in the head.
#[derive(Clone, Debug)]
pub struct WithTail<Head, Element> {
    pub head: Head,
    pub tail: Vec<Element>,
}

impl<Head: Pod, Element: Pod> Message for WithTail<Head, Element> {
    type Head = Head;
    type Element = Element;

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, tail) = bytes.split_at_checked(size_of::<Head>())?;
        let tail = tail.chunks_exact(size_of::<Element>()).map(bytemuck::pod_read_unaligned).collect();
        Some(Self { head: bytemuck::pod_read_unaligned(head), tail })
    }

    fn parts(&self) -> [&[u8]; 2] {
        [bytemuck::bytes_of(&self.head), bytemuck::cast_slice(&self.tail)]
    }
}

macro_rules! define {
    ($($(#[$meta:meta])* $name:ident = $number:literal, $handler:ident($($request:ty)?) -> $reply:ty, $cost:expr, $paces:ident;)*) => {
        /// Call of a thread to the engine. The thread gives the token away with it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Op { $($(#[$meta])* $name = $number,)* }

        impl Op {
            /// All calls, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the call with this number, if it exists.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }

            /// Returns the paces in which the engine serves the call.
            pub const fn paces(self) -> Paces {
                match self { $(Self::$name => Paces::$paces,)* }
            }
        }

        /// One type for each call.
        pub mod op {
            $($(#[$meta])* #[derive(Clone, Copy, Debug)] pub struct $name;)*
        }

        $(
            #[allow(unused_parens)] // without a request, the parentheses are the type ()
            impl Call for op::$name {
                const OP: Op = Op::$name;
                const COST: Cost<Self::Request> = $cost;
                type Request = ($($request)?);
                type Reply = $reply;
            }
        )*
    };
}

for_each_call!(define);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_calls_correspond() {
        for op in Op::ALL {
            assert_eq!(Op::from_number(*op as u32), Some(*op));
        }
        assert_eq!(Op::from_number(0), None);
    }

    #[test]
    fn a_message_with_a_tail_survives_the_way_and_a_short_one_does_not() {
        let entry = WaitEntry { object: 1, interest: 2, ready: 3, seen: 0 };
        let sent = WithTail { head: WaitReply { ready_count: 2, interrupted: 0 }, tail: vec![entry; 2] };
        let mut bytes = sent.parts().concat();
        bytes.push(0); // a part of an element is none
        let taken = WithTail::<WaitReply, WaitEntry>::from_bytes(&bytes).unwrap();
        assert_eq!((taken.head.ready_count, taken.tail.len(), taken.tail[1].ready), (2, 2, 3));
        assert!(WithTail::<WaitReply, WaitEntry>::from_bytes(&bytes[..7]).is_none());
        assert!(Count::from_bytes(&bytes[..7]).is_none());
        assert!(WithTail::<(), SpinTarget>::from_bytes(&[]).unwrap().tail.is_empty());
    }

    #[test]
    fn a_region_on_demand_pins_nothing() {
        let ControlVerbAndPages(pinned_bytes) = op::RegisterMr::COST else { panic!("a region costs its pages") };
        let region = RegisterMr { pd: 1, hca: 0, address: 0, len_bytes: 9, iova: 0, access: 1, shared: 0 };
        assert_eq!(pinned_bytes(&region), 9);
        assert_eq!(pinned_bytes(&RegisterMr { access: RegisterMr::ACCESS_ON_DEMAND, ..region }), 0);
    }
}
