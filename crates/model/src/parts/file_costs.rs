//! Costs of reads and writes of files on a host.

use softband_sim::SimDuration;

/// Costs of a host's files. Without a value, files take no simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCosts {
    /// Rate at which a core copies bytes between a program and the page cache, in bytes per second.
    pub copy_bytes_per_second: Option<u64>,
    /// The disk of the host. `None`: requests to the disk take no time.
    pub disk: Option<DiskPart>,
}

/// Parameters of a disk, which serves its requests one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskPart {
    /// Sustained rate in bytes per second, at least 1.
    pub bytes_per_second: u64,
    /// Time to a request that does not begin where the one before it has ended.
    pub seek: SimDuration,
}

impl FileCosts {
    /// Returns the time in which a core copies a mebibyte, rounded down to a picosecond. Zero
    /// without a rate.
    pub fn copy_mebibyte(&self) -> SimDuration {
        let picos = |rate: u64| (1_000_000_000_000u128 << 20) / u128::from(rate.max(1));
        SimDuration::from_picos(self.copy_bytes_per_second.map_or(0, |rate| u64::try_from(picos(rate)).unwrap_or(u64::MAX)))
    }
}

impl DiskPart {
    /// Returns the time of a request, rounded up to a picosecond. An excessive time saturates.
    pub fn request(&self, bytes: u64, seeks: bool) -> SimDuration {
        let picos = (u128::from(bytes) * 1_000_000_000_000).div_ceil(u128::from(self.bytes_per_second.max(1)));
        let seek = if seeks { u128::from(self.seek.as_picos()) } else { 0 };
        SimDuration::from_picos(u64::try_from(picos + seek).unwrap_or(u64::MAX))
    }
}
