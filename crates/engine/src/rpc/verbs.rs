//! Protection domains and address handles, and what all verbs share.

use crate::host::objects::About;
use crate::protocol::convert;
use crate::protocol::{Caller, own_hca};
use crate::rpc::room::Verbs;
use softband_ipc::calls::{self, AhReply, Count, DatagramWay, EventSocket, Handle, Hca};
use softband_types::{AhHandle, Gid, HcaId, Lid, PdHandle, ProcessId, QpType, Qpn};

impl Verbs<'_> {
    /// Returns the HCA `hca` if it is on the program's own host. Otherwise returns ENODEV.
    pub(super) fn own_hca(&self, caller: Caller, hca: u32) -> Result<HcaId, i32> {
        own_hca(self.world, self.processes[caller.process].host(), hca)
    }

    /// Drops the unread events of a destroyed object, and returns their number.
    pub(super) fn drop_async_events(&mut self, process: ProcessId, hca: HcaId, about: About, element: u32) -> Count {
        Count { count: self.host.drop_async_events((process.0, hca.0), about, element) }
    }

    /// Returns the table entry (plus one) of the UD queue pair that datagrams to this address
    /// reach. Returns 0 if none exists.
    pub(crate) fn find_datagram_receiver(&mut self, caller: Caller, to: &DatagramWay) -> Result<Handle, i32> {
        let from = self.own_hca(caller, to.hca)?;
        let sender = self.world.query_qp(caller.owner, from, Qpn(to.from)).map_err(convert::errno_of)?;
        let hca = u16::try_from(to.lid).ok().and_then(|lid| self.world.hca_reached((from, sender.port), Lid(lid)));
        let receives = |hca: &HcaId| self.world.find_qp(*hca, Qpn(to.qpn)).is_some_and(|(_, qp)| qp.init.qp_type == QpType::Ud);
        let handle = hca.filter(receives).map_or(0, |hca| self.realtime.entry_of(hca, Qpn(to.qpn)));
        Ok(Handle { handle, reserved: 0 })
    }

    /// Notes the socket by which a program gets the events of a channel that it holds.
    pub(crate) fn note_event_socket(&mut self, caller: Caller, socket: &EventSocket) -> Result<EventSocket, i32> {
        self.plane().note_event_socket(caller, socket)
    }

    pub(crate) fn alloc_pd(&mut self, caller: Caller, of: &Hca) -> Result<Handle, i32> {
        let hca = self.own_hca(caller, of.hca)?;
        let pd = self.world.alloc_pd(caller.owner, hca).map_err(convert::errno_of)?;
        Ok(Handle { handle: pd.0, reserved: 0 })
    }

    pub(crate) fn dealloc_pd(&mut self, caller: Caller, pd: &Handle) -> Result<(), i32> {
        self.world.dealloc_pd(caller.owner, PdHandle(pd.handle)).map_err(convert::errno_of)
    }

    pub(crate) fn create_ah(&mut self, caller: Caller, wanted: &calls::CreateAh) -> Result<AhReply, i32> {
        let hca = self.own_hca(caller, wanted.hca)?;
        let vector = self.world.resolve(hca, &convert::vector(&wanted.vector)?).map_err(convert::errno_of)?;
        let ah = self.world.create_ah(caller.owner, PdHandle(wanted.pd), vector).map_err(convert::errno_of)?;
        let gids = self.world.port(hca, vector.port).map(|port| port.gids).unwrap_or_default();
        let source = vector.grh.and_then(|route| gids.get(usize::from(route.sgid_index)).copied().flatten()).and_then(Gid::ipv4);
        Ok(AhReply {
            handle: ah.0,
            dlid: u32::from(vector.dlid.0),
            link_layer: convert::link_layer_code(self.world.link_layer(hca)),
            source_ipv4: source.map_or(0, u32::from_be_bytes),
        })
    }

    pub(crate) fn destroy_ah(&mut self, caller: Caller, ah: &Handle) -> Result<(), i32> {
        self.world.destroy_ah(caller.owner, AhHandle(ah.handle)).map_err(convert::errno_of)
    }
}
