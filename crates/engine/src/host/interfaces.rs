//! The network interfaces of a host as its programs see them.

use crate::host::files::megabits;
use crate::host::kernel::Kernels;
use crate::host::network;
use crate::host::ports;
use softband_fabric::World;
use softband_ipc::interfaces::{self, Address, AddressV6, Counters, Interface, Route, flag, hardware};
use softband_model::management::agent::LinkState;
use softband_model::verbs::api::PortSnapshot;
use softband_net::{InterfaceConfig, InterfaceCounters};
use softband_spec::{InterfaceKind, InterfaceSpec};
use softband_types::{Gid, PKey};
use std::net::{IpAddr, Ipv6Addr};

/// Bits of the network of Ethernet ports (`fabric/subnet/gids`).
const RDMA_PREFIX: u8 = 16;

/// Returns the interfaces in the order of their numbers. Without kernels, a host has `lo`, the
/// management network, and the interfaces of its Ethernet ports.
pub(crate) fn of_host(kernels: Option<&Kernels>, world: &World, host: usize) -> Vec<Interface> {
    let mut all = kernels.map_or_else(|| interfaces::of_host(network::address(host)), |kernels| of_kernel(kernels, world, host));
    for (number, port) in ports::ethernet_ports(world, host) {
        let Some((name, index)) = ports::interface(world, number, &port) else { continue };
        let rdma = of_rdma(world, (name, index), &port);
        match all.iter_mut().find(|known| known.index == index) {
            Some(known) => add_addresses(known, &rdma),
            None => all.push(rdma),
        }
    }
    all
}

fn of_kernel(kernels: &Kernels, world: &World, host: usize) -> Vec<Interface> {
    let spec = &world.spec().hosts[host];
    let stack = kernels.stack(host);
    let mut all = stack.interfaces();
    let mut loopback = interfaces::loopback();
    loopback.addresses_v6 = vec![AddressV6 { address: Ipv6Addr::LOCALHOST, prefix: 128 }];
    loopback.counters = all.next().map(|(_, _, counters)| counts(counters));
    let others = all.zip(&spec.interfaces).map(|((id, config, counters), interface)| Interface {
        index: id.0 + 1,
        queue_packets: spec.kernel.transmit_queue_packets,
        counters: Some(counts(counters)),
        ..one(world, host, config, interface)
    });
    std::iter::once(loopback).chain(others).collect()
}

/// Returns the interface of an Ethernet port with the addresses of its GIDs.
fn of_rdma(world: &World, (name, index): (String, u32), port: &PortSnapshot) -> Interface {
    let gids = || port.gids.into_iter().flatten();
    let address = |gid: Gid| Some(Address { address: u32::from_be_bytes(gid.ipv4()?), prefix: RDMA_PREFIX });
    let link_local: Option<AddressV6> = gids().find(|gid| gid.ipv4().is_none()).map(|gid| AddressV6 { address: gid.0.into(), prefix: 64 });
    let running = if port.active { flag::RUNNING | flag::LOWER_UP } else { 0 };
    Interface {
        name,
        index,
        addresses: gids().filter_map(address).collect(),
        hardware_address: link_local.map_or(vec![0; 6], |own| station(own.address)),
        addresses_v6: link_local.into_iter().collect(),
        flags: flag::UP | flag::BROADCAST | flag::MULTICAST | running,
        mtu: world.spec().ethernet.mtu_bytes,
        speed_megabits: megabits(port.link_layer, port.rate),
        ..interfaces::management(0)
    }
}

/// Returns the address of a station from its link-local address: the inverse of a modified EUI-64
/// (RFC 4291, appendix A).
fn station(of: Ipv6Addr) -> Vec<u8> {
    let [.., a, b, c, _, _, d, e, f] = of.octets();
    vec![a ^ 2, b, c, d, e, f]
}

/// Adds the addresses that GIDs have on an interface of the fabric file.
fn add_addresses(known: &mut Interface, rdma: &Interface) {
    known.addresses.extend(rdma.addresses.iter().filter(|own| !known.addresses.contains(own)).copied().collect::<Vec<_>>());
    known.addresses_v6.extend(rdma.addresses_v6.iter().filter(|own| !known.addresses_v6.contains(own)).copied().collect::<Vec<_>>());
}

/// Returns the routes of a host through other hosts. Without kernels, it has none.
pub(crate) fn routes_of_host(kernels: Option<&Kernels>, host: usize) -> Vec<Route> {
    let through_others = |route: &softband_net::Route| {
        let (IpAddr::V4(network), Some(IpAddr::V4(gateway))) = (route.network, route.gateway) else { return None };
        let network = Address { address: network.into(), prefix: route.prefix };
        Some(Route { network, gateway: gateway.into(), index: route.interface.0 + 1 })
    };
    kernels.map_or(Vec::new(), |kernels| kernels.stack(host).routes().iter().filter_map(through_others).collect())
}

fn counts(counters: InterfaceCounters) -> Counters {
    Counters {
        received_packets: counters.received_packets,
        received_bytes: counters.received_bytes,
        received_dropped: counters.received_dropped,
        sent_packets: counters.sent_packets,
        sent_bytes: counters.sent_bytes,
        sent_dropped: counters.sent_dropped,
    }
}

fn one(world: &World, host: usize, config: &InterfaceConfig, spec: &InterfaceSpec) -> Interface {
    let usual = interfaces::management(network::address(host));
    let addresses = config.addresses.iter().filter_map(|own| match own.address {
        IpAddr::V4(address) => Some(Address { address: address.into(), prefix: own.prefix }),
        IpAddr::V6(_) => None,
    });
    let addresses_v6 = config.addresses.iter().filter_map(|own| match softband_net::plain_address(own.address) {
        IpAddr::V6(address) => Some(AddressV6 { address, prefix: own.prefix }),
        IpAddr::V4(_) => None,
    });
    let is_up = spec.port().is_none_or(|(hca, port)| {
        let port = world.port(world.hca_id(host, hca), port);
        port.is_some_and(|port| port.state == Some(LinkState::Active))
    });
    let speed_megabits =
        spec.port().and_then(|(hca, port)| world.port(world.hca_id(host, hca), port)).map_or(0, |port| megabits(port.link_layer, port.rate));
    let running = if is_up { flag::RUNNING | flag::LOWER_UP } else { 0 };
    let common = Interface {
        name: spec.name.clone(),
        addresses: addresses.collect(),
        addresses_v6: addresses_v6.collect(),
        flags: flag::UP | flag::BROADCAST | flag::MULTICAST | running,
        mtu: config.mtu_bytes,
        speed_megabits,
        ..usual
    };
    match spec.kind {
        InterfaceKind::Management => common,
        // The management network's broadcast address is that of Ethernet.
        InterfaceKind::Ethernet { .. } => {
            Interface { hardware_address: config.link_address.map_or(vec![0; 6], |address| address.as_slice().to_vec()), ..common }
        }
        InterfaceKind::Ipoib { pkey, .. } => Interface {
            hardware: hardware::INFINIBAND,
            hardware_address: config.link_address.map_or(vec![0; 20], |address| address.as_slice().to_vec()),
            hardware_broadcast: broadcast(pkey),
            ..common
        },
    }
}

/// Returns the address of the broadcast group of a partition: the multicast QPN with its MGID
/// (RFC 4391, 4 and 9.1.1).
fn broadcast(pkey: PKey) -> Vec<u8> {
    let [high, low] = (pkey.0 | 0x8000).to_be_bytes();
    let mut address = vec![0; 20];
    address[..10].copy_from_slice(&[0, 0xff, 0xff, 0xff, 0xff, 0x12, 0x40, 0x1b, high, low]);
    address[16..].fill(0xff);
    address
}
