//! Packet-hops per second of the World alone, and the floor: a bare event loop with equally many
//! events, executed and pending.
//!
//! Workload: two hosts and one switch, 2 KiB packets, 64 KiB RC sends; then the same messages back
//! to back, without the switch.
#![allow(clippy::disallowed_methods)] // a benchmark reads the clock; the model never does

#[path = "../tests/common/mod.rs"]
mod common;

use common::*;
use softband_fabric::notice::Notice;
use softband_model::verbs::api::SendOperation;
use softband_sim::{EventQueue, SimDuration, SimTime};
use softband_spec::FabricSpec;
use softband_types::{LinkSpeed, QpType, WcOpcode, WcStatus};
use std::time::Instant;

const MESSAGES: u64 = 20_000;
const MESSAGE_BYTES: u32 = 65_536;

struct Measured {
    packets: u64,
    events: u64,
    seconds: f64,
    virtual_seconds: f64,
}

/// Runs RC sends with 128 in flight, like bandwidth programs.
fn world(spec: &FabricSpec) -> Measured {
    let mut lab = Lab::new(spec);
    lab.memory.discard = true;
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    let begun = Instant::now();
    let (mut posted, mut done, mut seen) = (0, 0, 0);
    while done < MESSAGES {
        while posted < MESSAGES && posted - done < 128 {
            lab.receive(1, b, posted, 0, MESSAGE_BYTES);
            let request = lab.request(0, posted, SendOperation::Send { immediate: None }, 0, MESSAGE_BYTES);
            lab.send(0, a, request);
            posted += 1;
        }
        assert!(lab.step(), "all messages complete");
        done += lab.notices[seen..].iter().filter(|(_, notice)| is_send(notice)).count() as u64;
        seen = lab.notices.len();
    }
    let seconds = begun.elapsed().as_secs_f64();
    assert!(lab.completions(0).iter().all(|completion| completion.status == WcStatus::Success));
    let packets = lab.world.counters().iter().map(|port| port.port_xmit_pkts).sum();
    Measured { packets, events: lab.events, seconds, virtual_seconds: lab.world.now().as_secs_f64() }
}

fn is_send(notice: &Notice) -> bool {
    matches!(notice, Notice::Completed { completion, .. } if completion.opcode == WcOpcode::Send)
}

/// Pushes and pops `events` events, with `pending` of them in the queue.
fn bare_loop(events: u64, pending: u32) -> f64 {
    let mut queue = EventQueue::default();
    for number in 0..pending {
        queue.push(SimTime::from_picos(u64::from(number)), number % 3, number);
    }
    let begun = Instant::now();
    for _ in 0..events {
        let (time, event) = queue.pop().expect("as many as at first");
        let span = SimDuration::from_picos(1_000_000 + u64::from(event) * 7_919 % 500_000);
        queue.push(time + span, event % 3, event);
    }
    begun.elapsed().as_secs_f64()
}

fn main() {
    let host = || host_part(600, 300);
    for (name, spec) in
        [("through one switch", through_switch(LinkSpeed::Ddr, &[8, 8], 5, host())), ("back to back", back_to_back(LinkSpeed::Ddr, 8, 5, host()))]
    {
        let Measured { packets, events, seconds, virtual_seconds } = world(&spec);
        let floor = bare_loop(events, 24);
        let hops = packets as f64 / seconds;
        println!("{name}: {packets} packet-hops, {events} events in {seconds:.3} s ({virtual_seconds:.3} virtual s)");
        println!("  world      {:>7.2} million packet-hops/s, {:.0} ns an event", hops / 1e6, seconds / events as f64 * 1e9);
        println!("  bare loop  {:>7.2} million packet-hops/s, {:.0} ns an event", packets as f64 / floor / 1e6, floor / events as f64 * 1e9);
        println!("  events per packet-hop {:.2}, world/floor time {:.2}", events as f64 / packets as f64, seconds / floor);
    }
}
