//! A resolved fabric is a fabric file: it loads, describes the same fabric, and resolves to itself.

use crate::common::{catalog, fabric_paths, parse, root};
use softband_catalog::{Catalog, LoadOptions, LoadedFabric, load_fabric, parse_fabric};

fn again(loaded: &LoadedFabric, catalog: &Catalog) -> LoadedFabric {
    let text = loaded.resolved_toml();
    parse_fabric("fabric.toml", &text, catalog, &LoadOptions::default()).unwrap_or_else(|error| panic!("{}\n{text}", error.to_text()))
}

#[test]
fn every_fabric_of_the_repository_is_the_same_after_a_round() {
    let catalog = catalog();
    for path in fabric_paths() {
        let first = load_fabric(&path, &catalog, &LoadOptions::default()).unwrap();
        // The catalogue may have lost all parts since.
        let (second, third) = (again(&first, &Catalog::default()), again(&first, &catalog));
        assert_eq!(third.resolved_toml(), second.resolved_toml(), "{}", path.display());
        assert_eq!(first.resolved_toml(), second.resolved_toml(), "{}", path.display());
        assert_eq!(format!("{:?}", first.spec), format!("{:?}", second.spec), "{}", path.display());
        assert_eq!((first.seed, first.start_date), (second.seed, second.start_date), "{}", path.display());
    }
}

#[test]
fn its_own_parts_count_whatever_the_catalogue_has() {
    let first = load_fabric(&root().join("fabrics/two-hosts.toml"), &catalog(), &LoadOptions::default()).unwrap();
    // The catalogue may have lost or changed all parts since.
    let second = again(&first, &Catalog::default());
    assert_eq!(format!("{:?}", first.spec), format!("{:?}", second.spec));
    let text = first.resolved_toml().replace("clock_read = { value = 30", "clock_read = { value = 31");
    let changed = parse(&text).unwrap();
    assert_eq!(changed.spec.hosts[0].part.clock_read.as_picos(), 31_000);
}

#[test]
fn what_follows_from_other_values_must_be_so() {
    let text = load_fabric(&root().join("fabrics/two-hosts.toml"), &catalog(), &LoadOptions::default()).unwrap().resolved_toml();
    let cases = [
        ("width = \"4X\"", "width = \"8X\"", "the link from `a/mthca0/1` to `b/mthca0/1` has `width` 4X by its parts, and the file states 8X"),
        ("delay_ps = 40000", "delay_ps = 40001", "has `delay_ps` 40000 by its parts, and the file states 40001"),
        (
            "slot_trained = \"PCI Express gen 1 x8\"",
            "slot_trained = \"PCI-X 133 MHz\"",
            "`a/mthca0` has `slot_trained` PCI Express gen 1 x8 by its parts",
        ),
        ("length = \"8 m\"", "length = \"9 m\"", "is 8 m long, no other length can be given"),
        ("[parts.cable.", "[parts.cabel.", "no kind of part is called `cabel`"),
        ("summary = \"Voltaire", "like = \"connectx5\"\nsummary = \"Voltaire", "a part in a fabric file is like no other"),
        ("clock_read = { value = 30, unit = \"ns\"", "clock_read = { value = 30, unit = \"m\"", "`clock_read` cannot be in `m`"),
    ];
    for (from, to, message) in cases {
        assert!(text.contains(from), "{from}");
        let error = parse(&text.replacen(from, to, 1)).expect_err(to).to_text();
        assert!(error.contains(message), "{error}");
    }
}

/// Parameters of a kernel's path, which host parts of earlier versions do not have.
const KERNEL_PATH: [&str; 8] =
    ["socket_call", "packet_send", "packet_receive", "packet_join", "packet_interrupt", "socket_copy_rate", "moderation_packets", "moderation_time"];

/// Returns the text without the lines that earlier versions did not write.
fn as_earlier(text: &str) -> String {
    let is_new = |line: &str| KERNEL_PATH.iter().any(|name| line.starts_with(&format!("{name} = "))) || line.starts_with("kernel = ");
    text.lines().filter(|line| !is_new(line)).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_resolved_fabric_of_an_earlier_version_loads_with_assumed_costs_of_the_kernel() {
    let first = load_fabric(&root().join("fabrics/two-hosts.toml"), &catalog(), &LoadOptions::default()).unwrap();
    let text = as_earlier(&first.resolved_toml());
    assert!(text.len() < first.resolved_toml().len());
    let second =
        parse_fabric("fabric.toml", &text, &Catalog::default(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{}", error.to_text()));
    let path = second.spec.hosts[0].part.kernel_path;
    assert_eq!((path.call.as_picos(), path.moderation_packets), (300_000, 1));
    let resolved = second.resolved_toml();
    for name in KERNEL_PATH {
        let line = resolved.lines().find(|line| line.starts_with(&format!("{name} = "))).expect(name);
        assert!(line.contains("source = \"the part states none: ") && line.contains("status = \"assumed\""), "{line}");
    }
    assert_eq!(again(&second, &Catalog::default()).resolved_toml(), resolved);
}
