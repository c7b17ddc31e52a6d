//! A pcap file: a header, and a record for each packet (draft-ietf-opsawg-pcap).

use softband_fabric::PacketSink;
use softband_sim::SimTime;
use softband_types::LinkLayer;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Times in nanoseconds.
const MAGIC: u32 = 0xA1B2_3C4D;
const VERSION: [u16; 2] = [2, 4];
const LINKTYPE_ETHERNET: u32 = 1;
/// Packets with a header of their own, as ibdump writes InfiniBand. Wireshark does not read link
/// type 247 (LINKTYPE_INFINIBAND).
const LINKTYPE_ERF: u32 = 197;
/// Type of an ERF record: an InfiniBand packet from its LRH to its variant CRC.
const ERF_INFINIBAND: u8 = 21;
/// Flag of an ERF record: it is as long as its packet.
const ERF_VARYING: u8 = 4;
const ERF_BYTES: u16 = 16;
/// More than any packet has.
const LENGTH_MAX: u32 = 65_535;

/// A file to which packets go until it takes no more.
pub(crate) struct Pcap<W> {
    file: W,
    path: PathBuf,
    /// Date of time zero, since 1970.
    epoch: Duration,
    has_erf: bool,
    flushes_each: bool,
    has_failed: bool,
}

impl<W: Write> Pcap<W> {
    /// Writes the header of a file for packets of a link layer.
    ///
    /// # Errors
    /// If the file does not take the header.
    pub(super) fn begin(mut file: W, path: &Path, link_layer: LinkLayer) -> std::io::Result<Self> {
        let link_type = match link_layer {
            LinkLayer::Infiniband => LINKTYPE_ERF,
            LinkLayer::Ethernet => LINKTYPE_ETHERNET,
        };
        let mut header = MAGIC.to_le_bytes().to_vec();
        header.extend(VERSION.into_iter().flat_map(u16::to_le_bytes));
        header.extend([0, 0, LENGTH_MAX, link_type].into_iter().flat_map(u32::to_le_bytes));
        file.write_all(&header)?;
        file.flush()?;
        Ok(Self { file, path: path.to_path_buf(), epoch: Duration::ZERO, has_erf: link_type == LINKTYPE_ERF, flushes_each: false, has_failed: false })
    }

    /// Hands each packet to the system at once from now on, for a reader of a live fabric.
    pub(super) fn flush_each(&mut self) {
        self.flushes_each = true;
    }

    /// Sets the date of time zero.
    pub(super) fn dated_from(self, epoch: Duration) -> Self {
        Self { epoch, ..self }
    }

    fn put(&mut self, at: SimTime, bytes: &[u8]) -> std::io::Result<()> {
        let date = self.epoch.saturating_add(Duration::from_nanos(at.as_nanos()));
        let erf = self.has_erf.then(|| erf_header(date, bytes.len() as u16));
        let erf = erf.as_ref().map_or(&[][..], |header| &header[..]);
        let len = (erf.len() + bytes.len()) as u32;
        // The seconds of this format last until 2106.
        let words = [date.as_secs() as u32, date.subsec_nanos(), len, len].map(u32::to_le_bytes);
        self.file.write_all(words.as_flattened())?;
        self.file.write_all(erf)?;
        self.file.write_all(bytes)?;
        if self.flushes_each { self.file.flush() } else { Ok(()) }
    }

    /// Prints a warning if the file has failed for the first time. Returns whether it takes more.
    fn check(&mut self, written: std::io::Result<()>) -> bool {
        if let Err(error) = written
            && !std::mem::replace(&mut self.has_failed, true)
        {
            eprintln!("softband: the capture {} ends early, and the run goes on: {error}", self.path.display());
        }
        !self.has_failed
    }
}

/// Returns the header of an ERF record: a time in units of 2^-32 s, a type, and two lengths.
fn erf_header(date: Duration, len: u16) -> [u8; ERF_BYTES as usize] {
    let fraction = (u64::from(date.subsec_nanos()) << 32) / 1_000_000_000;
    let mut header = [0; ERF_BYTES as usize];
    header[..8].copy_from_slice(&(date.as_secs() << 32 | fraction).to_le_bytes());
    (header[8], header[9]) = (ERF_INFINIBAND, ERF_VARYING);
    header[10..12].copy_from_slice(&(ERF_BYTES + len).to_be_bytes());
    header[14..].copy_from_slice(&len.to_be_bytes());
    header
}

impl<W: Write + Send> PacketSink for Pcap<W> {
    fn take(&mut self, at: SimTime, bytes: &[u8]) -> bool {
        if self.has_failed {
            return false;
        }
        let written = self.put(at, bytes);
        self.check(written)
    }

    fn finish(&mut self) {
        if !self.has_failed {
            let written = self.file.flush();
            self.check(written);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that takes a number of bytes.
    struct Disk {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let len = bytes.len().min(self.room - self.bytes.len());
            self.bytes.extend_from_slice(&bytes[..len]);
            if len == 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(len) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn pcap(room: usize, link_layer: LinkLayer) -> std::io::Result<Pcap<Disk>> {
        Pcap::begin(Disk { bytes: Vec::new(), room }, Path::new("x.pcap"), link_layer)
    }

    #[test]
    fn an_infiniband_packet_follows_a_header_of_its_own() {
        let mut file = pcap(1_000, LinkLayer::Infiniband).unwrap().dated_from(Duration::from_secs(7));
        assert!(file.take(SimTime::from_picos(500_000_000_000), &[9; 30]));
        assert_eq!((file.file.bytes[20], file.file.bytes[32], file.file.bytes[36]), (197, 46, 46));
        assert_eq!(file.file.bytes[40..56], [0, 0, 0, 0x80, 7, 0, 0, 0, 21, 4, 0, 46, 0, 0, 0, 30]);
        assert_eq!(file.file.bytes[56..], [9; 30]);
    }

    #[test]
    fn a_record_has_the_date_in_nanoseconds_and_both_lengths() {
        let mut file = pcap(1_000, LinkLayer::Ethernet).unwrap().dated_from(Duration::from_secs(7));
        assert!(file.take(SimTime::from_picos(2_000_000_003_999), &[1, 2, 3]));
        let words: Vec<u32> = file.file.bytes[..40].chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words, [0xA1B2_3C4D, 4 << 16 | 2, 0, 0, 65_535, 1, 9, 3, 3, 3]);
        assert_eq!(file.file.bytes[40..], [1, 2, 3]);
    }

    #[test]
    fn a_full_disk_is_an_error_at_the_start_and_ends_the_capture_later() {
        assert!(pcap(10, LinkLayer::Ethernet).is_err());
        let mut file = pcap(50, LinkLayer::Ethernet).unwrap();
        assert!(file.take(SimTime::ZERO, &[0; 4]));
        assert!(!file.take(SimTime::ZERO, &[0; 4]));
        assert!(!file.take(SimTime::ZERO, &[]));
        file.finish();
        assert_eq!(file.file.bytes.len(), 50);
    }
}
