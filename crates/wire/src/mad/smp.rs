//! Subnet management packets, SMPs (IBTA 14.2.1).

use super::header::{AttributeId, Header, ManagementClass, Method};
use super::layout::layout;
use softband_types::Lid;

layout! {
    /// An SMP that switches forward by its LID (IBTA 14.2.1.1).
    pub struct Smp: 256 bytes {
        /// The header, with the class [`ManagementClass::SUBNET_LID_ROUTED`].
        header: Header @ 0, 192;
        /// M_Key that the receiver compares with its own.
        m_key: u64 @ 192, 64;
        /// The attribute.
        data: [u8; 64] @ 512, 512;
    }
}

layout! {
    /// An SMP with a directed route: it carries the ports of its way (IBTA 14.2.1.2).
    pub struct DirectedSmp: 256 bytes {
        /// Version of the datagram format.
        base_version: u8 @ 0, 8;
        /// Management class, [`ManagementClass::SUBNET_DIRECTED_ROUTE`].
        mgmt_class: ManagementClass @ 8, 8;
        /// Version of the class.
        class_version: u8 @ 16, 8;
        /// Method with its response bit.
        method: Method @ 24, 8;
        /// The D bit: set on the way back.
        returning: bool @ 32, 1;
        /// Low 15 bits of the status of a response: see [`Status`](super::Status).
        status: u16 @ 33, 15;
        /// Index of the current hop in the paths.
        hop_pointer: u8 @ 48, 8;
        /// Number of hops of the directed part, from 0 to 63.
        hop_count: u8 @ 56, 8;
        /// Identifier by which a requester finds the response.
        transaction_id: u64 @ 64, 64;
        /// Attribute that the method applies to.
        attribute_id: AttributeId @ 128, 16;
        /// Selects a part of the attribute, for example a port or block.
        attribute_modifier: u32 @ 160, 32;
        /// M_Key that the receiver compares with its own.
        m_key: u64 @ 192, 64;
        /// LID at the start of the directed part. It is permissive without a LID-routed part.
        dr_slid: Lid @ 256, 16;
        /// LID at the end of the directed part. It is permissive without a LID-routed part.
        dr_dlid: Lid @ 272, 16;
        /// The attribute.
        data: [u8; 64] @ 512, 512;
        /// Output ports on the way out. The first hop has index 1.
        initial_path: [u8; 64] @ 1024, 512;
        /// Ports at which the SMP arrived. They are the output ports on the way back.
        return_path: [u8; 64] @ 1536, 512;
    }
}

#[cfg(test)]
mod tests {
    use super::{DirectedSmp, Smp};
    use crate::mad::{Header, Layout, ManagementClass, Method, Status};
    use softband_types::Lid;

    #[test]
    fn a_directed_smp_keeps_its_route_apart_from_header_and_data() {
        let mut smp = DirectedSmp {
            base_version: 1,
            mgmt_class: ManagementClass::SUBNET_DIRECTED_ROUTE,
            class_version: 1,
            method: Method::GET_RESP,
            returning: true,
            status: Status::INVALID_FIELD.0,
            hop_pointer: 1,
            hop_count: 2,
            dr_slid: Lid::PERMISSIVE,
            dr_dlid: Lid(5),
            ..DirectedSmp::default()
        };
        smp.data[0] = 0xDA;
        smp.initial_path[1] = 7;
        smp.return_path[63] = 9;
        let bytes = smp.to_bytes();
        assert_eq!(bytes[..8], [1, 0x81, 1, 0x81, 0x80, 0x1C, 1, 2]);
        assert_eq!(bytes[32..36], [0xFF, 0xFF, 0, 5]);
        assert_eq!((bytes[64], bytes[129], bytes[255]), (0xDA, 7, 9));
        assert_eq!(DirectedSmp::parse(&bytes), Ok(smp));
        // The common header of the same bytes.
        assert_eq!(Header::view(&bytes).status(), Status(Status::DIRECTION | Status::INVALID_FIELD.0));
    }

    #[test]
    fn an_smp_has_the_m_key_after_the_header() {
        let mut bytes = [0; 256];
        Smp::view_mut(&mut bytes).m_key(0x0102_0304_0506_0708);
        assert_eq!(bytes[24..32], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(Smp::parse(&bytes[..255]).map_err(|error| error.to_string()), Err("255 bytes are too short: the layout has 256".into()));
    }
}
