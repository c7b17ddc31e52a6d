//! Network interfaces and kernels in fabric files, and every kind of mistake.

use crate::common::{catalog, error_of, parse, root};
use softband_catalog::{LoadOptions, draw_text, parse_fabric};
use softband_model::parts::KernelPart;
use softband_spec::{FabricSpec, InterfaceKind, InterfaceSpec, IpoibMode};
use softband_types::{PKey, PortNumber};

const TWO_HOSTS: &str = r#"[hosts.a]
part = "se7520jr23d"
[[hosts.a.hcas]]
device = "mthca0"
part = "voltaire-ddr"
pkeys = [0xffff, 0x8001, 0x0002]
[[hosts.a.hcas]]
part = "connectx5"
link_layer = "ethernet"
[hosts.b]
part = "se7520jr23d"
[[hosts.b.hcas]]
device = "mthca0"
part = "voltaire-ddr"
[[cables]]
part = "cx4"
from = "a/mthca0/1"
to = "b/mthca0/1"
"#;

/// Returns a fabric of two hosts with more lines. Host b has no Ethernet.
fn with(lines: &str) -> String {
    let ethernet = "[[hosts.a.hcas]]\npart = \"connectx5\"\nlink_layer = \"ethernet\"\n";
    format!("{}{lines}", TWO_HOSTS.replace(ethernet, ""))
}

fn spec(lines: &str) -> FabricSpec {
    parse(&with(lines)).unwrap_or_else(|error| panic!("{}", error.to_text())).spec
}

/// Returns the interfaces of a host as text: names and addresses.
fn names(spec: &FabricSpec, host: usize) -> Vec<String> {
    let text = |interface: &InterfaceSpec| {
        let addresses: Vec<String> = interface.addresses.iter().map(|own| format!("{}/{}", own.address, own.prefix)).collect();
        format!("{} {} {}", interface.name, addresses.join(" "), interface.mtu_bytes)
    };
    spec.hosts[host].interfaces.iter().map(text).collect()
}

#[test]
fn a_host_has_the_management_network_and_a_kernel_of_today() {
    let spec = spec("");
    assert!(!spec.has_modelled_network());
    assert_eq!(names(&spec, 1), ["eth0 198.18.0.2/16 1500"]);
    assert_eq!(spec.hosts[0].kernel, *catalog().kernel("linux-6.1").unwrap());
}

#[test]
fn the_kernel_of_code_is_that_of_the_catalogue() {
    assert_eq!(KernelPart { name: "linux-6.1".into(), ..KernelPart::linux_6_1() }, *catalog().kernel("linux-6.1").unwrap());
}

#[test]
fn an_interface_has_usual_values() {
    let spec = spec("[hosts.a.interfaces.ib0]\nkind = \"ipoib\"\n");
    assert!(spec.has_modelled_network());
    assert_eq!(names(&spec, 0), ["eth0 198.18.0.1/16 1500", "ib0 10.1.0.1/16 2044"]);
    assert_eq!(names(&spec, 1), ["eth0 198.18.0.2/16 1500"]);
    let kind = InterfaceKind::Ipoib { hca: 0, port: PortNumber(1), mode: IpoibMode::Datagram, pkey: PKey(0xFFFF) };
    assert_eq!(spec.hosts[0].interfaces[1].kind, kind);
}

#[test]
fn all_hosts_can_have_an_interface() {
    let lines = "[interfaces.ib0]\nkind = \"ipoib\"\n[interfaces.ib1]\nkind = \"ipoib\"\npkey = 0x8001\nsubnet = \"10.9.0.0/24\"\nmode = \"connected\"\n\
                 [hosts.b.interfaces]\nib1 = false\neth0 = false\n[hosts.a.interfaces.ib1]\nmtu = 9000\n";
    let spec = spec(lines);
    assert_eq!(names(&spec, 0), ["eth0 198.18.0.1/16 1500", "ib0 10.1.0.1/16 2044", "ib1 10.9.0.1/24 9000"]);
    assert_eq!(names(&spec, 1), ["ib0 10.1.0.2/16 2044"]);
}

#[test]
fn generated_hosts_have_interfaces() {
    let text = "[generate]\nkind = \"star\"\nhosts = 20\nhost = \"xeon-e5-2600-v4\"\nhca = \"connectx3\"\nswitch = \"switchx\"\n\
                host_cable = \"copper-4x\"\nhost_cable_length = \"1 m\"\n[interfaces.ib0]\nkind = \"ipoib\"\nmode = \"connected\"\n\
                [fabric]\nkernel = \"linux-3.10\"\n";
    let spec = parse(text).unwrap_or_else(|error| panic!("{}", error.to_text())).spec;
    assert_eq!(names(&spec, 19), ["eth0 198.18.0.20/16 1500", "ib0 10.1.0.20/16 65520"]);
    assert!(spec.hosts.iter().all(|host| host.kernel.name == "linux-3.10"));
}

#[test]
fn usual_subnets_leave_those_of_the_file_alone() {
    let lines = "[interfaces.ib0]\nkind = \"ipoib\"\n[hosts.a.interfaces.ib9]\nkind = \"ipoib\"\npkey = 0x8001\naddresses = [\"10.1.2.3/24\"]\n";
    assert_eq!(names(&spec(lines), 0)[1..], ["ib0 10.2.0.1/16 2044", "ib9 10.1.2.3/24 2044"]);
}

#[test]
fn a_resolved_fabric_has_the_same_interfaces_and_kernels() {
    let lines = "[interfaces.ib0]\nkind = \"ipoib\"\n[hosts.b.interfaces]\neth0 = false\n[hosts.a.interfaces.mgmt]\nkind = \"management\"\n\
                 [hosts.a.interfaces.ib1]\nkind = \"ipoib\"\nmode = \"connected\"\npkey = 0x8001\nmtu = 32000\naddresses = [\"10.4.0.1/16\", \"10.5.0.1/31\"]\n";
    let text = with(lines).replacen("[hosts.b]\n", "[hosts.b]\nkernel = \"linux-2.6.9\"\n", 1);
    let first = parse(&text).unwrap();
    let resolved = first.resolved_toml();
    assert!(resolved.contains("kernel = \"linux-2.6.9\"") && resolved.contains("[parts.kernel.\"linux-6.1\"]"), "{resolved}");
    let second = parse_fabric("fabric.toml", &resolved, &softband_catalog::Catalog::default(), &LoadOptions::default());
    let second = second.unwrap_or_else(|error| panic!("{}\n{resolved}", error.to_text()));
    assert_eq!(first.spec, second.spec);
    assert_eq!(resolved, second.resolved_toml());
}

#[test]
fn a_resolved_fabric_without_modelled_network_names_no_kernel() {
    let resolved = parse(&with("")).unwrap().resolved_toml();
    assert!(!resolved.contains("interfaces") && !resolved.contains("kernel = "), "{resolved}");
}

#[test]
fn the_shipped_fabric_is_what_it_says() {
    let text = std::fs::read_to_string(root().join("fabrics/ipoib.toml")).unwrap();
    let loaded = parse(&text).unwrap();
    assert_eq!(loaded.warnings.len(), 0);
    assert_eq!(names(&loaded.spec, 1), ["eth0 198.18.0.2/16 1500", "ib0 10.1.0.2/16 2044"]);
    assert!(loaded.spec.hosts.iter().all(|host| host.kernel.name == "linux-2.6.18"));
    let drawn = draw_text(&loaded.spec);
    for line in [
        "host b  (se7520jr23d, linux-2.6.18)\n",
        "\n  eth0  (management network, MTU 1500) 198.18.0.2/16\n",
        "\n  ib0  (IPoIB, datagram, mthca0/1, P_Key 0xffff, MTU 2044) 10.1.0.2/16\n",
    ] {
        assert!(drawn.contains(line), "{drawn}");
    }
}

#[test]
fn mistakes_in_links_are_refused() {
    let ib0 = |lines: &str| format!("[hosts.a.interfaces.ib0]\nkind = \"ipoib\"\n{lines}\n");
    let cases = [
        (ib0("hca = \"mlx5_0\""), "test.toml:18:7: error: host `a` has no HCA `mlx5_0`"),
        (ib0("port = 3"), "test.toml:18:8: error: `a/mthca0` has no port 3\n  help: write 1 to 2"),
        (ib0("port = 2"), "no cable ends on `a/mthca0/2`, so `ib0` has no link\n  help: add a cable `from = \"a/mthca0/2\"`"),
        (
            ib0("pkey = 0x8003"),
            "the ports of `a/mthca0` are in no such partition\n  help: add it to `pkeys` of the HCA, or write one of 0xffff, 0x8001, 0x0002",
        ),
        (ib0("pkey = 0x0002"), "`a/mthca0` is a limited member of partition 0x0002, which reaches full members only"),
        (ib0("pkey = \"0x8001\""), "`pkey` must be a whole number"),
        (ib0("mode = \"rc\""), "IPoIB has no mode `rc`"),
        (
            ib0("mtu = 4092"),
            "`mtu` of `ib0` cannot be 4092\n  help: write 68 to 2044: datagrams have 4 B of header, and the link from `a/mthca0/1` to `b/mthca0/1` carries 2048 B",
        ),
        (ib0("mtu = 65521\nmode = \"connected\""), "`mtu` of `ib0` cannot be 65521\n  help: write 68 to 65520: it is the most of connected mode"),
        (ib0("mtu = -1"), "`mtu` of `ib0` cannot be -1"),
        (ib0("metric = 3"), "interface `ib0` has no key `metric`"),
        (ib0("subnet = \"10.1.0.0/16\""), "interface `ib0` has no key `subnet`"),
        ("[hosts.a.interfaces.ib0]\nmtu = 68\n".into(), "interface `ib0` needs `kind`"),
        ("[hosts.a.interfaces.ib0]\nkind = \"ipob\"\n".into(), "no interface is of kind `ipob`"),
        ("[hosts.a.interfaces.eth1]\nkind = \"ethernet\"\n".into(), "host `a` has no Ethernet HCA for `eth1`"),
        ("[hosts.a.interfaces.ib0]\nkind = \"management\"\naddresses = [\"10.1.0.1/16\"]\n".into(), "interface `ib0` has no key `addresses`"),
        ("[hosts.a.interfaces]\nib0 = 3\n".into(), "`ib0` must be a table, or `false` for a host without this interface"),
        (
            "[hosts.c]\npart = \"se7520jr23d\"\ninterfaces = 3\n[[hosts.c.hcas]]\npart = \"voltaire-ddr\"\n".into(),
            "`interfaces` must be a table of tables",
        ),
        ("[hosts.a.interfaces]\neth0 = false\n".into(), "host `a` has no network interface"),
        (ib0("[hosts.a.interfaces.ib1]\nkind = \"ipoib\""), "`ib0` and `ib1` of host `a` are on one link"),
        (
            "[hosts.a.interfaces.m0]\nkind = \"management\"\n[hosts.a.interfaces.m1]\nkind = \"management\"\n".into(),
            "`m0` and `m1` of host `a` are on one link",
        ),
    ];
    for (lines, message) in cases {
        let error = error_of(&with(&lines));
        assert!(error.contains(message), "{lines}\n{error}");
    }
}

#[test]
fn an_ethernet_port_of_an_hca_is_an_interface_if_the_file_says_so() {
    let text = format!(
        "{TWO_HOSTS}[[cables]]\npart = \"ethernet-copper\"\nlength = \"1 m\"\nfrom = \"a/mlx5_1/1\"\nto = \"c/mlx5_0/1\"\n[hosts.c]\npart = \"xeon-e5-2600-v4\"\n[[hosts.c.hcas]]\npart = \"connectx5\"\nlink_layer = \"ethernet\"\n"
    );
    let text = text
        .replacen("part = \"se7520jr23d\"", "part = \"xeon-e5-2600-v4\"", 2)
        .replace("\"voltaire-ddr\"", "\"connectx3\"")
        .replace("\"cx4\"", "\"copper-4x\"\nlength = \"1 m\"");
    assert!(!parse(&text).unwrap().spec.has_modelled_network());
    let spec = parse(&format!("{text}[hosts.c.interfaces.eth1]\nkind = \"ethernet\"\n")).unwrap_or_else(|error| panic!("{}", error.to_text())).spec;
    assert_eq!(names(&spec, 2)[1..], ["eth1 10.1.0.3/16 1500"]);
    assert_eq!(spec.hosts[2].interfaces[1].kind, InterfaceKind::Ethernet { hca: 0, port: PortNumber(1) });
    let error = error_of(&format!("{text}[hosts.c.interfaces.eth1]\nkind = \"ethernet\"\nmtu = 9000\n"));
    assert!(error.contains("`mtu` of `eth1` cannot be 9000\n  help: write 68 to 1500: `[ethernet] mtu` is 1500"), "{error}");
    let error = error_of(&format!("{text}[hosts.c.interfaces.ib0]\nkind = \"ipoib\"\nhca = \"mlx5_0\"\n"));
    assert!(error.contains("the ports of `c/mlx5_0` are of the other link layer\n  help: name an InfiniBand HCA"), "{error}");
}

#[test]
fn mistakes_in_names_are_refused() {
    for (name, why) in [
        ("lo", "every host has `lo`"),
        ("interface-number", "it has 16 bytes, and Linux keeps 15"),
        ("\"ib 0\"", "write letters and digits"),
        ("\"ib0:1\"", "write letters and digits"),
        ("\"\"", "write letters and digits"),
        ("\"..\"", "write letters and digits"),
    ] {
        let error = error_of(&with(&format!("[hosts.a.interfaces.{name}]\nkind = \"ipoib\"\n")));
        assert!(error.contains("cannot name an interface") && error.contains(why), "{error}");
    }
}

#[test]
fn mistakes_in_addresses_are_refused() {
    let one = |host: &str, name: &str, pkey: &str, addresses: &str| {
        format!("[hosts.{host}.interfaces.{name}]\nkind = \"ipoib\"\npkey = {pkey}\naddresses = [{addresses}]\n")
    };
    let a = |addresses: &str| one("a", "ib0", "0xffff", addresses);
    let cases = [
        (
            a("\"10.1.0.1/16\"") + &one("b", "ib0", "0xffff", "\"10.1.0.1/16\""),
            "test.toml:23:14: error: 10.1.0.1 is the address of `ib0` of host `a` and `ib0` of host `b`",
        ),
        (a("\"10.1.0.1/16\"") + &one("a", "ib1", "0x8001", "\"10.1.9.1/24\""), "`ib0` and `ib1` of host `a` are in one subnet"),
        (a("\"10.1.0.1/16\", \"10.1.0.2/16\""), "the interface has an address in this subnet already"),
        (a("\"10.1.0.1/16\"") + "[hosts.b.interfaces.ib0]\nkind = \"ipoib\"\n", "`ib0` of host `b` has no address, and another host's has one"),
        (a("\"10.1.0.1\""), "this is not an address with a prefix"),
        (a("\"10.1.0.1/33\""), "this is not an address with a prefix"),
        (a("\"10.1.0.1/0\""), "this is not an address with a prefix"),
        (a("7"), "this is not an address with a prefix"),
        (a("\"10.1.0.0/16\""), "this address stands for the whole subnet or its broadcast"),
        (a("\"10.1.255.255/16\""), "this address stands for the whole subnet or its broadcast"),
        (a("\"127.0.0.1/8\""), "no host can have this address"),
        (a("\"224.0.0.1/24\""), "no host can have this address"),
        (a("\"fe80::1/64\""), "each interface has a link-local address of its own"),
        (a("\"198.18.0.9/24\""), "this address belongs to the management network, 198.18.0.0/16"),
        (a(""), "an interface cannot have 0 addresses"),
        ("[interfaces.ib0]\nkind = \"ipoib\"\naddresses = [\"10.1.0.1/16\"]\n".into(), "all hosts cannot have the same address on `ib0`"),
        ("[interfaces.ib0]\nkind = \"ipoib\"\nsubnet = \"10.1.0.1/16\"\n".into(), "this is not a subnet for hosts"),
        ("[interfaces.ib0]\nkind = \"ipoib\"\nsubnet = \"10.1.0.0/31\"\n".into(), "this is not a subnet for hosts"),
        ("[interfaces.ib0]\nkind = \"ipoib\"\nsubnet = \"198.18.0.0/24\"\n".into(), "this is not a subnet for hosts"),
        ("[interfaces.eth0]\nkind = \"management\"\nsubnet = \"10.1.0.0/24\"\n".into(), "the management network has its own addresses"),
    ];
    for (lines, message) in cases {
        let error = error_of(&with(&lines));
        assert!(error.contains(message), "{lines}\n{error}");
    }
}

#[test]
fn a_subnet_must_have_room_for_all_hosts() {
    let text = "[generate]\nkind = \"star\"\nhosts = 20\nhost = \"xeon-e5-2600-v4\"\nhca = \"connectx3\"\nswitch = \"switchx\"\n\
                host_cable = \"copper-4x\"\nhost_cable_length = \"1 m\"\n[interfaces.ib0]\nkind = \"ipoib\"\nsubnet = \"10.1.0.0/28\"\n";
    let error = error_of(text);
    // One error stands for all hosts without an address.
    assert_eq!(error.matches("error: ").count(), 1, "{error}");
    assert!(error.contains("host `h14` has no address for `ib0`: the subnet is too small"), "{error}");
}

#[test]
fn unknown_kernels_are_refused() {
    let text = with("").replacen("[hosts.b]\n", "[hosts.b]\nkernel = \"linux-2.6\"\n", 1);
    assert!(error_of(&text).contains("no kernel part `linux-2.6`"), "{}", error_of(&text));
    let text = with("[fabric]\nkernel = \"linux-6.2\"\n");
    assert!(error_of(&text).contains("test.toml:17:10: error: no kernel part `linux-6.2`"), "{}", error_of(&text));
    let text = with("[fabric]\nkernel = 6\n");
    assert!(error_of(&text).contains("`kernel` must be a text in double quotes"), "{}", error_of(&text));
}
