//! Options of sockets of stacks.

use super::OnStack;
use super::option_bytes::{self, Named, Setting};
use crate::protocol::{Caller, Outcome};
use crate::rpc::host_calls::HostCalls;
use softband_ipc::calls::{Count, SocketOption, SocketSetting, WithTail, socket_option};
use softband_net::calls::{self, AtMark, Info, Options, Send, SetOption, Unread};
use softband_net::{Family, InterfaceId, Payload, Protocol};
use std::net::{IpAddr, Ipv4Addr};

/// Most bytes of an option's value.
const VALUE_BYTES_MAX: usize = 4_096;

impl HostCalls<'_> {
    /// Reads or sets an option by its name in Linux.
    pub(crate) fn socket_setting(&mut self, caller: Caller, request: &WithTail<SocketSetting, u8>) -> Outcome<WithTail<Count, u8>> {
        let head = &request.head;
        let object = match self.processes[caller.process].held(head.object) {
            Ok(object) => object,
            Err(errno) => return Outcome::Fail(errno),
        };
        let Some(at) = self.on_stack(object) else { return Outcome::Fail(libc::ENOPROTOOPT) };
        let (level, name) = (head.level.cast_signed(), head.name.cast_signed());
        if !self.has_level(at, level, name) {
            return Outcome::Fail(libc::ENOPROTOOPT);
        }
        if head.set == 0 {
            return self.value_of(at, level, name);
        }
        if self.is_sdp(at) && !sdp_has(level, name) {
            return Outcome::Fail(SocketSetting::REFUSED);
        }
        let Some(bytes) = request.tail.get(..head.len as usize).filter(|bytes| bytes.len() <= VALUE_BYTES_MAX) else {
            return Outcome::Fail(libc::EINVAL);
        };
        match option_bytes::parse(level, name, bytes).and_then(|setting| self.option_of(at, setting)) {
            Ok(option) => {
                let (set, cost) = self.ask(at, SetOption { socket: at.place.socket, option });
                if set.is_ok() {
                    self.set_option_beside(at, option);
                }
                self.note_keepalive(at);
                Outcome::Paid(set.map(|()| WithTail { head: Count { count: 0 }, tail: Vec::new() }), cost)
            }
            Err(errno) => Outcome::Fail(errno),
        }
    }

    fn is_sdp(&self, at: OnStack) -> bool {
        self.kernels.as_ref().is_some_and(|kernels| kernels.stack(at.place.host).protocol(at.place.socket) == Some(Protocol::Sdp))
    }

    /// Warns of probes for which a socket of SDP asks, because the model has none.
    pub(super) fn note_keepalive(&mut self, at: OnStack) {
        if !self.is_sdp(at) {
            return;
        }
        let values = self.ask(at, Options { socket: at.place.socket }).0;
        if values.is_ok_and(|values| values.stream.is_some_and(|stream| stream.keep_alive)) {
            let name = &self.world.spec().hosts[at.place.host].name;
            self.report.warn(format!("{name}: SO_KEEPALIVE has no effect on SDP (LIMITATIONS.md)"));
        }
    }

    /// Returns whether the kernel looks at options of this level. The placeholder answers for others.
    fn has_level(&self, at: OnStack, level: i32, name: i32) -> bool {
        let is_v6 = self.family(at) == Family::V6;
        // Streams have the hop limit alone; the placeholder refuses groups as Linux does.
        let is_of_datagrams = match level {
            libc::IPPROTO_IP => name != libc::IP_TTL,
            libc::IPPROTO_IPV6 => !matches!(name, libc::IPV6_V6ONLY | libc::IPV6_UNICAST_HOPS),
            _ => false,
        };
        let is_of_streams = match level {
            libc::SOL_SOCKET => matches!(name, libc::SO_KEEPALIVE | libc::SO_OOBINLINE | libc::SO_LINGER),
            _ => level == libc::IPPROTO_TCP,
        };
        let is_of_others = if at.place.is_datagram { is_of_streams } else { is_of_datagrams };
        (level != libc::IPPROTO_IPV6 || is_v6) && !is_of_others
    }

    /// Returns the option of the stack that a setting means.
    fn option_of(&self, at: OnStack, setting: Setting) -> Result<calls::SocketOption, i32> {
        let named = |named: Named, missing: i32| match named {
            Named::Any => Ok(None),
            named => self.interface(at, named).map(Some).ok_or(missing),
        };
        Ok(match setting {
            Setting::Option(option) => option,
            Setting::Device(name) if name.is_empty() => calls::SocketOption::Device(None),
            Setting::Device(name) => {
                let found = self.interfaces(at).find(|(_, of)| of.name == name).map(|(number, _)| number);
                calls::SocketOption::Device(Some(found.ok_or(libc::ENODEV)?))
            }
            Setting::MulticastInterface(of) => {
                let missing = if matches!(of, Named::Address(_)) { libc::EADDRNOTAVAIL } else { libc::ENODEV };
                calls::SocketOption::MulticastInterface(named(of, missing)?)
            }
            Setting::Membership { joins, group, interface } => {
                let interface = named(interface, libc::ENODEV)?;
                let leave = calls::SocketOption::Leave { group, interface };
                if joins { calls::SocketOption::Join { group, interface } } else { leave }
            }
            Setting::Source { change, group, source, interface } => {
                calls::SocketOption::Source { change, group, source, interface: named(interface, libc::ENODEV)? }
            }
        })
    }

    fn interfaces(&self, at: OnStack) -> impl Iterator<Item = (InterfaceId, &softband_net::InterfaceConfig)> {
        let stack = self.kernels.as_ref().map(|kernels| kernels.stack(at.place.host));
        stack.into_iter().flat_map(|stack| stack.interfaces().map(|(number, config, _)| (number, config)))
    }

    /// Returns the interface that a program names.
    fn interface(&self, at: OnStack, named: Named) -> Option<InterfaceId> {
        let is_it = |number: InterfaceId, config: &softband_net::InterfaceConfig| match named {
            Named::Any => false,
            // Programs count from 1.
            Named::Index(index) => number.0.checked_add(1) == Some(index),
            Named::Address(address) => config.addresses.iter().any(|own| own.address == IpAddr::V4(address)),
        };
        self.interfaces(at).find(|(number, config)| is_it(*number, config)).map(|(number, _)| number)
    }

    /// Returns the name of an interface as C has it.
    fn name_of(&self, at: OnStack, interface: InterfaceId) -> Vec<u8> {
        let name = self.interfaces(at).find(|(number, _)| *number == interface).map(|(_, config)| config.name.as_bytes());
        [name.unwrap_or_default(), &[0]].concat()
    }

    fn first_v4(&self, at: OnStack, interface: InterfaceId) -> Option<Ipv4Addr> {
        let (_, config) = self.interfaces(at).find(|(number, _)| *number == interface)?;
        config.addresses.iter().find_map(|own| if let IpAddr::V4(address) = own.address { Some(address) } else { None })
    }

    fn value_of(&mut self, at: OnStack, level: i32, name: i32) -> Outcome<WithTail<Count, u8>> {
        let (values, cost) = self.ask(at, Options { socket: at.place.socket });
        let wants_info = (level, name) == (libc::IPPROTO_TCP, libc::TCP_INFO);
        let info = if wants_info { self.ask(at, Info { socket: at.place.socket }).0.ok() } else { None };
        let bytes = values.and_then(|values| match (level, name) {
            (libc::SOL_SOCKET, libc::SO_BINDTODEVICE) => Ok(values.device.map_or(Vec::new(), |device| self.name_of(at, device))),
            (libc::IPPROTO_IP, libc::IP_MULTICAST_IF) => {
                let address = values.multicast_interface.and_then(|interface| self.first_v4(at, interface));
                Ok(address.unwrap_or(Ipv4Addr::UNSPECIFIED).octets().to_vec())
            }
            _ => option_bytes::encode(level, name, &values, info.as_ref()).ok_or(libc::ENOPROTOOPT),
        });
        // A question about an option of the kernel's placeholder costs that call alone.
        let cost = if bytes == Err(libc::ENOPROTOOPT) { super::connect::FREE } else { cost };
        Outcome::Paid(bytes.map(|tail| WithTail { head: Count { count: tail.len() as u64 }, tail }), cost)
    }

    /// Answers the questions of the library in programs.
    pub(in crate::rpc) fn stack_option(&mut self, at: OnStack, option: &SocketOption) -> Outcome<SocketOption> {
        let socket = at.place.socket;
        if option.set != 0 {
            return Outcome::Fail(libc::ENOPROTOOPT);
        }
        let (value, cost) = match option.name {
            socket_option::ROOM => return self.room(at).map(|value| SocketOption { value, ..*option }).into(),
            socket_option::UNREAD => {
                let (bytes, cost) = self.ask(at, Unread { socket });
                (bytes.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX)), cost)
            }
            socket_option::UNSENT => {
                let (info, cost) = self.ask(at, Info { socket });
                (info.map(|info| u32::try_from(info.unacknowledged_bytes).unwrap_or(u32::MAX)), cost)
            }
            socket_option::AT_MARK => {
                let (is_at, cost) = self.ask(at, AtMark { socket });
                (is_at.map(u32::from), cost)
            }
            _ => return Outcome::Fail(libc::ENOPROTOOPT),
        };
        Outcome::Paid(value.map(|value| SocketOption { value, ..*option }), cost)
    }

    /// Returns the bytes that a send takes now. Fails as a send would.
    fn room(&mut self, at: OnStack) -> Result<u32, i32> {
        let socket = at.place.socket;
        if self.host.stack_sockets().sought(at.object).is_some() {
            return Ok(0);
        }
        match self.ask(at, Send { socket, payload: Payload::empty(), urgent: false, more: false }).0 {
            Ok(_) => {}
            Err(libc::EAGAIN) => return Ok(0),
            Err(errno) => return Err(errno),
        }
        Ok(self.ask(at, Info { socket }).0?.room)
    }
}

/// Returns whether a program may set an option of TCP on a socket of SDP (`sdp_setsockopt` of OFED 1.5).
fn sdp_has(level: i32, name: i32) -> bool {
    level != libc::IPPROTO_TCP || matches!(name, libc::TCP_NODELAY | libc::TCP_CORK | libc::TCP_KEEPIDLE)
}
