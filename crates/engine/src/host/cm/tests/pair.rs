//! The subnet of the tests.

use super::*;
use softband_model::management::administration::{self, Inventory, Node, PathEnd, Paths};
use softband_types::{Gid, Guid, LinkRate, LinkSpeed, LinkWidth, Mtu, PKey, ServiceLevel};
use softband_wire::mad::SMP_DATA_BYTES;

/// Two hosts with an HCA each, and a third without.
pub(super) struct Pair;

/// Keys of each port: full member of the default partition, limited member of another.
const KEYS: [PKey; 2] = [PKey(0xFFFF), PKey(0x0005)];

impl Subnet for Pair {
    fn host_of(&self, ip: u32) -> Option<usize> {
        ip.checked_sub(BASE).map(|host| host as usize).filter(|host| *host < 3)
    }
    fn address_of(&self, host: usize) -> u32 {
        BASE + host as u32
    }
    fn ports(&self, host: usize) -> Vec<LocalPort> {
        self.local_port((HcaId(host as u32), PortNumber(1))).into_iter().collect()
    }
    fn port_with_gid(&self, gid: Gid) -> Option<LocalPort> {
        (0..2).flat_map(|host| self.ports(host)).find(|port| port.gid == gid)
    }
    fn pkeys(&self, _: &LocalPort) -> &[PKey] {
        &KEYS
    }
    fn local_port(&self, (hca, port): Port) -> Option<LocalPort> {
        let lid = Lid(1 + hca.0 as u16);
        let guid = Guid(0x10 + u64::from(hca.0));
        let local = LocalPort {
            host: hca.0 as usize,
            hca,
            port,
            lid,
            gid: Gid::new(Gid::DEFAULT_PREFIX, guid),
            gid_index: 0,
            interface: None,
            node_guid: guid,
            pkey: KEYS[0],
            pkey_index: 0,
            sm_lid: MANAGER,
        };
        (hca.0 < 2).then_some(local)
    }
    fn may_listen(&self, host: usize) -> bool {
        host == 0
    }
    fn path(&self, from: &LocalPort, to: &LocalPort) -> Option<Path> {
        let (service_level, mtu, rate) = (ServiceLevel(0), MtuCode::B2048, RateCode::G100);
        Some(Path { source: *from, dlid: to.lid, dgid: to.gid, service_level, mtu, rate, packet_life_time: 18, traffic_class: 0 })
    }
}

impl Inventory for Pair {
    fn nodes(&self) -> Vec<Node> {
        Vec::new()
    }
    fn attribute(&mut self, _: u32, _: PortNumber, _: AttributeId, _: u32) -> Option<[u8; SMP_DATA_BYTES]> {
        None
    }
    fn neighbour(&self, _: u32, _: PortNumber) -> Option<(Lid, PortNumber)> {
        None
    }
}

impl Paths for Pair {
    fn ends(&self) -> Vec<PathEnd> {
        let port = |hca| self.local_port((HcaId(hca), PortNumber(1)));
        (0..2).filter_map(port).map(|port| PathEnd { lid: port.lid, gid: port.gid }).collect()
    }
    fn with_gid(&self, gid: Gid) -> Option<PathEnd> {
        self.ends().into_iter().find(|end| end.gid == gid)
    }
    fn with_lid(&self, lid: Lid) -> Option<PathEnd> {
        self.ends().into_iter().find(|end| end.lid == lid)
    }
    fn path(&self, _: PathEnd, _: PathEnd) -> Option<administration::Path> {
        let (mtu, rate) = self.least()?;
        Some(administration::Path { mtu, rate, service_level: ServiceLevel(0) })
    }
    fn least(&self) -> Option<(Mtu, LinkRate)> {
        Some((Mtu::B2048, LinkRate { width: LinkWidth::X4, speed: LinkSpeed::Edr }))
    }
}
