use super::{CreditLoop, Neighbour, Routes, shortest_cycles};
use crate::management::Routing;
use softband_types::{Lid, OperationalVls, VirtualLane};

/// Returns the loops of minimum-hop routes.
fn credit_loops(neighbours: &[Vec<Neighbour>], vls: impl Fn(usize, usize) -> OperationalVls) -> Vec<CreditLoop> {
    let routes = Routes::new(Routing::MinimumHop, neighbours).unwrap();
    super::credit_loops(neighbours, &routes, vls)
}

fn vls(code: u8) -> OperationalVls {
    OperationalVls::from_code(code).unwrap()
}

/// Returns switches in a ring. Each has an end port at 0, its next neighbour at 1 and its previous
/// neighbour at 2.
fn ring(count: usize) -> Vec<Vec<Neighbour>> {
    let around = |switch: usize| {
        vec![Neighbour::End(Lid(switch as u16 + 1)), Neighbour::Switch((switch + 1) % count), Neighbour::Switch((switch + count - 1) % count)]
    };
    (0..count).map(around).collect()
}

#[test]
fn a_ring_of_five_has_a_loop_each_way_round() {
    let lane = |_, _| vls(1);
    let loops = credit_loops(&ring(5), lane);
    let ports: Vec<_> = loops.iter().map(|found| found.ports.clone()).collect();
    assert_eq!(ports, [vec![(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)], vec![(0, 2), (4, 2), (3, 2), (2, 2), (1, 2)]]);
    assert!(loops.iter().all(|found| found.lanes == [vec![VirtualLane(0); 5]]));
}

#[test]
fn the_loops_of_all_lanes_by_the_same_ports_are_one() {
    let loops = credit_loops(&ring(5), |_, _| vls(3));
    assert_eq!(loops.len(), 2);
    assert_eq!(loops[0].lanes.iter().map(|lanes| lanes[0].0).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn a_link_with_fewer_lanes_joins_those_of_the_others() {
    // The link from switch 0 on has one lane. Traffic of both lanes of the other links meets there.
    let loops = credit_loops(&ring(5), |switch, port| if switch == 0 && port == 1 { vls(1) } else { vls(2) });
    assert_eq!(loops.iter().map(|found| found.lanes.len()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(loops[0].ports[0], (0, 1));
}

#[test]
fn short_routes_round_three_switches_and_trees_have_none() {
    let lane = |_, _| vls(1);
    assert_eq!(credit_loops(&ring(3), lane), []);
    use Neighbour::{End, Switch};
    let star = [vec![Switch(1), Switch(2)], vec![Switch(0), End(Lid(1))], vec![Switch(0), End(Lid(2))]];
    assert_eq!(credit_loops(&star, lane), []);
}

#[test]
fn routes_that_nobody_takes_make_no_loop() {
    // A ring of five, with end ports on two neighbours only.
    let mut fabric = ring(5);
    for ports in &mut fabric[2..] {
        ports[0] = Neighbour::None;
    }
    assert_eq!(credit_loops(&fabric, |_, _| vls(1)), []);
}

#[test]
fn the_shortest_cycle_of_each_component_is_named_from_its_least_node() {
    // 0 and 1 apart; 2-3-4-5 with a short cut 4-2; 6 leads to itself.
    let graph = [vec![1], vec![2], vec![3], vec![4], vec![5, 2], vec![2], vec![6]];
    assert_eq!(shortest_cycles(&graph), [vec![2, 3, 4], vec![6]]);
}

#[test]
fn a_thousand_switches_are_no_trouble() {
    // A torus of 32 by 32: each row and column is a ring that deadlocks in both directions.
    let (side, at) = (32, |row: usize, column: usize| (row % 32) * 32 + column % 32);
    let around = |switch: usize| {
        let (row, column) = (switch / side, switch % side);
        let near = [at(row, column + 1), at(row, column + side - 1), at(row + 1, column), at(row + side - 1, column)];
        let mut ports: Vec<_> = near.into_iter().map(Neighbour::Switch).collect();
        ports.push(Neighbour::End(Lid(switch as u16 + 1)));
        ports
    };
    let torus: Vec<_> = (0..side * side).map(around).collect();
    assert!(!credit_loops(&torus, |_, _| vls(4)).is_empty());
}
