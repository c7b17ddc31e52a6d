//! Answers to questions about an identifier, and path records of programs.

use super::CmTable;
use super::address::{Address, IB, IB_BYTES, V6_BYTES};
use super::events::{Kind, Parameters};
use super::fields::{Fields, Structure};
use super::identifier::{Id, Stage};
use super::path::{LocalPort, Path};
use super::resolve::PATH_FLAGS;
use softband_sim::SimTime;
use softband_types::Gid;
use softband_wire::mad::{Layout, PathRecord, Selector};

/// Bytes of `struct rdma_ucm_query_route_resp` and of `struct rdma_ucm_query_addr_resp`.
const ROUTE_BYTES: usize = 208;
const ADDRESSES_BYTES: usize = 280;
/// Least room for addresses: without the index of the device.
const ADDRESSES_MIN: usize = 272;
/// Bytes of the head of paths, of a path with its flags, and of its record.
const PATHS_HEAD_BYTES: usize = 8;
const PATH_BYTES: usize = 72;
const RECORD_AT: usize = 8;

impl Id {
    /// Answers QUERY.
    ///
    /// # Errors
    /// `ENOSPC` without room, `ENOSYS` for an unknown question.
    pub(super) fn query(&self, option: u32, room: usize) -> Result<Vec<u8>, i32> {
        match option {
            0 | 2 if room < ADDRESSES_MIN => Err(libc::ENOSPC),
            0 => Ok(self.addresses().cut(room)),
            1 if room < PATHS_HEAD_BYTES => Err(libc::ENOSPC),
            1 => Ok(self.paths(room)),
            2 => Ok(self.gids().cut(room)),
            _ => Err(libc::ENOSYS),
        }
    }

    /// Writes the facts about the device. Without a device they are 0: librdmacm takes a GUID for a
    /// device that it has to find.
    fn device(&self, structure: &mut Structure) {
        if let Some(port) = &self.port {
            structure.put(0, &port.node_guid.0.to_be_bytes()).u8(8, port.port.0);
            structure.put(10, &port.pkey.0.to_be_bytes()).u32(272, port.hca.0);
        }
    }

    fn addresses(&self) -> Structure {
        let mut structure = Structure::of(ADDRESSES_BYTES);
        self.device(&mut structure);
        for (size_at, at, address) in [(12, 16, &self.source), (14, 144, &self.destination)] {
            structure.u16(size_at, address.size() as u16);
            address.emit(structure.from(at));
        }
        structure
    }

    /// Returns the addresses as GIDs (`struct sockaddr_ib`).
    fn gids(&self) -> Structure {
        let mut structure = Structure::of(ADDRESSES_BYTES);
        self.device(&mut structure);
        let gid_of = |port: &Option<LocalPort>| port.map_or(Gid([0; 16]), |port| port.gid);
        let remote = self.path.map_or_else(|| gid_of(&self.peer), |path| path.dgid);
        let key = self.port.map_or(0, |port| port.pkey.0);
        for (size_at, at, gid, address) in [(12, 16, gid_of(&self.port), &self.source), (14, 144, remote, &self.destination)] {
            structure.u16(size_at, IB_BYTES as u16);
            if address.is_ib() {
                address.emit(structure.from(at));
                continue;
            }
            structure.u16(at, IB).put(at + 2, &key.to_be_bytes()).put(at + 8, &gid.0);
            structure.put(at + 24, &self.service_id(address).to_be_bytes());
        }
        structure
    }

    fn paths(&self, room: usize) -> Vec<u8> {
        let path = self.path.filter(|_| room >= PATHS_HEAD_BYTES + PATH_BYTES);
        let mut structure = Structure::of(PATHS_HEAD_BYTES + path.map_or(0, |_| PATH_BYTES));
        structure.u32(0, self.path.is_some().into());
        if let Some(path) = path {
            structure.u32(PATHS_HEAD_BYTES, PATH_FLAGS).put(PATHS_HEAD_BYTES + RECORD_AT, &record(&path).to_bytes());
        }
        structure.cut(room)
    }

    /// Answers QUERY_ROUTE.
    pub(super) fn route(&self) -> Structure {
        let mut structure = Structure::of(ROUTE_BYTES);
        emit_short(&self.source, structure.from(136));
        emit_short(&self.destination, structure.from(164));
        let Some(port) = &self.port else { return structure };
        structure.put(0, &port.node_guid.0.to_be_bytes()).u8(196, port.port.0).u32(200, port.hca.0);
        if let Some(path) = &self.path {
            structure.u32(192, 1);
            user_path(&mut structure, path);
        } else {
            let peer = self.peer.map_or(Gid([0; 16]), |peer| peer.gid);
            structure.put(8, &peer.0).put(24, &port.gid.0).put(56, &port.pkey.0.to_be_bytes());
        }
        structure
    }
}

/// Writes an address into the room of a `sockaddr_in6`.
fn emit_short(address: &Address, bytes: &mut [u8]) {
    address.emit(&mut bytes[..V6_BYTES]);
}

/// Writes `struct ib_user_path_rec` of a path to the first place of a route.
fn user_path(structure: &mut Structure, path: &Path) {
    const AT: usize = 8;
    structure.put(AT, &path.dgid.0).put(AT + 16, &path.source.gid.0);
    let [slid, dlid] = path.lids();
    structure.put(AT + 32, &dlid.0.to_be_bytes()).put(AT + 34, &slid.0.to_be_bytes());
    structure.u32(AT + 44, 1).u32(AT + 48, path.mtu.0.into()).put(AT + 52, &path.source.pkey.0.to_be_bytes());
    // Of the bytes from the hop limit on: the service level, and equality of MTU, rate and time.
    let exactly = Selector::EXACTLY.0;
    structure.u8(AT + 54, path.hop_limit()).u8(AT + 55, path.traffic_class);
    structure.u8(AT + 57, path.service_level.0).u8(AT + 58, exactly).u8(AT + 59, exactly).u8(AT + 60, path.rate.0);
    structure.u8(AT + 61, exactly).u8(AT + 62, path.packet_life_time);
}

fn record(path: &Path) -> PathRecord {
    let [slid, dlid] = path.lids();
    PathRecord {
        dgid: path.dgid,
        sgid: path.source.gid,
        dlid,
        slid,
        hop_limit: path.hop_limit(),
        tclass: path.traffic_class,
        reversible: true,
        p_key: path.source.pkey,
        sl: path.service_level,
        mtu_selector: Selector::EXACTLY,
        mtu: path.mtu,
        rate_selector: Selector::EXACTLY,
        rate: path.rate,
        packet_life_time_selector: Selector::EXACTLY,
        packet_life_time: path.packet_life_time,
        ..PathRecord::default()
    }
}

impl CmTable {
    /// Takes the path from path records of the program, the first that is complete.
    pub(super) fn set_path(&mut self, number: u32, records: &[u8], now: SimTime) -> Result<(), i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        let source = id.port.ok_or(libc::EINVAL)?;
        let given = records.chunks_exact(PATH_BYTES).find(|record| Fields(record).u32(0) == PATH_FLAGS).ok_or(libc::EINVAL)?;
        let given = PathRecord::parse(&given[RECORD_AT..]).map_err(|_| libc::EINVAL)?;
        id.advance(Stage::AddressResolved, Stage::RouteResolved)?;
        id.path = Some(Path {
            source,
            dlid: given.dlid,
            dgid: given.dgid,
            service_level: given.sl,
            mtu: given.mtu,
            rate: given.rate,
            packet_life_time: given.packet_life_time.min(30),
            traffic_class: given.tclass,
        });
        self.post(number, Kind::RouteResolved, 0, Parameters::default(), now);
        Ok(())
    }
}
