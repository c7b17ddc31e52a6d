//! Ethernet in fabric files and parts: training of links, and every kind of mistake.

use crate::common::{catalog, error_of, parse, root};
use softband_catalog::{Catalog, PartFile, PartKind};
use softband_spec::EthernetFlowControl;
use softband_spec::settings_of;
use softband_types::{EthernetRate, LinkLayer, Mtu};

fn shipped() -> String {
    std::fs::read_to_string(root().join("fabrics/roce-100g.toml")).unwrap()
}

/// Returns the shipped fabric with every `old` replaced.
fn with(old: &str, new: &str) -> String {
    let text = shipped();
    assert!(text.contains(old), "{old}");
    text.replace(old, new)
}

#[test]
fn the_shipped_fabric_is_what_it_says() {
    let loaded = parse(&shipped()).unwrap();
    assert_eq!(loaded.warnings.len(), 0);
    let (spec, cable) = (&loaded.spec, &loaded.spec.cables[0]);
    assert!(spec.hosts.iter().all(|host| host.hcas[0].link_layer == LinkLayer::Ethernet));
    assert_eq!((cable.rate, cable.rate_name()), (EthernetRate::G100.link_rate(), "100GbE".to_owned()));
    assert_eq!(settings_of(spec, cable).mtu, Mtu::B4096);
    let resolved = loaded.resolved_toml();
    for line in
        ["[ethernet]\nmtu = 4200\nflow_control = \"pfc\"\npriorities = 1\npriority_in = \"dscp\"", "link_layer = \"ethernet\"", "rate = \"100GbE\""]
    {
        assert!(resolved.contains(line), "{line} in\n{resolved}");
    }
}

#[test]
fn what_is_not_said_is_usual() {
    let usual = parse(&with("[ethernet]\nmtu = 4200\nflow_control = \"pfc\"\n", "")).unwrap().spec;
    assert_eq!((usual.ethernet.mtu_bytes, usual.ethernet.flow_control), (1500, EthernetFlowControl::Pfc));
    assert_eq!(settings_of(&usual, &usual.cables[0]).mtu, Mtu::B1024);
}

#[test]
fn rates_are_those_of_both_ends_and_the_cable() {
    let with_rate = |rate: &str| with("length = \"1 m\"\n", &format!("length = \"1 m\"\nrate = \"{rate}\"\n"));
    let trained = |text: &str| parse(text).unwrap().spec.cables[0].rate_name();
    assert_eq!(trained(&with_rate("25GbE")), "25GbE");
    assert_eq!(trained(&with("sn2700", "sn5600").replace("connectx5", "connectx7").replace("xeon-e5-2600-v4", "xeon-sapphire-rapids")), "400GbE");
    let warned = parse(&with_rate("400GbE")).unwrap();
    assert!(warned.warnings[0].to_text().contains("`rate = \"400GbE\"` has no effect: the link trains to 100GbE"));
    assert!(
        error_of(&with_rate("EDR"))
            .contains("error: EDR is a rate of InfiniBand, and both ends are Ethernet ports\n  help: write one of Ethernet's rates")
    );
    let long = error_of(&with("length = \"1 m\"", "length = \"6 m\""));
    assert!(long.contains("copper at 100GbE may be 5 m long at most, this cable is 6 m\n  help: limit: IEEE 802.3bj"), "{long}");
}

#[test]
fn link_layers_do_not_mix() {
    let message = error_of(&shipped().replacen("link_layer = \"ethernet\"\n", "", 1));
    assert!(message.starts_with("test.toml:31:8: error: `a/mlx5_0/1` is a port of InfiniBand, `sw/1` one of Ethernet\n"), "{message}");
    assert!(message.contains("  help: give the HCA `link_layer = \"ethernet\"`, where its part can, or remove that"), "{message}");
    let cable = error_of(&with("ethernet-copper", "direct-attach"));
    assert!(
        cable.contains("error: cable part `direct-attach` is for InfiniBand links, and both ends are Ethernet ports\n  help: the cable parts for Ethernet are: ethernet-copper, ethernet-optical"),
        "{cable}"
    );
}

#[test]
fn an_hca_is_only_what_its_part_can_be() {
    let old = error_of(&with("connectx5", "connectx3"));
    assert!(old.contains("error: the ports of `connectx3` are InfiniBand's only\n  help: remove `link_layer`, or take an HCA that can be Ethernet's: connectx3-pro,"), "{old}");
    assert!(error_of(&with("connectx5", "connect-ib")).contains("the ports of `connect-ib` are InfiniBand's only"));
    let unknown = error_of(&with("link_layer = \"ethernet\"", "link_layer = \"eth\""));
    assert!(unknown.contains("error: unknown link layer `eth`\n  help: "), "{unknown}");
    let pkeys = error_of(&with("link_layer = \"ethernet\"", "link_layer = \"ethernet\"\npkeys = [0xffff]"));
    assert!(pkeys.contains("error: an Ethernet port has no partitions\n  help: remove `pkeys`"), "{pkeys}");
    let can: Vec<String> = {
        let catalog = catalog();
        catalog.parts(PartKind::Hca).into_iter().filter(|name| catalog.hca(name).unwrap().ethernet.is_some()).map(str::to_owned).collect()
    };
    assert_eq!(can, ["connectx3-pro", "connectx4", "connectx5", "connectx6", "connectx7", "connectx8", "modern-hca"]);
}

#[test]
fn what_the_ports_cannot_be_set_to_is_refused() {
    for (old, new, wanted) in [
        ("mtu = 4200", "mtu = 100", "`mtu` of Ethernet ports cannot be 100\n  help: write 352 to 9216"),
        ("mtu = 4200", "mtu = 65536", "`mtu` of Ethernet ports cannot be 65536"),
        ("\"pfc\"", "\"credits\"", "`flow_control` cannot be `credits`\n  help: the values are: pfc, none"),
        ("mtu = 4200", "priorities = 3", "`priorities` cannot be 3\n  help: write 1, 2, 4 or 8"),
        ("mtu = 4200", "priority_in = \"pcp\"", "`priority_in` cannot be `pcp`"),
        ("mtu = 4200", "speed = 1", "`[ethernet]` has no key `speed`"),
    ] {
        let message = error_of(&with(old, new));
        assert!(message.contains(wanted), "{message}");
        assert!(message.starts_with("test.toml:"), "{message}");
    }
}

#[test]
fn what_does_nothing_or_loses_packets_is_warned_of() {
    let infiniband = std::fs::read_to_string(root().join("fabrics/modern-pair.toml")).unwrap() + "\n[ethernet]\n";
    let warnings = parse(&infiniband).unwrap().warnings;
    assert!(warnings[0].to_text().contains("nothing of this fabric is Ethernet, so `[ethernet]` does nothing"));
    let small = parse(&with("mtu = 4200", "mtu = 9000\npriorities = 8")).unwrap().warnings;
    let first = |warnings: &[softband_catalog::Warning]| warnings[0].to_text().lines().take(2).map(str::to_owned).collect::<Vec<_>>();
    let told = first(&small);
    let line = |of: &str, text: &str| text.lines().position(|line| line == of).unwrap() + 1;
    let (cable, table) = (line("[[cables]]", &shipped()) + 1, line("[ethernet]", &shipped()));
    assert!(told[0].starts_with(&format!("test.toml:{cable}:1: warning: `a/mlx5_0/1` may lose packets though it pauses priorities")), "{told:?}");
    assert_eq!(told[1], format!("  test.toml:{table}:2: this table"));
}

#[test]
fn ethernet_parts_have_what_they_need() {
    let switch = std::fs::read_to_string(root().join("catalog/switch/sn2700.toml")).unwrap();
    let load = |text: String| Catalog::from_files(&[PartFile { kind: PartKind::Switch, name: "sw".into(), file: "switch/sw.toml".into(), text }]);
    assert!(load(switch.clone()).is_ok());
    let without = switch.lines().filter(|line| !line.starts_with("pause_response")).collect::<Vec<_>>().join("\n");
    assert!(load(without).map(|_| ()).unwrap_err().to_text().contains("switch part `sw` has no `pause_response`"));
    let unknown = load(switch.replace("\"100GbE\"]", "\"101GbE\"]")).map(|_| ()).unwrap_err().to_text();
    assert!(unknown.contains("`ethernet_rates`: `101GbE` is not known\n  help: the list may hold 1GbE, 10GbE, 25GbE"), "{unknown}");
    let hca = std::fs::read_to_string(root().join("catalog/hca/connectx4.toml")).unwrap();
    let alone = PartFile {
        kind: PartKind::Hca,
        name: "nic".into(),
        file: "hca/nic.toml".into(),
        text: hca.replace("[\"infiniband\", \"ethernet\"]", "[\"ethernet\"]"),
    };
    let alone = Catalog::from_files(&[alone]).map(|_| ()).unwrap_err().to_text();
    assert!(alone.contains("an HCA of Ethernet alone cannot be described\n  help: add \"infiniband\""), "{alone}");
    let credits = load(switch + "credit_return = { value = 1, unit = \"ns\", source = \"s\", status = \"assumed\" }\n");
    assert!(credits.map(|_| ()).unwrap_err().to_text().contains("a switch part has no `credit_return`"));
}
