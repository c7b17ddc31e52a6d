//! The files about a host's network interfaces: `/sys/class/net`, and tables of `/proc/net`.

use crate::host::files::put;
use softband_ipc::interfaces::{Interface, hardware, of_host};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Packets that an interface may queue, as Linux sets it for Ethernet.
const QUEUE_PACKETS: u32 = 1_000;

/// Writes the files of the host with this address below `root`.
pub(crate) fn write(root: &Path, address: u32) -> io::Result<()> {
    let interfaces = of_host(address);
    let class = root.join("sys/class/net");
    fs::create_dir_all(&class)?;
    for interface in &interfaces {
        // Links lead from the class to the devices, as in the kernel's tree.
        let device = format!("devices/virtual/net/{}", interface.name);
        write_interface(&root.join("sys").join(&device), interface)?;
        symlink(format!("../../{device}"), class.join(interface.name))?;
    }
    write_tables(&root.join("proc/net"), &interfaces)
}

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

fn write_interface(folder: &Path, interface: &Interface) -> io::Result<()> {
    let is_loopback = interface.hardware == hardware::LOOPBACK;
    let index = interface.index.to_string();
    let facts = [
        ("addr_assign_type", if is_loopback { "0" } else { "3" }.to_owned()),
        ("addr_len", "6".to_owned()),
        ("address", mac(interface.hardware_address)),
        ("broadcast", mac(interface.hardware_broadcast())),
        ("carrier", "1".to_owned()),
        ("dev_id", "0x0".to_owned()),
        ("dev_port", "0".to_owned()),
        ("dormant", "0".to_owned()),
        // The kernel's files have the 16 bits that programs set.
        ("flags", format!("{:#x}", interface.flags & 0xFFFF)),
        ("ifindex", index.clone()),
        ("iflink", index.clone()),
        ("link_mode", "0".to_owned()),
        ("mtu", interface.mtu.to_string()),
        ("operstate", if is_loopback { "unknown" } else { "up" }.to_owned()),
        ("tx_queue_len", QUEUE_PACKETS.to_string()),
        ("type", interface.hardware.to_string()),
        ("uevent", format!("INTERFACE={}\nIFINDEX={index}", interface.name)),
    ];
    put(folder, &facts)
}

/// Writes the tables without counts: the engine counts no packets of plain sockets.
fn write_tables(folder: &Path, interfaces: &[Interface]) -> io::Result<()> {
    let mut devices = String::from(
        "Inter-|   Receive                                                |  Transmit\n \
         face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed",
    );
    let mut routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT".to_owned();
    for interface in interfaces {
        devices += &format!("\n{:>6}:{}", interface.name, " 0".repeat(16));
        if interface.hardware != hardware::LOOPBACK {
            // Addresses stand in the byte order of the machine.
            let (network, mask) = (interface.network().swap_bytes(), interface.mask().swap_bytes());
            routes += &format!("\n{}\t{network:08X}\t00000000\t0001\t0\t0\t0\t{mask:08X}\t0\t0\t0", interface.name);
        }
    }
    put(folder, &[("dev", devices), ("route", routes)])?;
    // The hosts have no IPv6 addresses.
    fs::write(folder.join("if_inet6"), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_show_the_interfaces_of_the_host() {
        let root = std::env::temp_dir().join(format!("softband-test-{}-net", std::process::id()));
        write(&root, 0xC612_0002).unwrap();
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        assert_eq!(read("sys/class/net/eth0/address"), "02:00:c6:12:00:02\n");
        assert_eq!(read("sys/class/net/lo/type"), "772\n");
        assert!(read("proc/net/route").contains("eth0\t000012C6\t00000000\t0001\t0\t0\t0\t0000FFFF"));
        assert_eq!(read("proc/net/dev").lines().count(), 4);
        fs::remove_dir_all(&root).unwrap();
    }
}
