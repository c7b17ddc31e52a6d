//! The sweep: networks, LIDs and routes of a fabric.

use super::gids::{assign_ethernet_lids, assign_lids, is_ethernet, ports_by_guid};
use super::{KnownPort, Subnet};
use crate::numbering::{Numbering, Owner};
use softband_model::link::Framing;
use softband_model::management::{Neighbour, Routes, Routing};
use softband_spec::{FabricSpec, lanes_of_switches};
use softband_types::{Guid, Lid, PortLids, PortNumber};

impl Subnet {
    /// Sweeps a fabric. `set_route` receives each entry of the forwarding tables: switch, LID and
    /// output.
    ///
    /// # Panics
    /// Panics if the fabric does not suit its routing engine. The loader refuses such files.
    pub(crate) fn sweep(spec: &FabricSpec, numbering: &Numbering, mut set_route: impl FnMut(usize, Lid, u8)) -> Self {
        let peers = peers(spec, numbering);
        let networks = networks(numbering, &peers);
        let nodes = nodes(spec);
        let ports: Vec<KnownPort> = (numbering.owners().iter().zip(&peers).zip(networks))
            .map(|((owner, peer), network)| {
                let (node_guid, framing) = nodes[numbering.node_of(*owner)];
                KnownPort { owner: *owner, number: PortNumber(owner.index() + 1), node_guid, framing, is_cabled: peer.is_some(), network }
            })
            .collect();
        let waits = spec.subnet.manager.works_by_packets();
        if waits && !spec.has_ethernet() {
            return Self::unswept(spec, ports);
        }
        let lids = if waits { assign_ethernet_lids(&ports) } else { assign_lids(&ports, spec.subnet.lmc) };
        // Ports that wait for a manager have no LIDs yet, so no route leads there.
        let has_lids = |port: u32| !waits || is_ethernet(&ports[port as usize]);
        let neighbour = |port: usize| match peers[port].filter(|peer| has_lids(*peer)).map(|peer| (peer, numbering.owners()[peer as usize])) {
            None => Neighbour::None,
            Some((peer, Owner::Hca { .. })) => Neighbour::End(lids[peer as usize].base),
            Some((_, Owner::Switch { switch, .. })) => Neighbour::Switch(switch as usize),
        };
        let swept: Vec<Vec<Neighbour>> = (spec.switches.iter().enumerate())
            .map(|(switch, of)| {
                let first = numbering.first_port_of_switch(switch) as usize;
                (first..first + usize::from(of.part.ports)).map(neighbour).collect()
            })
            .collect();
        let routing = if waits { Routing::MinimumHop } else { spec.subnet.routing };
        let routes = Routes::new(routing, &swept).expect("a checked fabric suits its routing engine");
        let routes = routes.with_lanes(lanes_of_switches(spec)).with_lmc(spec.subnet.lmc);
        let lid_count = lids.iter().map(|lids| usize::from(lids.last().0) + 1).max().unwrap_or(0);
        let (mut leaf_of_lid, mut port_of_lid) = (vec![None; lid_count], vec![None; lid_count]);
        for (index, lid) in lids.iter().enumerate().flat_map(|(index, lids)| lids.all().map(move |lid| (index, lid))) {
            port_of_lid[usize::from(lid.0)].get_or_insert(index as u32);
        }
        routes.for_each_end(&swept, |home, port, output| {
            let Neighbour::End(lid) = swept[home][port] else { return };
            let lids = port_of_lid[usize::from(lid.0)].map(|port: u32| lids[port as usize]).unwrap_or_default();
            for (path, lid) in lids.all().enumerate() {
                leaf_of_lid[usize::from(lid.0)] = Some(home as u32);
                for switch in 0..swept.len() {
                    let output = if switch == home { Some(port as u8) } else { output(switch, path) };
                    if let Some(output) = output {
                        set_route(switch, lid, output);
                    }
                }
            }
        });
        let port_of_guid = ports_by_guid(&ports, &lids);
        let manager_lid = if waits { Lid::NONE } else { Lid(spec.subnet.lmc.lids()) };
        Self { lids, ports, manager_lid, routes, written_lanes: None, port_of_lid, port_of_guid, leaf_of_lid }
    }
}

impl Subnet {
    /// Returns a subnet that waits for a manager.
    fn unswept(spec: &FabricSpec, ports: Vec<KnownPort>) -> Self {
        let routes = Routes::new(Routing::MinimumHop, &[]).expect("a fabric without switches suits every engine");
        let lids = vec![PortLids::default(); ports.len()];
        Self {
            port_of_guid: ports_by_guid(&ports, &lids),
            lids,
            ports,
            manager_lid: Lid::NONE,
            routes: routes.with_lanes(lanes_of_switches(spec)),
            written_lanes: None,
            port_of_lid: Vec::new(),
            leaf_of_lid: Vec::new(),
        }
    }
}

/// Returns the port at the other end of each port's cable.
fn peers(spec: &FabricSpec, numbering: &Numbering) -> Vec<Option<u32>> {
    let mut peers = vec![None; numbering.owners().len()];
    for cable in &spec.cables {
        let [a, b] = cable.ends.map(|end| numbering.port_of(end));
        (peers[a as usize], peers[b as usize]) = (Some(b), Some(a));
    }
    peers
}

/// Numbers the networks: ports that cables and switches connect get one number.
fn networks(numbering: &Numbering, peers: &[Option<u32>]) -> Vec<u32> {
    let mut networks: Vec<Option<u32>> = vec![None; peers.len()];
    let ports_of_switch = |switch: u32| {
        let first = numbering.first_port_of_switch(switch as usize) as usize;
        (first..).take_while(move |port| matches!(numbering.owners().get(*port), Some(Owner::Switch { switch: other, .. }) if *other == switch))
    };
    for (number, first) in (0..).zip(0..peers.len()) {
        let mut reached = vec![first];
        while let Some(at) = reached.pop() {
            if networks[at].is_some() {
                continue;
            }
            networks[at] = Some(number);
            reached.extend(peers[at].map(|peer| peer as usize));
            if let Owner::Switch { switch, .. } = numbering.owners()[at] {
                reached.extend(ports_of_switch(switch));
            }
        }
    }
    networks.into_iter().map(|network| network.expect("each port starts a network unless it is in one")).collect()
}

/// Returns the GUID and the framing of each node.
fn nodes(spec: &FabricSpec) -> Vec<(Guid, Framing)> {
    let hcas = spec.hosts.iter().flat_map(|host| &host.hcas).map(|hca| (hca.node_guid, hca.link_layer));
    let switches = spec.switches.iter().map(|switch| (switch.node_guid, switch.part.link_layer()));
    hcas.chain(switches).map(|(guid, layer)| (guid, spec.framing(layer))).collect()
}
