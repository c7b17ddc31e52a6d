//! Parts that no hardware can be.

use softband_catalog::{Catalog, PartFile, PartKind};
use softband_model::parts::{DiskPart, FileCosts};
use softband_sim::SimDuration;

fn catalog_text(kind: PartKind, name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog").join(kind.folder()).join(name).with_extension("toml");
    std::fs::read_to_string(path).unwrap()
}

/// Returns the part with another value of a parameter.
fn changed(text: &str, name: &str, value: &str) -> String {
    let start = format!("{name} = {{ value = ");
    let line = text.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("no {name}"));
    let rest = &line[line.find(", unit").unwrap()..];
    text.replacen(line, &format!("{start}{value}{rest}"), 1)
}

fn load(kind: PartKind, text: &str, others: &[PartFile]) -> Result<Catalog, String> {
    let part = PartFile { kind, name: "mine".into(), file: format!("{kind}/mine.toml"), text: text.into() };
    Catalog::from_files(&[&[part], others].concat()).map_err(|error| error.to_text())
}

fn error_of(kind: PartKind, text: &str, others: &[PartFile]) -> String {
    load(kind, text, others).map(|_| ()).expect_err("nothing can be so")
}

/// Checks that the error concerns only this value and that its message starts with `wanted`.
fn assert_refused(kind: PartKind, base: &str, (name, value): (&str, &str), wanted: &str) {
    let error = error_of(kind, &changed(base, name, value), &[]);
    assert!(error.contains(&format!(": error: `{name}`: {wanted}")), "{name} = {value}: {error}");
    assert_eq!(error.matches("error: ").count(), 1, "{error}");
}

#[test]
fn buses_whose_packets_no_pci_express_has_are_refused() {
    let (bus, base) = (PartKind::Bus, catalog_text(PartKind::Bus, "pcie-gen1"));
    let refused = |name: &str, value: &str, wanted: &str| assert_refused(bus, &base, (name, value), wanted);
    let wanted = "a completion of 256 B has more data than `max_payload` allows, 128 B\n  help: write 128 B or less";
    refused("completion", "256", wanted);
    refused("write_header", "11", "a memory write's header is 12 or 16 B\n  help: write 16 B, or 12 B");
    refused("write_header", "0", "a memory write's header is 12 or 16 B");
    refused("completion_header", "8", "a completion's header is 12 B\n  help: write 12 B");
    for bytes in ["13", "17", "24", "1000000"] {
        let wanted = "a memory write's header is 12 or 16 B\n  help: write 16 B, or 12 B for addresses of 32 bits; the bus counts framing and check sum by itself";
        refused("write_header", bytes, wanted);
        refused("completion_header", bytes, "a completion's header is 12 B\n  help: write 12 B; the bus counts framing and check sum by itself");
    }
    assert!(load(bus, &changed(&base, "link_layer_share", "50"), &[]).is_ok());
    assert!(load(bus, &changed(&base, "write_header", "12"), &[]).is_ok());
    assert!(load(bus, &changed(&base, "completion", "128"), &[]).is_ok());
    // A derived part must change its own value.
    let gen3 = PartFile { kind: bus, name: "pcie-gen3".into(), file: "bus/pcie-gen3.toml".into(), text: catalog_text(bus, "pcie-gen3") };
    let gen1 = PartFile { kind: bus, name: "pcie-gen1".into(), file: "bus/pcie-gen1.toml".into(), text: base.clone() };
    let like = "summary = \"s\"\nlike = \"pcie-gen3-x8\"\nmax_payload = { value = 128, unit = \"B\", source = \"s\", status = \"assumed\" }\n";
    assert_eq!(
        error_of(bus, like, &[gen3, gen1]),
        "bus/mine.toml:3:25: error: `max_payload`: completions of 256 B have more data than 128 B\n  \
         help: write 256 B or more, or a `completion` of 128 B beside it"
    );
}

#[test]
fn a_cable_faster_than_light_is_refused() {
    let base = catalog_text(PartKind::Cable, "singlemode").lines().filter(|line| !line.starts_with("length_limits")).collect::<Vec<_>>().join("\n");
    for value in ["0", "1", "3.33"] {
        assert_refused(PartKind::Cable, &base, ("propagation", value), "nothing goes faster than light\n  help: write at least 3.34 ns/m");
    }
    assert!(load(PartKind::Cable, &changed(&base, "propagation", "3.34"), &[]).is_ok());
}

#[test]
fn hcas_that_no_program_could_use_are_refused() {
    let base = catalog_text(PartKind::Hca, "connectx4");
    for name in ["max_qp", "max_qp_wr", "max_sge", "max_cq", "max_cqe", "max_mr", "max_pd"] {
        assert_refused(PartKind::Hca, &base, (name, "0"), "no program could use such an HCA\n  help: write at least 1");
        assert!(load(PartKind::Hca, &changed(&base, name, "1"), &[]).is_ok(), "{name}");
    }
    for driver in ["", "../mlx5", "mlx5/", ".", "mlx 5", "m\\u00fc"] {
        let wanted = "no device can be called after `";
        assert_refused(PartKind::Hca, &base, ("driver", &format!("\"{driver}\"")), wanted);
    }
}

#[test]
fn what_programs_have_few_bits_for_is_refused_beyond_them() {
    let base = catalog_text(PartKind::Hca, "connectx4");
    for (name, most, why) in [
        ("max_rd_atomic", 255, "programs ask for it in 8 bits"),
        ("gid_table_len", 256, "programs name a place in the table in 8 bits"),
        ("vendor_id", 0xFF_FFFF, "it has 24 bits"),
        ("vendor_part_id", 0xFFFF, "it has 16 bits"),
    ] {
        for value in [most + 1, 1 << 30] {
            let wanted = format!("{value} is too large: {why}\n  help: write 0 to {most}");
            assert_refused(PartKind::Hca, &base, (name, &value.to_string()), &wanted);
        }
        assert!(load(PartKind::Hca, &changed(&base, name, &most.to_string()), &[]).is_ok(), "{name}");
    }
    assert!(load(PartKind::Hca, &changed(&base, "max_rd_atomic", "0"), &[]).is_ok());
}

#[test]
fn lists_of_what_ports_do_name_the_wrong_value_and_the_right_ones() {
    let base = catalog_text(PartKind::Hca, "connectx4");
    for (name, value, wanted) in [
        ("speeds", "[]", "the list is empty\n  help: the list may hold SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR"),
        ("widths", "[\"4X\", \"5X\"]", "`5X` is not known\n  help: the list may hold 1X, 2X, 4X, 8X, 12X"),
        ("widths", "[4]", "a whole number is in the list\n  help: the list may hold 1X, 2X, 4X, 8X, 12X"),
        ("link_layers", "[\"infiniband\", \"fibre\"]", "`fibre` is not known\n  help: the list may hold infiniband, ethernet"),
        ("link_layers", "[]", "the list is empty\n  help: the list may hold infiniband, ethernet"),
        ("widths", "[\"4X\", \"4x\"]", "`4X` stands in the list twice\n  help: write each value once"),
    ] {
        assert_refused(PartKind::Hca, &base, (name, value), wanted);
    }
    let text = changed(&base, "widths", "[\"4X\", \"5X\"]");
    let line = text.lines().position(|line| line.starts_with("widths")).unwrap();
    let column = text.lines().nth(line).unwrap().find("\"5X\"").unwrap();
    let error = error_of(PartKind::Hca, &text, &[]);
    assert!(error.starts_with(&format!("hca/mine.toml:{}:{}: ", line + 1, column + 1)), "{error}");
}

#[test]
fn a_part_that_others_refer_to_is_named_before_them() {
    let file = |kind: PartKind, name: &str, text: String| PartFile { kind, name: name.into(), file: format!("{kind}/{name}.toml"), text };
    let limits = "summary = \"s\"\n4x_sdr = { value = -1, unit = \"m\", source = \"s\", status = \"assumed\" }\n";
    let cable = catalog_text(PartKind::Cable, "copper-4x").replace("\"copper\", unit = \"part\"", "\"myl\", unit = \"part\"");
    assert!(cable.contains("myl"), "{cable}");
    let text = load(PartKind::Cable, &cable, &[file(PartKind::Limit, "myl", limits.into())]).map(|_| ()).unwrap_err();
    let errors: Vec<&str> = text.lines().filter(|line| line.contains("error: ")).collect();
    assert!(errors[0].starts_with("limit/myl.toml:2:20: error: `4x_sdr`: -1 m is negative"), "{text}");
    assert!(errors[1].contains("cable/mine.toml:") && errors[1].contains("no usable length limits `myl`"), "{text}");
    // A bridge and the bus that it offers are of one kind.
    let bus = changed(&catalog_text(PartKind::Bus, "pci-x-133"), "clock", "125");
    let bridge = catalog_text(PartKind::Bus, "amd-8131").replace("pci-x-133", "zzz");
    let text = load(PartKind::Bus, &bridge, &[file(PartKind::Bus, "zzz", bus)]).map(|_| ()).unwrap_err();
    let errors: Vec<&str> = text.lines().filter(|line| line.contains("error: ")).collect();
    assert!(errors[0].contains("bus/zzz.toml") && errors[1].contains("no usable bus part `zzz`"), "{text}");
}

#[test]
fn a_port_of_ethernet_holds_a_full_frame() {
    for (kind, name) in [(PartKind::Hca, "connectx4"), (PartKind::Switch, "sn2700")] {
        let base = catalog_text(kind, name);
        let wanted = "65 blocks of 64 B, and a full frame of 4214 B takes 66\n  help: write at least 4224 B";
        assert_refused(kind, &base, ("ethernet_buffer", "4223"), wanted);
        assert!(load(kind, &changed(&base, "ethernet_buffer", "4224"), &[]).is_ok());
    }
}

#[test]
fn kernels_whose_timers_or_buffers_cannot_be_are_refused() {
    let (kernel, base) = (PartKind::Kernel, catalog_text(PartKind::Kernel, "linux-2.6.9.toml"));
    let refused = |name: &str, value: &str, wanted: &str| assert_refused(kernel, &base, (name, value), wanted);
    refused("rto_min", "0", "a timer must take some time");
    refused("rto_max", "32767001", "no timer takes that long");
    refused("rto_max", "100", "the largest value is less than the least");
    refused("initial_window", "0", "0 is not possible\n  help: write 1 to 1000");
    refused("receive_buffer", "1000", "no socket has such a buffer");
    refused("send_buffer_max", "16383", "the size that a new socket has, 16384 B, is beyond it");
    refused("ephemeral_first", "65536", "there is no port 65536");
    refused("ephemeral_last", "32767", "the range of ephemeral ports is empty");
    refused("window_share", "101", "1010000 is not possible");
    refused("congestion_control", "\"vegas\"", "unknown value `vegas`");
    assert!(load(kernel, &base, &[]).is_ok());
    let joins = changed(&changed(&base, "ipoib_aggregation", "\"yes\""), "ipoib_backlog", "0");
    assert!(load(kernel, &joins, &[]).is_ok());
    assert_refused(kernel, &joins, ("ipoib_backlog", "1"), "a driver that joins received segments has no backlog");
}

#[test]
fn hosts_whose_packets_take_seconds_are_refused() {
    let (host, base) = (PartKind::Host, catalog_text(PartKind::Host, "qdr-host"));
    for name in ["packet_send", "packet_receive", "packet_interrupt", "socket_call"] {
        let error = error_of(host, &changed(&base, name, "1000000001"), &[]);
        assert!(error.contains(&format!("error: `{name}`: no kernel takes longer than a second")), "{error}");
    }
}

#[test]
fn costs_of_files_are_optional_and_checked() {
    let costs = [("file_copy_rate", 1600, "MB/s"), ("disk_rate", 60, "MB/s"), ("disk_seek", 8, "ms")]
        .map(|(name, value, unit)| format!("{name} = {{ value = {value}, unit = \"{unit}\", source = \"mine\", status = \"assumed\" }}\n"));
    let (host, plain) = (PartKind::Host, catalog_text(PartKind::Host, "qdr-host"));
    let base = plain.clone() + &costs.concat();
    let buses = ["pcie-gen1", "pcie-gen2"].map(|name| PartFile {
        kind: PartKind::Bus,
        name: name.into(),
        file: format!("{name}.toml"),
        text: catalog_text(PartKind::Bus, name),
    });
    let refused = |text: &str, wanted: &str| {
        let error = error_of(host, text, &buses);
        assert!(error.contains(wanted) && error.matches("error: ").count() == 1, "{error}");
    };
    refused(&changed(&base, "file_copy_rate", "0"), "`file_copy_rate`: a rate must be positive");
    refused(&changed(&base, "disk_rate", "0"), "`disk_rate`: a rate must be positive");
    refused(&changed(&base, "disk_seek", "1001"), "`disk_seek`: no disk seeks for longer than a second");
    refused(&(plain.clone() + &costs[2]), "`disk_seek`: a disk that seeks has a rate\n  help: add `disk_rate`");
    let files = |text: &str| load(host, text, &buses).unwrap().host("mine").unwrap().files;
    assert_eq!(files(&plain), FileCosts::default());
    assert_eq!(files(&(plain.clone() + &costs[1])).disk, Some(DiskPart { bytes_per_second: 60_000_000, seek: SimDuration::ZERO }));
    let disk = DiskPart { bytes_per_second: 60_000_000, seek: SimDuration::from_micros(8_000) };
    assert_eq!(files(&base), FileCosts { copy_bytes_per_second: Some(1_600_000_000), disk: Some(disk) });
}

#[test]
fn newer_kernels_take_what_they_have_in_common_from_older_ones() {
    let catalog = Catalog::load(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog")).unwrap();
    let windows = ["linux-2.6.9", "linux-2.6.18", "linux-3.10", "linux-6.1"].map(|name| {
        let kernel = catalog.kernel(name).unwrap();
        (kernel.initial_window, kernel.initial_receive_window, kernel.retries)
    });
    assert_eq!(windows, [(3, Some(4), 15), (3, Some(4), 15), (10, Some(20), 15), (10, None, 15)]);
}

#[test]
fn costs_of_messages_that_no_hca_has_are_refused() {
    let (hca, base) = (PartKind::Hca, catalog_text(PartKind::Hca, "connectx2-qdr"));
    for size in ["32", "96", "8192"] {
        assert_refused(hca, &base, ("response_completion", size), "no completion has this size\n  help: write a power of two from 64 to 4096");
    }
    let contexts = |count: u32| format!("context_cache = {{ value = {count}, unit = \"count\", source = \"a test\", status = \"assumed\" }}\n");
    let miss = "context_miss = { value = 1, unit = \"us\", source = \"a test\", status = \"assumed\" }\n";
    for (added, wanted) in [
        (contexts(8), "`context_cache`: a cache has a time to fetch\n  help: add `context_miss`"),
        (miss.to_owned(), "`context_miss`: there is no cache\n  help: add `context_cache`"),
        (contexts(0) + miss, "`context_cache`: no queue pair could have a context\n  help: write at least 1"),
    ] {
        let error = error_of(hca, &format!("{base}\n{added}"), &[]);
        assert!(error.contains(&format!(": error: {wanted}")), "{error}");
        assert_eq!(error.matches("error: ").count(), 1, "{error}");
    }
    load(hca, &format!("{base}\n{}{miss}", contexts(8)), &[]).expect("a cache with a time to fetch");
}

#[test]
fn a_pci_x_card_has_no_costs_that_only_pci_express_models() {
    let (hca, express) = (PartKind::Hca, catalog_text(PartKind::Hca, "voltaire-sdr"));
    let base = PartFile { kind: hca, name: "voltaire-sdr".into(), file: "hca/voltaire-sdr.toml".into(), text: express };
    let card = catalog_text(hca, "mt23108");
    for (name, value, unit) in [("receive_wqe_pause", 80, "ns"), ("response_completion", 64, "B")] {
        let added = format!("{card}\n{name} = {{ value = {value}, unit = \"{unit}\", source = \"a test\", status = \"assumed\" }}\n");
        let error = error_of(hca, &added, std::slice::from_ref(&base));
        assert!(error.contains(&format!(": error: `{name}`: only PCI Express models it\n  help: leave it out")), "{error}");
    }
}
