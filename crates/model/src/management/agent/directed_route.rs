//! Directed routes: a subnet management packet (SMP) names the ports that it passes (IBTA 14.2.2).

use softband_types::Lid;

/// Most links that a directed route can pass.
const HOPS_MAX: u8 = 63;

const STATUS: usize = 4;
/// The D bit of the status: the SMP returns.
const RETURNS: u8 = 0x80;
const HOP_POINTER: usize = 6;
const HOP_COUNT: usize = 7;
const SLID: usize = 32;
const DLID: usize = 34;
const INITIAL_PATH: usize = 128;
const RETURN_PATH: usize = 192;

/// The next step of a directed-route SMP at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The SMP has come to its end: this node's agent handles a request, its host a response.
    Deliver,
    /// The SMP leaves by this port, from 1.
    Forward(u8),
    /// The directed part of the route ends, and forwarding tables lead on to this LID.
    ForwardByLid(Lid),
    /// The SMP contradicts itself or names a port that the node lacks. The node discards it.
    Discard,
}

/// A node as directed routes see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// Number of external ports.
    pub(super) ports: u8,
    /// Whether the node forwards: switches do, HCAs do not.
    pub(super) is_switch: bool,
}

impl Node {
    fn leave(self, port: u8) -> Step {
        if (1..=self.ports).contains(&port) { Step::Forward(port) } else { Step::Discard }
    }
}

/// Takes in an SMP that reached a node by `port`, and updates its hop pointer and return path.
pub(super) fn receive(mad: &mut [u8; 256], node: Node, port: u8) -> Step {
    let (pointer, count) = (mad[HOP_POINTER], mad[HOP_COUNT]);
    if count > HOPS_MAX {
        return Step::Discard;
    }
    if mad[STATUS] & RETURNS != 0 {
        return match pointer {
            // C14-13
            0 => Step::Deliver,
            1 => end_of_return(mad, node),
            _ if pointer <= count && node.is_switch => {
                mad[HOP_POINTER] = pointer - 1;
                node.leave(mad[RETURN_PATH + usize::from(pointer) - 1])
            }
            _ => Step::Discard,
        };
    }
    // C14-9
    if pointer == 0 {
        // A LID-routed part comes before the directed part.
        return if count == 0 {
            end_of_path(mad, node)
        } else if node.is_switch {
            begin(mad, node)
        } else {
            Step::Discard
        };
    }
    if pointer > count {
        return if pointer == count + 1 { Step::Deliver } else { Step::Discard };
    }
    mad[RETURN_PATH + usize::from(pointer)] = port;
    if pointer == count {
        return end_of_path(mad, node);
    }
    if !node.is_switch {
        return Step::Discard;
    }
    mad[HOP_POINTER] = pointer + 1;
    node.leave(mad[INITIAL_PATH + usize::from(pointer) + 1])
}

/// Sends a request or a response from the node's own software or agent.
pub(super) fn send(mad: &mut [u8; 256], node: Node) -> Step {
    let (pointer, count) = (mad[HOP_POINTER], mad[HOP_COUNT]);
    if count > HOPS_MAX {
        return Step::Discard;
    }
    if mad[STATUS] & RETURNS == 0 {
        return match (pointer, count) {
            (0, 0) => end_of_path(mad, node),
            (0, _) => begin(mad, node),
            _ => Step::Discard,
        };
    }
    if pointer != count + 1 {
        return Step::Discard;
    }
    mad[HOP_POINTER] = count;
    if count == 0 { end_of_return(mad, node) } else { node.leave(mad[RETURN_PATH + usize::from(count)]) }
}

fn begin(mad: &mut [u8; 256], node: Node) -> Step {
    mad[HOP_POINTER] = 1;
    node.leave(mad[INITIAL_PATH + 1])
}

/// Ends the directed part of a request.
fn end_of_path(mad: &mut [u8; 256], node: Node) -> Step {
    mad[HOP_POINTER] = mad[HOP_COUNT] + 1;
    lead_on(lid_at(mad, DLID), node)
}

/// Ends the directed part of a response.
fn end_of_return(mad: &mut [u8; 256], node: Node) -> Step {
    mad[HOP_POINTER] = 0;
    lead_on(lid_at(mad, SLID), node)
}

fn lead_on(lid: Lid, node: Node) -> Step {
    match lid {
        Lid::PERMISSIVE => Step::Deliver,
        // The table of a switch can name the switch itself.
        lid if node.is_switch => Step::ForwardByLid(lid),
        _ => Step::Discard,
    }
}

fn lid_at(mad: &[u8; 256], at: usize) -> Lid {
    Lid(u16::from_be_bytes([mad[at], mad[at + 1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HCA: Node = Node { ports: 2, is_switch: false };
    const SWITCH: Node = Node { ports: 24, is_switch: true };

    fn smp(path: &[u8]) -> [u8; 256] {
        let mut mad = [0; 256];
        mad[HOP_COUNT] = path.len() as u8;
        mad[SLID..SLID + 4].fill(0xFF);
        mad[INITIAL_PATH + 1..=INITIAL_PATH + path.len()].copy_from_slice(path);
        mad
    }

    fn answer(mad: &mut [u8; 256]) {
        mad[STATUS] |= RETURNS;
    }

    #[test]
    fn a_request_goes_to_its_end_and_the_response_comes_back() {
        let mut mad = smp(&[1, 7]);
        assert_eq!(send(&mut mad, HCA), Step::Forward(1));
        assert_eq!(receive(&mut mad, SWITCH, 3), Step::Forward(7));
        assert_eq!(receive(&mut mad, HCA, 2), Step::Deliver);
        assert_eq!((mad[HOP_POINTER], mad[RETURN_PATH + 1], mad[RETURN_PATH + 2]), (3, 3, 2));
        answer(&mut mad);
        assert_eq!(send(&mut mad, HCA), Step::Forward(2));
        assert_eq!(receive(&mut mad, SWITCH, 7), Step::Forward(3));
        assert_eq!(receive(&mut mad, HCA, 1), Step::Deliver);
    }

    #[test]
    fn a_route_of_no_hops_stays_at_its_node() {
        let mut mad = smp(&[]);
        assert_eq!(send(&mut mad, HCA), Step::Deliver);
        answer(&mut mad);
        assert_eq!((send(&mut mad, HCA), mad[HOP_POINTER]), (Step::Deliver, 0));
    }

    #[test]
    fn an_hca_forwards_nothing() {
        let mut mad = smp(&[1, 1]);
        assert_eq!(send(&mut mad, HCA), Step::Forward(1));
        assert_eq!(receive(&mut mad, HCA, 1), Step::Discard);
    }

    #[test]
    fn lids_lead_before_and_behind_the_directed_part() {
        let mut mad = smp(&[4]);
        mad[SLID..SLID + 4].copy_from_slice(&[0, 9, 0, 17]);
        assert_eq!(receive(&mut mad, SWITCH, 1), Step::Forward(4));
        assert_eq!(receive(&mut mad, SWITCH, 2), Step::ForwardByLid(Lid(17)));
        answer(&mut mad);
        assert_eq!(send(&mut mad, SWITCH), Step::Forward(2));
        assert_eq!(receive(&mut mad, SWITCH, 4), Step::ForwardByLid(Lid(9)));
    }

    /// Any bytes lead to a step, and no step names a port that the node lacks.
    #[test]
    fn any_bytes_lead_to_a_step() {
        let mut random = 1u64;
        for _ in 0..20_000 {
            let mut mad = [0; 256];
            for byte in &mut mad {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (random >> 56) as u8 & if random & 1 == 0 { 0x3F } else { 0xFF };
            }
            for node in [HCA, SWITCH] {
                for step in [receive(&mut mad.clone(), node, 1), send(&mut mad.clone(), node)] {
                    assert!(!matches!(step, Step::Forward(port) if port == 0 || port > node.ports), "{step:?}");
                }
            }
        }
    }
}
