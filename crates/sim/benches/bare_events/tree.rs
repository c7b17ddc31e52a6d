//! The fat tree, its routes and its traffic pattern.

use softband_sim::RandomStream;

/// Ports of a switch. Three levels of switches connect `PORTS^3 / 4` hosts.
pub(crate) const PORTS: usize = 16;
pub(crate) const HALF: usize = PORTS / 2;
pub(crate) const HOSTS: usize = PORTS * HALF * HALF;
/// Each pod has `HALF` leaves and `HALF` spines; `HALF^2` cores connect the pods.
pub(crate) const SWITCHES: usize = PORTS * PORTS + HALF * HALF;
/// One megabyte in packets of 2 KiB.
pub(crate) const PACKETS: u32 = 489;
/// Time of 2 KiB at 32 Gb/s, and latency of a cable with the switch behind it, in picoseconds.
pub(crate) const SERIAL: u64 = 512_000;
pub(crate) const LATENCY: u64 = 105_000;

/// Number of links: first each host's own link, then those of each switch's output ports.
pub(crate) const LINKS: usize = HOSTS + SWITCHES * PORTS;

pub(crate) struct Tree {
    /// Node at the receiving end of each link: hosts first, then switches.
    pub to: Vec<u32>,
    /// Port by which each switch sends to each host.
    pub ways: Vec<u8>,
    /// Links that lead to each switch.
    pub inputs: Vec<Vec<u32>>,
    /// Destination of each host, and the time when its first packet has crossed its link.
    pub destinations: Vec<u32>,
    pub starts: Vec<u64>,
}

fn leaf(pod: usize, number: usize) -> usize {
    pod * PORTS + number
}
fn spine(pod: usize, number: usize) -> usize {
    pod * PORTS + HALF + number
}
pub(crate) fn core(number: usize) -> usize {
    PORTS * PORTS + number
}
pub(crate) fn output(switch: usize, port: usize) -> usize {
    HOSTS + switch * PORTS + port
}

impl Tree {
    pub(crate) fn new() -> Self {
        let mut tree =
            Self { to: vec![0; LINKS], ways: Vec::new(), inputs: vec![Vec::new(); SWITCHES], destinations: Vec::new(), starts: Vec::new() };
        for pod in 0..PORTS {
            for (a, b) in (0..HALF).flat_map(|a| (0..HALF).map(move |b| (a, b))) {
                let host = (pod * HALF + a) * HALF + b;
                tree.cable(host, output(leaf(pod, a), b), host, HOSTS + leaf(pod, a));
                tree.cable(output(leaf(pod, a), HALF + b), output(spine(pod, b), a), HOSTS + leaf(pod, a), HOSTS + spine(pod, b));
                let above = core(a * HALF + b);
                tree.cable(output(spine(pod, a), HALF + b), output(above, pod), HOSTS + spine(pod, a), HOSTS + above);
            }
        }
        for (link, to) in tree.to.iter().enumerate().filter(|(_, to)| **to as usize >= HOSTS) {
            tree.inputs[*to as usize - HOSTS].push(link as u32);
        }
        tree.ways = (0..SWITCHES).flat_map(|switch| (0..HOSTS).map(move |host| way(switch, host) as u8)).collect();
        let mut random = RandomStream::new(1, 0);
        tree.starts = (0..HOSTS).map(|_| SERIAL + LATENCY + random.next_u64() % SERIAL).collect();
        tree.destinations = permutation(&mut random);
        tree
    }

    fn cable(&mut self, up: usize, down: usize, below: usize, above: usize) {
        self.to[up] = above as u32;
        self.to[down] = below as u32;
    }
}

/// Returns the port by which a switch sends to a host. On the way up, the destination selects the
/// port.
fn way(switch: usize, host: usize) -> usize {
    let (pod, place) = (host / (HALF * HALF), host % (HALF * HALF));
    if switch >= core(0) {
        return pod;
    }
    let (own_pod, number) = (switch / PORTS, switch % PORTS);
    match (number < HALF, pod == own_pod) {
        (true, true) if place / HALF == number => place % HALF,
        (true, _) => HALF + place % HALF,
        (false, true) => place / HALF,
        (false, false) => HALF + place / HALF,
    }
}

/// Returns a random destination for each host, never itself: a shuffle into one circle (Sattolo).
fn permutation(random: &mut RandomStream) -> Vec<u32> {
    let mut to: Vec<u32> = (0..HOSTS as u32).collect();
    for last in (1..HOSTS).rev() {
        to.swap(last, (random.next_u64() % last as u64) as usize);
    }
    to
}
