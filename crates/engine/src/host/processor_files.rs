//! The files about processors and memory nodes that programs find below `/sys` in simulated time. All
//! programs of a run share one processor (`scheduler/context_switch`), and see it as number 0. Sizes of
//! caches are the machine's.

use crate::host::files::put;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Folders of the machine's first processor and first memory node.
const MACHINES_CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";
const MACHINES_MEMORY: &str = "/sys/devices/system/node/node0/meminfo";
/// The machine's vulnerabilities, which programs may report.
const MACHINES_VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities";

/// Writes the files below `root`.
pub(crate) fn write(root: &Path) -> io::Result<()> {
    let system = root.join("sys/devices/system");
    let (processors, nodes) = (system.join("cpu"), system.join("node"));
    let one = || "0".to_owned();
    let lists = [("online", one()), ("possible", one()), ("present", one()), ("enabled", one()), ("kernel_max", one())];
    put(&processors, &lists)?;
    put(&processors, &[("offline", String::new()), ("isolated", String::new()), ("nohz_full", "(null)".to_owned())])?;
    put(&processors.join("smt"), &[("active", one()), ("control", "notsupported".to_owned())])?;
    let processor = processors.join("cpu0");
    write_topology(&processor.join("topology"))?;
    write_caches(&processor.join("cache"))?;
    copy_files(Path::new(MACHINES_VULNERABILITIES), &processors.join("vulnerabilities"))?;
    put(&nodes, &["online", "possible", "has_cpu", "has_memory", "has_normal_memory"].map(|name| (name, one())))?;
    let node = nodes.join("node0");
    put(&node, &[("cpulist", one()), ("cpumap", "1".to_owned()), ("distance", "10".to_owned())])?;
    if let Ok(text) = fs::read(MACHINES_MEMORY) {
        fs::write(node.join("meminfo"), text)?;
    }
    symlink("../../cpu/cpu0", node.join("cpu0"))?;
    symlink("../../node/node0", processor.join("node0"))?;
    for (bus, device) in [("cpu", "cpu0"), ("node", "node0")] {
        let devices = root.join("sys/bus").join(bus).join("devices");
        fs::create_dir_all(&devices)?;
        symlink(format!("../../../devices/system/{bus}/{device}"), devices.join(device))?;
    }
    Ok(())
}

fn write_topology(folder: &Path) -> io::Result<()> {
    let numbers = ["core_id", "physical_package_id", "die_id", "cluster_id"].map(|name| (name, "0".to_owned()));
    put(folder, &numbers)?;
    for set in ["thread_siblings", "core_siblings", "core_cpus", "package_cpus", "die_cpus", "cluster_cpus"] {
        let list = format!("{set}_list");
        put(folder, &[(set, "1".to_owned()), (&list, "0".to_owned())])?;
    }
    Ok(())
}

/// Writes the machine's caches as those of the shown processor.
fn write_caches(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(MACHINES_CACHES).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let cache = folder.join(entry.file_name());
            copy_files(&entry.path(), &cache)?;
            put(&cache, &[("shared_cpu_map", "1".to_owned()), ("shared_cpu_list", "0".to_owned())])?;
        }
    }
    fs::create_dir_all(folder)
}

/// Copies the readable files of a folder of the kernel.
fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Ok(text) = fs::read(entry.path())
        {
            fs::write(to.join(entry.file_name()), text)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_files_show_one_processor() {
        let root = std::env::temp_dir().join(format!("softband-processors-{}", std::process::id()));
        super::write(&root).unwrap();
        let read = |path: &str| std::fs::read_to_string(root.join("sys").join(path)).unwrap();
        assert_eq!(read("devices/system/cpu/online"), "0\n");
        assert_eq!(read("bus/cpu/devices/cpu0/topology/thread_siblings_list"), "0\n");
        assert_eq!(read("bus/node/devices/node0/cpumap"), "1\n");
        assert!(!root.join("sys/devices/system/cpu/cpu1").exists());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
