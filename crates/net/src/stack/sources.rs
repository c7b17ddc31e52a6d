//! Multicast groups by source: which senders of a group a socket hears (RFC 3376, 2).

use super::Stack;
use crate::error::NetError;
use crate::interface::InterfaceId;
use crate::socket_id::SocketId;
use crate::udp::{Filter, SourceChange};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Most sources of a group, as Linux's `igmp_max_msf`.
const SOURCES_MAX: usize = 10;

impl Stack {
    /// Changes the sources of a group, as Linux's `ip_mc_source`.
    pub(crate) fn change_source(
        &mut self,
        id: SocketId,
        change: SourceChange,
        (group, source): (IpAddr, IpAddr),
        interface: Option<InterfaceId>,
    ) -> Result<(), NetError> {
        let joined =
            self.socket_mut(id)?.datagram()?.groups.iter().find(|(at, of)| *of == group && interface.is_none_or(|wanted| wanted == *at)).copied();
        let key = match joined {
            Some(key) => key,
            None if change == SourceChange::Add => {
                self.change_membership(id, group, interface, true)?;
                let groups = &self.socket_mut(id)?.datagram()?.groups;
                groups.iter().find(|(at, of)| *of == group && interface.is_none_or(|wanted| wanted == *at)).copied().ok_or(NetError::NoDevice)?
            }
            None => return Err(NetError::Invalid),
        };
        let includes = matches!(change, SourceChange::Add | SourceChange::Drop);
        let filter = self.socket_mut(id)?.datagram()?.filters.entry(key).or_insert_with(|| Filter { includes, sources: BTreeSet::new() });
        if filter.includes != includes {
            if !filter.sources.is_empty() {
                return Err(NetError::Invalid);
            }
            filter.includes = includes;
        }
        let is_new = matches!(change, SourceChange::Add | SourceChange::Block);
        if filter.sources.contains(&source) == is_new {
            return Err(NetError::AddressNotAvailable);
        }
        if is_new && filter.sources.len() >= SOURCES_MAX {
            return Err(NetError::NoBuffers);
        }
        if is_new {
            filter.sources.insert(source);
        } else {
            filter.sources.remove(&source);
        }
        // RFC 3376, 3.2: to hear nobody is to leave.
        let hears_nobody = filter.includes && filter.sources.is_empty();
        if hears_nobody { self.change_membership(id, group, Some(key.0), false) } else { Ok(()) }
    }
}
