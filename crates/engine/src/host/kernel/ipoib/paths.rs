//! Paths to neighbours, where the subnet manager names them by packets. The built-in manager without
//! packets has tables, which the kernel reads.

use super::address::parse;
use super::send::{Destination, Way};
use super::{Common, IpoibLink};
use crate::host::kernel::agenda::Due;
use crate::host::kernel::paths::TIMEOUT;
use softband_fabric::World;
use softband_model::verbs::api::{AddressVector, DatagramDestination};
use softband_net::{LinkAddress, LinkDestination};
use softband_sim::SimTime;
use softband_types::{AhHandle, Gid};
use softband_wire::mad::PathRecord;
use std::collections::BTreeMap;

/// Path to a port.
#[derive(Clone, Copy, Debug)]
enum Path {
    Asked,
    Known(AhHandle),
}

/// Paths of an interface by the GIDs of ports.
#[derive(Debug, Default)]
pub(super) struct PortPaths(BTreeMap<Gid, Path>);

impl PortPaths {
    /// Forgets all paths. Returns the handles of their addresses.
    pub(super) fn forget(&mut self) -> impl Iterator<Item = AhHandle> {
        std::mem::take(&mut self.0).into_values().filter_map(|path| match path {
            Path::Asked => None,
            Path::Known(handle) => Some(handle),
        })
    }
}

impl IpoibLink {
    /// Returns the way to a neighbour by a path that subnet administration has named.
    pub(super) fn way_by_path(&self, paths: &PortPaths, address: &LinkAddress) -> Way {
        let Some((remote_qpn, gid)) = parse(address) else { return Way::None };
        match paths.0.get(&gid) {
            None => Way::Unknown(gid),
            Some(Path::Asked) => Way::Soon,
            Some(Path::Known(ah)) => Way::Open(Destination::Datagram(DatagramDestination { ah: *ah, remote_qpn, remote_qkey: self.qkey })),
        }
    }

    /// Asks subnet administration for the path to a port. Packets to it wait.
    pub(super) fn ask_path(&mut self, world: &mut World, common: &mut Common, at: SimTime, to: Gid) {
        let port = self.local_port(world);
        let (Some(paths), Some(port)) = (&mut self.paths, port) else { return };
        paths.0.insert(to, Path::Asked);
        let (transaction, packet) = common.paths.ask((self.place.host, self.place.interface), &port, self.place.pkey, to);
        let at = at.max(world.now());
        world.send_management(port.hca, port.port, packet, at);
        common.agenda.push(at + TIMEOUT, Due::PathExpires { transaction });
    }

    /// Notes the answer to a query for a path: none means that packets to the port are lost.
    pub(in crate::host::kernel) fn path_found(&mut self, world: &mut World, common: &mut Common, now: SimTime, to: Gid, record: Option<PathRecord>) {
        let super::Place { owner, hca, port, .. } = self.place;
        let handle = record.and_then(|record| {
            let vector = AddressVector { dlid: record.dlid, service_level: record.sl, port, ..AddressVector::default() };
            world.create_ah(owner, self.pd, world.resolve(hca, &vector).ok()?).ok()
        });
        let Some(paths) = &mut self.paths else { return };
        let old = match handle {
            Some(handle) => paths.0.insert(to, Path::Known(handle)),
            None => paths.0.remove(&to),
        };
        if let Some(Path::Known(old)) = old {
            self.retire(old);
        }
        if handle.is_none() {
            self.drop_waiting_if(
                common,
                now,
                |way| matches!(way, LinkDestination::Link(address) if parse(&address).is_some_and(|(_, gid)| gid == to)),
            );
        }
        self.send_waiting(world, common, now);
    }
}
