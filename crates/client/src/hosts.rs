//! Hosts of the fabric at wall pace, copied at attach, so that name lookups need no call.

use softband_ipc::layout::{HOSTS_MAX, HOSTS_OFFSET, HostEntry};
use std::sync::OnceLock;

static HOSTS: OnceLock<Vec<HostEntry>> = OnceLock::new();

/// Copies the list out of the shared file that starts at `base`.
pub(crate) fn remember(base: *const u8) {
    HOSTS.get_or_init(|| {
        let first = base.wrapping_add(HOSTS_OFFSET).cast::<HostEntry>();
        // SAFETY: the file has room for `HOSTS_MAX` entries, which the engine wrote before this
        // process saw the file.
        (0..HOSTS_MAX).map(|index| unsafe { first.add(index).read() }).take_while(|host| host.address != 0).collect()
    });
}

fn name_of(host: &HostEntry) -> &[u8] {
    &host.name[..(host.name_len as usize).min(host.name.len())]
}

/// Returns the address of the host with this name, at wall pace.
pub fn host_address(name: &[u8]) -> Option<u32> {
    HOSTS.get()?.iter().find(|host| name_of(host) == name).map(|host| host.address)
}

/// Returns the name of the host with this address, at wall pace.
pub fn host_name(address: u32) -> Option<&'static [u8]> {
    place_of(address).and_then(|index| HOSTS.get()?.get(index)).map(name_of)
}

/// Returns the index of the entry with this address, at wall pace.
pub fn place_of(address: u32) -> Option<usize> {
    let hosts = HOSTS.get()?;
    let has = |index: &usize| hosts.get(*index).is_some_and(|host| host.address == address);
    // Addresses of the management network follow each other.
    let near = address.checked_sub(hosts.first()?.address).map(|index| index as usize).filter(has);
    near.or_else(|| hosts.iter().position(|host| host.address == address))
}

/// Returns the entry of an index, at wall pace.
pub fn place_at(index: usize) -> Option<&'static HostEntry> {
    HOSTS.get()?.get(index)
}

/// Returns the entries of a host by its index, the first one first, at wall pace.
pub fn places_of_host(host: u32) -> impl Iterator<Item = &'static HostEntry> {
    HOSTS.get().into_iter().flatten().filter(move |entry| entry.host == host)
}
