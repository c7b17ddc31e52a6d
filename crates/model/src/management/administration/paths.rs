//! Paths of a subnet, and their records.

use softband_types::{Gid, Lid, LinkRate, LinkSpeed, LinkWidth, Lmc, Mtu, PKey, PortLids, ServiceLevel};
use softband_wire::mad::{ComponentMask, MultiPathRecord, PathRecord, RateCode, Selector, Status};

/// Life of a packet in the subnet: 4.096 us * 2^18, OpenSM's default.
const PACKET_LIFE_TIME: u8 = 18;

/// A query for paths.
pub(super) struct PathQuery<'a> {
    pub(super) wanted: &'a PathRecord,
    pub(super) mask: ComponentMask,
    /// Whether the answer has room for several records.
    pub(super) is_table: bool,
}

/// Most paths of an answer: those of a subnet of 1,448 ports.
const PATHS_MAX: usize = 1 << 21;

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
    /// Rate of the slowest of the path's links.
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
    /// Returns all LIDs of an end's port.
    fn lids_of(&self, end: PathEnd) -> PortLids {
        PortLids { base: end.lid, lmc: Lmc::ZERO }
    }
    /// Returns the path between two ends; `None` without a route.
    fn path(&self, from: PathEnd, to: PathEnd) -> Option<Path>;
    /// Returns the least MTU of all links, and the least rate of all ends; `None` without links.
    fn least(&self) -> Option<(Mtu, LinkRate)>;
}

/// A port at an end of the wanted paths, with those of its LIDs that the request admits.
#[derive(Clone)]
struct Candidate {
    end: PathEnd,
    lids: Vec<Lid>,
}

impl Candidate {
    /// Returns the port of an end with all of its LIDs.
    fn whole(paths: &dyn Paths, end: PathEnd) -> Self {
        Self { end, lids: paths.lids_of(end).all().collect() }
    }

    /// Returns the ports that a request names by GID and LID; `None` if it names neither.
    fn named(paths: &dyn Paths, gid: Option<Gid>, lid: Option<Lid>) -> Option<Vec<Self>> {
        let end = match (gid, lid) {
            (None, None) => return None,
            (Some(gid), _) => paths.with_gid(gid),
            (None, Some(lid)) => paths.with_lid(lid),
        };
        let admits = |one: &Lid| lid.is_none_or(|lid| lid == *one);
        let of_end = |end| Self { lids: paths.lids_of(end).all().filter(admits).collect(), end };
        Some(end.map(of_end).into_iter().filter(|candidate| !candidate.lids.is_empty()).collect())
    }
}

/// Returns the LIDs of all paths that a request describes. Ports with several LIDs have several
/// paths: first those that share no LID.
///
/// # Errors
/// `SA_NO_RESOURCES` if there may be more than [`PATHS_MAX`].
pub(super) fn matching(of: &PathQuery<'_>, requester: Lid, paths: &dyn Paths) -> Result<Vec<(Lid, Lid)>, Status> {
    let (wanted, mask) = (of.wanted, of.mask);
    let named =
        |(gid_bit, gid), (lid_bit, lid)| Candidate::named(paths, mask.contains(gid_bit).then_some(gid), mask.contains(lid_bit).then_some(lid));
    let to = named((ComponentMask::PATH_DGID, wanted.dgid), (ComponentMask::PATH_DLID, wanted.dlid));
    let from = named((ComponentMask::PATH_SGID, wanted.sgid), (ComponentMask::PATH_SLID, wanted.slid));
    let all = || paths.ends().into_iter().map(|end| Candidate::whole(paths, end)).collect::<Vec<_>>();
    let from = match (from, &to) {
        (Some(from), _) => from,
        // A request for the paths to an end means those of the requester.
        (None, Some(_)) => paths.with_lid(requester).into_iter().map(|end| Candidate::whole(paths, end)).collect(),
        (None, None) => all(),
    };
    let to = to.unwrap_or_else(all);
    // A single answer has a single path (IBTA 15.2.5.16, NumbPath).
    let each = match mask.contains(ComponentMask::PATH_NUMB_PATH) {
        _ if !of.is_table => 1,
        true => usize::from(wanted.numb_path & 0x7F),
        false => usize::MAX,
    };
    let count = |candidates: &[Candidate]| candidates.iter().map(|candidate| candidate.lids.len()).sum::<usize>();
    if each > 1 && count(&from).saturating_mul(count(&to)) > PATHS_MAX || from.len().saturating_mul(to.len()) > PATHS_MAX {
        return Err(Status::SA_NO_RESOURCES);
    }
    let pairs = from.iter().flat_map(|from| to.iter().map(move |to| (from, to)));
    Ok(pairs.flat_map(|(from, to)| between_lids(from, to, paths).take(each)).collect())
}

/// Returns the paths from each LID of a port to each of another: first pairs that
/// share no LID, which have least of their way in common.
fn between_lids(from: &Candidate, to: &Candidate, paths: &dyn Paths) -> impl Iterator<Item = (Lid, Lid)> {
    let (sources, destinations) = (from.lids.len(), to.lids.len());
    let shifts = 0..sources.max(destinations);
    let pairs = shifts.flat_map(move |shift| {
        let source = (0..sources.max(destinations)).map(move |place| (place, (place + shift)));
        source.filter(move |(source, destination)| *source < sources && destination % sources.max(destinations) < destinations)
    });
    let longest = sources.max(destinations);
    pairs.filter_map(move |(source, destination)| {
        let ends = [PathEnd { lid: from.lids[source], ..from.end }, PathEnd { lid: to.lids[destination % longest], ..to.end }];
        paths.path(ends[0], ends[1]).map(|_| (ends[0].lid, ends[1].lid))
    })
}

/// Returns the records of paths.
pub(super) fn records(found: &[(Lid, Lid)], paths: &dyn Paths) -> Vec<PathRecord> {
    found.iter().filter_map(|lids| record_between(*lids, paths)).collect()
}

fn record_between((slid, dlid): (Lid, Lid), paths: &dyn Paths) -> Option<PathRecord> {
    let (from, to) = (paths.with_lid(slid)?, paths.with_lid(dlid)?);
    Some(record(from, to, paths.path(from, to)?))
}

/// Returns the record of a path. A path that has vanished since the request has its LIDs only.
pub(super) fn present_record((slid, dlid): (Lid, Lid), paths: &dyn Paths) -> PathRecord {
    record_between((slid, dlid), paths).unwrap_or(PathRecord { slid, dlid, ..PathRecord::default() })
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
        // No code is less than 2.5 Gb/s.
        LinkSpeed::Gigabit | LinkSpeed::Sdr => [2, 5, 3, 6, 4],
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
