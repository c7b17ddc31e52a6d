//! Compares the catalogue's parts with the published comparison of PCI-X and PCI Express, and with
//! the Cray XT3's PCI-X.
//!
//! `cargo test -p softband-catalog --test published_buses -- --nocapture` prints all rows with
//! their deviations.

use crate::common;
#[path = "../../fabric/tests/common/mod.rs"]
mod lab;

use lab::{Lab, nanos};
use softband_catalog::{LoadOptions, load_fabric};
use softband_model::bus::{Bus, MemoryController, ReadPurpose, SharedBus};
use softband_model::parts::{BusPart, MemoryPart, Slot};
use softband_model::verbs::api::{AddressVector, Completion, QpModification, SendOperation};
use softband_sim::SimTime;
use softband_spec::FabricSpec;
use softband_types::*;

/// MTU of the period's VAPI tests. X003's 968 MB/s refer to this MTU.
const MTU: Mtu = Mtu::B1024;
const QUEUE: u64 = 64;
const ROUNDS: u64 = 3;
const MESSAGE_BYTES: u32 = 64 << 10;

fn fabric(name: &str) -> FabricSpec {
    let path = common::root().join("fabrics").join(name);
    load_fabric(&path, &common::catalog(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{}", error.to_text())).spec
}

/// A row: the published figure, whether parts were fitted to it, and the figure of the model.
struct Row {
    id: &'static str,
    what: &'static str,
    calibrated: bool,
    published: f64,
    model: f64,
}

impl Row {
    fn deviation(&self) -> f64 {
        (self.model / self.published - 1.0) * 100.0
    }
}

/// A process: its host, and the queue pairs that share each of its messages.
struct Process {
    host: usize,
    qps: Vec<Qpn>,
    outstanding: u64,
    rounds_left: u64,
}

/// Connects a queue pair of each host by the given port of both.
fn connect(lab: &mut Lab, port: u8) -> [Qpn; 2] {
    let number = PortNumber(port);
    let lids = [0, 1].map(|who| lab.world.port(lab.programs[who].hca, number).unwrap().lid);
    let qps = [lab.create(0, QpType::Rc), lab.create(1, QpType::Rc)];
    for who in [0, 1] {
        let vector = AddressVector { dlid: lids[1 - who], port: number, ..Default::default() };
        let at_port = |m: &mut QpModification| m.port = Some(number);
        lab.bring_up_by(who, qps[who], QpType::Rc, (1 - who, qps[1 - who]), at_port, |m| {
            if m.state == Some(QpState::Rtr) {
                m.address_vector = Some(vector);
                m.path_mtu = Some(MTU);
            }
        });
    }
    qps
}

#[derive(Clone, Copy, PartialEq)]
enum Policy {
    OnePort,
    Striping,
    Binding,
}

/// Returns the bandwidth of RDMA writes in MB/s, from the first post to the last completion. Each
/// process posts `QUEUE` at a time.
fn bandwidth(spec: &FabricSpec, policy: Policy, processes: usize, both: bool) -> f64 {
    let mut lab = Lab::new(spec);
    lab.memory.discard = true;
    let mut all = Vec::new();
    for process in 0..processes {
        for host in if both { 0..2 } else { 0..1 } {
            // A single process binds each direction to a port. Two processes bind to one port each.
            let bound = if processes == 1 { host as u8 + 1 } else { process as u8 + 1 };
            let ports = match policy {
                Policy::OnePort => vec![1],
                Policy::Striping => vec![1, 2],
                Policy::Binding => vec![bound],
            };
            let qps = ports.into_iter().map(|port| connect(&mut lab, port)[host]).collect();
            all.push(Process { host, qps, outstanding: 0, rounds_left: ROUNDS });
        }
    }
    let start = lab.world.now();
    for index in 0..all.len() {
        post_round(&mut lab, &mut all, index);
    }
    let mut seen = lab.notices.len();
    while lab.step() {
        while let Some((_, notice)) = lab.notices.get(seen) {
            seen += 1;
            if let softband_fabric::notice::Notice::Completed { completion: Completion { wr_id, status, .. }, .. } = notice {
                assert_eq!(*status, WcStatus::Success);
                let index = *wr_id as usize;
                all[index].outstanding -= 1;
                if all[index].outstanding == 0 {
                    post_round(&mut lab, &mut all, index);
                }
            }
        }
    }
    let span = lab.notices.last().unwrap().0 - start;
    let bytes = all.len() as u64 * ROUNDS * QUEUE * u64::from(MESSAGE_BYTES);
    bytes as f64 / span.as_secs_f64() / 1e6
}

fn post_round(lab: &mut Lab, all: &mut [Process], index: usize) {
    let process = &mut all[index];
    if process.rounds_left == 0 {
        return;
    }
    process.rounds_left -= 1;
    let parts = process.qps.len() as u32;
    for _ in 0..QUEUE {
        for part in 0..parts {
            let operation = lab.write_to(1 - process.host, 0);
            let request = lab.request(process.host, index as u64, operation, 0, MESSAGE_BYTES / parts);
            lab.send(process.host, process.qps[part as usize], request);
            process.outstanding += 1;
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Send,
    Write,
    Read,
    CompareSwap,
    FetchAdd,
}

/// Returns the latency of half a ping-pong, or of a whole read or atomic, in microseconds,
/// including the program's own calls.
fn latency(spec: &FabricSpec, from: usize, operation: Operation) -> f64 {
    let to = 1 - from;
    let mut lab = Lab::new(spec);
    let qps = connect(&mut lab, 1);
    lab.receive(to, qps[to], 0, 0, 4_096);
    lab.run();
    let start = lab.world.now();
    let remote_address = lab::BASE;
    let rkey = lab.programs[to].rkey;
    let what = match operation {
        Operation::Send => SendOperation::Send { immediate: None },
        Operation::Write => lab.write_to(to, 0),
        Operation::Read => lab.read_from(to, 0),
        Operation::CompareSwap => SendOperation::CompareSwap { remote_address, rkey, compare: 0, swap: 1 },
        Operation::FetchAdd => SendOperation::FetchAdd { remote_address, rkey, add: 1 },
    };
    let request = lab.request(from, 1, what, 0, 8);
    lab.fill(from, 0, 64, 3);
    lab.send(from, qps[from], request);
    let written = |lab: &Lab| lab.memory.blocks[to][1] != 0;
    let over = |lab: &Lab| match operation {
        Operation::Write => written(lab),
        Operation::Send => !lab.completions(to).is_empty(),
        _ => !lab.completions(from).is_empty(),
    };
    while !over(&lab) {
        assert!(lab.step());
    }
    let host = |who: usize| &spec.hosts[who].part;
    let calls = host(from).post_send
        + match operation {
            Operation::Write => nanos(50),
            // The program posts the next receive while the answer is in flight.
            Operation::Send => host(to).poll_cq,
            _ => host(from).poll_cq,
        };
    (lab.world.now() - start + calls).as_nanos() as f64 / 1e3
}

fn rows() -> Vec<Row> {
    let (pcie, pci_x) = (fabric("pcie/pcie.toml"), fabric("pcie/pci-x.toml"));
    let mut rows = Vec::new();
    let mut add = |id, what, calibrated, published, model| rows.push(Row { id, what, calibrated, published, model });
    for (spec, bus, ids) in [
        (&pci_x, "PCI-X", [("E005", 7.1, true), ("E008", 5.0, false), ("E011", 12.4, true), ("E014", 12.4, true), ("E017", 12.3, false)]),
        (&pcie, "PCIe", [("E006", 4.8, true), ("E009", 3.8, true), ("E012", 8.1, true), ("E015", 9.2, true), ("E018", 9.2, false)]),
    ] {
        let operations = [Operation::Send, Operation::Write, Operation::Read, Operation::CompareSwap, Operation::FetchAdd];
        for ((id, published, calibrated), operation) in ids.into_iter().zip(operations) {
            add(id, if bus == "PCIe" { "PCIe latency, us" } else { "PCI-X latency, us" }, calibrated, published, latency(spec, 0, operation));
        }
    }
    use Policy::*;
    for (id, other, published, calibrated, spec, policy, processes, both) in [
        ("E020", "", 778.0, true, &pci_x, OnePort, 1, false),
        ("E021", "X003", 972.0, true, &pcie, OnePort, 1, false),
        ("E023", "", 945.0, true, &pci_x, OnePort, 1, true),
        ("E024", "X004", 1_932.0, false, &pcie, OnePort, 1, true),
        ("E026", "", 768.0, true, &pci_x, Striping, 1, false),
        ("E027", "X007", 1_486.0, true, &pcie, Striping, 1, false),
        ("E029", "", 946.0, true, &pci_x, Striping, 1, true),
        ("E030", "", 2_483.0, false, &pcie, Striping, 1, true),
        ("E032", "", 945.0, true, &pci_x, Binding, 1, true),
        ("E033", "", 1_932.0, false, &pcie, Binding, 1, true),
        ("E034", "", 761.0, true, &pci_x, Striping, 2, false),
        ("E035", "", 1_486.0, true, &pcie, Striping, 2, false),
        ("E037", "", 766.0, true, &pci_x, Binding, 2, false),
        ("E038", "", 1_500.0, true, &pcie, Binding, 2, false),
        ("E039", "", 945.0, true, &pci_x, Striping, 2, true),
        ("E040", "", 2_457.0, false, &pcie, Striping, 2, true),
        ("E042", "", 946.0, true, &pci_x, Binding, 2, true),
        ("E043", "X008", 2_727.0, true, &pcie, Binding, 2, true),
    ] {
        let model = bandwidth(spec, policy, processes, both);
        add(id, "MB/s", calibrated, published, model);
        match other {
            "X003" => add("X003", "MB/s", false, 968.0, model),
            "X004" => add("X004", "MB/s", false, 1_916.0, model),
            "X007" => add("X007", "MB/s", true, 1_486.0, model),
            "X008" => add("X008", "MB/s", true, 2_729.0, model),
            _ => {}
        }
    }
    let (rizzo, spider) = (fabric("xt3/rizzo.toml"), fabric("xt3/spider.toml"));
    // perftest's MB are MiB, and so the paper's Gb are a thousandth of eight times them.
    let mebi = |megabytes: f64| megabytes * 1e6 / f64::from(1 << 20);
    let uni = [&rizzo, &spider].map(|spec| mebi(bandwidth(spec, OnePort, 1, false)));
    let bi = [&rizzo, &spider].map(|spec| mebi(bandwidth(spec, OnePort, 1, true)));
    add("C007", "XT3 one way, MiB/s", false, 900.0, uni[0]);
    add("C008", "XT3 both ways, difference, MiB/s", true, 300.0, bi[1] - bi[0]);
    add("C013", "XT3 PCIe, 'Gb/s'", false, 7.5, uni[1] * 8.0 / 1e3);
    add("C014", "XT3 PCI-X, 'Gb/s'", false, 7.0, uni[0] * 8.0 / 1e3);
    rows
}

fn value(rows: &[Row], id: &str) -> f64 {
    rows.iter().find(|row| row.id == id).map(|row| row.model).unwrap()
}

#[test]
fn the_published_figures_of_both_buses_come_out() {
    let rows = rows();
    for row in &rows {
        let basis = if row.calibrated { "calibrated" } else { "predicted" };
        println!("{} {:34} {:9.2} {:9.2} {:+6.1} % {basis}", row.id, row.what, row.published, row.model, row.deviation());
    }
    // Bidirectional striping stays a tenth below two bound processes with the same traffic. The
    // reason is unknown.
    let unexplained = ["E030", "E040"];
    let predicted: Vec<&Row> = rows.iter().filter(|row| !row.calibrated).collect();
    let mut deviations: Vec<f64> = predicted.iter().map(|row| row.deviation().abs()).collect();
    deviations.sort_by(f64::total_cmp);
    let (median, worst) = (deviations[deviations.len() / 2], deviations[deviations.len() - 1]);
    println!("{} predicted: median {median:.1} %, worst {worst:.1} %", deviations.len());
    assert!(median < 2.0 && worst < 12.0, "median {median:.1} %, worst {worst:.1} %");
    for row in rows.iter().filter(|row| !unexplained.contains(&row.id)) {
        let limit = if row.calibrated { 5.0 } else { 3.0 };
        assert!(row.deviation().abs() < limit, "{} is off by {:.1} %", row.id, row.deviation());
    }
    let over = |high, low| assert!(value(&rows, high) > value(&rows, low), "{high} > {low}");
    for (pcie, pci_x) in [("E021", "E020"), ("E024", "E023"), ("E027", "E026"), ("E030", "E029"), ("E033", "E032"), ("E043", "E042")] {
        over(pcie, pci_x);
    }
    for (pci_x, pcie) in [("E005", "E006"), ("E008", "E009"), ("E011", "E012"), ("E014", "E015")] {
        over(pci_x, pcie);
    }
    over("E043", "E030");
    over("E030", "E033");
    let (rizzo, spider) = (fabric("xt3/rizzo.toml"), fabric("xt3/spider.toml"));
    assert!(latency(&rizzo, 0, Operation::Write) > latency(&spider, 0, Operation::Write), "C012");
}

/// Returns the rate of consecutive DMA transfers of 64 KiB in MB/s, with eight requests of 512 B in
/// flight. The bus alone limits it.
fn dma_rate(part: &BusPart, reads: bool) -> f64 {
    const TRANSFER_BYTES: u32 = 64 << 10;
    const TRANSFERS: u32 = 64;
    let (read_latency, write_latency) = (nanos(500), nanos(250));
    let memory = MemoryPart { read_latency, write_latency, read_bytes_per_second: None, write_bytes_per_second: None, bytes_per_second: None };
    let (mut bus, mut shared, mut memory) = (Bus::new(part, 512, 8, None), SharedBus::new(part), MemoryController::new(&memory));
    let mut now = SimTime::ZERO;
    for _ in 0..TRANSFERS {
        let read = reads.then(|| bus.read(&mut shared, &mut memory, now, TRANSFER_BYTES, ReadPurpose::Request));
        now = read.unwrap_or_else(|| bus.write(&mut shared, &mut memory, now, now, now, TRANSFER_BYTES));
    }
    f64::from(TRANSFERS * TRANSFER_BYTES) / (now - SimTime::ZERO).as_secs_f64() / 1e6
}

/// X098 to X100: an FPGA's own DMA engine on PCI Express 1.x, payloads of 128 B. The parts'
/// figures, framing included, are X101's.
#[test]
fn the_dma_engine_of_an_fpga_comes_out_within_a_tenth() {
    let catalog = common::catalog();
    let bus = |name: &str| catalog.bus(name).unwrap().clone();
    let Slot::PciExpress(slot) = bus("pcie-gen1-x1").slot else { panic!("a PCI Express slot") };
    let sizes = [slot.write_header_bytes, slot.completion_header_bytes].map(|header| header + slot.framing_bytes());
    assert_eq!((sizes, slot.completion_bytes), ([24, 20], 64), "X101");
    // The host is not published. A host that joins completions up to 128 B would carry 212. X099
    // exceeds the limit of 128 B packets even with 32-bit addresses: 128 of every 148 B, 216.
    let rows = [
        Row { id: "X098", what: "gen 1 x1, reads, MB/s", calibrated: false, published: 204.0, model: dma_rate(&bus("pcie-gen1-x1"), true) },
        Row { id: "X099", what: "gen 1 x1, writes, MB/s", calibrated: false, published: 226.0, model: dma_rate(&bus("pcie-gen1-x1"), false) },
    ];
    for row in rows {
        println!("{} {:34} {:9.2} {:9.2} {:+6.1} % predicted", row.id, row.what, row.published, row.model, row.deviation());
        assert!(row.deviation().abs() < 10.0, "{} is off by {:.1} %", row.id, row.deviation());
    }
    // Its unpublished latency limits it with four reads in flight. The bus must at least carry more.
    let four_lanes = dma_rate(&bus("pcie-gen1-x4"), true);
    println!("X100 gen 1 x4, reads, MB/s: 483 published, limited by four reads under way; the bus carries {four_lanes:.0}");
    assert!(four_lanes > 483.0, "X100");
}
