//! ServiceRecord: a service that a port offers.

use crate::mad::layout::layout;
use softband_types::{Gid, PKey};

layout! {
    /// A service that a port offers (IBTA 15.2.5.14).
    pub struct ServiceRecord: 176 bytes {
        /// Identifier of the service.
        service_id: u64 @ 0, 64;
        /// GID of the port.
        service_gid: Gid @ 64, 128;
        /// P_Key of the service's packets.
        service_p_key: PKey @ 192, 16;
        /// Time in seconds until the SA forgets the record. All ones is for ever.
        service_lease: u32 @ 224, 32;
        /// Key that a change of the record must have.
        service_key: [u8; 16] @ 256, 128;
        /// Name of the service in UTF-8, with zeros after its end.
        service_name: [u8; 64] @ 384, 512;
        /// Data of the service.
        service_data8: [u8; 16] @ 896, 128;
        /// Data of the service.
        service_data16: [u16; 8] @ 1024, 128;
        /// Data of the service.
        service_data32: [u32; 4] @ 1152, 128;
        /// Data of the service.
        service_data64: [u64; 2] @ 1280, 128;
    }
}

#[cfg(test)]
mod tests {
    use super::ServiceRecord;

    #[test]
    fn a_service_has_data_of_four_widths() {
        let record = ServiceRecord {
            service_lease: u32::MAX,
            service_data8: [8; 16],
            service_data16: [0x16; 8],
            service_data32: [0x32; 4],
            service_data64: [0x64; 2],
            ..Default::default()
        };
        let bytes = record.to_bytes();
        assert_eq!((bytes[28], bytes[112], bytes[129], bytes[147], bytes[175]), (0xFF, 8, 0x16, 0x32, 0x64));
    }
}
