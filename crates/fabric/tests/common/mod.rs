//! Hand-made parts, a memory, and programs that step a World.
#![allow(dead_code, unreachable_pub)] // several test crates include this file, each a part of it

use softband_fabric::World;
use softband_fabric::notice::Notice;
use softband_model::management::Routing;
use softband_model::parts::{
    BusPart, CablePart, CardInterface, FileCosts, HcaPart, HostPart, KernelPart, KernelPath, Medium, MemoryPart, MessageGaps, OptionalVerbs,
    PciExpress, ReceiveMode, Slot, SwitchPart,
};
use softband_model::switch::PacketLifetimes;
use softband_model::transport::AckTimer;
use softband_model::verbs::api::*;
use softband_sim::{SimDuration, SimTime};
use softband_spec::{CableSpec, EthernetSpec, FabricSpec, HcaSpec, HostSpec, InterfaceSpec, PortRef, SubnetSpec, SwitchSpec};
use softband_types::*;

pub const MEMORY_BYTES: usize = 4 << 20;
pub const BASE: u64 = 0x10_0000;

pub fn nanos(nanos: u64) -> SimDuration {
    SimDuration::from_nanos(nanos)
}

pub fn vls(code: u8) -> OperationalVls {
    OperationalVls::from_code(code).unwrap()
}

pub fn hca_part() -> HcaPart {
    HcaPart {
        name: "test HCA".into(),
        driver: "test".into(),
        vendor_id: 1,
        vendor_part_id: 2,
        hardware_version: 3,
        firmware_version: "4".into(),
        board_id: "5".into(),
        ports: 2,
        mtu_max: Mtu::B2048,
        widths: vec![LinkWidth::X4],
        speeds: vec![LinkSpeed::Sdr, LinkSpeed::Ddr],
        vl_cap: vls(4),
        port_buffer_bytes: 33_792,
        receive_mode: ReceiveMode::CutThrough,
        interface: CardInterface::PciExpress { generation: 1, lanes: 8 },
        max_payload_bytes: None,
        outstanding_reads: 4,
        tuned_read_request_bytes: Some(4_096),
        processing_engines: 1,
        gaps: MessageGaps { send: nanos(300), write: nanos(300), read: nanos(400), atomic: nanos(600), datagram: nanos(2_200) },
        doorbell: nanos(500),
        send_wqe_fetch: nanos(1_250),
        receive_wqe_fetch: nanos(650),
        transmit_processing: nanos(350),
        receive_processing: nanos(100),
        completion_write: nanos(300),
        read_response_processing: nanos(500),
        atomic_execution: nanos(1_100),
        ack_processing: nanos(200),
        credit_return: nanos(50),
        management_processing: SimDuration::ZERO,
        ack_timer: AckTimer::SHORTEST,
        congestion_control: true,
        ethernet: None,
        transmit_staging_packets: 4,
        transmit_staging_bytes: None,
        max_qp: 1_024,
        max_qp_wr: 16_384,
        max_sge: 8,
        max_cq: 1_024,
        max_cqe: 65_536,
        max_mr: 1_024,
        max_pd: 1_024,
        max_ah: 1_024,
        max_inline_bytes: 400,
        max_rd_atomic: 4,
        ipoib_offloads: Default::default(),
        optional: OptionalVerbs {
            max_srq: 64,
            max_srq_wr: 1_024,
            max_srq_sge: 8,
            max_xrcd: 16,
            max_mw: 64,
            max_multicast_groups: 16,
            max_multicast_members: 8,
            gid_table_len: 4,
            on_demand_paging: true,
            ..HcaPart::ideal().optional
        },
        ..HcaPart::ideal()
    }
}

pub fn host_part(read_nanos: u64, write_nanos: u64) -> HostPart {
    HostPart {
        name: "test host".into(),
        cpu: "test".into(),
        bus: BusPart {
            name: "PCIe gen1 x8".into(),
            slot: Slot::PciExpress(PciExpress {
                generation: 1,
                lanes: 8,
                max_payload_bytes: 128,
                write_header_bytes: 16,
                completion_bytes: 64,
                completion_header_bytes: 12,
                link_layer_ppm: 20_000,
            }),
            bridge: None,
        },
        read_request_bytes: 512,
        memory: MemoryPart {
            read_latency: nanos(read_nanos),
            write_latency: nanos(write_nanos),
            read_bytes_per_second: None,
            write_bytes_per_second: None,
            bytes_per_second: Some(2_727_000_000),
        },
        post_send: nanos(300),
        post_receive: nanos(200),
        poll_cq: nanos(100),
        clock_read: nanos(20),
        cache_line_transfer: nanos(100),
        copy_bytes_per_second: 2_000_000_000,
        control_verb: nanos(1_000),
        register_page: nanos(100),
        event_wakeup: nanos(5_000),
        ethernet_latency: nanos(30_000),
        ethernet_bytes_per_second: 117_000_000,
        kernel_path: KernelPath::free(),
        files: FileCosts::default(),
        ..HostPart::ideal()
    }
}

pub fn switch_part() -> SwitchPart {
    SwitchPart {
        name: "test switch".into(),
        vendor_id: 2,
        device_id: 3,
        ports: 24,
        mtu_max: Mtu::B2048,
        widths: vec![LinkWidth::X4],
        speeds: vec![LinkSpeed::Sdr, LinkSpeed::Ddr],
        vl_cap: vls(4),
        // One packet of 33 blocks on each of eight lanes.
        port_buffer_bytes: 33 * 64 * 8,
        forward_latency: vec![(LinkSpeed::Sdr, nanos(200)), (LinkSpeed::Ddr, nanos(140)), (LinkSpeed::Qdr, nanos(100))],
        buffer_hold: nanos(0),
        credit_return: nanos(20),
        management_processing: SimDuration::ZERO,
        congestion_control: true,
        ethernet: None,
    }
}

pub fn cable(metres: u64) -> CablePart {
    CablePart {
        name: "test cable".into(),
        medium: Medium::Optical,
        length_millimetres: metres * 1_000,
        picos_per_metre: 5_000,
        converter_delay: nanos(0),
        speed_max: LinkSpeed::Qdr,
        width_max: LinkWidth::X12,
        fec_latency: Vec::new(),
        ethernet: None,
    }
}

pub fn rate(speed: LinkSpeed) -> LinkRate {
    LinkRate { width: LinkWidth::X4, speed }
}

fn host(name: &str, index: u64, part: HostPart, hca: HcaPart) -> HostSpec {
    let node_guid = Guid(0x0002_C902_0000_0000 + index * 0x10);
    let bus = part.bus.clone();
    HostSpec {
        name: name.into(),
        part,
        hcas: vec![HcaSpec {
            device: "test0".into(),
            part: hca,
            bus,
            shared_bus: None,
            tune_pci: false,
            node_guid,
            link_layer: LinkLayer::Infiniband,
            pkeys: vec![PKey::DEFAULT_FULL],
            nic: None,
        }],
        kernel: KernelPart::linux_6_1(),
        interfaces: vec![InterfaceSpec::management(index as usize)],
        routes: Vec::new(),
    }
}

fn port1(host: usize) -> PortRef {
    PortRef::Hca { host, hca: 0, port: PortNumber(1) }
}

pub fn subnet(code: u8) -> SubnetSpec {
    SubnetSpec {
        manager: softband_spec::SubnetManager::Builtin,
        max_op_vls: vls(code),
        lmc: Lmc::ZERO,
        mtu_max: Mtu::B4096,
        routing: Routing::default(),
        lifetimes: PacketLifetimes::default(),
        congestion_control: None,
        qos: None,
    }
}

/// Two hosts on one cable.
pub fn back_to_back(speed: LinkSpeed, metres: u64, code: u8, part: HostPart) -> FabricSpec {
    let cables = vec![CableSpec { part: cable(metres), ends: [port1(0), port1(1)], rate: rate(speed) }];
    let hosts = vec![host("a", 0, part.clone(), hca_part()), host("b", 1, part, hca_part())];
    FabricSpec { title: "test".into(), hosts, switches: vec![], cables, subnet: subnet(code), ethernet: EthernetSpec::default(), faults: vec![] }
}

/// Hosts on a switch, each with a cable of its own length.
pub fn through_switch(speed: LinkSpeed, metres: &[u64], code: u8, part: HostPart) -> FabricSpec {
    let switch = |port| PortRef::Switch { switch: 0, port: PortNumber(port) };
    let wire = |(index, metres): (usize, &u64)| CableSpec { part: cable(*metres), ends: [port1(index), switch(index as u8 + 1)], rate: rate(speed) };
    let name = |index: usize| char::from(b'a' + index as u8).to_string();
    FabricSpec {
        title: "test".into(),
        hosts: (0..metres.len()).map(|index| host(&name(index), index as u64, part.clone(), hca_part())).collect(),
        switches: vec![SwitchSpec { name: "switch".into(), part: switch_part(), node_guid: Guid(0x5) }],
        cables: metres.iter().enumerate().map(wire).collect(),
        subnet: subnet(code),
        ethernet: EthernetSpec::default(),
        faults: vec![],
    }
}

/// Memory of processes 0, 1, ...: one block each from `BASE` on.
pub struct Memory {
    pub blocks: Vec<Vec<u8>>,
    pub discard: bool,
}

impl Memory {
    fn range(&self, process: ProcessId, address: u64, len: usize) -> Result<std::ops::Range<usize>, MemoryFault> {
        let start = address.checked_sub(BASE).ok_or(MemoryFault)? as usize;
        let block = self.blocks.get(process.0 as usize).ok_or(MemoryFault)?;
        if start + len <= block.len() { Ok(start..start + len) } else { Err(MemoryFault) }
    }
}

impl HostMemory for Memory {
    fn read(&mut self, process: ProcessId, address: u64, into: &mut [u8]) -> Result<(), MemoryFault> {
        let range = self.range(process, address, into.len())?;
        into.copy_from_slice(&self.blocks[process.0 as usize][range]);
        Ok(())
    }
    fn write(&mut self, process: ProcessId, address: u64, payload: &PayloadSlice) -> Result<(), MemoryFault> {
        let range = self.range(process, address, payload.len as usize)?;
        if !self.discard {
            self.blocks[process.0 as usize][range].copy_from_slice(payload.bytes());
        }
        Ok(())
    }
}

/// A program on a host: process number = host number, all its memory registered.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub process: ProcessId,
    pub hca: HcaId,
    pub pd: PdHandle,
    pub cq: CqHandle,
    pub lkey: LKey,
    pub rkey: RKey,
    pub lid: Lid,
}

pub struct Lab {
    pub world: World,
    pub memory: Memory,
    pub programs: Vec<Program>,
    pub notices: Vec<(SimTime, Notice)>,
    pub events: u64,
    fresh: Vec<Notice>,
}

pub const ALL_RIGHTS: Access = Access { local_write: true, remote_write: true, remote_read: true, remote_atomic: true, mw_bind: true };

impl Lab {
    /// Starts one program on each host.
    pub fn new(spec: &FabricSpec) -> Self {
        Self::over(World::new(spec, 1))
    }

    /// Starts one program on each host of a World.
    pub fn over(mut world: World) -> Self {
        let programs: Vec<_> = (0..world.spec().hosts.len()).map(|host| program(&mut world, host)).collect();
        let blocks = programs.iter().map(|_| vec![0; MEMORY_BYTES]).collect();
        let memory = Memory { blocks, discard: false };
        Self { world, memory, programs, notices: Vec::new(), events: 0, fresh: Vec::new() }
    }

    pub fn create(&mut self, who: usize, qp_type: QpType) -> Qpn {
        self.create_with(who, qp_type, |_| ())
    }

    /// Creates a queue pair; `change` edits its parameters.
    pub fn create_with(&mut self, who: usize, qp_type: QpType, change: impl FnOnce(&mut QpInit)) -> Qpn {
        let program = self.programs[who];
        let capabilities = QpCapabilities { max_send_wr: 4_096, max_recv_wr: 4_096, max_send_sge: 4, max_recv_sge: 4, max_inline_bytes: 400 };
        let mut init = QpInit {
            qp_type,
            pd: program.pd,
            send_cq: program.cq,
            recv_cq: program.cq,
            srq: None,
            xrcd: None,
            capabilities,
            signal_all: false,
            block_own_multicast: false,
        };
        change(&mut init);
        self.world.create_qp(program.process, program.hca, init).unwrap().qpn
    }

    pub fn modify(&mut self, who: usize, qpn: Qpn, modification: QpModification) -> Result<QpSnapshot, VerbsError> {
        let program = self.programs[who];
        let now = self.world.now();
        self.world.modify_qp(now, program.process, program.hca, qpn, &modification)
    }

    pub fn state(&self, who: usize, qpn: Qpn) -> QpState {
        let program = self.programs[who];
        self.world.query_qp(program.process, program.hca, qpn).unwrap().state
    }

    /// Brings a queue pair to RTS towards `peer`; `change` edits the RTR and RTS modifications.
    pub fn bring_up(&mut self, who: usize, qpn: Qpn, qp_type: QpType, peer: (usize, Qpn), change: impl Fn(&mut QpModification)) {
        self.bring_up_by(who, qpn, qp_type, peer, |_| (), change);
    }

    /// Brings a queue pair to RTS like [`Self::bring_up`]; `at_first` edits the INIT modification.
    pub fn bring_up_by(
        &mut self,
        who: usize,
        qpn: Qpn,
        qp_type: QpType,
        peer: (usize, Qpn),
        at_first: impl Fn(&mut QpModification),
        change: impl Fn(&mut QpModification),
    ) {
        let ud = qp_type == QpType::Ud;
        let (requests, responds) = (qp_type != QpType::XrcRecv, qp_type != QpType::XrcSend);
        let port = Some(PortNumber(1));
        let mut init = QpModification {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port,
            access: (!ud).then_some(ALL_RIGHTS),
            qkey: ud.then_some(QKey(0x1111)),
            ..Default::default()
        };
        at_first(&mut init);
        self.modify(who, qpn, init).unwrap();
        let vector = AddressVector { dlid: self.programs[peer.0].lid, port: PortNumber(1), ..Default::default() };
        let mut rtr = QpModification { state: Some(QpState::Rtr), ..Default::default() };
        if !ud {
            rtr.address_vector = Some(vector);
            rtr.path_mtu = Some(Mtu::B2048);
            rtr.dest_qpn = Some(peer.1);
            rtr.receive_psn = Some(Psn::new(0xFF_FFF0));
        }
        if qp_type.is_reliable() && responds {
            rtr.max_dest_rd_atomic = Some(4);
            rtr.min_rnr_timer = Some(1);
        }
        change(&mut rtr);
        self.modify(who, qpn, rtr).unwrap();
        let mut rts = QpModification { state: Some(QpState::Rts), send_psn: Some(Psn::new(0xFF_FFF0)), ..Default::default() };
        if qp_type.is_reliable() {
            rts.local_ack_timeout = Some(8);
        }
        if qp_type.is_reliable() && requests {
            rts.retry_count = Some(3);
            rts.rnr_retry = Some(7);
            rts.max_rd_atomic = Some(4);
        }
        change(&mut rts);
        self.modify(who, qpn, rts).unwrap();
    }

    /// Connects a pair of queue pairs of programs `a` and `b`.
    pub fn connect(&mut self, a: usize, b: usize, qp_type: QpType) -> (Qpn, Qpn) {
        self.connect_with(a, b, qp_type, |_| ())
    }

    pub fn connect_with(&mut self, a: usize, b: usize, qp_type: QpType, change: impl Fn(&mut QpModification)) -> (Qpn, Qpn) {
        let (first, second) = (self.create(a, qp_type), self.create(b, qp_type));
        self.bring_up(a, first, qp_type, (b, second), &change);
        self.bring_up(b, second, qp_type, (a, first), &change);
        (first, second)
    }

    pub fn send(&mut self, who: usize, qpn: Qpn, request: SendRequest) {
        let program = self.programs[who];
        let now = self.world.now();
        self.world.post_send(now, program.process, program.hca, qpn, request);
    }

    pub fn receive(&mut self, who: usize, qpn: Qpn, wr_id: u64, offset: u64, len_bytes: u32) {
        self.receive_with(who, qpn, wr_id, offset, len_bytes, self.programs[who].lkey);
    }

    pub fn receive_with(&mut self, who: usize, qpn: Qpn, wr_id: u64, offset: u64, len_bytes: u32, lkey: LKey) {
        let program = self.programs[who];
        let entries = vec![ScatterGatherEntry { address: BASE + offset, len_bytes, lkey }];
        let now = self.world.now();
        self.world.post_receive(now, program.process, program.hca, qpn, ReceiveRequest { wr_id, entries, srq: None });
    }

    pub fn request(&self, who: usize, wr_id: u64, operation: SendOperation, offset: u64, len_bytes: u32) -> SendRequest {
        let entries = vec![ScatterGatherEntry { address: BASE + offset, len_bytes, lkey: self.programs[who].lkey }];
        SendRequest { wr_id, operation, signaled: true, solicited: false, fence: false, inline: None, entries, datagram: None, xrc_srq: None }
    }

    pub fn write_to(&self, who: usize, offset: u64) -> SendOperation {
        SendOperation::RdmaWrite { remote_address: BASE + offset, rkey: self.programs[who].rkey, immediate: None }
    }

    pub fn read_from(&self, who: usize, offset: u64) -> SendOperation {
        SendOperation::RdmaRead { remote_address: BASE + offset, rkey: self.programs[who].rkey }
    }

    /// Executes one event; false if none is left.
    pub fn step(&mut self) -> bool {
        if self.world.next_event_time().is_none() {
            return false;
        }
        self.world.step(&mut self.memory, &mut self.fresh);
        self.events += 1;
        let now = self.world.now();
        self.notices.extend(self.fresh.drain(..).filter(|n| !matches!(n, Notice::MemoryWritten { .. })).map(|n| (now, n)));
        true
    }

    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Returns the completions of one program so far.
    pub fn completions(&self, who: usize) -> Vec<Completion> {
        self.timed_completions(who).into_iter().map(|(_, completion)| completion).collect()
    }

    pub fn timed_completions(&self, who: usize) -> Vec<(SimTime, Completion)> {
        let of = |(at, notice): &(SimTime, Notice)| match notice {
            Notice::Completed { process, completion, .. } if *process == self.programs[who].process => Some((*at, completion.clone())),
            _ => None,
        };
        self.notices.iter().filter_map(of).collect()
    }

    /// Returns the numbers of one program's asynchronous events so far.
    pub fn async_events(&self, who: usize) -> Vec<u32> {
        let whose = self.programs[who].process;
        let of = |(_, notice): &(SimTime, Notice)| match notice {
            Notice::QpEvent { process, event, .. } | Notice::SrqEvent { process, event, .. } if *process == whose => Some(*event),
            _ => None,
        };
        self.notices.iter().filter_map(of).collect()
    }

    pub fn statuses(&self, who: usize) -> Vec<(u64, WcStatus)> {
        self.completions(who).iter().map(|completion| (completion.wr_id, completion.status)).collect()
    }

    /// Returns the statuses of one queue pair's completions so far.
    pub fn statuses_of(&self, who: usize, qpn: Qpn) -> Vec<(u64, WcStatus)> {
        let of = |completion: Completion| (completion.qpn == qpn).then_some((completion.wr_id, completion.status));
        self.completions(who).into_iter().filter_map(of).collect()
    }

    pub fn fill(&mut self, who: usize, offset: usize, len: usize, seed: u8) {
        for (index, byte) in self.memory.blocks[who][offset..offset + len].iter_mut().enumerate() {
            *byte = (index as u8).wrapping_mul(31).wrapping_add((index >> 8) as u8).wrapping_add(seed);
        }
    }
}

pub fn program(world: &mut World, host: usize) -> Program {
    let hca = world.hca_id(host, 0);
    let process = ProcessId(host as u32);
    let pd = world.alloc_pd(process, hca).unwrap();
    let cq = world.create_cq(process, hca, 60_000).unwrap();
    let init = MrInit { owner: process, pd, address: BASE, len_bytes: MEMORY_BYTES as u64, iova: BASE, access: ALL_RIGHTS };
    let (_, lkey, rkey) = world.register_mr(hca, init).unwrap();
    let lid = world.port(hca, PortNumber(1)).unwrap().lid;
    Program { process, hca, pd, cq, lkey, rkey, lid }
}
