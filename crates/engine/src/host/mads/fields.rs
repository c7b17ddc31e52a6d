//! Fields of a management datagram (IBTA 13.4.3) that the kernel's MAD layer reads.

use softband_model::management::MAD_BYTES;

/// Bytes of the header that all MADs begin with.
pub(super) const HEADER_BYTES: usize = 24;
/// Bytes up to the end of the RMPP header (IBTA 13.6.2).
pub(super) const RMPP_HEADER_BYTES: usize = 36;

pub(super) const SUBNET_LID_ROUTED: u8 = 0x01;
pub(super) const SUBNET_ADMINISTRATION: u8 = 0x03;
const BASEBOARD: u8 = 0x05;
const DEVICE_MANAGEMENT: u8 = 0x06;
const DEVICE_ADMINISTRATION: u8 = 0x10;
const BOOT_INFORMATION: u8 = 0x12;
pub(super) const SUBNET_DIRECTED_ROUTE: u8 = 0x81;

const GET: u8 = 0x01;
const SET: u8 = 0x02;
const TRAP_REPRESS: u8 = 0x07;
const RESPONSE: u8 = 0x80;
const GET_RESPONSE: u8 = 0x81;
/// Status "method and attribute are not supported in this combination" (IBTA 13.4.7).
const UNSUPPORTED: u16 = 0x000c;
/// Bit D of a directed route's status: the packet returns (IBTA 14.2.1.2).
const RETURNS: u16 = 0x8000;

/// The bytes of a MAD, at least up to the end of the RMPP header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Takes the bytes. Returns `None` if they end before the RMPP header does.
    pub(super) fn new(mad: &'a [u8]) -> Option<Self> {
        (mad.len() >= RMPP_HEADER_BYTES).then_some(Self(mad))
    }

    /// Takes a whole MAD.
    pub(super) fn of(mad: &'a [u8; MAD_BYTES]) -> Self {
        Self(mad)
    }

    pub(super) fn class(self) -> u8 {
        self.0[1]
    }

    pub(super) fn class_version(self) -> u8 {
        self.0[2]
    }

    pub(super) fn method(self) -> u8 {
        self.0[3]
    }

    pub(super) fn transaction_id(self) -> u64 {
        u64::from_be_bytes(self.0[8..16].try_into().expect("eight bytes"))
    }

    /// Returns the half of the transaction id that names the agent of a request.
    pub(super) fn agent(self) -> u32 {
        (self.transaction_id() >> 32) as u32
    }

    /// Returns the owner of a vendor class (IBTA 16.5). The MAD may have no such field.
    pub(super) fn oui(self) -> u32 {
        self.0.get(37..40).map_or(0, |oui| u32::from_be_bytes([0, oui[0], oui[1], oui[2]]))
    }

    /// Returns whether the MAD answers another. Trap repress has no response bit (IBTA 13.4.5), and
    /// baseboard management has a bit of its own (IBTA 16.2.1).
    pub(super) fn is_response(self) -> bool {
        let is_baseboard_response = self.class() == BASEBOARD && self.0[23] & 1 != 0;
        self.method() & RESPONSE != 0 || self.method() == TRAP_REPRESS || is_baseboard_response
    }

    /// Returns the method without its response bit.
    pub(super) fn plain_method(self) -> u8 {
        self.method() & !RESPONSE
    }

    /// Returns the source LID of a directed route (IBTA 14.2.1.2).
    pub(super) fn directed_source(self) -> u16 {
        self.0.get(32..34).map_or(0, |lid| u16::from_be_bytes([lid[0], lid[1]]))
    }
}

/// Returns whether a class belongs to vendors who name themselves by an OUI.
pub(super) fn has_oui(class: u8) -> bool {
    (0x30..=0x4f).contains(&class)
}

/// Returns whether messages of a class may consist of several MADs (IBTA 13.6).
pub(super) fn may_have_segments(class: u8) -> bool {
    has_oui(class) || matches!(class, SUBNET_ADMINISTRATION | DEVICE_MANAGEMENT | BOOT_INFORMATION)
}

/// Returns the bytes of a class's header. Each segment of a message repeats it.
pub(super) fn class_header_bytes(class: u8) -> usize {
    match class {
        SUBNET_ADMINISTRATION => 56,
        DEVICE_MANAGEMENT | DEVICE_ADMINISTRATION | BOOT_INFORMATION => 64,
        _ if has_oui(class) => 40,
        _ => HEADER_BYTES,
    }
}

/// Returns the answer to a request that nobody takes. Only Get and Set have one (IBTA 13.4.5).
pub(super) fn refusal(mad: &[u8; MAD_BYTES]) -> Option<Box<[u8; MAD_BYTES]>> {
    let fields = Fields::of(mad);
    if !matches!(fields.method(), GET | SET) {
        return None;
    }
    let direction = if fields.class() == SUBNET_DIRECTED_ROUTE { RETURNS } else { 0 };
    let mut answer = Box::new(*mad);
    answer[3] = GET_RESPONSE;
    answer[4..6].copy_from_slice(&(UNSUPPORTED | direction).to_be_bytes());
    Some(answer)
}

/// Returns whether a MAD is a segment of a message, or controls the transfer of one (IBTA 13.6.2).
pub(super) fn is_segment(mad: Fields<'_>) -> bool {
    may_have_segments(mad.class()) && mad.0[26] & 1 != 0
}

/// Sets the half of the transaction id that names the agent.
pub(super) fn set_agent(mad: &mut [u8], agent: u32) {
    mad[8..12].copy_from_slice(&agent.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_known_by_bit_method_or_modifier() {
        let response = |class: u8, method: u8, modifier: u8| {
            let mut mad = [0; MAD_BYTES];
            (mad[1], mad[3], mad[23]) = (class, method, modifier);
            Fields::of(&mad).is_response()
        };
        assert!(response(SUBNET_ADMINISTRATION, 0x92, 0));
        assert!(response(SUBNET_LID_ROUTED, TRAP_REPRESS, 0));
        assert!(response(BASEBOARD, 3, 1));
        assert!(!response(BASEBOARD, 3, 2));
        assert!(!response(SUBNET_ADMINISTRATION, GET, 1));
    }

    #[test]
    fn short_bytes_are_no_mad() {
        assert!(Fields::new(&[0; 35]).is_none());
        let fields = Fields::new(&[0xff; 36]).expect("long enough");
        assert_eq!((fields.oui(), fields.directed_source(), fields.agent()), (0, 0xffff, u32::MAX));
    }

    #[test]
    fn only_requests_for_an_answer_are_refused() {
        let mut mad = [0; MAD_BYTES];
        (mad[1], mad[3]) = (SUBNET_DIRECTED_ROUTE, GET);
        let answer = refusal(&mad).expect("an answer");
        assert_eq!((answer[3], answer[4], answer[5]), (GET_RESPONSE, 0x80, 0x0c));
        mad[3] = 3;
        assert!(refusal(&mad).is_none());
    }
}
