//! The hosts of the fabric in wall pace, copied at attach: names are answered without a call.

use softband_ipc::layout::{HOSTS_MAX, HOSTS_OFFSET, HostEntry};
use std::sync::OnceLock;

static HOSTS: OnceLock<Vec<HostEntry>> = OnceLock::new();

/// Copies the list out of the shared file that starts at `base`.
pub(crate) fn remember(base: *const u8) {
    HOSTS.get_or_init(|| {
        let first = base.wrapping_add(HOSTS_OFFSET).cast::<HostEntry>();
        // SAFETY: the file has room for so many entries; the engine has written them before this process saw the file.
        (0..HOSTS_MAX).map(|index| unsafe { first.add(index).read() }).take_while(|host| host.address != 0).collect()
    });
}

fn name_of(host: &HostEntry) -> &[u8] {
    &host.name[..(host.name_len as usize).min(host.name.len())]
}

/// Address of the host of this name, in wall pace.
pub fn host_address(name: &[u8]) -> Option<u32> {
    HOSTS.get()?.iter().find(|host| name_of(host) == name).map(|host| host.address)
}

/// Name of the host with this address, in wall pace.
pub fn host_name(address: u32) -> Option<&'static [u8]> {
    HOSTS.get()?.iter().find(|host| host.address == address).map(name_of)
}
