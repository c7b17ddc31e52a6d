//! Paths of a subnet, and their records.

use softband_types::{Gid, Lid, LinkRate, LinkSpeed, LinkWidth, Mtu, PKey, ServiceLevel};
use softband_wire::mad::{ComponentMask, MultiPathRecord, PathRecord, RateCode, Selector, Status};

/// Life of a packet in the subnet: 4.096 us * 2^18, OpenSM's default.
const PACKET_LIFE_TIME: u8 = 18;

/// An end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathEnd {
    /// LID of the port.
    pub lid: Lid,
    /// GID of the port.
    pub gid: Gid,
}

/// Properties of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Least MTU of the path's links.
    pub mtu: Mtu,
    /// Rate of the slower of both ends' links.
    pub rate: LinkRate,
    /// Service level that packets must have.
    pub service_level: ServiceLevel,
}

/// Knows the ends and paths of a subnet.
pub trait Paths {
    /// Returns all ends.
    fn ends(&self) -> Vec<PathEnd>;
    /// Returns the end with a GID.
    fn with_gid(&self, gid: Gid) -> Option<PathEnd>;
    /// Returns the end with a LID.
    fn with_lid(&self, lid: Lid) -> Option<PathEnd>;
    /// Returns the path between two ends; `None` without a route.
    fn path(&self, from: PathEnd, to: PathEnd) -> Option<Path>;
    /// Returns the least MTU of all links, and the least rate of all ends; `None` without links.
    fn least(&self) -> Option<(Mtu, LinkRate)>;
}

/// Returns the records of all paths that a request describes, at most `most`.
///
/// # Errors
/// `SA_NO_RESOURCES` if there are more.
pub(super) fn matching(wanted: &PathRecord, mask: ComponentMask, requester: Lid, paths: &dyn Paths, most: usize) -> Result<Vec<PathRecord>, Status> {
    let ends = |(gid_bit, gid): (ComponentMask, Gid), (lid_bit, lid): (ComponentMask, Lid)| {
        if mask.contains(gid_bit) {
            return Some(paths.with_gid(gid).filter(|end| !mask.contains(lid_bit) || end.lid == lid).into_iter().collect());
        }
        mask.contains(lid_bit).then(|| paths.with_lid(lid).into_iter().collect())
    };
    let to: Option<Vec<PathEnd>> = ends((ComponentMask::PATH_DGID, wanted.dgid), (ComponentMask::PATH_DLID, wanted.dlid));
    let from: Option<Vec<PathEnd>> = ends((ComponentMask::PATH_SGID, wanted.sgid), (ComponentMask::PATH_SLID, wanted.slid));
    let from = match (from, &to) {
        (Some(from), _) => from,
        // A request for the paths to an end means those of the requester.
        (None, Some(_)) => paths.with_lid(requester).into_iter().collect(),
        (None, None) => paths.ends(),
    };
    let to = to.unwrap_or_else(|| paths.ends());
    if from.len().saturating_mul(to.len()) > most {
        return Err(Status::SA_NO_RESOURCES);
    }
    let pairs = from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to)));
    Ok(pairs.filter_map(|(from, to)| Some(record(from, to, paths.path(from, to)?))).collect())
}

/// Returns the records of the paths from each source of a request to each destination.
///
/// # Errors
/// `SA_INSUFFICIENT_COMPONENTS` without both lists, `SA_REQUEST_INVALID` if a list is empty or too
/// long, `SA_INVALID_GID` if no port has a GID.
pub(super) fn between(wanted: &MultiPathRecord, mask: ComponentMask, paths: &dyn Paths) -> Result<Vec<PathRecord>, Status> {
    const LISTS: ComponentMask = ComponentMask(ComponentMask::MULTI_PATH_SGID_COUNT.0 | ComponentMask::MULTI_PATH_DGID_COUNT.0);
    if !mask.contains(LISTS) {
        return Err(Status::SA_INSUFFICIENT_COMPONENTS);
    }
    let (sources, all) = (usize::from(wanted.sgid_count), usize::from(wanted.sgid_count) + usize::from(wanted.dgid_count));
    if sources == 0 || wanted.dgid_count == 0 || all > wanted.gids.len() {
        return Err(Status::SA_REQUEST_INVALID);
    }
    let ends: Option<Vec<PathEnd>> = wanted.gids[..all].iter().map(|gid| paths.with_gid(*gid)).collect();
    let ends = ends.ok_or(Status::SA_INVALID_GID)?;
    let (from, to) = ends.split_at(sources);
    let pairs = from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to)));
    let most = if mask.contains(ComponentMask::MULTI_PATH_NUMB_PATH) { usize::from(wanted.numb_path) } else { usize::MAX };
    Ok(pairs.filter_map(|(from, to)| Some(record(from, to, paths.path(from, to)?))).take(most).collect())
}

fn record(from: PathEnd, to: PathEnd, path: Path) -> PathRecord {
    PathRecord {
        dgid: to.gid,
        sgid: from.gid,
        dlid: to.lid,
        slid: from.lid,
        reversible: true,
        numb_path: 1,
        p_key: PKey::DEFAULT_FULL,
        sl: path.service_level,
        mtu_selector: Selector::EXACTLY,
        mtu: path.mtu.into(),
        rate_selector: Selector::EXACTLY,
        rate: rate_code(path.rate),
        packet_life_time_selector: Selector::EXACTLY,
        packet_life_time: PACKET_LIFE_TIME,
        ..PathRecord::default()
    }
}

/// Returns the code of a rate (IBTA 15.2.5.16, table of rates).
pub(super) fn rate_code(rate: LinkRate) -> RateCode {
    // Codes by speed, for 1, 2, 4, 8 and 12 lanes.
    let codes: [u8; 5] = match rate.speed {
        LinkSpeed::Sdr => [2, 5, 3, 6, 4],
        LinkSpeed::Ddr => [5, 3, 6, 7, 8],
        LinkSpeed::Qdr | LinkSpeed::Fdr10 => [3, 6, 7, 9, 10],
        LinkSpeed::Fdr => [11, 19, 12, 13, 14],
        LinkSpeed::Edr => [15, 20, 16, 17, 18],
        LinkSpeed::Hdr => [20, 16, 17, 21, 22],
        LinkSpeed::Ndr => [16, 17, 21, 23, 24],
        // The largest code is that of 1,200 Gb/s.
        LinkSpeed::Xdr => [17, 21, 23, 24, 24],
    };
    let lanes = match rate.width {
        LinkWidth::X1 => 0,
        LinkWidth::X2 => 1,
        LinkWidth::X4 => 2,
        LinkWidth::X8 => 3,
        LinkWidth::X12 => 4,
    };
    RateCode(codes[lanes])
}
