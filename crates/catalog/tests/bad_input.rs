//! Each kind of mistake in a fabric file has its message: file, line, problem, remedy.

use crate::common;

use crate::common::{HOSTS_AND_SWITCH, catalog, error_of, parse};
use softband_catalog::{LoadOptions, load_fabric, parse_fabric};
use softband_types::PKey;

/// Returns hosts and switch (12 lines), then `cables`, whose first line is line 13.
fn with(cables: &str) -> String {
    format!("{HOSTS_AND_SWITCH}{cables}")
}

fn cable(part: &str, from: &str, to: &str) -> String {
    format!("[[cables]]\npart = \"{part}\"\nfrom = \"{from}\"\nto = \"{to}\"\n")
}

#[test]
fn an_unknown_part_is_named_with_the_known_ones() {
    assert_eq!(
        error_of(&with(&cable("cx44", "a/mthca0/1", "sw/1"))),
        "test.toml:14:8: error: no cable part `cx44`\n  help: did you mean `cx4`? The cable parts are: aoc, copper-12x, \
         copper-1x, copper-4x, cx4, cx4-5m, direct-attach, emcore-qm3400, emcore-qtr3400, ethernet-copper, ethernet-optical, \
         intel-connects-100m, intel-connects-10m, intel-connects-1m, \
         multimode, optical-active, singlemode, twisted-pair"
    );
}

#[test]
fn a_part_of_another_kind_is_recognised() {
    let text = HOSTS_AND_SWITCH.replacen("se7520jr23d", "voltaire-ddr", 1);
    assert_eq!(
        error_of(&text),
        "test.toml:2:8: error: no host part `voltaire-ddr`\n  help: `voltaire-ddr` is a hca part; the host parts are: \
         cray-xt3-io, dell-pe1950, dell-pe2650, epyc-7003, epyc-9004, hp-xeon-3400, ibm-js20, modern-host, nec-quad-opteron, \
         opteron-252, osu-em64t, osu-em64t-pci-x, pcie-gen6-server, qdr-host, s5000xal-dual, s5000xal-quad, se7520jr23d, \
         spider-opteron, sun-v20z, tyan-s2882, xeon-2400-pci-x, xeon-2400-pci-x-100, xeon-e5-2600, xeon-e5-2600-v4 and 5 more"
    );
}

#[test]
fn a_cable_on_a_missing_port_says_which_ports_exist() {
    assert_eq!(
        error_of(&with(&cable("cx4", "a/mthca0/3", "sw/25"))),
        "test.toml:15:8: error: a cable ends on `a/mthca0/3`, and there is no port `3`\n  help: `a/mthca0` (voltaire-ddr) has ports 1 to 2\n\
         test.toml:16:6: error: a cable ends on `sw/25`, and there is no port `25`\n  help: `sw` (flextronics-f-x430046) has ports 1 to 24"
    );
}

#[test]
fn a_cable_on_a_missing_node_or_hca_says_what_exists() {
    assert_eq!(
        error_of(&with(&cable("cx4", "aa/mthca0/1", "b/mthca1/1"))),
        "test.toml:15:8: error: a cable ends on `aa/mthca0/1`, and there is no host or switch `aa`\n  \
         help: did you mean `a`? The hosts and switches are: a, b, sw\n\
         test.toml:16:6: error: a cable ends on `b/mthca1/1`, and host `b` has no HCA `mthca1`\n  \
         help: did you mean `mthca0`? The HCAs of host `b` are: mthca0"
    );
    assert_eq!(
        error_of(&with(&cable("cx4", "a/1", "sw/mthca0/1"))),
        "test.toml:15:8: error: `a/1` does not name an HCA's port\n  help: `a` is a host; write \"a/mthca0/1\"\n\
         test.toml:16:6: error: `sw/mthca0/1` does not name a switch's port\n  help: `sw` is a switch; write \"sw/1\""
    );
}

#[test]
fn a_port_cabled_twice_is_shown_at_both_places() {
    let text = with(&(cable("cx4", "a/mthca0/1", "sw/1") + &cable("cx4", "b/mthca0/1", "sw/1")));
    assert_eq!(
        error_of(&text),
        "test.toml:20:6: error: two cables end on port `sw/1`\n  test.toml:16:6: first cabled here\n  \
         help: a port takes one cable; use another port or remove one of the cables"
    );
    let error = parse(&with(&cable("cx4", "a/mthca0/1", "a/mthca0/1"))).map(|_| ()).unwrap_err();
    assert!(error.to_text().starts_with("test.toml:16:6: error: two cables end on port `a/mthca0/1`"), "{}", error.to_text());
}

#[test]
fn copper_too_long_for_its_rate_names_the_table() {
    let text = with("[[cables]]\npart = \"copper-4x\"\nlength = \"12 m\"\nfrom = \"a/mthca0/1\"\nto = \"b/mthca0/1\"\n");
    assert_eq!(
        error_of(&text),
        "test.toml:15:10: error: copper at 4X DDR may be 10 m long at most, this cable is 12 m\n  \
         help: limit: Minich 2007, table 1 and abstract, after Cisco's white paper 'InfiniBand SDR, DDR, and QDR'; other \
         publications of the time allow 8 m. Use a shorter or an optical cable or a lower `rate`; `--allow-out-of-spec` runs it anyway"
    );
    let allowed = parse_fabric("test.toml", &text, &catalog(), &LoadOptions { allow_out_of_spec: true }).unwrap();
    assert!(
        allowed.warnings[0].to_text().starts_with(
            "test.toml:15:10: warning: copper at 4X DDR may be 10 m long at most, this cable is 12 m; allowed as asked\n  help: limit: Minich 2007, table 1"
        ),
        "{}",
        allowed.warnings[0].to_text()
    );
}

#[test]
fn a_limit_that_nobody_published_says_so() {
    let text = with("[[cables]]\npart = \"copper-1x\"\nlength = \"14 m\"\nfrom = \"a/mthca0/1\"\nto = \"b/mthca0/1\"\n");
    let error = error_of(&text);
    assert!(error.contains("copper at 1X DDR may be 13 m long at most, this cable is 14 m\n  help: assumed limit: not in Minich 2007"), "{error}");
}

#[test]
fn lengths_must_have_a_unit_and_be_given_where_they_are_needed() {
    let error =
        |part: &str, length: &str| error_of(&with(&format!("[[cables]]\npart = \"{part}\"\n{length}from = \"a/mthca0/1\"\nto = \"b/mthca0/1\"\n")));
    let help = "\n  help: write a number and a unit: \"8 m\"; accepted units: m, cm or mm";
    assert_eq!(error("optical-active", "length = \"30 ft\"\n"), format!("test.toml:15:10: error: a length cannot be in `ft`{help}"));
    assert_eq!(error("optical-active", "length = \"30\"\n"), format!("test.toml:15:10: error: the length `30` has no unit{help}"));
    assert_eq!(error("optical-active", "length = \"-3 m\"\n"), format!("test.toml:15:10: error: the length `-3 m` is negative{help}"));
    assert_eq!(error("optical-active", "length = \"0 m\"\n"), format!("test.toml:15:10: error: a cable cannot have no length{help}"));
    assert_eq!(
        error("optical-active", "length = 30\n"),
        "test.toml:15:10: error: `length` must be a text in double quotes\n  help: write it as in `length = \"1 m\"`"
    );
    assert_eq!(
        error("optical-active", ""),
        "test.toml:14:8: error: cable part `optical-active` comes in any length\n  help: add `length = \"8 m\"` to the cable"
    );
    assert_eq!(
        error("cx4", "length = \"5 m\"\n"),
        "test.toml:15:10: error: cable part `cx4` is 8 m long, no other length can be given\n  \
         help: remove `length`, or name a part of adjustable length"
    );
}

#[test]
fn rates_that_nobody_knows_or_no_port_does_are_refused() {
    let error = |rate: &str| error_of(&with(&format!("{}rate = \"{rate}\"\n", cable("cx4", "a/mthca0/1", "b/mthca0/1"))));
    assert_eq!(
        error("EEDR"),
        "test.toml:17:8: error: unknown link rate `EEDR`\n  help: write \"SDR\", \"DDR\", \"QDR\", \"FDR10\", \"FDR\", \"EDR\", \"HDR\", \
         \"NDR\" or \"XDR\", whose width follows from the parts; for Ethernet \"1GbE\", \"10GbE\", \"25GbE\", \"40GbE\", \"50GbE\", \"100GbE\", \"200GbE\", \"400GbE\" or \"800GbE\""
    );
    assert_eq!(
        error("QDR"),
        "test.toml:17:8: error: no port of this link does QDR\n  help: the link can train to DDR; write `rate = \"DDR\"` or remove `rate`"
    );
}

#[test]
fn a_rate_that_the_cable_cannot_carry_is_a_warning() {
    let text = with(&format!("{}rate = \"DDR\"\n", cable("emcore-qm3400", "a/mthca0/1", "b/mthca0/1")));
    let warnings = parse(&text).unwrap().warnings;
    assert_eq!(warnings[0].to_text(), "test.toml:17:8: warning: `rate = \"DDR\"` has no effect: the link trains to SDR");
}

#[test]
fn a_host_needs_an_hca() {
    assert_eq!(
        error_of("[hosts.a]\npart = \"se7520jr23d\"\n"),
        "test.toml:1:8: error: host `a` has no HCA\n  help: add an HCA:\n[[hosts.a.hcas]]\npart = \"...\""
    );
    let error = error_of("[fabric]\ntitle = \"nothing\"\n");
    assert!(error.starts_with("test.toml: error: the fabric has no host\n  help: add `[hosts.a]`"), "{error}");
}

#[test]
fn names_are_used_once_and_can_be_host_names() {
    let text = HOSTS_AND_SWITCH.replace("switches.sw", "switches.A");
    assert_eq!(
        error_of(&text),
        "test.toml:11:11: error: the name `A` is used twice\n  test.toml:1:8: first used here\n  \
         help: hosts and switches need names of their own, whatever the case of the letters"
    );
    let twice = error_of(&HOSTS_AND_SWITCH.replace("hosts.b", "hosts.a"));
    assert!(twice.starts_with("test.toml:6:") && twice.contains("duplicate key `a`"), "{twice}");
    assert!(twice.ends_with("help: each name may stand only once in its table; rename one or remove it"), "{twice}");
    assert_eq!(
        error_of(&HOSTS_AND_SWITCH.replace("hosts.b", "hosts.b_1")),
        "test.toml:6:8: error: `b_1` cannot name a host\n  help: it may hold letters, digits and, inside, `-`; at most 63 of them"
    );
    for (name, help) in [("17", "start with a letter"), ("localhost", "every host calls itself that")] {
        let error = error_of(&HOSTS_AND_SWITCH.replace("hosts.b", &format!("hosts.{name}")));
        assert!(error.contains(&format!("`{name}` cannot name a host")) && error.contains(help), "{error}");
    }
}

#[test]
fn two_hcas_of_a_host_cannot_share_a_device_name() {
    let text = HOSTS_AND_SWITCH.replacen("[hosts.b]", "[[hosts.a.hcas]]\ndevice = \"mthca0\"\npart = \"voltaire-sdr\"\n[hosts.b]", 1);
    let error = error_of(&text);
    assert_eq!(
        error,
        "test.toml:7:10: error: host `a` has two HCAs called `mthca0`\n  test.toml:4:10: first used here\n  \
         help: give each HCA of a host its own `device`"
    );
}

#[test]
fn unknown_keys_are_named_with_the_known_ones() {
    assert_eq!(
        error_of(&format!("[subnet]\nmax_opvls = 1\n{HOSTS_AND_SWITCH}")),
        "test.toml:2:1: error: `[subnet]` has no key `max_opvls`\n  help: did you mean `max_op_vls`? The keys here are: max_op_vls, mtu, lmc, \
         packet_life_time, head_of_queue_lifetime, leaf_head_of_queue_lifetime, manager, routing, congestion_control, qos, \
         qos_high_limit, qos_vlarb_high, qos_vlarb_low, qos_sl2vl, qos_ca_high_limit, qos_ca_vlarb_high, qos_ca_vlarb_low, qos_ca_sl2vl, \
         qos_swe_high_limit, qos_swe_vlarb_high, qos_swe_vlarb_low, qos_swe_sl2vl"
    );
    assert_eq!(
        error_of(&format!("{HOSTS_AND_SWITCH}[cabels]\n")),
        "test.toml:13:2: error: the file has no key `cabels`\n  help: did you mean `cables`? The keys here are: fabric, subnet, ethernet, interfaces, generate, hosts, switches, cables, faults"
    );
    let misplaced = error_of(&HOSTS_AND_SWITCH.replacen("[hosts.b]", "tune_pci = 1\n[hosts.b]", 1));
    let help = "it is an option of the HCA's driver: write `options = { tune_pci = 1 }`";
    assert_eq!(misplaced, format!("test.toml:6:1: error: `tune_pci` belongs into `options`\n  help: {help}"));
    let other_driver = HOSTS_AND_SWITCH.replacen("voltaire-ddr", "connectx4", 1);
    let error = error_of(&other_driver.replacen("[hosts.b]", "options = { tune_pci = 1 }\n[hosts.b]", 1));
    assert!(error.contains("error: the driver of `connectx4` has no option `tune_pci`\n  help: remove it"), "{error}");
    let options = HOSTS_AND_SWITCH.replacen("[hosts.b]", "options = { tune_pcie = 1 }\n[hosts.b]", 1);
    let error = error_of(&options);
    assert!(error.starts_with("test.toml:6:13: error: `options` has no key `tune_pcie`\n  help: did you mean `tune_pci`?"), "{error}");
}

#[test]
fn partitions_are_named_once_and_rightly() {
    let hca_with = |pkeys: &str| HOSTS_AND_SWITCH.replacen("[hosts.b]", &format!("pkeys = {pkeys}\n[hosts.b]"), 1);
    let keys = |text: &str| parse(text).expect("a fabric").spec.hosts[0].hcas[0].pkeys.clone();
    assert_eq!(keys(HOSTS_AND_SWITCH), [PKey::DEFAULT_FULL]);
    assert_eq!(keys(&hca_with("[0xffff, 0x0005]")), [PKey(0xFFFF), PKey(5)]);
    for wrong in ["[0x8000]", "[0x10001]", "[0x8005, 0x0005]", "[\"a\"]"] {
        let error = error_of(&hca_with(wrong));
        assert!(error.starts_with("test.toml:6:") && error.contains("this is not a P_Key of its own"), "{wrong}: {error}");
    }
    assert!(error_of(&hca_with("[]")).contains("this P_Key table has no use"));
}

#[test]
fn codes_and_sizes_outside_their_range_are_refused() {
    let error = |subnet: &str| error_of(&format!("[subnet]\n{subnet}\n{HOSTS_AND_SWITCH}"));
    assert_eq!(
        error("max_op_vls = 8"),
        "test.toml:2:14: error: `max_op_vls` cannot be 8\n  \
         help: it is OpenSM's code, not a count: 1 (VL0), 2 (VL0-1), 3 (VL0-3), 4 (VL0-7) or 5 (VL0-14)"
    );
    assert_eq!(error("mtu = 2000"), "test.toml:2:7: error: `mtu` cannot be 2000\n  help: write 256, 512, 1024, 2048 or 4096");
    assert_eq!(error("mtu = \"2048\""), "test.toml:2:7: error: `mtu` must be a whole number");
    assert_eq!(
        error("head_of_queue_lifetime = 21"),
        "test.toml:2:26: error: `head_of_queue_lifetime` cannot be 21\n  \
         help: it is OpenSM's code for 4.096 us x 2^code, such as 18 for 1.07 s: write 0 to 19, or 20 for no limit"
    );
}

#[test]
fn guids_are_checked() {
    let error = |guid: &str| {
        let node = format!("node_guid = \"{guid}\"\n");
        error_of(&HOSTS_AND_SWITCH.replacen("[hosts.b]", &format!("{node}[hosts.b]"), 1).replacen(
            "[switches.sw]\n",
            &format!("[switches.sw]\n{node}"),
            1,
        ))
    };
    assert!(error("0x12").contains("test.toml:6:13: error: `0x12` is not a GUID\n  help: write 16 hexadecimal digits"));
    assert!(
        error("0002:c902:0000:0001")
            .contains("test.toml:13:13: error: the GUID 0002:c902:0000:0001 is taken twice\n  test.toml:6:13: first used here")
    );
}

#[test]
fn a_missing_key_is_asked_for() {
    assert_eq!(
        error_of(&with("[[cables]]\nfrom = \"a/mthca0/1\"\nto = \"sw/1\"\n")),
        "test.toml:13:1: error: cable 1 needs `part`\n  help: write `part = \"...\", a cable part`"
    );
}

#[test]
fn what_is_not_toml_is_shown_where_it_stops_being_so() {
    let error = error_of("[fabric]\ntitle = \n");
    assert!(error.starts_with("test.toml:2:9: error: not valid TOML: "), "{error}");
}

#[test]
fn all_mistakes_of_a_file_are_reported() {
    let text = with(&(cable("cx44", "a/mthca0/9", "c/mthca0/1") + "color = \"red\"\n"));
    let error = parse(&text).map(|_| ()).unwrap_err();
    let lines: Vec<usize> = error.faults().iter().filter_map(|fault| fault.location()).map(|(line, _)| line).collect();
    assert_eq!(lines, [17, 14, 15, 16]);
    assert_eq!(error.to_string(), "4 mistakes in the fabric file");
}

#[test]
fn a_missing_file_is_named() {
    let error = load_fabric("no/such.toml".as_ref(), &catalog(), &LoadOptions::default()).map(|_| ()).unwrap_err();
    assert!(error.to_text().starts_with("no/such.toml: error: cannot read no/such.toml: No such file"), "{}", error.to_text());
}

#[test]
fn the_snippet_shows_the_line_and_the_help() {
    let error = parse(&with(&cable("cx44", "a/mthca0/1", "sw/1"))).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_snippet().split("? The").next().unwrap(),
        "test.toml:14:8: error: no cable part `cx44`\n  14 | part = \"cx44\"\n     |        ^^^^^^ unknown part\n  help: did you mean `cx4`"
    );
}

#[test]
fn a_card_of_another_kind_than_its_slot_is_refused_with_the_slots_that_fit() {
    let text = HOSTS_AND_SWITCH.replacen("part = \"voltaire-ddr\"", "part = \"mt23108\"", 1);
    assert_eq!(
        error_of(&text),
        "test.toml:5:8: error: `mt23108` is a PCI-X card, and `pcie-gen1-x8` is a PCI Express slot\n  \
         help: give the HCA another slot, such as `slot = \"pci-x-133\"`; PCI-X slots and bridges to one are: pci-x-133, pci-x-100, \
         pci-x-66, amd-8131, intel-6700pxh. Host `a` has this slot by its part; an HCA part for PCI Express would fit as well"
    );
    let text = HOSTS_AND_SWITCH.replacen("part = \"voltaire-ddr\"", "part = \"voltaire-ddr\"\nslot = \"pci-x-133\"", 1);
    let error = error_of(&text);
    assert!(
        error.starts_with(
            "test.toml:6:8: error: `voltaire-ddr` is a PCI Express card, and `pci-x-133` is a PCI-X slot\n  test.toml:5:8: PCI Express card\n  \
             help: give the HCA another slot, such as `slot = \"pcie-gen1-x8\"`; PCI Express slots and bridges to one are: pcie-gen1-x8, "
        ),
        "{error}"
    );
}

#[test]
fn reads_that_are_too_small_for_the_slot_are_refused() {
    let text =
        HOSTS_AND_SWITCH.replacen("part = \"voltaire-ddr\"", "part = \"mt23108\"\nslot = \"pci-x-133\"", 1).replace("se7520jr23d", "s5000xal-dual");
    assert_eq!(
        error_of(&text),
        "test.toml:6:8: error: host `a` reads 128 B at a time, and slot `pci-x-133` has 512 B at least\n  \
         help: give `a` a part with `read_request` of 512 B or more, or the HCA another slot"
    );
}

#[test]
fn an_unknown_slot_is_named_with_the_known_ones() {
    let text = HOSTS_AND_SWITCH.replacen("part = \"voltaire-ddr\"", "part = \"voltaire-ddr\"\nslot = \"pcie-gen7-x8\"", 1);
    let error = error_of(&text);
    assert!(error.starts_with("test.toml:6:8: error: no bus part `pcie-gen7-x8`\n  help: did you mean `pcie-gen"), "{error}");
    let text = HOSTS_AND_SWITCH.replacen("part = \"voltaire-ddr\"", "part = \"voltaire-ddr\"\nslot = 8", 1);
    assert!(error_of(&text).starts_with("test.toml:6:8: error: `slot` must be"), "{}", error_of(&text));
}

/// Returns host a with two HCAs of `part` on the bus `riser`, which `bus` describes.
fn two_on_a_bus(bus: &str, part: &str) -> String {
    let hca = |name: &str, more: &str| format!("[[hosts.{name}.hcas]]\npart = \"{part}\"\n{more}");
    let cable = |from: &str| format!("[[cables]]\npart = \"cx4\"\nfrom = \"{from}/1\"\nto = \"b/{}/1\"\n", from.rsplit('/').next().unwrap());
    let (on, own) = ("bus = \"riser\"\n", if part == "mt23108" { "slot = \"pci-x-133\"\n" } else { "" });
    let hosts = format!("[hosts.a]\npart = \"se7520jr23d\"\n{bus}{0}{0}[hosts.b]\npart = \"se7520jr23d\"\n{1}{1}", hca("a", on), hca("b", own));
    hosts + &cable("a/mthca0") + &cable("a/mthca1")
}

#[test]
fn a_bus_that_the_host_has_not_is_named() {
    assert_eq!(error_of(&two_on_a_bus("", "mt23108")).lines().next().unwrap(), "test.toml:5:7: error: host `a` has no bus `riser`",);
    assert!(error_of(&two_on_a_bus("", "mt23108")).contains("help: add it with its part:\n[hosts.a.buses.riser]\npart = \"...\""));
    let other = error_of(&two_on_a_bus("[hosts.a.buses.raiser]\npart = \"pci-x-133\"\n", "mt23108"));
    assert!(other.contains("did you mean `raiser`"), "{other}");
    let unknown = error_of(&two_on_a_bus("[hosts.a.buses.riser]\npart = \"pci-x-132\"\n", "mt23108"));
    assert!(unknown.starts_with("test.toml:4:8: error: no bus part `pci-x-132`"), "{unknown}");
    let name = error_of(&two_on_a_bus("[hosts.a.buses.\"a b\"]\npart = \"pci-x-133\"\n", "mt23108"));
    assert!(name.starts_with("test.toml:3:16: error: `a b` cannot name a bus\n  help: it may hold letters"), "{name}");
    let table = error_of(&two_on_a_bus("buses = \"pci-x-133\"\n", "mt23108"));
    assert!(table.contains("a table of tables, such as `[hosts.a.buses.riser]`"), "{table}");
}

#[test]
fn a_pci_express_slot_takes_one_card() {
    assert_eq!(
        error_of(&two_on_a_bus("[hosts.a.buses.riser]\npart = \"pcie-gen1-x8\"\n", "voltaire-ddr")),
        "test.toml:7:7: error: 2 HCAs of host `a` are on `riser`, and `pcie-gen1-x8` is a PCI Express slot, which takes one card\n  \
         test.toml:10:7: `mthca1`\n  \
         help: cards share PCI-X buses, and what is behind a bridge; leave `bus` out, and each has a slot of its own"
    );
}

#[test]
fn an_hca_is_on_a_bus_or_in_a_slot() {
    let text = two_on_a_bus("[hosts.a.buses.riser]\npart = \"pci-x-100\"\n", "mt23108");
    let both = error_of(&text.replacen("bus = \"riser\"", "bus = \"riser\"\nslot = \"pci-x-100\"", 1));
    assert!(both.starts_with("test.toml:7:7: error: `a/mthca0` is in two places\n  test.toml:8:8: and in this slot\n  help: remove one"), "{both}");
    let kind = error_of(&text.replace("pci-x-100", "dell-pe1950-riser"));
    assert!(kind.starts_with("test.toml:7:7: error: `mt23108` is a PCI-X card, and `dell-pe1950-riser` is a PCI Express slot"), "{kind}");
}

#[test]
fn what_cards_on_one_bus_do_to_each_other_is_warned_of() {
    let warnings = |text: &str| parse(text).unwrap_or_else(|error| panic!("{}", error.to_text())).warnings;
    let text = two_on_a_bus("[hosts.a.buses.riser]\npart = \"pci-x-133\"\n", "mt23108");
    let told: Vec<String> = warnings(&text).iter().map(|warning| warning.to_text()).collect();
    assert_eq!(
        told,
        ["test.toml:7:7: warning: PCI-X at 133 MHz is meant for one card (PCI-X 1.0a)\n  test.toml:10:7: `mthca1`\n  \
          help: boards run such a bus at 100 MHz, as the part `pci-x-100`"]
    );
    let slow = "summary = \"slow\"\nlike = \"mt23108\"\n\
                interface_clock = { value = 66, unit = \"MHz\", source = \"test\", status = \"assumed\" }\n";
    let mixed = text.replacen("part = \"mt23108\"", "part = \"slow\"", 1);
    let loaded = parse_fabric("test.toml", &mixed, &common::catalog_with_hca("slow", slow).unwrap(), &LoadOptions::default()).unwrap();
    assert!(loaded.spec.hosts[0].hcas.iter().all(|hca| hca.bus.slot.interface().to_string() == "PCI-X 66 MHz"));
    assert_eq!(
        loaded.warnings.last().unwrap().to_text(),
        "test.toml:10:7: warning: `a/mthca1` runs at 66 MHz: another card on its bus can do no more"
    );
    let idle = two_on_a_bus("[hosts.a.buses.riser]\npart = \"dell-pe1950-riser\"\n[hosts.a.buses.other]\npart = \"pci-x-66\"\n", "voltaire-ddr");
    let told = warnings(&idle);
    assert_eq!(told.len(), 1);
    assert!(told[0].to_text().starts_with("test.toml:5:16: warning: no HCA of host `a` is on bus `other`"), "{}", told[0].to_text());
}

#[test]
fn congestion_control_says_which_settings_are_possible() {
    let error = |settings: &str| error_of(&format!("[subnet.congestion_control]\n{settings}\n{HOSTS_AND_SWITCH}"));
    assert_eq!(
        error("threshold = 16"),
        "test.toml:2:13: error: `threshold` cannot be 16\n  help: write 0 (nothing is marked) or 1 (marks late) to 15 (marks soon)"
    );
    assert_eq!(
        error("packet_size = \"512\""),
        "test.toml:2:15: error: `packet_size` has no unit: `512`\n  help: write a number and a unit: \"64 B\"; accepted units: B, KiB or MiB"
    );
    assert!(error("packet_size = \"512 us\"").starts_with("test.toml:2:15: error: `packet_size` cannot be in `us`\n  help: write a number"));
    assert_eq!(
        error("packet_size = \"100 B\""),
        "test.toml:2:15: error: `packet_size` cannot be 100 B\n  \
         help: write a multiple of 64 B, at most 255 times it: the specification counts it in such steps"
    );
    assert_eq!(
        error("packet_size = 512"),
        "test.toml:2:15: error: `packet_size` must be a text in double quotes\n  help: write it as in `packet_size = \"64 B\"`"
    );
    assert!(error("ccti_timer = \"150 us\"").contains("`ccti_timer` cannot be 150 us\n  help: write a multiple of 1.024 us"));
    assert!(error("ccti_timer = \"-1 us\"").contains("`ccti_timer` is negative: `-1 us`"));
    assert!(error("port_control = \"vl\"").contains("`port_control` cannot be `vl`\n  help: write \"qp\""));
    assert!(error("ccti_increase = 0").ends_with("help: write how far a BECN raises the index: 1 to 255"));
    assert_eq!(
        error("ccti_limit = 3\nccti_min = 4"),
        "test.toml:3:12: error: `ccti_min` 4 is above `ccti_limit` 3\n  help: write a `ccti_min` that is not above `ccti_limit`"
    );
    assert!(
        error("ccti_limit = 1\ncct = [\"0:0\", \"4:1\"]")
            .starts_with("test.toml:3:15: error: this is not an entry of the table\n  help: write \"shift:")
    );
    assert_eq!(
        error("cct = [\"0:0\"]"),
        "test.toml:2:7: error: `cct` has 1 entry, and indices go from 0 to `ccti_limit` 127\n  help: write 128 entries, or another `ccti_limit`"
    );
    assert!(error("treshold = 1").contains("`[subnet.congestion_control]` has no key `treshold`\n  help: did you mean `threshold`?"));
    let flag = error_of(&format!("[subnet]\ncongestion_control = true\n{HOSTS_AND_SWITCH}"));
    assert_eq!(flag, "test.toml:2:22: error: `[subnet.congestion_control]` must be a table");
}

#[test]
fn congestion_control_that_can_do_nothing_is_a_warning() {
    let text = format!("[subnet.congestion_control]\nthreshold = 0\n{}", with(&cable("cx4", "a/mthca0/1", "sw/1")));
    let warnings: Vec<String> = parse(&text).unwrap().warnings.iter().map(|warning| warning.message().to_owned()).collect();
    assert!(warnings.contains(&"`threshold = 0`: no switch marks a packet, so nothing is controlled".to_owned()), "{warnings:?}");
    assert!(warnings.contains(&"no switch of this fabric can mark packets, so congestion control does nothing".to_owned()), "{warnings:?}");
    assert!(warnings.contains(&"no HCA of this fabric can slow down, so congestion control does nothing".to_owned()), "{warnings:?}");
}

#[test]
fn a_number_where_a_text_is_wanted_is_answered_with_such_a_text() {
    let slot = error_of(&HOSTS_AND_SWITCH.replacen("part = \"voltaire-ddr\"", "part = \"voltaire-ddr\"\nslot = 16", 1));
    assert!(
        slot.starts_with("test.toml:6:8: error: `slot` must be a text in double quotes\n  help: write it as in `slot = \"pcie-gen3-x16\""),
        "{slot}"
    );
    let length = error_of("[generate]\nkind = \"star\"\nhosts = 2\nhost_cable_length = 2\n");
    assert!(
        length.contains(":4:21: error: `host_cable_length` must be a text in double quotes\n  help: write it as in `host_cable_length = \"1 m\"`"),
        "{length}"
    );
    let routing = error_of("[subnet]\nrouting = 1\n");
    assert!(routing.contains(":2:11: error: `routing` must be a text in double quotes\n  help: write it as in `routing = \"up-down\"`"), "{routing}");
}

#[test]
fn more_lids_than_a_subnet_has_are_refused() {
    let text = "[generate]\nkind = \"fat-tree\"\nlevels = 2\nports = 36\nhosts = 384\nhost = \"qdr-host\"\nhca = \"connectx2-qdr\"\nhost_cable = \"copper-4x\"\nhost_cable_length = \"1 m\"\n\
                switch = \"infiniscale-iv\"\n[subnet]\nlmc = 7\n";
    let error = error_of(text);
    let wanted = "the fabric needs 49319 LIDs, 128 for each of 384 InfiniBand ports of HCAs\n  help: a subnet has 49151 LIDs: write a smaller `lmc`";
    assert!(error.contains(wanted), "{error}");
}
