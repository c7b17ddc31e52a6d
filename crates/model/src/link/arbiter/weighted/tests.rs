use super::*;
use crate::link::{CreditLedger, WeightedLane};

const NOW: SimTime = SimTime::from_picos(7);

fn tables(high: &[(u8, u8)], low: &[(u8, u8)], high_limit: u8) -> ArbitrationTables {
    let lines = |text: &[(u8, u8)]| text.iter().map(|(lane, weight)| WeightedLane { lane: VirtualLane(*lane), weight: *weight }).collect();
    ArbitrationTables { high: lines(high), low: lines(low), high_limit }
}

fn arbiter(inputs: usize, tables: &ArbitrationTables) -> Arbiter {
    let mut arbiter = Arbiter::new(8, inputs);
    arbiter.weigh(tables, OperationalVls::from_code(4).unwrap());
    arbiter
}

fn credits(per_lane: u32) -> FlowControl {
    FlowControl::Credits(CreditLedger::new(CreditBlocks(per_lane), CreditBlocks(33)))
}

fn spend(flow_control: &mut FlowControl, lane: u8, blocks: u32) {
    flow_control.consume(VirtualLane(lane), CreditBlocks(blocks));
}

fn give_back(flow_control: &mut FlowControl, lane: u8, blocks: u32) {
    let FlowControl::Credits(ledger) = flow_control else { unreachable!("it was made so") };
    ledger.give_back(VirtualLane(lane), CreditBlocks(blocks));
}

/// Returns the lane and the packet that go next.
fn next(arbiter: &mut Arbiter, flow_control: &mut FlowControl) -> Option<(u8, u32)> {
    match arbiter.choose(flow_control, NOW) {
        Choice::Send { packet, lane, .. } => Some((lane.0, packet)),
        Choice::Stalled { .. } | Choice::Idle => None,
    }
}

/// Returns the blocks that two lanes send by these tables, of 30,000 packets in all. `blocks` is
/// the size of each lane's packets.
fn shares(tables: &ArbitrationTables, blocks: [u32; 2]) -> [u32; 2] {
    let mut arbiter = arbiter(2, tables);
    let mut credits = credits(1 << 20);
    let mut sent = [0; 2];
    for lane in [0, 1, 0, 1] {
        arbiter.enqueue(VirtualLane(lane), usize::from(lane), 0, CreditBlocks(blocks[usize::from(lane)]));
    }
    for _ in 0..30_000 {
        let (lane, _) = next(&mut arbiter, &mut credits).unwrap();
        let size = blocks[usize::from(lane)];
        sent[usize::from(lane)] += size;
        give_back(&mut credits, lane, size);
        arbiter.enqueue(VirtualLane(lane), usize::from(lane), 0, CreditBlocks(size));
    }
    sent
}

#[test]
fn lanes_share_in_the_ratio_of_their_weights() {
    for (weights, blocks) in [([64, 192], [33, 33]), ([33, 231], [33, 33]), ([99, 165], [33, 5]), ([250, 50], [5, 5]), ([132, 132], [33, 2])] {
        let [one, two] = shares(&tables(&[], &[(0, weights[0]), (1, weights[1])], 0), blocks);
        let (got, wanted) = (f64::from(two) / f64::from(one), f64::from(weights[1]) / f64::from(weights[0]));
        assert!((got / wanted - 1.0).abs() < 0.02, "{weights:?} {blocks:?}: {got:.3} instead of {wanted:.3}");
    }
}

#[test]
fn a_weight_that_is_no_whole_number_of_packets_counts_as_the_next_one() {
    // Four packets of 33 blocks for a weight of 128, one for 4.
    assert_eq!(shares(&tables(&[], &[(0, 128), (1, 4)], 0), [33, 33]).map(|blocks| blocks / 33), [24_000, 6_000]);
    assert_eq!(shares(&tables(&[], &[(0, 4), (1, 8)], 0), [33, 33]).map(|blocks| blocks / 33), [15_000, 15_000]);
}

#[test]
fn without_tables_lanes_have_turns_and_not_weights() {
    let mut arbiter = Arbiter::new(8, 1);
    let mut credits = credits(1_000);
    for packet in 0..4 {
        arbiter.enqueue(VirtualLane(0), 0, packet, CreditBlocks(33));
        arbiter.enqueue(VirtualLane(1), 0, packet, CreditBlocks(1));
    }
    let order: Vec<_> = std::iter::from_fn(|| next(&mut arbiter, &mut credits)).map(|(lane, _)| lane).collect();
    assert_eq!(order, [0, 1, 0, 1, 0, 1, 0, 1]);
}

#[test]
fn the_high_table_goes_first_up_to_its_limit() {
    let mut arbiter = arbiter(1, &tables(&[(1, 4)], &[(0, 4)], 1));
    let mut credits = credits(1_000);
    for packet in 0..6 {
        arbiter.enqueue(VirtualLane(0), 0, packet, CreditBlocks(33));
        arbiter.enqueue(VirtualLane(1), 0, packet, CreditBlocks(33));
    }
    let order: Vec<_> = std::iter::from_fn(|| next(&mut arbiter, &mut credits)).map(|(lane, _)| lane).collect();
    assert_eq!(order, [1, 1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0]);
}

#[test]
fn a_lane_without_credits_spends_no_weight_and_holds_nobody_up() {
    let mut arbiter = arbiter(1, &tables(&[], &[(0, 66), (1, 33)], 0));
    let mut credits = credits(100);
    spend(&mut credits, 0, 100);
    for packet in 0..4 {
        arbiter.enqueue(VirtualLane(0), 0, packet, CreditBlocks(33));
        arbiter.enqueue(VirtualLane(1), 0, packet, CreditBlocks(33));
    }
    assert_eq!([next(&mut arbiter, &mut credits), next(&mut arbiter, &mut credits)], [Some((1, 0)), Some((1, 1))]);
    assert!(arbiter.is_lane_starved(VirtualLane(0)) && !arbiter.is_lane_starved(VirtualLane(1)));
    give_back(&mut credits, 0, 100);
    // Lane 0 still has its whole weight.
    let order: Vec<_> = std::iter::from_fn(|| next(&mut arbiter, &mut credits)).collect();
    assert_eq!(order, [(0, 0), (0, 1), (1, 2), (0, 2)]);
    assert_eq!(arbiter.choose(&mut credits, NOW), Choice::Stalled { lanes: 0b11 });
}

#[test]
fn a_lane_that_no_table_lists_never_sends() {
    let mut arbiter = arbiter(1, &tables(&[(2, 0)], &[(0, 4)], 0));
    let mut credits = credits(100);
    arbiter.enqueue(VirtualLane(2), 0, 7, CreditBlocks(1));
    assert!(!arbiter.passes(VirtualLane(2), 0, CreditBlocks(1), &mut credits));
    assert!(arbiter.sends_on(VirtualLane(0)) && !arbiter.sends_on(VirtualLane(2)));
    assert_eq!(arbiter.choose(&mut credits, NOW), Choice::Stalled { lanes: 0b100 });
    assert_eq!(arbiter.starved_lanes().collect::<Vec<_>>(), [(VirtualLane(2), NOW)]);
    arbiter.enqueue(VirtualLane(0), 0, 8, CreditBlocks(1));
    assert_eq!(next(&mut arbiter, &mut credits), Some((0, 8)));
    assert_eq!(arbiter.discard_head(VirtualLane(2)).map(|first| first.packet), Some(7));
    assert_eq!(arbiter.choose(&mut credits, NOW), Choice::Idle);
}

#[test]
fn a_look_in_vain_changes_nothing() {
    let run = |looks: usize| {
        let mut arbiter = arbiter(2, &tables(&[(0, 33)], &[(1, 66), (2, 33)], 0));
        let mut credits = credits(66);
        let mut order = Vec::new();
        for lane in [0, 1, 2] {
            spend(&mut credits, lane, 66);
            (0..8).for_each(|packet| arbiter.enqueue(VirtualLane(lane), packet as usize % 2, packet, CreditBlocks(33)));
        }
        for step in 0..24 {
            (0..looks).for_each(|_| assert_eq!(next(&mut arbiter, &mut credits), None));
            give_back(&mut credits, step % 3, 33);
            order.extend(next(&mut arbiter, &mut credits));
        }
        order
    };
    assert_eq!(run(0), run(3));
    assert_eq!(run(0).len(), 24);
}

#[test]
fn inputs_of_a_lane_take_turns_within_its_weight() {
    let mut arbiter = arbiter(3, &tables(&[], &[(0, 66), (1, 33)], 0));
    let mut credits = credits(1_000);
    for (packet, (lane, input)) in [(0, 0), (0, 0), (0, 2), (1, 1), (0, 2)].into_iter().enumerate() {
        arbiter.enqueue(VirtualLane(lane), input, packet as u32, CreditBlocks(33));
    }
    let order: Vec<_> = std::iter::from_fn(|| next(&mut arbiter, &mut credits)).map(|(_, packet)| packet).collect();
    assert_eq!(order, [0, 2, 3, 1, 4]);
}

#[test]
fn a_link_with_one_data_lane_needs_no_tables() {
    let mut arbiter = Arbiter::new(1, 1);
    arbiter.weigh(&tables(&[], &[], 0), OperationalVls::VL0);
    assert!(arbiter.passes(VirtualLane(0), 0, CreditBlocks(33), &mut credits(100)));
}
