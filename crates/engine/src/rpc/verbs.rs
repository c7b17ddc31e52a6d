//! Protection domains and address handles, and what all verbs share.

use crate::engine::Engine;
use crate::rpc::calls::Caller;
use crate::rpc::convert;
use softband_ipc::calls::{self, AhReply, Handle, Hca};
use softband_model::verbs::api::PortSnapshot;
use softband_types::{AhHandle, Gid, HcaId, Lid, LinkLayer, PdHandle};

/// Returns the LID that programs see; on Ethernet they see none.
pub(crate) fn abi_lid(layer: LinkLayer, lid: Lid) -> Lid {
    if layer == LinkLayer::Ethernet { Lid::NONE } else { lid }
}

/// Returns the index of an Ethernet port's network interface, for programs that request it. Only
/// this index of the interface exists. It is far from those of the machine's own interfaces.
pub(crate) fn interface_index(port: &PortSnapshot) -> u32 {
    const FIRST: u32 = 1 << 16;
    if port.link_layer == LinkLayer::Ethernet && port.active { FIRST + u32::from(port.lid.0) } else { 0 }
}

impl Engine {
    /// Returns the HCA `hca` if it is on the program's own host. Otherwise returns ENODEV.
    pub(crate) fn own_hca(&self, process: usize, hca: u32) -> Result<HcaId, i32> {
        let host = self.processes[process].host;
        let count = self.world.spec().hosts[host].hcas.len();
        (0..count).map(|index| self.world.hca_id(host, index)).find(|own| own.0 == hca).ok_or(libc::ENODEV)
    }

    pub(crate) fn alloc_pd(&mut self, caller: Caller, of: &Hca) -> Result<Handle, i32> {
        let hca = self.own_hca(caller.process, of.hca)?;
        let pd = self.world.alloc_pd(caller.owner, hca).map_err(convert::errno_of)?;
        Ok(Handle { handle: pd.0, reserved: 0 })
    }

    pub(crate) fn dealloc_pd(&mut self, caller: Caller, pd: &Handle) -> Result<(), i32> {
        self.world.dealloc_pd(caller.owner, PdHandle(pd.handle)).map_err(convert::errno_of)
    }

    pub(crate) fn create_ah(&mut self, caller: Caller, wanted: &calls::CreateAh) -> Result<AhReply, i32> {
        let hca = self.own_hca(caller.process, wanted.hca)?;
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
