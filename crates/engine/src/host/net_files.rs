//! The files about a host's network interfaces: `/sys/class/net`, and tables of `/proc/net`.

use crate::host::files::{card, put};
use softband_ipc::interfaces::{Interface, Route, hardware};
use softband_spec::{InterfaceKind, InterfaceSpec};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Files of the counts of an interface.
const COUNTS: [&str; 6] = ["rx_bytes", "rx_dropped", "rx_packets", "tx_bytes", "tx_dropped", "tx_packets"];

/// Writes the files of a host below `root`. `specs` describes the links of its interfaces.
pub(crate) fn write(root: &Path, (interfaces, routes): (&[Interface], &[Route]), specs: &[InterfaceSpec]) -> io::Result<()> {
    let class = root.join("sys/class/net");
    fs::create_dir_all(&class)?;
    for interface in interfaces {
        let spec = specs.iter().find(|spec| spec.name == interface.name);
        // Links lead from the class to the devices, as in the kernel's tree.
        let card = spec.and_then(InterfaceSpec::port).map(|(hca, _)| card(hca));
        let device = format!("{}/net/{}", card.as_deref().unwrap_or("devices/virtual"), interface.name);
        let folder = root.join("sys").join(&device);
        write_interface(&folder, interface, spec)?;
        if card.is_some() {
            symlink("../..", folder.join("device"))?;
        }
        symlink(format!("../../{device}"), class.join(&interface.name))?;
    }
    write_tables(&root.join("proc/net"), interfaces, routes)
}

fn octets(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

fn write_interface(folder: &Path, interface: &Interface, spec: Option<&InterfaceSpec>) -> io::Result<()> {
    let is_loopback = interface.is_loopback();
    let is_assigned = interface.hardware == hardware::ETHERNET && spec.is_none_or(|spec| spec.kind == InterfaceKind::Management);
    let index = interface.index.to_string();
    let port = spec.and_then(InterfaceSpec::port).map_or(0, |(_, port)| port.0.saturating_sub(1));
    let facts = [
        ("addr_assign_type", if is_assigned { "3" } else { "0" }.to_owned()),
        ("addr_len", interface.hardware_address.len().to_string()),
        ("address", octets(&interface.hardware_address)),
        ("broadcast", octets(&interface.hardware_broadcast)),
        ("carrier", "1".to_owned()),
        ("dev_id", format!("{port:#x}")),
        ("dev_port", port.to_string()),
        ("dormant", "0".to_owned()),
        // The kernel's files have the 16 bits that programs set.
        ("flags", format!("{:#x}", interface.flags & 0xFFFF)),
        ("ifindex", index.clone()),
        ("iflink", index.clone()),
        ("link_mode", "0".to_owned()),
        ("mtu", interface.mtu.to_string()),
        ("operstate", if is_loopback { "unknown" } else { "up" }.to_owned()),
        ("tx_queue_len", interface.queue_packets.to_string()),
        ("type", interface.hardware.to_string()),
        ("uevent", format!("INTERFACE={}\nIFINDEX={index}", interface.name)),
    ];
    put(folder, &facts)?;
    if interface.counters.is_some() {
        // A program that opens one gets its present value (`shim/fd/interface_files`).
        put(&folder.join("statistics"), &COUNTS.map(|name| (name, "0".to_owned())))?;
    }
    // The files of Linux's IPoIB driver.
    let Some(InterfaceKind::Ipoib { mode, pkey, .. }) = spec.map(|spec| spec.kind) else { return Ok(()) };
    put(folder, &[("mode", mode.name().to_owned()), ("pkey", format!("{:#06x}", pkey.0 | 0x8000)), ("umcast", "0".to_owned())])?;
    // Only a write means anything there. The library in programs refuses it (`shim/fd/machine_files`).
    ["create_child", "delete_child"].iter().try_for_each(|name| {
        fs::write(folder.join(name), "")?;
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o200))
    })
}

/// Writes the tables as they are when the host starts. The library in programs writes the table of
/// devices anew for each read if the engine counts packets.
fn write_tables(folder: &Path, interfaces: &[Interface], through_others: &[Route]) -> io::Result<()> {
    let devices = softband_ipc::interfaces::device_table(interfaces);
    let mut routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT".to_owned();
    for route in through_others {
        let Some(interface) = interfaces.iter().find(|interface| interface.index == route.index) else { continue };
        let (network, gateway, mask) = (route.network.address.swap_bytes(), route.gateway.swap_bytes(), route.network.mask().swap_bytes());
        // Up, through a gateway (`RTF_UP`, `RTF_GATEWAY`).
        routes += &format!("\n{}\t{network:08X}\t{gateway:08X}\t0003\t0\t0\t0\t{mask:08X}\t0\t0\t0", interface.name);
    }
    for interface in interfaces.iter().filter(|interface| !interface.is_loopback()) {
        for own in &interface.addresses {
            // Addresses stand in the byte order of the machine.
            let (network, mask) = (own.network().swap_bytes(), own.mask().swap_bytes());
            routes += &format!("\n{}\t{network:08X}\t00000000\t0001\t0\t0\t0\t{mask:08X}\t0\t0\t0", interface.name);
        }
    }
    put(folder, &[("dev", devices), ("route", routes)])?;
    fs::write(folder.join("if_inet6"), addresses_v6(interfaces))
}

/// Returns the table of IPv6 addresses: address, number of the interface, prefix, scope and flags in
/// hexadecimal digits (`net/ipv6/addrconf.c`).
fn addresses_v6(interfaces: &[Interface]) -> String {
    const PERMANENT: u8 = 0x80;
    let mut table = String::new();
    for interface in interfaces {
        for own in &interface.addresses_v6 {
            let scope = match () {
                () if interface.is_loopback() => 0x10,
                () if own.is_of_link() => 0x20,
                () => 0,
            };
            let (address, index, prefix) = (u128::from(own.address), interface.index, own.prefix);
            table += &format!("{address:032x} {index:02x} {prefix:02x} {scope:02x} {PERMANENT:02x} {:>8}\n", interface.name);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_ipc::interfaces::{Address, AddressV6, management, of_host};
    use softband_spec::IpoibMode;
    use softband_types::{PKey, PortNumber};

    #[test]
    fn the_files_show_the_interfaces_of_the_host() {
        let root = std::env::temp_dir().join(format!("softband-test-{}-net", std::process::id()));
        let network = Address { address: 0x0A02_0000, prefix: 16 };
        let route = Route { network, gateway: 0xC612_0003, index: 2 };
        write(&root, (&of_host(0xC612_0002), &[route]), &[InterfaceSpec::management(1)]).unwrap();
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        assert_eq!(read("sys/class/net/eth0/address"), "02:00:c6:12:00:02\n");
        assert_eq!(read("sys/class/net/lo/type"), "772\n");
        assert!(read("proc/net/route").contains("eth0\t000012C6\t00000000\t0001\t0\t0\t0\t0000FFFF"));
        assert!(read("proc/net/route").contains("eth0\t0000020A\t030012C6\t0003\t0\t0\t0\t0000FFFF"));
        assert_eq!(read("proc/net/dev").lines().count(), 4);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn an_ipoib_interface_is_on_the_card_of_its_hca() {
        let root = std::env::temp_dir().join(format!("softband-test-{}-ipoib", std::process::id()));
        let kind = InterfaceKind::Ipoib { hca: 0, port: PortNumber(2), mode: IpoibMode::Datagram, pkey: PKey(0x8001) };
        let spec = InterfaceSpec { name: "ib0".into(), kind, addresses: Vec::new(), mtu_bytes: 2_044 };
        let mut hardware_address = vec![0; 20];
        hardware_address[3] = 0x48;
        let ib0 = Interface {
            name: "ib0".into(),
            addresses: vec![Address { address: 0x0A01_0001, prefix: 16 }],
            addresses_v6: vec![AddressV6 { address: "fe80::7".parse().unwrap(), prefix: 64 }],
            mtu: 2_044,
            hardware_address,
            hardware: hardware::INFINIBAND,
            ..management(0)
        };
        write(&root, (&[ib0], &[]), &[spec]).unwrap();
        let read = |path: &str| fs::read_to_string(root.join("sys/class/net/ib0").join(path)).unwrap();
        assert_eq!((read("type"), read("mtu"), read("addr_len"), read("dev_port")), ("32\n".into(), "2044\n".into(), "20\n".into(), "1\n".into()));
        assert_eq!((read("mode"), read("pkey")), ("datagram\n".into(), "0x8001\n".into()));
        assert!(read("address").starts_with("00:00:00:48:00:"));
        let table = fs::read_to_string(root.join("proc/net/if_inet6")).unwrap();
        assert_eq!(table, format!("fe80{:028x} 02 40 20 80      ib0\n", 7));
        assert!(root.join("sys/class/net/ib0/device/net/ib0").is_dir());
        assert!(fs::read_to_string(root.join("proc/net/route")).unwrap().contains("ib0\t0000010A\t00000000\t0001\t0\t0\t0\t0000FFFF"));
        fs::remove_dir_all(&root).unwrap();
    }
}
