//! Services that ports offer (IBTA 15.2.5.14).

use softband_sim::SimTime;
use softband_types::{Gid, PKey};
use softband_wire::mad::{ComponentMask, ServiceRecord, Status};
use std::collections::BTreeMap;

/// Most services at a time.
const SERVICES_MAX: usize = 4_096;
/// Lease without an end.
const FOR_EVER: u32 = u32::MAX;
/// First components of the service data, by their width.
const DATA_8: usize = 7;
const DATA_16: usize = DATA_8 + 16;
const DATA_32: usize = DATA_16 + 8;
const DATA_64: usize = DATA_32 + 4;
/// Components that identify a service (its RID).
const IDENTITY: ComponentMask = ComponentMask(ComponentMask::SERVICE_SERVICE_ID.0 | ComponentMask::SERVICE_SERVICE_GID.0);

/// Identity of a service.
type Key = (u64, Gid, u16);

/// The services of a subnet, each with the end of its lease.
#[derive(Debug, Default)]
pub(super) struct Services {
    all: BTreeMap<Key, (ServiceRecord, Option<SimTime>)>,
}

impl Services {
    /// Adds a service, or replaces the one with this identity.
    ///
    /// # Errors
    /// `SA_INSUFFICIENT_COMPONENTS` without an identity, `SA_DENIED` with another key than before.
    pub(super) fn set(&mut self, wanted: &ServiceRecord, mask: ComponentMask, now: SimTime) -> Result<ServiceRecord, Status> {
        if !mask.contains(IDENTITY) {
            return Err(Status::SA_INSUFFICIENT_COMPONENTS);
        }
        self.forget_old(now);
        let service_p_key = if mask.contains(ComponentMask::SERVICE_SERVICE_P_KEY) { wanted.service_p_key } else { PKey::DEFAULT_FULL };
        let service_lease = if mask.contains(ComponentMask::SERVICE_SERVICE_LEASE) { wanted.service_lease } else { FOR_EVER };
        let record = ServiceRecord { service_p_key, service_lease, ..*wanted };
        match self.all.get(&key(&record)) {
            Some((former, _)) if former.service_key != wanted.service_key => return Err(Status::SA_DENIED),
            None if self.all.len() >= SERVICES_MAX => return Err(Status::SA_NO_RESOURCES),
            _ => {}
        }
        let end = (service_lease != FOR_EVER).then(|| end_of(service_lease, now)).flatten();
        self.all.insert(key(&record), (record, end));
        Ok(record)
    }

    /// Removes the services that a request describes. Returns the first.
    ///
    /// # Errors
    /// `SA_NO_RECORDS` if there is none.
    pub(super) fn delete(&mut self, wanted: &ServiceRecord, mask: ComponentMask, now: SimTime) -> Result<ServiceRecord, Status> {
        self.forget_old(now);
        let doomed: Vec<Key> = self.all.values().filter(|(record, _)| agrees(record, wanted, mask)).map(|(record, _)| key(record)).collect();
        let mut removed = doomed.iter().filter_map(|key| self.all.remove(key)).map(|(record, _)| record).collect::<Vec<_>>().into_iter();
        removed.next().ok_or(Status::SA_NO_RECORDS)
    }

    /// Returns the services that a request describes, with the rest of their leases. Their keys are for
    /// requesters with the manager's key.
    pub(super) fn matching(&mut self, wanted: &ServiceRecord, mask: ComponentMask, is_trusted: bool, now: SimTime) -> Vec<ServiceRecord> {
        self.forget_old(now);
        let found = self.all.values().filter(|(record, _)| agrees(record, wanted, mask));
        let shown = |(record, end): &(ServiceRecord, Option<SimTime>)| {
            let rest = |end: SimTime| end.saturating_since(now).as_picos() / 1_000_000_000_000;
            let service_lease = end.map_or(FOR_EVER, |end| rest(end) as u32);
            let service_key = if is_trusted { record.service_key } else { [0; 16] };
            ServiceRecord { service_lease, service_key, ..*record }
        };
        found.map(shown).collect()
    }

    fn forget_old(&mut self, now: SimTime) {
        self.all.retain(|_, (_, end)| end.is_none_or(|end| end > now));
    }
}

/// Returns the end of a lease in seconds; `None` if it lies after the end of simulated time.
fn end_of(lease: u32, now: SimTime) -> Option<SimTime> {
    let lease = u64::from(lease).checked_mul(1_000_000_000_000)?;
    now.as_picos().checked_add(lease).map(SimTime::from_picos)
}

fn key(record: &ServiceRecord) -> Key {
    (record.service_id, record.service_gid, record.service_p_key.partition())
}

/// Checks whether a service has the properties that a request names.
fn agrees(record: &ServiceRecord, wanted: &ServiceRecord, mask: ComponentMask) -> bool {
    let equal = [
        (ComponentMask::SERVICE_SERVICE_ID, record.service_id == wanted.service_id),
        (ComponentMask::SERVICE_SERVICE_GID, record.service_gid == wanted.service_gid),
        (ComponentMask::SERVICE_SERVICE_P_KEY, record.service_p_key.partition() == wanted.service_p_key.partition()),
        (ComponentMask::SERVICE_SERVICE_KEY, record.service_key == wanted.service_key),
        (ComponentMask::SERVICE_SERVICE_NAME, record.service_name == wanted.service_name),
    ];
    let named = |first: usize, index: usize| mask.contains(ComponentMask(1u64 << (first + index)));
    equal.iter().all(|(bit, is_equal)| *is_equal || !mask.contains(*bit))
        && (0..16).all(|index| !named(DATA_8, index) || record.service_data8[index] == wanted.service_data8[index])
        && (0..8).all(|index| !named(DATA_16, index) || record.service_data16[index] == wanted.service_data16[index])
        && (0..4).all(|index| !named(DATA_32, index) || record.service_data32[index] == wanted.service_data32[index])
        && (0..2).all(|index| !named(DATA_64, index) || record.service_data64[index] == wanted.service_data64[index])
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_sim::SimDuration;

    const LEASE: ComponentMask = ComponentMask::SERVICE_SERVICE_LEASE;

    fn seconds(seconds: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_service_lives_as_long_as_its_lease() {
        let mut services = Services::default();
        let short = ServiceRecord { service_id: 7, service_lease: 10, service_key: [9; 16], ..ServiceRecord::default() };
        let long = ServiceRecord { service_id: 8, ..short };
        assert_eq!(services.set(&short, LEASE, seconds(0)), Err(Status::SA_INSUFFICIENT_COMPONENTS));
        services.set(&short, IDENTITY | LEASE, seconds(0)).unwrap();
        services.set(&long, IDENTITY, seconds(0)).unwrap();
        let all = services.matching(&short, ComponentMask(0), false, seconds(4));
        assert_eq!(all.iter().map(|record| (record.service_id, record.service_lease)).collect::<Vec<_>>(), [(7, 6), (8, FOR_EVER)]);
        assert_eq!(all[0].service_key, [0; 16], "strangers do not see it");
        assert_eq!(services.matching(&short, IDENTITY, true, seconds(4))[0].service_key, [9; 16]);
        let stolen = ServiceRecord { service_key: [1; 16], ..short };
        assert_eq!(services.set(&stolen, IDENTITY, seconds(4)), Err(Status::SA_DENIED));
        assert!(services.matching(&short, IDENTITY, false, seconds(10)).is_empty());
        assert_eq!(services.set(&stolen, IDENTITY, seconds(10)).unwrap().service_lease, FOR_EVER);
    }

    #[test]
    fn a_lease_can_outlast_simulated_time() {
        let mut services = Services::default();
        let record = ServiceRecord { service_id: 7, service_lease: u32::MAX - 1, ..ServiceRecord::default() };
        services.set(&record, IDENTITY | LEASE, seconds(5)).unwrap();
        assert_eq!(services.matching(&record, IDENTITY, true, seconds(9)).len(), 1);
    }

    #[test]
    fn each_component_of_a_service_selects() {
        let mut services = Services::default();
        let mut record = ServiceRecord { service_id: 7, ..ServiceRecord::default() };
        (record.service_data8[3], record.service_data16[2], record.service_data32[1], record.service_data64[1]) = (8, 16, 32, 64);
        services.set(&record, IDENTITY, SimTime::ZERO).unwrap();
        let nothing = ServiceRecord { service_id: 7, ..ServiceRecord::default() };
        for (first, index) in [(DATA_8, 3), (DATA_16, 2), (DATA_32, 1), (DATA_64, 1)] {
            let find =
                |wanted, index| services.all.values().filter(|(record, _)| agrees(record, wanted, ComponentMask(1u64 << (first + index)))).count();
            assert_eq!((find(&record, index), find(&nothing, index), find(&nothing, 0)), (1, 0, 1), "{first}");
        }
        assert_eq!(services.delete(&nothing, ComponentMask(1 << (DATA_8 + 3)), SimTime::ZERO), Err(Status::SA_NO_RECORDS));
        assert_eq!(services.delete(&nothing, IDENTITY, SimTime::ZERO).unwrap().service_id, 7);
        assert!(services.all.is_empty());
    }
}
