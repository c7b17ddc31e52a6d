//! Shape of a generated fabric, without parts: number of hosts, switches, and cables.

use softband_model::management::Routing;

/// A port of a generated node. Ports count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Host(usize),
    Switch(usize, usize),
}

#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) hosts: usize,
    /// Names of the switches.
    pub(super) switches: Vec<String>,
    pub(super) cables: Vec<[End; 2]>,
    pub(super) routing: Routing,
}

impl Shape {
    fn new(routing: Routing) -> Self {
        Self { hosts: 0, switches: Vec::new(), cables: Vec::new(), routing }
    }

    /// Adds switches. Returns the index of the first.
    fn add_switches(&mut self, count: usize, name: impl Fn(usize) -> String) -> usize {
        let first = self.switches.len();
        self.switches.extend((0..count).map(name));
        first
    }

    fn add_host(&mut self, switch: usize, port: usize) {
        self.cables.push([End::Host(self.hosts), End::Switch(switch, port)]);
        self.hosts += 1;
    }
}

pub(super) fn back_to_back() -> Shape {
    Shape { hosts: 2, cables: vec![[End::Host(0), End::Host(1)]], ..Shape::new(Routing::MinimumHop) }
}

pub(super) fn star(hosts: usize) -> Shape {
    let mut shape = Shape::new(Routing::MinimumHop);
    let switch = shape.add_switches(1, |_| "sw".into());
    (0..hosts).for_each(|host| shape.add_host(switch, host + 1));
    shape
}

/// Returns the numbers of a leaf's ports to hosts and to the level above. Hosts get as many ports
/// as `ratio` permits per port up.
/// The level above gets only the ports that this needs. A ratio that does not divide the ports
/// evenly leaves ports unused.
pub(super) fn leaf_ports(ports: usize, ratio: f64) -> (usize, usize) {
    // Binary floats may miss an exact decimal ratio by this margin.
    const HAIR: f64 = 1e-9;
    // At this ratio, all ports but one already lead down.
    let ratio = ratio.min(ports as f64);
    let downs = (ports as f64 * ratio / (ratio + 1.0) + HAIR).floor();
    let ups = (downs / ratio - HAIR).ceil();
    (downs as usize, ups as usize)
}

/// The measures of a fat tree. `downs` counts a leaf's ports to hosts, `ups` its ports to the level above.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    pub(super) hosts: usize,
    pub(super) ports: usize,
    pub(super) downs: usize,
    pub(super) ups: usize,
    pub(super) levels: usize,
}

impl Tree {
    fn leaves(&self) -> usize {
        self.hosts.div_ceil(self.downs)
    }
    pub(super) fn hosts_max(ports: usize, downs: usize, levels: usize) -> usize {
        let leaves = if levels == 2 { ports } else { ports * (ports / 2) };
        leaves * downs
    }

    pub(super) fn shape(&self) -> Shape {
        let mut shape = Shape::new(Routing::FatTree);
        let leaf = shape.add_switches(self.leaves(), |leaf| format!("leaf{leaf}"));
        for host in 0..self.hosts {
            shape.add_host(leaf + host / self.downs, host % self.downs + 1);
        }
        match self.levels {
            2 => self.add_spines(&mut shape),
            _ => self.add_pods(&mut shape),
        }
        shape
    }

    /// Connects the upper ports of each leaf to the spines in turn. Each spine gets as many cables
    /// in a row as its ports permit.
    fn add_spines(&self, shape: &mut Shape) {
        let leaves = self.leaves();
        if leaves < 2 {
            return;
        }
        let parallel = parallel(self.ups, leaves, self.ports);
        let spine = shape.add_switches(self.ups / parallel, |spine| format!("spine{spine}"));
        for leaf in 0..leaves {
            for up in 0..self.ups {
                let port = leaf * parallel + up % parallel;
                shape.cables.push([End::Switch(leaf, self.downs + up + 1), End::Switch(spine + up / parallel, port + 1)]);
            }
        }
    }

    /// Adds pods of leaves, half as many leaves as a switch has ports. Each pod has a spine for
    /// each upper port of a leaf. Spines with the same number share their cores across all pods.
    fn add_pods(&self, shape: &mut Shape) {
        let (leaves, half) = (self.leaves(), self.ports / 2);
        let pods = leaves.div_ceil(half);
        let spine = shape.add_switches(pods * self.ups, |spine| format!("spine{spine}"));
        for leaf in 0..leaves {
            for up in 0..self.ups {
                let above = spine + leaf / half * self.ups + up;
                shape.cables.push([End::Switch(leaf, self.downs + up + 1), End::Switch(above, leaf % half + 1)]);
            }
        }
        if pods < 2 {
            return;
        }
        let parallel = parallel(half, pods, self.ports);
        let cores = half / parallel;
        let core = shape.add_switches(self.ups * cores, |core| format!("core{core}"));
        for pod in 0..pods {
            for (number, up) in (0..self.ups).flat_map(|number| (0..half).map(move |up| (number, up))) {
                let above = core + number * cores + up / parallel;
                let port = pod * parallel + up % parallel;
                shape.cables.push([End::Switch(spine + pod * self.ups + number, half + up + 1), End::Switch(above, port + 1)]);
            }
        }
    }
}

/// Returns how many consecutive cables may lead to the same upper switch. The number divides `ups`,
/// so that all upper switches get the same number.
fn parallel(ups: usize, below: usize, ports: usize) -> usize {
    (1..=ups).rev().find(|count| ups.is_multiple_of(*count) && below * count <= ports).unwrap_or(1)
}

/// Builds crossing rings; a side of two is a line. Each dimension uses two ports, to the next and
/// to the previous switch. Hosts use the following ports.
pub(super) fn torus(sides: &[usize], hosts_per_switch: usize) -> Shape {
    let mut shape = Shape::new(Routing::Torus);
    let count = sides.iter().product();
    let coordinate = |switch: usize, dimension: usize| switch / sides[..dimension].iter().product::<usize>() % sides[dimension];
    let name = |switch| (0..sides.len()).fold("s".to_owned(), |name, dimension| format!("{name}-{}", coordinate(switch, dimension)));
    shape.add_switches(count, name);
    for switch in 0..count {
        (0..hosts_per_switch).for_each(|host| shape.add_host(switch, 2 * sides.len() + host + 1));
    }
    for switch in 0..count {
        let mut unit = 1;
        for (dimension, side) in sides.iter().enumerate() {
            let here = coordinate(switch, dimension);
            if *side > 2 || here == 0 {
                let next = switch - here * unit + (here + 1) % side * unit;
                shape.cables.push([End::Switch(switch, 2 * dimension + 1), End::Switch(next, 2 * dimension + 2)]);
            }
            unit *= side;
        }
    }
    shape
}

/// Builds a hypercube. Port d + 1 of a switch leads to the switch whose number differs in bit d.
/// Hosts use the following ports.
pub(super) fn hypercube(dimension: usize, hosts_per_switch: usize) -> Shape {
    let mut shape = Shape::new(Routing::DimensionOrder);
    let count = 1 << dimension;
    shape.add_switches(count, |switch| format!("s{switch}"));
    for switch in 0..count {
        (0..hosts_per_switch).for_each(|host| shape.add_host(switch, dimension + host + 1));
    }
    for switch in 0..count {
        for bit in (0..dimension).filter(|bit| switch & 1 << bit == 0) {
            shape.cables.push([End::Switch(switch, bit + 1), End::Switch(switch | 1 << bit, bit + 1)]);
        }
    }
    shape
}

/// The measures of a dragonfly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dragonfly {
    pub(super) groups: usize,
    pub(super) switches_per_group: usize,
    pub(super) hosts_per_switch: usize,
    /// Links of each switch to other groups.
    pub(super) global_links: usize,
}

impl Dragonfly {
    /// Builds the shape. Each switch uses its first ports inside the group, then ports to other
    /// groups, then ports to hosts.
    pub(super) fn shape(&self) -> Shape {
        let mut shape = Shape::new(Routing::Dragonfly);
        let (group, globals) = (self.switches_per_group, self.global_links);
        shape.add_switches(self.groups * group, |switch| format!("g{}-s{}", switch / group, switch % group));
        for switch in 0..self.groups * group {
            (0..self.hosts_per_switch).for_each(|host| shape.add_host(switch, group - 1 + globals + host + 1));
        }
        for first in (0..self.groups).map(|number| number * group) {
            for (a, b) in (0..group).flat_map(|a| (a + 1..group).map(move |b| (a, b))) {
                // A switch's ports lead to the others of its group in order, without itself.
                shape.cables.push([End::Switch(first + a, b), End::Switch(first + b, a + 1)]);
            }
        }
        self.add_global_links(&mut shape);
        shape
    }

    /// Connects the links of a group, counted over its switches, to the following groups in turn.
    fn add_global_links(&self, shape: &mut Shape) {
        let others = self.groups - 1;
        if others == 0 {
            return;
        }
        let rounds = self.switches_per_group * self.global_links / others;
        let end = |group: usize, link: usize| {
            let (switch, index) = (link / self.global_links, link % self.global_links);
            End::Switch(group * self.switches_per_group + switch, self.switches_per_group + index)
        };
        for (group, round) in (0..self.groups).flat_map(|group| (0..rounds).map(move |round| (group, round))) {
            for offset in 1..=others {
                let other = (group + offset) % self.groups;
                if group < other {
                    let back = self.groups - offset;
                    shape.cables.push([end(group, round * others + offset - 1), end(other, round * others + back - 1)]);
                }
            }
        }
    }
}
