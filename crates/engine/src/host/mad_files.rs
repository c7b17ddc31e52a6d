//! The kernel's files about MAD devices.

use crate::host::files::{card, put};
use crate::host::ports::management_ports;
use softband_fabric::World;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Version of the kernel's interface (`IB_USER_MAD_ABI_VERSION`).
const ABI: &str = "5";
/// Major number of the devices, and the first minor number of `issmN` (`user_mad.c` of Linux).
const MAJOR: u32 = 231;
const MANAGER_MINOR: u32 = 64;

/// Writes the files and the devices of each port. The shim gives the devices their function.
pub(super) fn write(root: &Path, world: &World, host: usize) -> io::Result<()> {
    let (class, devices) = (root.join("sys/class/infiniband_mad"), root.join("dev/infiniband"));
    put(&class, &[("abi_version", ABI.into())])?;
    for (number, (hca, port)) in (0..).zip(management_ports(world, host)) {
        let (_, index) = world.place_of(hca);
        let place = format!("{}/infiniband_mad", card(index));
        for (device, minor) in [(format!("umad{number}"), number), (format!("issm{number}"), MANAGER_MINOR + number)] {
            let folder = root.join("sys").join(&place).join(&device);
            let name = world.spec().hosts[host].hcas[index].device.clone();
            put(&folder, &[("ibdev", name), ("port", port.0.to_string()), ("dev", format!("{MAJOR}:{minor}"))])?;
            symlink("../..", folder.join("device"))?;
            symlink(format!("../../{place}/{device}"), class.join(&device))?;
            symlink("/dev/null", devices.join(&device))?;
        }
    }
    Ok(())
}
