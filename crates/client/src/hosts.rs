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
    let hosts = HOSTS.get()?;
    let index = address.checked_sub(hosts.first()?.address)? as usize;
    hosts.get(index).filter(|host| host.address == address).map(name_of)
}
