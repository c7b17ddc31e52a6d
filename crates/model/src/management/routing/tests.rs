use super::*;
use crate::management::credit_loops;
use Neighbour::{End, Switch};
use softband_types::Lid;

fn routes(routing: Routing, neighbours: &[Vec<Neighbour>]) -> Routes {
    Routes::new(routing, neighbours).unwrap_or_else(|error| panic!("{routing:?}: switch {} {}", error.switch, error.why))
}

/// Checks whether a route leads from every switch to every end port.
fn all_are_reached(routes: &Routes, neighbours: &[Vec<Neighbour>]) -> bool {
    let mut reached = true;
    routes.for_each_end(neighbours, |home, _, output| {
        for source in 0..neighbours.len() {
            let mut at = source;
            for _ in 0..neighbours.len() {
                match output(at, 0).map(|output| neighbours[at][usize::from(output)]) {
                    Some(Switch(next)) if at != home => at = next,
                    _ => break,
                }
            }
            reached &= at == home;
        }
    });
    reached
}

fn loops(routes: &Routes, neighbours: &[Vec<Neighbour>], code: u8) -> usize {
    credit_loops(neighbours, routes, |_, _| OperationalVls::from_code(code).unwrap()).len()
}

/// Returns rings of these lengths across each other, with one end port at each switch.
fn torus(sides: &[usize]) -> Vec<Vec<Neighbour>> {
    let count: usize = sides.iter().product();
    let around = |switch: usize| {
        let mut ports = Vec::new();
        let mut unit = 1;
        for side in sides {
            let here = switch / unit % side;
            let by = |steps: usize| Switch(switch - here * unit + (here + steps) % side * unit);
            ports.extend([by(1), by(side - 1)]);
            unit *= side;
        }
        ports.push(End(Lid(switch as u16 + 1)));
        ports
    };
    (0..count).map(around).collect()
}

#[test]
fn every_switch_forwards_along_the_shortest_route() {
    // Three switches in a row, with an end port at each end.
    let fabric = [vec![End(Lid(1)), Switch(1)], vec![Switch(0), Switch(2)], vec![Switch(1), End(Lid(2))]];
    let routes = routes(Routing::MinimumHop, &fabric);
    let mut entries = Vec::new();
    routes.for_each_end(&fabric, |home, port, output| entries.push((home, port, [output(0, 0), output(1, 0), output(2, 0)])));
    assert_eq!(entries, [(0, 0, [None, Some(0), Some(0)]), (2, 1, [Some(1), Some(1), None])]);
}

#[test]
fn names_are_those_of_files_and_of_opensm() {
    for routing in Routing::ALL {
        assert_eq!(Routing::parse(routing.name()), Some(routing));
    }
    assert_eq!(Routing::parse("updn"), Some(Routing::UpDown));
    assert_eq!(Routing::parse("up"), None);
}

#[test]
fn a_torus_needs_two_lanes_and_no_more() {
    for sides in [&[3][..], &[5], &[8], &[4, 4], &[5, 3], &[6, 7], &[3, 4, 5], &[4, 4, 4]] {
        let fabric = torus(sides);
        let routes = routes(Routing::Torus, &fabric);
        assert!(all_are_reached(&routes, &fabric), "{sides:?}");
        assert_eq!(loops(&routes, &fabric, 2), 0, "{sides:?}");
    }
    let fabric = torus(&[5, 5]);
    assert!(loops(&routes(Routing::Torus, &fabric), &fabric, 1) > 0);
    assert!(loops(&routes(Routing::DimensionOrder, &fabric), &fabric, 4) > 0);
}

#[test]
fn routes_round_a_torus_load_all_links_alike() {
    for sides in [&[4][..], &[8], &[5], &[4, 4], &[8, 8], &[6, 6], &[4, 4, 4]] {
        let fabric = torus(sides);
        let mut loads: Vec<[u32; 6]> = vec![[0; 6]; fabric.len()];
        routes(Routing::Torus, &fabric).for_each_end(&fabric, |home, _, output| {
            for mut at in 0..fabric.len() {
                while let Some(Switch(next)) = output(at, 0).map(|output| fabric[at][usize::from(output)]).filter(|_| at != home) {
                    loads[at][usize::from(output(at, 0).unwrap())] += 1;
                    at = next;
                }
            }
        });
        let used: Vec<u32> = loads.iter().flat_map(|ports| &ports[..2 * sides.len()]).copied().collect();
        let (most, mean) = (used.iter().max().unwrap(), f64::from(used.iter().sum::<u32>()) / used.len() as f64);
        // Half of a ring of six is odd. Routes that begin at every other switch cover some links
        // once more than others.
        let bound = if sides.contains(&6) { 1.12 } else { 1.01 };
        assert!(f64::from(*most) < bound * mean, "{sides:?}: {most} of {mean}");
    }
}

#[test]
fn up_and_down_leaves_no_loop_whatever_the_fabric() {
    for sides in [&[5][..], &[4, 4], &[3, 4, 5]] {
        let fabric = torus(sides);
        let routes = routes(Routing::UpDown, &fabric);
        assert!(all_are_reached(&routes, &fabric), "{sides:?}");
        assert_eq!(loops(&routes, &fabric, 1), 0, "{sides:?}");
    }
}

#[test]
fn a_fabric_of_another_form_is_refused_by_its_switch() {
    let mut twisted = torus(&[4, 4]);
    twisted[5].swap(0, 2);
    assert!(Routes::new(Routing::Torus, &twisted).is_err());
    assert_eq!(Routes::new(Routing::FatTree, &torus(&[4])).unwrap_err().switch, 0);
    assert!(Routes::new(Routing::Dragonfly, &torus(&[4, 4])).is_err());
    assert!(Routes::new(Routing::Torus, &[]).is_ok());
}

#[test]
fn the_service_level_says_which_datelines_are_crossed() {
    let routes = routes(Routing::Torus, &torus(&[5, 5]));
    let level = |from, to| routes.service_level(from, to);
    assert_eq!(level(0, 2), Some(ServiceLevel(0)));
    assert_eq!(level(0, 4), Some(ServiceLevel(1)));
    assert_eq!(level(0, 20), Some(ServiceLevel(2)));
    assert_eq!(level(24, 0), Some(ServiceLevel(3)));
    let two = OperationalVls::from_code(2).unwrap();
    let lanes = [0, 2, 4].map(|output| routes.lane(4, output, ServiceLevel(2), two).0);
    assert_eq!(lanes, [0, 1, 0]);
}
