//! `/etc/hosts` and `/etc/hostname`. Programs with a resolver of their own (Go, c-ares) find the names
//! of the fabric there. The C library's functions ask the engine.

use crate::host::addresses;
use crate::host::files::put;
use crate::host::kernel::Kernels;
use crate::host::network::{self, Network};
use softband_spec::FabricSpec;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::{fs, io};

const MACHINES_NAMES: &str = "/etc/hosts";

/// Returns the text of `/etc/hosts` of every host: the addresses that the names of the fabric have.
/// Sockets of wall pace also reach the machine's network, so its own names follow there.
pub(crate) fn names(spec: &FabricSpec, network: &Network, kernels: Option<&Kernels>, with_machines: bool) -> String {
    let mut text = String::from("127.0.0.1 localhost\n");
    if let Some(places) = network.places() {
        places.iter().for_each(|place| add(&mut text, place.address.into(), &place.name));
    } else if kernels.is_some() {
        for interface in spec.hosts.iter().flat_map(|host| &host.interfaces) {
            for own in &interface.addresses {
                if let Some(name) = addresses::name_of(spec, own.address) {
                    add(&mut text, own.address, &name);
                }
            }
        }
    } else {
        for (host, part) in spec.hosts.iter().enumerate() {
            add(&mut text, Ipv4Addr::from(network::address(host)).into(), &part.name);
        }
    }
    if with_machines {
        text.push_str(&fs::read_to_string(MACHINES_NAMES).unwrap_or_default());
    }
    text
}

fn add(text: &mut String, address: IpAddr, name: &str) {
    let _ = writeln!(text, "{address} {name}");
}

/// Writes both files below the folder of a host. All hosts share the first, whose text grows with
/// their number.
pub(super) fn write(folder: &Path, shared: &Path, host: &str, names: &dyn Fn() -> String) -> io::Result<()> {
    if !shared.exists() {
        fs::write(shared, names())?;
    }
    let folder = folder.join("etc");
    put(&folder, &[("hostname", host.to_owned())])?;
    let hosts = folder.join("hosts");
    // Not every file system has further names for a file.
    fs::hard_link(shared, &hosts).or_else(|_| fs::copy(shared, &hosts).map(drop))
}
