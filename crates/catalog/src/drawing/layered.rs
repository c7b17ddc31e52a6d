//! Layout in rows for stars and trees: hosts lowest, then their switches, and so on.

use super::levels::Levels;
use super::nodes::{Drawing, HOST_HEIGHT, Node, Point, SWITCH_HEIGHT, both_ways, box_width, host_node, switch_width};
use super::{Frame, MARGIN};
use softband_spec::{FabricSpec, PortRef};
use std::collections::BTreeMap;

/// Distance between rows of switches, and from the lowest switches to the hosts, in pixels.
const ROW: i64 = 170;
/// Most hosts in a single row. More hosts stand in two staggered rows.
const IN_ONE_ROW: usize = 10;
const STAGGER: i64 = 44;
const GROUP_GAP: i64 = 26;
/// Width of a switch's box for each cable on one side, in pixels.
const CABLE_ROOM: i64 = 18;

/// A cable at a box: position of its other end, that end, and the own end.
type Leaving = (i64, PortRef, PortRef);

pub(super) fn place(spec: &FabricSpec, levels: &Levels, frame: Frame) -> Drawing {
    let mut rows = Rows { spec, levels, frame, hosts: vec![(0, 0); spec.hosts.len()], switches: vec![(0, 0, 0); spec.switches.len()], right: 0 };
    rows.place_hosts();
    rows.place_leaves();
    (2..=levels.top()).for_each(|level| rows.place_upper(level));
    rows.drawing()
}

struct Rows<'a> {
    spec: &'a FabricSpec,
    levels: &'a Levels,
    frame: Frame,
    hosts: Vec<Point>,
    /// Centre and width of each switch, in pixels.
    switches: Vec<(i64, i64, i64)>,
    right: i64,
}

impl Rows<'_> {
    fn row(&self, level: usize) -> i64 {
        self.frame.top + SWITCH_HEIGHT / 2 + (self.levels.top() - level) as i64 * ROW
    }

    /// Returns the switch above a host: the first switch that it is cabled to.
    fn home(&self, host: usize) -> Option<usize> {
        let at = |end: PortRef| matches!(end, PortRef::Hca { host: own, .. } if own == host);
        let switch = |end: PortRef| if let PortRef::Switch { switch, .. } = end { Some(switch) } else { None };
        let homes = self.spec.cables.iter().filter_map(|cable| match cable.ends {
            [a, b] if at(a) => switch(b),
            [a, b] if at(b) => switch(a),
            _ => None,
        });
        homes.min()
    }

    fn place_hosts(&mut self) {
        let mut order: Vec<(usize, usize)> = (0..self.hosts.len()).map(|host| (self.home(host).unwrap_or(usize::MAX), host)).collect();
        order.sort_unstable();
        let widest = self.spec.hosts.iter().map(|host| box_width(&host.name)).max().unwrap_or(0);
        let is_staggered = order.len() > IN_ONE_ROW;
        let step = if is_staggered { (widest / 2 + 8).max(28) } else { widest + 40 };
        let mut x = MARGIN + widest / 2 + 8;
        let mut last = None;
        for (index, (home, host)) in order.into_iter().enumerate() {
            if last.is_some_and(|last| last != home) {
                x += GROUP_GAP;
            }
            last = Some(home);
            let lower = if is_staggered && index % 2 == 1 { STAGGER } else { 0 };
            self.hosts[host] = (x, self.row(0) + lower);
            self.right = self.right.max(x + widest / 2 + 8);
            x += step;
        }
        let upper = (2..=self.levels.top()).map(|level| self.room(level)).max().unwrap_or(0);
        let missing = (upper.max(self.frame.width_min - MARGIN) - self.right).max(0) / 2;
        self.hosts.iter_mut().for_each(|(x, _)| *x += missing);
        self.right += 2 * missing;
    }

    /// Places each leaf switch over the width of its hosts.
    fn place_leaves(&mut self) {
        let y = self.row(1);
        let mut spans: BTreeMap<usize, (i64, i64)> = BTreeMap::new();
        for host in 0..self.hosts.len() {
            let Some(home) = self.home(host) else { continue };
            let x = self.hosts[host].0;
            let span = spans.entry(home).or_insert((x, x));
            *span = (span.0.min(x), span.1.max(x));
        }
        for switch in self.of_level(1) {
            let width = self.width(switch);
            let (first, last) = spans.get(&switch).copied().unwrap_or((MARGIN + width / 2, MARGIN + width / 2));
            self.switches[switch] = ((first + last) / 2, y, (last - first + 24).max(width));
        }
    }

    fn place_upper(&mut self, level: usize) {
        let switches = self.of_level(level);
        self.right = self.right.max(self.room(level));
        let slot = (self.right - MARGIN) / switches.len().max(1) as i64;
        for (index, switch) in switches.into_iter().enumerate() {
            let x = MARGIN + slot / 2 + index as i64 * slot;
            self.switches[switch] = (x, self.row(level), self.width(switch));
        }
    }

    /// Returns the right end of a row of switches at its least width.
    fn room(&self, level: usize) -> i64 {
        let switches = self.of_level(level);
        let widest = switches.iter().map(|switch| self.width(*switch)).max().unwrap_or(0);
        MARGIN + switches.len() as i64 * (widest + 16)
    }

    fn of_level(&self, level: usize) -> Vec<usize> {
        (0..self.switches.len()).filter(|switch| self.levels.of_switch(*switch) == level).collect()
    }

    /// Returns the width for the name and for the cables of the fuller side.
    fn width(&self, switch: usize) -> i64 {
        let (mut above, mut below) = (0, 0);
        for (own, other) in both_ways(self.spec) {
            if matches!(own, PortRef::Switch { switch: of, .. } if of == switch) {
                *(if self.is_above(other, own) { &mut above } else { &mut below }) += 1;
            }
        }
        (above.max(below) * CABLE_ROOM).max(switch_width(&self.spec.switches[switch].name) + 4)
    }

    fn is_above(&self, port: PortRef, than: PortRef) -> bool {
        self.levels.of_port(port) > self.levels.of_port(than)
    }

    fn centre(&self, port: PortRef) -> Point {
        match port {
            PortRef::Hca { host, .. } => self.hosts[host],
            PortRef::Switch { switch, .. } => (self.switches[switch].0, self.switches[switch].1),
        }
    }

    /// Returns the start of the cable of each port. Starts lie side by side on the upper or lower
    /// edge of the box, in the order of the other ends.
    fn anchors(&self) -> BTreeMap<PortRef, Point> {
        let mut sides: BTreeMap<(Point, bool), Vec<Leaving>> = BTreeMap::new();
        for (own, other) in both_ways(self.spec) {
            sides.entry((self.centre(own), self.is_above(other, own))).or_default().push((self.centre(other).0, other, own));
        }
        let mut anchors = BTreeMap::new();
        for (((x, y), up), mut cables) in sides {
            cables.sort_unstable();
            let count = cables.len() as i64;
            for (index, (other_x, other, own)) in cables.into_iter().enumerate() {
                let (width, height) = match own {
                    PortRef::Switch { switch, .. } => (self.switches[switch].2, SWITCH_HEIGHT),
                    PortRef::Hca { host, .. } => (box_width(&self.spec.hosts[host].name), HOST_HEIGHT),
                };
                let own_x = if matches!(other, PortRef::Hca { .. }) && (other_x - x).abs() * 2 < width && !self.is_doubled(other) {
                    other_x
                } else {
                    x - width / 2 + width * (2 * index as i64 + 1) / (2 * count)
                };
                anchors.insert(own, (own_x, if up { y - height / 2 } else { y + height / 2 }));
            }
        }
        anchors
    }

    /// Returns whether the host of the port has more cables than this one.
    fn is_doubled(&self, port: PortRef) -> bool {
        let of_host = |end: &PortRef| matches!((*end, port), (PortRef::Hca { host: a, .. }, PortRef::Hca { host: b, .. }) if a == b);
        self.spec.cables.iter().flat_map(|cable| cable.ends).filter(of_host).count() > 1
    }

    fn drawing(&self) -> Drawing {
        let bottom = self.hosts.iter().map(|(_, y)| *y).max().unwrap_or(self.frame.top) + HOST_HEIGHT;
        let mut drawing = Drawing { width: (self.right + MARGIN).max(self.frame.width_min), height: bottom + 24, ..Drawing::default() };
        drawing.nodes.extend(self.spec.hosts.iter().zip(&self.hosts).map(|(host, centre)| host_node(*centre, &host.name)));
        for (switch, (x, y, width)) in self.spec.switches.iter().zip(&self.switches) {
            drawing.nodes.push(Node { centre: (*x, *y), width: *width, height: SWITCH_HEIGHT, name: switch.name.clone(), is_switch: true });
        }
        let anchors = self.anchors();
        for cable in &self.spec.cables {
            drawing.cable(cable.ends, cable.ends.map(|end| anchors[&end]));
        }
        drawing
    }
}
