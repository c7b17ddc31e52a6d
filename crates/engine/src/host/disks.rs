//! The disk of a host. It serves requests in the order in which they come.

use softband_ipc::calls::DiskTransfer;
use softband_model::parts::DiskPart;
use softband_sim::SimTime;

#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// End of the last request.
    free_at: SimTime,
    /// Device, inode and offset behind the last request.
    head: Option<(u64, u64, u64)>,
}

impl Disk {
    /// Adds a request. Returns its end, or `None` if it would end after `latest`.
    pub(crate) fn end_of(&mut self, (now, latest): (SimTime, SimTime), part: DiskPart, request: &DiskTransfer) -> Option<SimTime> {
        let DiskTransfer { device, inode, offset, bytes } = *request;
        let seeks = self.head != Some((device, inode, offset));
        let start = self.free_at.max(now);
        let end = start.as_picos().checked_add(part.request(bytes, seeks).as_picos()).map(SimTime::from_picos).filter(|end| *end <= latest)?;
        self.free_at = end;
        self.head = Some((device, inode, offset.saturating_add(bytes)));
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_sim::SimDuration;

    const PART: DiskPart = DiskPart { bytes_per_second: 50_000_000, seek: SimDuration::from_micros(8_000) };

    /// An hour.
    const LATEST: SimTime = SimTime::from_picos(3_600_000_000_000_000);

    fn request(inode: u64, offset: u64) -> DiskTransfer {
        DiskTransfer { device: 1, inode, offset, bytes: 1_000_000 }
    }

    fn millis(disk: &mut Disk, now: u64, request: &DiskTransfer) -> u64 {
        disk.end_of((SimTime::from_picos(now * 1_000_000_000), LATEST), PART, request).unwrap().as_picos() / 1_000_000_000
    }

    #[test]
    fn a_request_that_continues_the_last_one_needs_no_seek() {
        let mut disk = Disk::default();
        assert_eq!(millis(&mut disk, 0, &request(7, 0)), 28);
        assert_eq!(millis(&mut disk, 28, &request(7, 1_000_000)), 48);
        assert_eq!(millis(&mut disk, 48, &request(7, 1_000_000)), 76);
    }

    #[test]
    fn another_file_at_the_same_offset_needs_a_seek() {
        let mut disk = Disk::default();
        assert_eq!(millis(&mut disk, 0, &request(7, 0)), 28);
        assert_eq!(millis(&mut disk, 28, &request(8, 1_000_000)), 56);
    }

    #[test]
    fn requests_wait_for_earlier_ones_and_an_idle_disk_starts_at_once() {
        let mut disk = Disk::default();
        assert_eq!(millis(&mut disk, 0, &request(7, 0)), 28);
        assert_eq!(millis(&mut disk, 1, &request(8, 0)), 56);
        assert_eq!(millis(&mut disk, 100, &request(8, 1_000_000)), 120);
    }

    #[test]
    fn a_request_beyond_the_end_of_time_leaves_the_disk_as_it_was() {
        let mut disk = Disk::default();
        for bytes in [200_000_000_000, u64::MAX] {
            assert_eq!(disk.end_of((SimTime::ZERO, LATEST), PART, &DiskTransfer { bytes, ..request(7, 0) }), None);
        }
        assert_eq!(millis(&mut disk, 0, &request(7, 0)), 28);
    }
}
