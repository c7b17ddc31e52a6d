//! Agents of a port: programs that send MADs and take those of their classes.
//!
//! The rules are those of the kernel's MAD layer. IBTA 13.5.1 leaves the delivery of MADs to agents
//! open.

use super::fields::{Fields, SUBNET_DIRECTED_ROUTE, SUBNET_LID_ROUTED, has_oui, may_have_segments};
use softband_types::Qpn;
use std::collections::BTreeMap;

/// Classes below this number exist, and the directed route.
const CLASSES: u8 = 0x50;
const CLASS_VERSIONS: u8 = 8;
/// The only version of RMPP (IBTA 13.6.2.1).
const RMPP_VERSION: u8 = 1;

/// The request of a program for an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registration {
    /// 0 or 1.
    pub(crate) qpn: u32,
    /// 0: the agent takes only responses to its own requests.
    pub(crate) class: u8,
    pub(crate) class_version: u8,
    /// Methods of unsolicited MADs that the agent takes: bit n is method n.
    pub(crate) methods: u128,
    /// Owner of a vendor class: 24 bits.
    pub(crate) oui: u32,
    /// 0: none.
    pub(crate) rmpp_version: u8,
    /// The program segments and joins messages itself.
    pub(crate) has_own_rmpp: bool,
}

impl Registration {
    /// Checks the request by itself.
    ///
    /// # Errors
    /// `EINVAL`.
    fn check(&self) -> Result<(), i32> {
        let is_subnet = matches!(self.class, SUBNET_LID_ROUTED | SUBNET_DIRECTED_ROUTE);
        let is_known = self.qpn <= 1 && matches!(self.rmpp_version, 0 | RMPP_VERSION);
        let fits = if self.class == 0 {
            !self.has_own_rmpp
        } else {
            self.class_version < CLASS_VERSIONS
                && self.oui < 1 << 24
                && (self.class < CLASSES || self.class == SUBNET_DIRECTED_ROUTE)
                && (!has_oui(self.class) || self.oui != 0)
                && (may_have_segments(self.class) || self.rmpp_version == 0)
                && is_subnet == (self.qpn == 0)
        };
        if is_known && fits { Ok(()) } else { Err(libc::EINVAL) }
    }

    /// Returns whether both take the same methods of the same class. The subnet's two classes differ
    /// here.
    fn overlaps(&self, other: &Self) -> bool {
        let key = |of: &Self| (of.class, of.class_version, if has_oui(of.class) { of.oui } else { 0 });
        self.class != 0 && key(self) == key(other) && self.methods & other.methods != 0
    }

    fn takes(&self, mad: Fields<'_>) -> bool {
        self.class != 0
            && (self.class, self.class_version) == (mad.class(), mad.class_version())
            && (!has_oui(self.class) || self.oui == mad.oui())
            && self.methods >> mad.plain_method() & 1 != 0
    }

    pub(super) fn source(&self) -> Qpn {
        Qpn(self.qpn)
    }
}

/// An agent of an open file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agent {
    /// Object of the file.
    pub(super) file: u32,
    /// Number of the agent in its file.
    pub(super) id: u32,
    pub(super) registration: Registration,
}

/// The agents of a port. Each has a number, the upper half of its transaction ids.
#[derive(Debug, Default)]
pub(super) struct Agents {
    all: BTreeMap<u32, Agent>,
    last: u32,
}

impl Agents {
    /// Adds an agent, and returns its number.
    ///
    /// # Errors
    /// `EINVAL` if the request has no sense, or another agent takes one of its methods.
    pub(super) fn register(&mut self, agent: Agent) -> Result<u32, i32> {
        agent.registration.check()?;
        if self.all.values().any(|other| other.registration.overlaps(&agent.registration)) {
            return Err(libc::EINVAL);
        }
        // A number is not used again soon: a late response must not find another agent.
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && !self.all.contains_key(&self.last) {
                break;
            }
        }
        self.all.insert(self.last, agent);
        Ok(self.last)
    }

    pub(super) fn unregister(&mut self, number: u32) {
        self.all.remove(&number);
    }

    pub(super) fn get(&self, number: u32) -> Option<&Agent> {
        self.all.get(&number)
    }

    /// Returns the agent to which a MAD goes: the sender of the request, or the agent that takes the
    /// class and the method.
    pub(super) fn receiver(&self, mad: Fields<'_>) -> Option<u32> {
        if mad.is_response() {
            return self.all.contains_key(&mad.agent()).then(|| mad.agent());
        }
        self.all.iter().find(|(_, agent)| agent.registration.takes(mad)).map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::mads::fields::SUBNET_ADMINISTRATION;

    const PERFORMANCE: Registration = Registration { qpn: 1, class: 4, class_version: 1, methods: 0, oui: 0, rmpp_version: 0, has_own_rmpp: false };
    const VENDOR: Registration = Registration { class: 0x32, oui: 0x1405, rmpp_version: 1, ..PERFORMANCE };

    fn register(agents: &mut Agents, registration: Registration) -> Result<u32, i32> {
        agents.register(Agent { file: 1, id: 0, registration })
    }

    #[test]
    fn a_request_without_sense_is_refused() {
        let refused = [
            Registration { qpn: 2, ..PERFORMANCE },
            Registration { qpn: 0, ..PERFORMANCE },
            Registration { class: SUBNET_LID_ROUTED, ..PERFORMANCE },
            Registration { class: SUBNET_DIRECTED_ROUTE, ..PERFORMANCE },
            Registration { class: CLASSES, ..PERFORMANCE },
            Registration { class_version: CLASS_VERSIONS, ..PERFORMANCE },
            Registration { rmpp_version: 1, ..PERFORMANCE },
            Registration { rmpp_version: 2, ..VENDOR },
            Registration { oui: 0, ..VENDOR },
            Registration { oui: 1 << 24, ..VENDOR },
            Registration { class: 0, has_own_rmpp: true, ..PERFORMANCE },
        ];
        for registration in refused {
            assert_eq!(register(&mut Agents::default(), registration), Err(libc::EINVAL), "{registration:?}");
        }
        let accepted = [
            PERFORMANCE,
            VENDOR,
            Registration { class: 0, ..PERFORMANCE },
            Registration { class: SUBNET_DIRECTED_ROUTE, qpn: 0, ..PERFORMANCE },
            Registration { class: SUBNET_ADMINISTRATION, class_version: 2, rmpp_version: 1, has_own_rmpp: true, ..PERFORMANCE },
        ];
        for registration in accepted {
            assert!(register(&mut Agents::default(), registration).is_ok(), "{registration:?}");
        }
    }

    #[test]
    fn a_method_of_a_class_belongs_to_one_agent() {
        let mut agents = Agents::default();
        let first = register(&mut agents, Registration { methods: 0b0110, ..PERFORMANCE }).expect("free");
        let other = Registration { methods: 0b0100, ..PERFORMANCE };
        assert_eq!(register(&mut agents, other), Err(libc::EINVAL));
        assert!(register(&mut agents, Registration { class_version: 2, ..other }).is_ok());
        assert!(register(&mut agents, Registration { methods: 0b1000, ..PERFORMANCE }).is_ok());
        agents.unregister(first);
        assert!(register(&mut agents, other).is_ok());
        assert!(register(&mut agents, Registration { methods: 2, ..VENDOR }).is_ok());
        assert!(register(&mut agents, Registration { methods: 2, oui: 9, ..VENDOR }).is_ok());
    }

    #[test]
    fn a_mad_finds_its_agent_by_number_or_by_method() {
        let mut agents = Agents::default();
        let number = register(&mut agents, Registration { methods: 1 << 1, ..PERFORMANCE }).expect("free");
        let mut mad = [0; 256];
        (mad[1], mad[2], mad[3]) = (4, 1, 1);
        assert_eq!(agents.receiver(Fields::of(&mad)), Some(number));
        mad[3] = 2;
        assert_eq!(agents.receiver(Fields::of(&mad)), None);
        mad[3] = 0x81;
        assert_eq!(agents.receiver(Fields::of(&mad)), None, "of nobody's request");
        mad[8..12].copy_from_slice(&number.to_be_bytes());
        assert_eq!(agents.receiver(Fields::of(&mad)), Some(number));
    }
}
