//! A host that sends management packets and waits for the answers.

use crate::common::*;
use softband_fabric::World;
use softband_fabric::notice::Notice;
use softband_model::management::ManagementPacket;
use softband_sim::SimDuration;
use softband_spec::FabricSpec;
use softband_types::*;
use softband_wire::mad::*;

pub(crate) const PORT_1: PortNumber = PortNumber(1);
const GSI_QKEY: QKey = QKey(0x8001_0000);

/// Requests of host 0 to the agents of a fabric.
pub(crate) struct Desk {
    pub(crate) world: World,
    pub(crate) memory: Memory,
    transaction: u64,
    /// Attribute modifier of requests for records.
    pub(crate) modifier: u32,
    /// All notices but arrivals, and all traps and reports that arrived.
    pub(crate) seen: Vec<Notice>,
    pub(crate) traps: Vec<ManagementPacket>,
}

impl Desk {
    pub(crate) fn new(spec: &FabricSpec) -> Self {
        Self::over(World::new(spec, 1))
    }

    pub(crate) fn over(world: World) -> Self {
        Self { world, memory: Memory { blocks: Vec::new(), discard: false }, transaction: 0, modifier: 0, seen: Vec::new(), traps: Vec::new() }
    }

    pub(crate) fn of_three() -> Self {
        Self::new(&through_switch(LinkSpeed::Sdr, &[1, 1, 1], 4, host_part(600, 300)))
    }

    pub(crate) fn header(&mut self, class: ManagementClass, method: Method, attribute: AttributeId, modifier: u32) -> Header {
        self.transaction += 1;
        let class_version = if class == ManagementClass::SUBNET_ADMINISTRATION { 2 } else { 1 };
        Header {
            base_version: 1,
            mgmt_class: class,
            class_version,
            method,
            transaction_id: self.transaction,
            attribute_id: attribute,
            attribute_modifier: modifier,
            ..Header::default()
        }
    }

    /// Sends a packet from host 0 and returns the answer, if one comes.
    pub(crate) fn exchange(&mut self, packet: ManagementPacket) -> Option<(SimDuration, ManagementPacket)> {
        let hca = self.world.hca_id(0, 0);
        let sent = self.world.now() + nanos(1_000);
        self.world.send_management(hca, PORT_1, Box::new(packet), sent);
        let (mut notices, mut answer) = (Vec::new(), None);
        while answer.is_none() && self.world.next_event_time().is_some() {
            self.world.step(&mut self.memory, &mut notices);
            for notice in notices.drain(..) {
                match notice {
                    Notice::ManagementArrived { hca: at, packet, .. } => {
                        assert_eq!(at, hca);
                        if matches!(Header::view(&packet.mad[..]).method(), Method::TRAP | Method::REPORT) {
                            self.traps.push(*packet);
                        } else {
                            answer = Some((self.world.now() - sent, *packet));
                        }
                    }
                    other => self.seen.push(other),
                }
            }
        }
        answer
    }

    /// Sends a packet from host 0 and returns all that arrives there.
    pub(crate) fn exchange_all(&mut self, packet: ManagementPacket) -> Vec<ManagementPacket> {
        let hca = self.world.hca_id(0, 0);
        self.world.send_management(hca, PORT_1, Box::new(packet), self.world.now() + nanos(1_000));
        let (mut notices, mut arrived) = (Vec::new(), Vec::new());
        while self.world.next_event_time().is_some() {
            self.world.step(&mut self.memory, &mut notices);
            for notice in notices.drain(..) {
                if let Notice::ManagementArrived { packet, .. } = notice {
                    if Header::view(&packet.mad[..]).method() == Method::REPORT {
                        self.traps.push(*packet);
                    } else {
                        arrived.push(*packet);
                    }
                }
            }
        }
        arrived
    }

    /// Asks the node at the end of a directed route for an attribute.
    pub(crate) fn ask(
        &mut self,
        path: &[u8],
        method: Method,
        attribute: AttributeId,
        modifier: u32,
        data: [u8; 64],
    ) -> Option<(SimDuration, [u8; 256])> {
        let header = self.header(ManagementClass::SUBNET_DIRECTED_ROUTE, method, attribute, modifier);
        let mut mad = Box::new([0; 256]);
        header.emit(&mut mad[..]);
        let mut route = [0; 64];
        route[1..=path.len()].copy_from_slice(path);
        let mut smp = DirectedSmp::view_mut(&mut mad[..]);
        smp.hop_count(path.len() as u8).dr_slid(Lid::PERMISSIVE).dr_dlid(Lid::PERMISSIVE).initial_path(route).data(data);
        let (time, packet) = self.exchange(subnet_packet(Lid::PERMISSIVE, mad))?;
        let answer = Header::view(&packet.mad[..]);
        assert_eq!((answer.method(), answer.transaction_id()), (Method::GET_RESP, self.transaction));
        Some((time, *packet.mad))
    }

    pub(crate) fn get<T: Layout>(&mut self, path: &[u8], attribute: AttributeId, modifier: u32) -> T {
        let (_, mad) = self.ask(path, Method::GET, attribute, modifier, [0; 64]).expect("an answer");
        assert_eq!(DirectedSmp::view(&mad).status(), 0);
        T::parse(&mad[SMP_DATA_OFFSET..]).unwrap()
    }

    pub(crate) fn performance(&mut self, to: Lid, method: Method, attribute: AttributeId, data: &[u8]) -> Option<[u8; 256]> {
        let header = self.header(ManagementClass::PERFORMANCE, method, attribute, 0);
        let mut mad = Box::new([0; 256]);
        header.emit(&mut mad[..]);
        mad[64..64 + data.len()].copy_from_slice(data);
        let packet = ManagementPacket {
            slid: Lid(1),
            dlid: to,
            service_level: ServiceLevel(0),
            source: Qpn(1),
            destination: Qpn(1),
            qkey: GSI_QKEY,
            pkey: PKey::DEFAULT_FULL,
            mad,
        };
        self.exchange(packet).map(|(_, packet)| *packet.mad)
    }

    pub(crate) fn lid(&self, host: usize) -> Lid {
        self.world.port(self.world.hca_id(host, 0), PORT_1).unwrap().lid
    }
}

pub(crate) fn subnet_packet(to: Lid, mad: Box<[u8; 256]>) -> ManagementPacket {
    ManagementPacket {
        slid: if to == Lid::PERMISSIVE { to } else { Lid(1) },
        dlid: to,
        service_level: ServiceLevel(0),
        source: Qpn(0),
        destination: Qpn(0),
        qkey: QKey(0),
        pkey: PKey::DEFAULT_FULL,
        mad,
    }
}
