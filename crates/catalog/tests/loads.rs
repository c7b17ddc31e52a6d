//! The catalogue and every fabric of the repository load with the values of their files.

use crate::common;

use crate::common::{catalog, fabric_paths, parse, root};
use softband_catalog::{Catalog, LoadOptions, LoadedFabric, PartFile, PartKind, Status, draw_svg, draw_text, load_fabric, parse_fabric};
use softband_model::parts::{CardInterface, PciXClock, Slot};
use softband_types::{LinkSpeed, LinkWidth};

fn load(name: &str) -> LoadedFabric {
    let path = root().join("fabrics").join(name);
    load_fabric(&path, &catalog(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{}", error.to_text()))
}

#[test]
fn every_fabric_of_the_repository_loads() {
    let catalog = catalog();
    let paths = fabric_paths();
    assert!(paths.len() >= 39, "{} fabrics", paths.len());
    for path in paths {
        let loaded = load_fabric(&path, &catalog, &LoadOptions::default());
        let loaded = loaded.unwrap_or_else(|error| panic!("{}", error.to_text()));
        let text = loaded.resolved_toml();
        assert!(text.parse::<toml_edit::DocumentMut>().is_ok(), "{}:\n{text}", path.display());
        assert!(!draw_text(&loaded.spec).is_empty() && draw_svg(&loaded.spec).ends_with("</svg>\n"));
    }
}

#[test]
fn every_fabric_that_others_rely_on_is_there() {
    let mut names: Vec<String> = Vec::new();
    for cable in ["cx4", "emcore", "1m", "10m", "100m"] {
        names.push(format!("sdr-{cable}"));
        names.push(format!("ddr-{cable}"));
    }
    for pair in ["cx4-cx4", "cx4-10m", "10m-10m", "cx4-100m", "100m-100m"] {
        names.push(format!("ddr-switch-{pair}"));
        names.push(format!("ddr-switch-{pair}-vl1"));
    }
    for (cores, cable) in [("dual", "cx4"), ("dual", "100m"), ("quad", "cx4"), ("quad", "100m")] {
        names.extend(["", "-vl1", "-tune-pci", "-vl1-tune-pci"].map(|end| format!("woodcrest-{cores}-{cable}{end}")));
    }
    for name in names {
        let loaded = load(&format!("cables/{name}.toml"));
        let hosts: Vec<&str> = loaded.spec.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(hosts, ["a", "b"], "{name}");
        assert!(loaded.spec.hosts.iter().all(|host| host.hcas.len() == 1 && host.hcas[0].device == "mthca0"), "{name}");
        let code = loaded.spec.subnet.max_op_vls.code();
        assert_eq!(code, if name.contains("-vl1") { 1 } else { 5 }, "{name}");
        assert!(loaded.spec.hosts.iter().all(|host| host.hcas[0].tune_pci == name.ends_with("tune-pci")), "{name}");
        let sdr = name.starts_with("sdr") || name.starts_with("woodcrest") || name == "ddr-emcore";
        let speed = if sdr { LinkSpeed::Sdr } else { LinkSpeed::Ddr };
        assert!(loaded.spec.cables.iter().all(|cable| cable.rate.speed == speed && cable.rate.width == LinkWidth::X4), "{name}");
    }
}

#[test]
fn in_a_switch_fabric_host_a_has_the_first_cable() {
    let spec = load("cables/ddr-switch-cx4-100m.toml").spec;
    let drawing = draw_text(&spec);
    assert!(drawing.contains("[ cx4, 8 m, 4X DDR, VL0-7, MTU 2048 ]── a/mthca0/1"), "{drawing}");
    assert!(drawing.contains("[ intel-connects-100m, 100 m, 4X DDR, VL0-7, MTU 2048 ]── b/mthca0/1"), "{drawing}");
}

#[test]
fn a_media_converter_slows_the_link_down_and_the_loader_says_so() {
    let loaded = load("cables/ddr-emcore.toml");
    let warnings: Vec<String> = loaded.warnings.iter().map(|warning| warning.message().to_owned()).collect();
    assert_eq!(warnings, ["the link of `a/mthca0/1` trains to SDR: cable `emcore-qm3400` is rated for SDR"]);
    // 40 m of fibre at 5 ns/m and two converters of 5 ns.
    assert_eq!(loaded.spec.cables[0].part.delay(loaded.spec.cables[0].rate).as_nanos(), 210);
}

#[test]
fn a_ddr_hca_on_an_sdr_port_trains_to_sdr_with_a_note() {
    let text = common::HOSTS_AND_SWITCH.replace("flextronics-f-x430046", "voltaire-9024")
        + "[[cables]]\npart = \"cx4\"\nfrom = \"a/mthca0/1\"\nto = \"sw/1\"\n[[cables]]\npart = \"cx4\"\nfrom = \"b/mthca0/1\"\nto = \"sw/2\"\n";
    let loaded = parse(&text).unwrap();
    assert_eq!(loaded.spec.cables[0].rate.speed, LinkSpeed::Sdr);
    assert_eq!(
        loaded.warnings[0].to_text(),
        "test.toml:16:6: note: the link of `a/mthca0/1` trains to SDR: `sw/1` is SDR\n  test.toml:15:8: DDR port"
    );
}

#[test]
fn a_rate_in_the_file_caps_the_link_without_a_note() {
    let text = common::HOSTS_AND_SWITCH.to_owned()
        + "[[cables]]\npart = \"copper-4x\"\nlength = \"12.5 m\"\nrate = \"SDR\"\nfrom = \"a/mthca0/1\"\nto = \"b/mthca0/1\"\n";
    let loaded = parse(&text).unwrap();
    assert_eq!((loaded.spec.cables[0].rate.speed, loaded.spec.cables[0].part.length_millimetres), (LinkSpeed::Sdr, 12_500));
    assert!(loaded.warnings.is_empty());
}

/// Returns two cabled hosts with one HCA of `part` each. `slot` is a line of both HCAs.
fn pair_in(slot: &str, part: &str) -> String {
    let host = |name: &str| format!("[hosts.{name}]\npart = \"se7520jr23d\"\n[[hosts.{name}.hcas]]\npart = \"{part}\"\n{slot}");
    format!("{}{}[[cables]]\npart = \"cx4\"\nfrom = \"a/mthca0/1\"\nto = \"b/mthca0/1\"\n", host("a"), host("b"))
}

#[test]
fn every_width_of_every_generation_is_a_part() {
    let catalog = catalog();
    for generation in 1..=6 {
        for lanes in [1, 2, 4, 8, 16] {
            let bus = catalog.bus(&format!("pcie-gen{generation}-x{lanes}")).unwrap();
            assert_eq!(bus.slot.interface(), CardInterface::PciExpress { generation, lanes });
        }
    }
    let sheet = catalog.sheet(PartKind::Bus, "pcie-gen3-x16").unwrap();
    let lanes = sheet.parameters.iter().find(|parameter| parameter.name == "lanes").unwrap();
    assert_eq!((sheet.summary.as_str(), lanes.value.as_str()), ("PCI Express 3.0 slot, x16", "16"));
}

#[test]
fn a_card_in_a_narrower_slot_trains_to_it_with_a_warning() {
    let loaded = parse(&pair_in("slot = \"pcie-gen2-x4\"\n", "voltaire-ddr")).unwrap();
    let trained = CardInterface::PciExpress { generation: 1, lanes: 4 };
    assert!(loaded.spec.hosts.iter().all(|host| host.hcas[0].bus.slot.interface() == trained));
    assert_eq!(
        loaded.warnings[0].to_text(),
        "test.toml:5:8: warning: `a/mthca0` trains to PCI Express gen 1 x4: the card is PCI Express gen 1 x8, slot `pcie-gen2-x4` is PCI Express gen 2 x4"
    );
    assert!(loaded.resolved_toml().contains("slot = \"pcie-gen2-x4\"\nslot_trained = \"PCI Express gen 1 x4\""), "{}", loaded.resolved_toml());
    assert!(loaded.resolved_toml().contains("[parts.bus.\"pcie-gen2-x4\"]"));
    // A wider slot does not limit the card.
    assert!(parse(&pair_in("slot = \"pcie-gen4-x16\"\n", "voltaire-ddr")).unwrap().warnings.is_empty());
}

#[test]
fn a_card_that_trains_a_newer_slot_down_costs_what_a_slot_of_its_own_generation_does() {
    for (generation, lanes) in [(2, 8), (3, 16), (6, 8)] {
        let loaded = parse(&pair_in(&format!("slot = \"pcie-gen{generation}-x{lanes}\"\n"), "voltaire-ddr")).unwrap();
        let own = parse(&pair_in("slot = \"pcie-gen1-x8\"\n", "voltaire-ddr")).unwrap();
        let slot = |loaded: &LoadedFabric| loaded.spec.hosts[0].hcas[0].bus.slot;
        assert_eq!(slot(&loaded), slot(&own), "in gen {generation} x{lanes}");
        assert!(loaded.resolved_toml().contains("[parts.bus.\"pcie-gen1"), "{}", loaded.resolved_toml());
    }
}

#[test]
fn a_shared_bus_is_told_in_drawings_and_in_the_resolved_fabric() {
    let pair = pair_in("slot = \"pci-x-133\"\n", "mt23108");
    let shared = pair.replacen("slot = \"pci-x-133\"", "bus = \"riser\"", 1).replacen(
        "[[hosts.a",
        "[hosts.a.buses.riser]\npart = \"intel-6700pxh\"\n[[hosts.a",
        1,
    );
    let loaded = parse(&shared).unwrap_or_else(|error| panic!("{}", error.to_text()));
    let hca = &loaded.spec.hosts[0].hcas[0];
    assert_eq!((hca.shared_bus.as_deref(), hca.bus.name.as_str(), hca.bus.bridge.is_some()), (Some("riser"), "intel-6700pxh", true));
    assert_eq!(loaded.spec.hosts[1].hcas[0].shared_bus, None);
    assert!(draw_text(&loaded.spec).contains("PCI-X 133 MHz, on riser"), "{}", draw_text(&loaded.spec));
    let text = loaded.resolved_toml();
    assert!(text.contains("[hosts.\"a\".buses.\"riser\"]\npart = \"intel-6700pxh\""), "{text}");
    assert!(text.contains("bus = \"riser\"\nslot_trained = \"PCI-X 133 MHz\"") && text.contains("slot = \"pci-x-133\"\nslot_trained"), "{text}");
}

#[test]
fn packets_on_the_bus_carry_no_more_than_the_card_takes() {
    let small_text = "summary = \"small\"\nlike = \"connectx4\"\n\
                 interface_max_payload = { value = 128, unit = \"B\", source = \"test\", status = \"assumed\" }\n";
    let catalog = common::catalog_with_hca("small", small_text).unwrap();
    let slot_of = |part: &str| {
        let text = pair_in("slot = \"pcie-gen3-x16\"\n", part).replace("\"cx4\"", "\"direct-attach\"\nlength = \"1 m\"").replace("mthca", "mlx5_");
        let loaded = parse_fabric("test.toml", &text, &catalog, &LoadOptions::default()).unwrap_or_else(|error| panic!("{}", error.to_text()));
        let Slot::PciExpress(slot) = loaded.spec.hosts[0].hcas[0].bus.slot else { panic!("a PCI Express slot") };
        slot
    };
    let (own, small) = (slot_of("connectx4"), slot_of("small"));
    assert_eq!((own.max_payload_bytes, own.completion_bytes), (256, 256));
    assert_eq!((small.max_payload_bytes, small.completion_bytes), (128, 128));
    let odd = common::catalog_with_hca("odd", &small_text.replace("128", "100")).unwrap_err().to_text();
    assert!(odd.contains("100 B is not a payload size of PCI Express\n  help: write 128, 256, 512, 1024, 2048 or 4096 B"), "{odd}");
    let pci_x = common::catalog_with_hca("odd", &small_text.replace("connectx4", "mt23108")).unwrap_err().to_text();
    assert!(pci_x.contains("part has no `interface_max_payload`"), "{pci_x}");
    assert_eq!(small, softband_model::parts::PciExpress { max_payload_bytes: 128, completion_bytes: 128, ..own });
}

/// The buses that a run keeps equal those of the catalogue.
#[test]
fn the_buses_of_a_resolved_fabric_are_the_parts_they_were() {
    let catalog = catalog();
    for name in ["pcie/pci-x.toml", "pcie/pcie.toml", "xt3/rizzo.toml", "modern-pair.toml"] {
        let resolved: toml_edit::DocumentMut = load(name).resolved_toml().parse().unwrap();
        let buses = resolved["parts"]["bus"].as_table().unwrap();
        let file = |(name, sheet): (&str, &toml_edit::Item)| PartFile {
            kind: PartKind::Bus,
            name: name.to_owned(),
            file: name.to_owned(),
            text: sheet.as_table().unwrap().to_string(),
        };
        let again = Catalog::from_files(&buses.iter().map(file).collect::<Vec<_>>()).unwrap_or_else(|error| panic!("{}", error.to_text()));
        for bus in again.parts(PartKind::Bus) {
            assert_eq!(again.bus(bus), catalog.bus(bus), "{bus} of {name}");
            assert_eq!(again.sheet(PartKind::Bus, bus), catalog.sheet(PartKind::Bus, bus), "{bus} of {name}");
        }
        assert_eq!(again.parts(PartKind::Bus).len(), buses.len());
    }
}

#[test]
fn a_pci_x_card_sits_behind_a_bridge() {
    let loaded = load("pcie/pci-x.toml");
    let hca = &loaded.spec.hosts[0].hcas[0];
    assert_eq!((hca.bus.slot.interface(), hca.bus.bridge.unwrap().delay.as_nanos()), (CardInterface::PciX { clock: PciXClock::Mhz133 }, 180));
    assert!(loaded.warnings.is_empty());
    let text = loaded.resolved_toml();
    assert!(text.contains("[parts.bus.\"intel-6700pxh\"]") && text.contains("[parts.bus.\"pci-x-133\"]"), "{text}");
    let slower = parse(&pair_in("slot = \"pci-x-100\"\n", "mt23108")).unwrap();
    assert_eq!(slower.spec.hosts[1].hcas[0].bus.slot.interface(), CardInterface::PciX { clock: PciXClock::Mhz100 });
    assert!(
        slower.warnings[1].to_text().contains("`b/mthca0` trains to PCI-X 100 MHz: the card is PCI-X 133 MHz"),
        "{}",
        slower.warnings[1].to_text()
    );
}

#[test]
fn guids_are_generated_in_the_order_of_the_file_and_step_aside_for_written_ones() {
    let cable = "[[cables]]\npart = \"cx4\"\nfrom = \"a/mthca0/1\"\nto = \"b/mthca0/1\"\n";
    let plain = parse(&format!("{}{cable}", common::HOSTS_AND_SWITCH)).unwrap().spec;
    let guids = |spec: &softband_spec::FabricSpec| spec.hosts.iter().map(|host| host.hcas[0].node_guid.to_string()).collect::<Vec<_>>();
    assert_eq!(guids(&plain), ["0002:c902:0000:0004", "0002:c902:0000:0008"]);
    assert_eq!(plain.switches[0].node_guid.to_string(), "0002:c902:4000:0004");
    let written = common::HOSTS_AND_SWITCH.replacen(
        "part = \"voltaire-ddr\"\n[hosts.b]",
        "part = \"voltaire-ddr\"\nnode_guid = \"0x0002c90200000006\"\n[hosts.b]",
        1,
    );
    let spec = parse(&format!("{written}{cable}")).unwrap().spec;
    assert_eq!(guids(&spec), ["0002:c902:0000:0006", "0002:c902:0000:000c"]);
}

#[test]
fn hosts_stand_in_the_order_of_the_file() {
    let text =
        common::HOSTS_AND_SWITCH.replace("hosts.a", "hosts.zebra") + "[[cables]]\npart = \"cx4\"\nfrom = \"zebra/mthca0/1\"\nto = \"b/mthca0/1\"\n";
    let names: Vec<String> = parse(&text).unwrap().spec.hosts.into_iter().map(|host| host.name).collect();
    assert_eq!(names, ["zebra", "b"]);
}

#[test]
fn thousands_of_hosts_load() {
    let mut text = String::new();
    for host in 0..3_000 {
        text.push_str(&format!("[hosts.n{host}]\npart = \"qdr-host\"\n[[hosts.n{host}.hcas]]\npart = \"connectx2-qdr\"\n"));
        if host % 2 == 1 {
            text.push_str(&format!(
                "[[cables]]\npart = \"optical-active\"\nlength = \"30 m\"\nfrom = \"n{}/mlx4_0/1\"\nto = \"n{host}/mlx4_0/1\"\n",
                host - 1
            ));
        }
    }
    let spec = parse_fabric("big.toml", &text, &catalog(), &LoadOptions::default()).unwrap().spec;
    assert_eq!((spec.hosts.len(), spec.cables.len()), (3_000, 1_500));
    assert_eq!(spec.cables[7].rate.speed, LinkSpeed::Qdr);
}

#[test]
fn every_parameter_has_unit_and_source_and_names_its_figures_when_calibrated() {
    let catalog = catalog();
    for kind in PartKind::ALL {
        for name in catalog.parts(kind) {
            let sheet = catalog.sheet(kind, name).unwrap();
            assert!(!sheet.summary.is_empty());
            for parameter in &sheet.parameters {
                assert!(!parameter.unit.is_empty() && !parameter.source.is_empty(), "{kind} {name} {}", parameter.name);
                assert_eq!(parameter.status == Status::Calibrated, !parameter.on.is_empty(), "{kind} {name} {}", parameter.name);
            }
        }
    }
}

/// Arithmetic of the credit loops behind the calibrated values. Other tests cover the model itself.
#[test]
fn calibrated_values_give_the_figures_they_name() {
    let catalog = catalog();
    let (sdr, woodcrest) = (catalog.hca("voltaire-sdr-memfree").unwrap(), catalog.host("s5000xal-dual").unwrap());
    let Slot::PciExpress(slot) = woodcrest.bus.slot else { panic!("{:?}", woodcrest.bus) };
    let completion = u64::from(slot.completion_bytes);
    let usable = slot.raw_bytes_per_second() * u64::from(1_000_000 - slot.link_layer_ppm) / 1_000_000;
    let read_rate = usable * completion / (completion + u64::from(slot.completion_header_bytes + slot.framing_bytes()));
    assert_eq!(read_rate / 1_000_000, 1_493);
    let request = u64::from(woodcrest.read_request_bytes);
    let request_picos = woodcrest.memory.read_latency.as_picos() + request * 1_000_000_000_000 / read_rate;
    let copper = u64::from(sdr.outstanding_reads) * request * 1_000_000_000_000 / request_picos;
    assert_eq!(copper >> 20, 849);
    // 100 m at SDR: packet, cable both ways with its converters, receipt, last 128 B on the bus, memory, credit.
    let last_write = 128 * 1_000_000_000_000 / (usable * 128 / 152);
    let receiver = sdr.receive_processing + woodcrest.memory.write_latency + sdr.credit_return;
    let loop_picos = 2_082_000 + 2 * 505_000 + last_write + receiver.as_picos();
    let packets = u64::from(sdr.port_buffer_bytes / 8 / 64 / 33);
    assert_eq!(packets, 2);
    assert_eq!((packets * 2_048 * 1_000_000_000_000 / loop_picos) >> 20, 759);
    // 100 m at DDR into the switch.
    let switch = catalog.switch("flextronics-f-x430046").unwrap();
    assert_eq!(switch.port_buffer_bytes / 8 / 64, 33);
    let loop_picos = 1_041_000 + 2 * 505_000 + (switch.buffer_hold + switch.credit_return).as_picos();
    let lost = (read_rate - 2_048 * 1_000_000_000_000 / loop_picos) >> 20;
    assert!((480..=550).contains(&lost), "{lost} MiB/s lost");
    // Datagrams are slower than that, so they do not show the limit.
    assert!(sdr.gaps.datagram.as_picos() > loop_picos);
}

#[test]
fn congestion_control_is_off_until_asked_for_and_resolves_to_itself() {
    let hosts = common::HOSTS_AND_SWITCH;
    assert_eq!(parse(hosts).unwrap().spec.subnet.congestion_control, None);
    let settings = "threshold = 8\npacket_size = \"1 KiB\"\nmarking_rate = 3\nport_control = \"sl\"\nccti_limit = 2\nccti_min = 1\n\
                    ccti_increase = 2\nccti_timer = \"10.24 us\"\ncct = [\"0:0\", \"1:3\", \"0:7\"]\n";
    for settings in ["", settings] {
        let loaded = parse(&format!("[subnet.congestion_control]\n{settings}{hosts}")).unwrap();
        let resolved = loaded.resolved_toml();
        let subnet = &resolved[resolved.find("[subnet]").unwrap()..resolved.find("\n[hosts").unwrap()];
        assert_eq!(parse(&format!("{subnet}{hosts}")).unwrap().spec.subnet, loaded.spec.subnet, "{subnet}");
    }
    let control = parse(&format!("[subnet.congestion_control]\n{settings}{hosts}")).unwrap().spec.subnet.congestion_control.unwrap();
    assert_eq!((control.marking.packet_size.0, control.injection.ccti_timer), (16, 10));
}

/// A calibrated parameter names rows that exist in the references.
#[test]
fn every_row_that_parts_were_calibrated_on_stands_in_the_references() {
    let references = root().join("references");
    let tables =
        std::fs::read_dir(&references).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "csv"));
    let rows: Vec<String> = tables
        .flat_map(|path| std::fs::read_to_string(path).unwrap().lines().map(|line| line.split(',').next().unwrap().to_owned()).collect::<Vec<_>>())
        .collect();
    let catalog = catalog();
    let kinds = [PartKind::Host, PartKind::Hca, PartKind::Bus, PartKind::Cable, PartKind::Switch];
    let mut looked_at = 0;
    for (kind, name) in kinds.into_iter().flat_map(|kind| catalog.parts(kind).into_iter().map(move |name| (kind, name))) {
        for parameter in &catalog.sheet(kind, name).unwrap().parameters {
            for row in &parameter.on {
                looked_at += 1;
                assert!(
                    rows.contains(row),
                    "{name}: {} was calibrated on {row}, which stands in no file of {}",
                    parameter.name,
                    references.display()
                );
            }
        }
    }
    assert!(looked_at > 20, "{looked_at} rows");
}

#[test]
fn hosts_that_no_cables_join_are_found_and_only_those() {
    for path in fabric_paths() {
        let spec =
            load_fabric(&path, &catalog(), &LoadOptions { allow_out_of_spec: true }).unwrap_or_else(|error| panic!("{}", error.to_text())).spec;
        assert_eq!(softband_spec::hosts_apart(&spec), None, "{}", path.display());
        if path.ends_with("fat-tree-16.toml") {
            let mut cut = spec.clone();
            cut.cables.retain(|cable| cable.ends.iter().any(|end| matches!(end, softband_spec::PortRef::Hca { .. })));
            let (one, other) = softband_spec::hosts_apart(&cut).unwrap();
            assert!(one == 0 && other > 0, "{one} and {other}");
            // Another warning covers a fabric without cables.
            cut.cables.clear();
            assert_eq!(softband_spec::hosts_apart(&cut), None);
        }
    }
}
