//! The files that a host's programs find below `/sys/class/infiniband*`, `/sys/class/net`,
//! `/dev/infiniband`, `/dev/shm` and `/etc/hosts`. Each host has a folder, to which the library in its programs redirects these
//! paths (`shim/fd/files`). The folder looks like the kernel's and follows the fabric file.

use crate::host::kernel::{Kernels, settings};
use crate::host::ports::{self, abi_lid};
use crate::host::shared_files::{self, SharedFiles};
use crate::host::{counter_files, interfaces, mad_files, name_files, net_files, processor_files};
use anyhow::Context;
use rustix::fs::FlockOperation;
use softband_fabric::World;
use softband_ipc::environment;
use softband_ipc::interfaces::{Interface, Route};
use softband_model::management::agent::LinkState;
use softband_model::verbs::api::PortSnapshot;
use softband_spec::HcaSpec;
use softband_types::{HcaId, LinkLayer, LinkRate, LinkSpeed, PortNumber};
use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Major and first minor number of the character devices in the kernel's list of devices.
const UVERBS_MAJOR: u32 = 231;
const UVERBS_MINOR: u32 = 192;
/// Version of the kernel's verbs interface (`IB_USER_VERBS_ABI_VERSION`).
const VERBS_ABI: &str = "6";
/// Version of the connection manager's interface (`RDMA_USER_CM_ABI_VERSION`).
const CONNECTION_ABI: &str = "4";
/// PCI classes of InfiniBand and Ethernet controllers (`PCI_CLASS_NETWORK_INFINIBAND` and
/// `_ETHERNET` with their two zeros).
const PCI_CLASS_INFINIBAND: &str = "0x020700";
const PCI_CLASS_ETHERNET: &str = "0x020000";

/// Names of devices by the drivers of Mellanox' chips, and the number of that vendor on the bus. Their boards can be of others.
const MELLANOX_DRIVERS: [&str; 3] = ["mthca", "mlx4_", "mlx5_"];
const PCI_VENDOR_MELLANOX: u32 = 0x15b3;

/// Variable by which OpenSM finds the folder of its database of GUIDs and LIDs, and that folder. All
/// hosts of a machine would share `/var/cache/opensm`, and each run would find the last one's LIDs.
const OPENSM_CACHE: (&str, &str) = ("OSM_CACHE_DIR", "var/cache/opensm");

/// End of the names of these folders.
const ENDING: &str = "-files";

/// Longest path of a Unix socket, in bytes (unix(7)).
const SOCKET_PATH_MAX: usize = 107;

/// The folders of all hosts. They disappear when this value is dropped.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
    /// Part of the names in the folder, which other users cannot list. A program that has changed
    /// its user must still read the files.
    secret: String,
    /// Whether the programs live in simulated time, and see one processor.
    shows_one_processor: bool,
    /// The hosts' `/dev/shm`, on the machine's.
    shared: Option<SharedFiles>,
    /// Whether programs may run in containers, which have a `/dev/shm` of their own.
    in_containers: bool,
    /// Lock that lasts as long as the engine, however it ends: a folder without a lock is stale.
    _lock: File,
}

impl Files {
    /// Creates the folder of a shared fabric in the users' folder `parent`. The engine's socket lies
    /// there as well.
    pub(crate) fn of_shared_fabric(parent: &Path, engine: &str) -> anyhow::Result<Self> {
        let mut files = Self::below(parent, engine).with_context(|| format!("cannot write into {}", parent.display()))?;
        files.in_containers = true;
        Ok(files)
    }

    /// Returns the path of a shared fabric's socket.
    pub(crate) fn socket(&self) -> anyhow::Result<String> {
        let path = self.folder.join("engine");
        let len = path.as_os_str().len();
        anyhow::ensure!(
            len <= SOCKET_PATH_MAX,
            "the folder of a shared fabric has a path of at most {} bytes\n  help: mount it elsewhere, such as at /run/softband",
            SOCKET_PATH_MAX - (len - self.folder.parent().map_or(0, |parent| parent.as_os_str().len()))
        );
        path.into_os_string().into_string().map_err(|path| anyhow::anyhow!("the path {} is not UTF-8", path.display()))
    }

    /// Creates the folder for the engine of this name.
    pub(crate) fn new(engine: &str) -> anyhow::Result<Self> {
        let parent = std::env::temp_dir();
        let place = || format!("cannot write the files that programs see of their HCAs into {} (TMPDIR names another folder)", parent.display());
        let mut files = Self::below(&parent, engine).with_context(place)?;
        files.shared = SharedFiles::new(engine);
        Ok(files)
    }

    fn below(parent: &Path, engine: &str) -> io::Result<Self> {
        remove_stale(parent, ENDING);
        let secret = crate::control::admission::random_word().map_err(io::Error::other)?;
        let (folder, lock) = lock(parent, &format!("{engine}{ENDING}"))?;
        Ok(Self { folder, secret, shared: None, shows_one_processor: false, in_containers: false, _lock: lock })
    }

    /// Writes the files of programs that see one processor from now on.
    pub(crate) fn show_one_processor(&mut self) {
        self.shows_one_processor = true;
    }

    /// Returns a path to the libraries that the dynamic linker accepts. The linker splits its lists
    /// at characters that cannot be escaped (ld.so(8)).
    pub(crate) fn way_to(&self, libraries: &Path) -> anyhow::Result<PathBuf> {
        let can_be_told = |path: &Path| !path.as_os_str().as_bytes().iter().any(|byte| b" \t\n:;$".contains(byte));
        if can_be_told(libraries) {
            return Ok(libraries.to_path_buf());
        }
        let link = self.folder.join("lib");
        anyhow::ensure!(
            can_be_told(&link),
            "the dynamic linker accepts neither {} nor a link in {}, because of spaces or colons: set TMPDIR to a folder without them",
            libraries.display(),
            self.folder.display()
        );
        symlink(std::path::absolute(libraries)?, &link)?;
        Ok(link)
    }

    /// Writes the new state of a port, if its host has files.
    pub(crate) fn note_port(&self, world: &World, hca: HcaId, number: PortNumber) -> io::Result<()> {
        let (host, index) = world.place_of(hca);
        let device = &world.spec().hosts[host].hcas[index].device;
        let folder = self.place_of(host).join("sys/class/infiniband").join(device).join("ports").join(number.0.to_string());
        match world.port(hca, number) {
            Some(port) if folder.is_dir() => changing_facts(&port).into_iter().try_for_each(|(name, text)| {
                // A reader at this moment gets the old or the new state, never a part.
                let nascent = folder.join(format!("{name}.new"));
                fs::write(&nascent, format!("{text}\n"))?;
                fs::rename(&nascent, folder.join(name))
            }),
            _ => Ok(()),
        }
    }

    /// Returns the variable of OpenSM's database below a host's folder, unless the user has set it.
    pub(crate) fn cache_variable(folder: &str) -> Option<(String, String)> {
        let (name, path) = OPENSM_CACHE;
        std::env::var_os(name).is_none().then(|| (name.to_owned(), format!("{folder}/{path}")))
    }

    /// Returns the environment variable by which programs of `host` find the files. `names` makes the
    /// text of `/etc/hosts`.
    pub(crate) fn variable(
        &self,
        host: usize,
        world: &World,
        kernels: Option<&Kernels>,
        names: &dyn Fn() -> String,
    ) -> io::Result<Option<(String, String)>> {
        let folder = self.of_host(host, world, kernels, names)?;
        Ok(folder.to_str().map(|folder| (environment::FILES.to_owned(), folder.to_owned())))
    }

    fn place_of(&self, host: usize) -> PathBuf {
        self.folder.join(format!("{}-{host}", self.secret))
    }

    /// Returns the folder of a host. The first call writes it, because large fabrics have many
    /// hosts without programs.
    fn of_host(&self, host: usize, world: &World, kernels: Option<&Kernels>, names: &dyn Fn() -> String) -> io::Result<PathBuf> {
        let folder = self.place_of(host);
        if !folder.is_dir() {
            let network = (interfaces::of_host(kernels, world, host), interfaces::routes_of_host(kernels, host));
            write_host(&folder, world, host, (&network.0, &network.1), self.shows_one_processor)?;
            if self.shows_one_processor {
                processor_files::write(&folder)?;
            }
            write_settings(&folder.join(OWN_VALUES), world, host, kernels)?;
            // A container's own files name its neighbours.
            if !self.in_containers {
                name_files::write(&folder, &self.folder.join(format!("{}-names", self.secret)), &world.spec().hosts[host].name, names)?;
                shared_files::write(&folder, &format!("{}-{host}", self.secret), self.shared.as_ref())?;
            }
        }
        Ok(folder)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Makes the folder `name`, which others may pass but not list, with its lock.
pub(crate) fn lock(parent: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    let folder = parent.join(name);
    // The folder gets its name after its lock. Another engine that starts now would take it for a
    // stale folder.
    let nascent = parent.join(format!("{name}.new"));
    DirBuilder::new().mode(0o711).create(&nascent)?;
    let lock = File::open(&nascent)?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    fs::rename(&nascent, &folder)?;
    Ok((folder, lock))
}

/// Time after which no engine still makes its folder.
const NASCENT: Duration = Duration::from_secs(60);

fn age(data: &Metadata) -> Duration {
    data.modified().ok().and_then(|at| at.elapsed().ok()).unwrap_or_default()
}

/// Removes the folders of the engine with this name, which ends by force.
pub(crate) fn remove_all_of(engine: &str) {
    for folder in [SharedFiles::folder_of(engine), std::env::temp_dir().join(format!("{engine}{ENDING}"))] {
        let _ = fs::remove_dir_all(folder);
    }
}

/// Removes the folders with this ending that killed engines of this user left behind.
pub(crate) fn remove_stale(parent: &Path, ending: &str) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with("softband-")) else { continue };
        let Ok(data) = entry.metadata() else { continue };
        // An engine that starts now has not locked its nascent folder yet.
        let is_nascent = || name.strip_suffix(".new").is_some_and(|name| name.ends_with(ending)) && age(&data) > NASCENT;
        if !(name.ends_with(ending) || is_nascent()) || !data.is_dir() || data.uid() != own {
            continue;
        }
        let Ok(folder) = File::open(entry.path()) else { continue };
        if rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Writes a folder with files, each with its text and a newline.
pub(crate) fn put(folder: &Path, files: &[(&str, String)]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    files.iter().try_for_each(|(name, text)| fs::write(folder.join(name), format!("{text}\n")))
}

fn write_host(root: &Path, world: &World, host: usize, network: (&[Interface], &[Route]), shows_one_processor: bool) -> io::Result<()> {
    let spec = &world.spec().hosts[host];
    let (class, verbs, devices) = (root.join("sys/class/infiniband"), root.join("sys/class/infiniband_verbs"), root.join("dev/infiniband"));
    fs::create_dir_all(&class)?;
    fs::create_dir_all(&devices)?;
    fs::create_dir_all(root.join(OPENSM_CACHE.1))?;
    // A program with other mounts changes no mounts of the machine (`shim/process/machine_calls`).
    symlink(fs::read_link("/proc/self/ns/mnt")?, root.join("mount-namespace"))?;
    put(&verbs, &[("abi_version", VERBS_ABI.into())])?;
    // Libraries compare it to tell whether a peer is on their own machine (UCX).
    put(&root.join("proc/sys/kernel/random"), &[("boot_id", format!("50f7ba2d-0000-4000-8000-{host:012x}"))])?;
    net_files::write(root, network, &spec.interfaces)?;
    for (number, hca) in spec.verbs_devices() {
        // Each HCA is a card of its own: links lead from its class to it, as in the kernel's tree.
        let card = card(number);
        let (device, uverbs) = (&hca.device, format!("uverbs{number}"));
        write_card(&root.join("sys").join(&card), world, (host, number), (hca, &uverbs), shows_one_processor)?;
        symlink(format!("../../{card}/infiniband/{device}"), class.join(device))?;
        symlink(format!("../../{card}/infiniband_verbs/{uverbs}"), verbs.join(&uverbs))?;
        // A character device that programs may open; nothing goes through it.
        symlink("/dev/null", devices.join(&uverbs))?;
    }
    // librdmacm opens the device only with this file.
    put(&root.join("sys/class/misc/rdma_cm"), &[("abi_version", CONNECTION_ABI.into())])?;
    symlink("/dev/null", devices.join("rdma_cm"))?;
    mad_files::write(root, world, host)
}

/// Folder of a host's own values of the kernel's settings (`shim/fd/own_values`).
const OWN_VALUES: &str = "own/proc/sys";

/// Writes the settings that differ between hosts, or that the model has.
fn write_settings(folder: &Path, world: &World, host: usize, kernels: Option<&Kernels>) -> io::Result<()> {
    put(&folder.join("kernel"), &[("hostname", world.spec().hosts[host].name.to_string())])?;
    let Some(kernels) = kernels else { return Ok(()) };
    for (name, value) in settings::all(kernels.stack(host).kernel()) {
        let file = folder.join("net").join(name);
        fs::create_dir_all(file.parent().unwrap_or(folder))?;
        fs::write(file, format!("{value}\n"))?;
    }
    Ok(())
}

/// Returns the folder of an HCA of a host below `/sys`.
pub(super) fn card(number: usize) -> String {
    format!("devices/pci0000:00/0000:00:{:02x}.0", number + 1)
}

/// Returns the vendor's number on the bus. Verbs state that of the IEEE (`vendor_id`), which makers
/// other than Mellanox set to the same.
fn pci_vendor(driver: &str, vendor_id: u32) -> u32 {
    if MELLANOX_DRIVERS.contains(&driver) { PCI_VENDOR_MELLANOX } else { vendor_id & 0xFFFF }
}

fn write_card(
    card: &Path,
    world: &World,
    (host, number): (usize, usize),
    (hca, uverbs): (&HcaSpec, &str),
    shows_one_processor: bool,
) -> io::Result<()> {
    let part = &hca.part;
    let (processors, list) = if shows_one_processor { ("1", "0") } else { ("ffffffff,ffffffff", "0-63") };
    let facts = [
        ("vendor", format!("{:#06x}", pci_vendor(&part.driver, part.vendor_id))),
        ("device", format!("{:#06x}", part.vendor_part_id)),
        ("class", if hca.link_layer == LinkLayer::Ethernet { PCI_CLASS_ETHERNET } else { PCI_CLASS_INFINIBAND }.into()),
        ("numa_node", "-1".into()),
        ("local_cpus", processors.into()),
        ("local_cpulist", list.into()),
    ];
    put(card, &facts)?;
    let minor = UVERBS_MINOR + number as u32;
    let verbs = card.join("infiniband_verbs").join(uverbs);
    put(&verbs, &[("ibdev", hca.device.clone()), ("abi_version", "1".into()), ("dev", format!("{UVERBS_MAJOR}:{minor}"))])?;
    symlink("../..", verbs.join("device"))?;
    let device = card.join("infiniband").join(&hca.device);
    let facts = [
        ("node_type", "1: CA".into()),
        ("node_guid", groups(&hca.node_guid.0.to_be_bytes())),
        ("sys_image_guid", groups(&hca.node_guid.0.to_be_bytes())),
        ("node_desc", hca.device.clone()),
        ("fw_ver", part.firmware_version.clone()),
        ("hw_rev", format!("{:x}", part.hardware_version)),
        ("hca_type", format!("MT{}", part.vendor_part_id)),
        ("board_id", part.board_id.clone()),
    ];
    put(&device, &facts)?;
    symlink("../..", device.join("device"))?;
    let id = world.hca_id(host, number);
    for port in (1..=part.ports).filter_map(|port| Some((port, world.port(id, PortNumber(port))?))) {
        let pkeys = world.pkeys(id).iter().map(|key| key.0);
        let interface = ports::interface(world, PortNumber(port.0), &port.1).map(|(name, _)| name);
        write_port(&device.join("ports").join(port.0.to_string()), &port.1, interface, pkeys)?;
    }
    Ok(())
}

/// Returns the names and texts of the files of a port that change during a run: its states, LIDs and
/// rate.
fn changing_facts(port: &PortSnapshot) -> [(&'static str, String); 6] {
    let state = match port.state {
        None => "1: DOWN",
        Some(LinkState::Init) => "2: INIT",
        Some(LinkState::Armed) => "3: ARMED",
        Some(LinkState::Active) => "4: ACTIVE",
    };
    let physical = match port.state {
        _ if port.is_disabled => "3: Disabled",
        None => "2: Polling",
        Some(_) => "5: LinkUp",
    };
    let lid = |lid| format!("{:#x}", abi_lid(port.link_layer, lid).0);
    [
        ("state", state.into()),
        ("phys_state", physical.into()),
        ("lid", lid(port.lid)),
        ("lid_mask_count", port.lmc.to_string()),
        ("sm_lid", lid(port.sm_lid)),
        ("rate", rate_text(port.link_layer, port.rate)),
    ]
}

fn write_port(folder: &Path, port: &PortSnapshot, interface: Option<String>, pkeys: impl Iterator<Item = u16>) -> io::Result<()> {
    // The bits of InfiniBand mean a service level map and a system image GUID. The bit of Ethernet
    // means that GIDs are IP addresses. `ibv_query_port` reports the same.
    let is_ethernet = port.link_layer == LinkLayer::Ethernet;
    let (capabilities, gid_type) = if is_ethernet { ("0x04000000", "RoCE v2") } else { ("0x00000840", "IB/RoCE v1") };
    put(folder, &changing_facts(port))?;
    let facts = [("sm_sl", "0".into()), ("cap_mask", capabilities.into()), ("link_layer", port.link_layer.to_string())];
    put(folder, &facts)?;
    let gids: Vec<(String, String)> = port.gids.iter().flatten().enumerate().map(|(index, gid)| (index.to_string(), groups(&gid.0))).collect();
    let each = |text: &dyn Fn(&str) -> String| gids.iter().map(|(index, gid)| (index.as_str(), text(gid))).collect::<Vec<_>>();
    put(&folder.join("gids"), &each(&str::to_owned))?;
    put(&folder.join("gid_attrs/types"), &each(&|_| gid_type.to_owned()))?;
    // No network interface belongs to an InfiniBand port here.
    let interfaces = interface.map_or(Vec::new(), |name| each(&|_| name.clone()));
    put(&folder.join("gid_attrs/ndevs"), &interfaces)?;
    // A program that opens one gets its present value (`shim/fd/counter_files`).
    let counters: Vec<_> = counter_files::names().map(|name| (name, "0".to_owned())).collect();
    put(&folder.join("counters"), &counters)?;
    let hardware: Vec<_> = counter_files::hardware_names().map(|(name, value)| (name, value.to_string())).collect();
    put(&folder.join("hw_counters"), &hardware)?;
    let pkeys: Vec<(String, String)> = pkeys.enumerate().map(|(index, key)| (index.to_string(), format!("{key:#06x}"))).collect();
    put(&folder.join("pkeys"), &pkeys.iter().map(|(name, text)| (name.as_str(), text.clone())).collect::<Vec<_>>())
}

/// Returns a link's rate in megabits a second.
pub(crate) fn megabits(layer: LinkLayer, rate: LinkRate) -> u32 {
    (tenths_of_gigabit(layer, rate).0 * 100) as u32
}

/// Formats a link's rate as the kernel does. A lane has its round speed in tenths of a gigabit a
/// second. SDR has no name, and a lane of 10 GbE appears as QDR.
fn rate_text(layer: LinkLayer, rate: LinkRate) -> String {
    let (tenths, name) = tenths_of_gigabit(layer, rate);
    let half = if tenths.is_multiple_of(10) { "" } else { ".5" };
    format!("{}{half} Gb/sec ({}{name})", tenths / 10, rate.width)
}

/// Returns the same rate as a number.
pub(crate) fn bytes_per_second(layer: LinkLayer, rate: LinkRate) -> u64 {
    tenths_of_gigabit(layer, rate).0 * (100_000_000 / 8)
}

/// Returns the rate of a link in tenths of a gigabit a second, and the name of its speed.
fn tenths_of_gigabit(layer: LinkLayer, rate: LinkRate) -> (u64, &'static str) {
    let (tenths, name) = match rate.speed {
        LinkSpeed::Fdr10 if layer == LinkLayer::Ethernet => (100, " QDR"),
        LinkSpeed::Gigabit => (10, ""),
        LinkSpeed::Sdr => (25, ""),
        LinkSpeed::Ddr => (50, " DDR"),
        LinkSpeed::Qdr => (100, " QDR"),
        LinkSpeed::Fdr10 => (100, " FDR10"),
        LinkSpeed::Fdr => (140, " FDR"),
        LinkSpeed::Edr => (250, " EDR"),
        LinkSpeed::Hdr => (500, " HDR"),
        LinkSpeed::Ndr => (1_000, " NDR"),
        LinkSpeed::Xdr => (2_000, " XDR"),
    };
    (tenths * rate.width.lanes(), name)
}

/// Formats bytes in groups of two, as the kernel writes GUIDs and GIDs.
fn groups(bytes: &[u8]) -> String {
    bytes.chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1])).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::{Files, groups, rate_text};
    use softband_types::{EthernetRate, Guid, LinkLayer, LinkRate, LinkSpeed, LinkWidth};

    #[test]
    fn engines_that_start_at_once_leave_each_other_s_folders_alone() {
        let start = |thread: usize| {
            for round in 0..100 {
                let files = Files::new(&format!("softband-test-{}-{thread}-{round}", std::process::id())).unwrap();
                assert!(files.folder.is_dir());
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || start(thread)))));
    }

    #[test]
    fn rates_are_written_as_the_kernel_does() {
        let text = |width, speed| rate_text(LinkLayer::Infiniband, LinkRate { width, speed });
        assert_eq!(text(LinkWidth::X1, LinkSpeed::Sdr), "2.5 Gb/sec (1X)");
        assert_eq!(text(LinkWidth::X4, LinkSpeed::Fdr), "56 Gb/sec (4X FDR)");
        assert_eq!(text(LinkWidth::X2, LinkSpeed::Hdr), "100 Gb/sec (2X HDR)");
        assert_eq!(text(LinkWidth::X4, LinkSpeed::Xdr), "800 Gb/sec (4X XDR)");
        assert_eq!(rate_text(LinkLayer::Ethernet, EthernetRate::G40.link_rate()), "40 Gb/sec (4X QDR)");
    }

    #[test]
    fn guids_are_written_in_groups_of_four_digits() {
        let guid = Guid(0x0002_c903_0000_1f02);
        assert_eq!(groups(&guid.0.to_be_bytes()), "0002:c903:0000:1f02");
    }
}
