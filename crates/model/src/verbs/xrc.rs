//! Domains of extended reliable connections (IBTA A14): the shared receive queues that a target
//! queue pair may deliver to.

use super::api::VerbsError;
use super::objects::{Verbs, take};
use super::shared_receive_queue::SharedReceiveQueue;
use softband_types::{HcaId, ProcessId, SrqHandle, XrcdHandle};

/// Key by which processes of one host share a domain: the file that they name, as device and inode.
pub type XrcdKey = (u64, u64);

/// Domain of extended reliable connections. Several processes may have opened it, and each of them
/// several times.
#[derive(Debug)]
pub struct Xrcd {
    /// HCA of the domain.
    pub hca: HcaId,
    key: Option<XrcdKey>,
    openers: Vec<ProcessId>,
    /// Number of queues and queue pairs that name the domain.
    users: u32,
}

/// Options to open a domain, as in `open(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XrcdOpen {
    /// File that processes share, or `None` for a new domain without a file.
    pub key: Option<XrcdKey>,
    /// Whether to create the domain if it does not exist (`O_CREAT`).
    pub create: bool,
    /// Whether to fail if the domain exists (`O_EXCL`).
    pub exclusive: bool,
}

impl Verbs {
    /// Opens a domain, or creates it.
    ///
    /// # Errors
    /// `Unsupported` on an HCA without XRC, `Invalid` if the domain exists and must not, `Absent`
    /// if it must exist and does not, `NoMemory` if the HCA has as many as it permits.
    pub fn open_xrcd(&mut self, owner: ProcessId, hca: HcaId, open: XrcdOpen) -> Result<XrcdHandle, VerbsError> {
        let index = self.hca_index(hca)?;
        let limit = self.limits[index].optional.max_xrcd;
        if limit == 0 {
            return Err(VerbsError::Unsupported);
        }
        let same = |(_, domain): &(u32, &Xrcd)| domain.hca == hca && domain.key.is_some() && domain.key == open.key;
        let found = self.xrcds.iter().find(same).map(|(handle, _)| handle);
        match found {
            Some(_) if open.exclusive => Err(VerbsError::Invalid),
            Some(handle) => {
                self.xrcds.get_mut(handle).expect("just found").openers.push(owner);
                Ok(XrcdHandle(handle))
            }
            None if open.key.is_some() && !open.create => Err(VerbsError::Absent),
            None => {
                take(&mut self.in_use[index].xrcds, limit)?;
                let domain = Xrcd { hca, key: open.key, openers: vec![owner], users: 0 };
                self.xrcds.insert(domain).map(XrcdHandle).ok_or(VerbsError::NoMemory)
            }
        }
    }

    /// Returns the domain, if `owner` has opened it.
    ///
    /// # Errors
    /// `Invalid` if it does not exist, `Forbidden` if `owner` has not opened it.
    pub fn xrcd(&self, owner: ProcessId, xrcd: XrcdHandle) -> Result<&Xrcd, VerbsError> {
        let found = self.xrcds.get(xrcd.0).ok_or(VerbsError::Invalid)?;
        if found.openers.contains(&owner) { Ok(found) } else { Err(VerbsError::Forbidden) }
    }

    /// Closes a domain once. The last opener destroys it.
    ///
    /// # Errors
    /// `Busy` if the last opener closes it while an object names it, and the errors of
    /// [`Self::xrcd`].
    pub fn close_xrcd(&mut self, owner: ProcessId, xrcd: XrcdHandle) -> Result<(), VerbsError> {
        let domain = self.xrcd(owner, xrcd)?;
        let (last, used, hca) = (domain.openers.len() == 1, domain.users > 0, domain.hca);
        if last && used {
            return Err(VerbsError::Busy);
        }
        if last {
            self.xrcds.remove(xrcd.0);
            self.in_use[hca.0 as usize].xrcds -= 1;
        } else {
            let openers = &mut self.xrcds.get_mut(xrcd.0).expect("just found").openers;
            let at = openers.iter().position(|opener| *opener == owner).expect("just looked");
            openers.remove(at);
        }
        Ok(())
    }

    /// Adds `delta` to the number of objects that name `xrcd`.
    pub fn use_xrcd(&mut self, xrcd: Option<XrcdHandle>, delta: i32) {
        if let Some(domain) = xrcd.and_then(|xrcd| self.xrcds.get_mut(xrcd.0)) {
            domain.users = domain.users.saturating_add_signed(delta);
        }
    }

    /// Returns the queue that a message of this domain names by its number.
    pub fn xrc_srq(&self, xrcd: XrcdHandle, number: u32) -> Option<(SrqHandle, &SharedReceiveQueue)> {
        let (handle, srq) = self.srqs.by_index(number)?;
        let of_domain = srq.init.xrc.is_some_and(|xrc| xrc.xrcd == xrcd);
        of_domain.then_some((SrqHandle(handle), srq))
    }

    /// Closes all domains that a process has opened; objects of other processes in them stay.
    pub(super) fn close_xrcds_of(&mut self, owner: ProcessId) {
        let opened: Vec<u32> = self.xrcds.iter().filter(|(_, domain)| domain.openers.contains(&owner)).map(|(handle, _)| handle).collect();
        for handle in opened {
            while self.close_xrcd(owner, XrcdHandle(handle)).is_ok() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::objects::Limits;
    use super::*;
    use crate::parts::OptionalVerbs;

    const HCA: HcaId = HcaId(0);
    const FILE: XrcdOpen = XrcdOpen { key: Some((1, 2)), create: true, exclusive: false };

    fn verbs() -> Verbs {
        let optional = OptionalVerbs { max_xrcd: 2, ..OptionalVerbs::default() };
        Verbs::new(vec![Limits { pds: 4, cqs: 4, cqes: 100, mrs: 4, ahs: 4, optional }])
    }

    #[test]
    fn processes_that_name_one_file_share_a_domain_until_the_last_has_closed_it() {
        let mut verbs = verbs();
        let (first, second) = (ProcessId(1), ProcessId(2));
        assert_eq!(verbs.open_xrcd(first, HCA, XrcdOpen { create: false, ..FILE }), Err(VerbsError::Absent));
        let domain = verbs.open_xrcd(first, HCA, FILE).unwrap();
        assert!(verbs.xrcd(second, domain).is_err());
        assert_eq!(verbs.open_xrcd(second, HCA, XrcdOpen { exclusive: true, ..FILE }), Err(VerbsError::Invalid));
        assert_eq!(verbs.open_xrcd(second, HCA, XrcdOpen { create: false, ..FILE }), Ok(domain));
        verbs.use_xrcd(Some(domain), 1);
        assert_eq!(verbs.close_xrcd(first, domain), Ok(()));
        assert_eq!(verbs.close_xrcd(first, domain), Err(VerbsError::Forbidden));
        assert_eq!(verbs.close_xrcd(second, domain), Err(VerbsError::Busy));
        verbs.use_xrcd(Some(domain), -1);
        assert_eq!(verbs.close_xrcd(second, domain), Ok(()));
        assert_eq!(verbs.close_xrcd(second, domain), Err(VerbsError::Invalid));
    }

    #[test]
    fn a_domain_without_a_file_is_nobody_elses() {
        let mut verbs = verbs();
        let open = XrcdOpen { key: None, create: true, exclusive: false };
        let (first, second) = (verbs.open_xrcd(ProcessId(1), HCA, open).unwrap(), verbs.open_xrcd(ProcessId(1), HCA, open).unwrap());
        assert_ne!(first, second);
        assert_eq!(verbs.open_xrcd(ProcessId(1), HCA, open), Err(VerbsError::NoMemory));
    }
}
