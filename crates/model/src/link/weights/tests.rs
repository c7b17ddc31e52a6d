use super::*;

fn lines(text: &[(u8, u8)]) -> Vec<WeightedLane> {
    text.iter().map(|(lane, weight)| WeightedLane { lane: VirtualLane(*lane), weight: *weight }).collect()
}

fn eight() -> OperationalVls {
    OperationalVls::from_code(4).unwrap()
}

fn turns(high: &[(u8, u8)], low: &[(u8, u8)], high_limit: u8) -> Turns {
    Turns::new(&ArbitrationTables { high: lines(high), low: lines(low), high_limit }, eight())
}

/// Returns the lanes in the order in which they send `count` packets. `blocks` is the packet size
/// of each lane; all of `ready` always have packets.
fn order(turns: &mut Turns, ready: u16, blocks: [u32; 8], count: usize) -> Vec<u8> {
    (0..count).map_while(|_| turns.choose(ready, |lane| CreditBlocks(blocks[usize::from(lane.0)]))).map(|lane| lane.0).collect()
}

#[test]
fn a_line_sends_whole_packets_until_its_weight_is_used_up() {
    // A weight of 70 blocks: packets of 33 go three times, since some weight is left after two.
    let mut turns = turns(&[], &[(0, 70), (1, 33)], 0);
    assert_eq!(order(&mut turns, 0b11, [33; 8], 8), [0, 0, 0, 1, 0, 0, 0, 1]);
}

#[test]
fn lanes_without_packets_and_lines_without_weight_are_passed_over() {
    let mut turns = turns(&[], &[(2, 0), (0, 66), (3, 0), (1, 33), (5, 33)], 0);
    assert_eq!(order(&mut turns, 0b10_1111, [33; 8], 8), [0, 0, 1, 5, 0, 0, 1, 5]);
    assert_eq!(order(&mut turns, 0b00_1110, [33; 8], 3), [1, 1, 1], "alone it has all");
    assert_eq!(order(&mut turns, 0b00_1100, [33; 8], 3), [], "lanes 2 and 3 have lines without weight only");
}

#[test]
fn a_lane_may_have_several_lines() {
    let mut turns = turns(&[], &[(0, 1), (1, 1), (0, 1), (2, 1)], 0);
    assert_eq!(order(&mut turns, 0b111, [33; 8], 8), [0, 1, 0, 2, 0, 1, 0, 2]);
}

#[test]
fn weights_count_bytes_and_not_packets() {
    // 165 blocks each: five packets of 33 and 33 packets of five.
    let mut turns = turns(&[], &[(0, 165), (1, 165)], 0);
    let sent = order(&mut turns, 0b11, [33, 5, 0, 0, 0, 0, 0, 0], 38 * 4);
    assert_eq!([0, 1].map(|lane| sent.iter().filter(|sent| **sent == lane).count()), [20, 132]);
}

#[test]
fn a_limit_of_zero_lets_one_packet_go_before_the_low_table_has_its_chance() {
    let mut turns = turns(&[(0, 255)], &[(1, 255)], 0);
    assert_eq!(order(&mut turns, 0b11, [33; 8], 6), [0, 1, 0, 1, 0, 1]);
    assert_eq!(order(&mut turns, 0b01, [33; 8], 3), [0, 0, 0], "a chance that nobody takes is no turn");
    assert_eq!(order(&mut turns, 0b11, [33; 8], 3), [1, 0, 1]);
}

#[test]
fn a_limit_is_in_steps_of_four_kibibytes() {
    // A limit of 1 is 64 blocks, and so two packets of 33. A limit of 2 is four packets.
    for (limit, packets) in [(1, 2), (2, 4), (254, 493)] {
        let mut turns = turns(&[(0, 4)], &[(1, 4)], limit);
        let sent = order(&mut turns, 0b11, [33; 8], 2 * (packets + 1));
        let expected: Vec<u8> = [vec![0; packets], vec![1], vec![0; packets], vec![1]].concat();
        assert_eq!(sent, expected, "limit {limit}");
    }
}

#[test]
fn without_a_limit_the_low_table_sends_when_the_high_one_cannot() {
    let mut turns = turns(&[(0, 4)], &[(1, 4)], 255);
    assert_eq!(order(&mut turns, 0b11, [33; 8], 10_000), vec![0; 10_000]);
    assert_eq!(order(&mut turns, 0b10, [33; 8], 2), [1, 1]);
}

#[test]
fn both_tables_keep_their_places() {
    let mut turns = turns(&[(0, 33), (1, 33)], &[(2, 66), (3, 33)], 0);
    assert_eq!(order(&mut turns, 0b1111, [33; 8], 12), [0, 2, 1, 2, 0, 3, 1, 2, 0, 2, 1, 3]);
}

#[test]
fn what_opensm_writes_by_itself_lets_lane_0_and_the_others_take_turns() {
    let low: Vec<(u8, u8)> = (0..15).map(|lane| (lane, if lane == 0 { 0 } else { 4 })).collect();
    let mut turns = turns(&[(0, 4)], &low, 0);
    // On eight lanes, the line of lane 8 is folded to lane 0.
    assert_eq!(order(&mut turns, 0b111, [33; 8], 9), [0, 1, 0, 2, 0, 0, 0, 1, 0]);
}

#[test]
fn the_lanes_of_tables_are_those_with_a_weight_where_the_link_has_them() {
    let tables = ArbitrationTables { high: lines(&[(1, 4), (2, 0)]), low: lines(&[(3, 1), (9, 1)]), high_limit: 0 };
    let vls = |code| OperationalVls::from_code(code).unwrap();
    assert_eq!([2, 3, 4, 5].map(|code| tables.lanes(vls(code))), [0b10, 0b1010, 0b1010, 0b10_0000_1010]);
}
