//! Notes on links that train below a port's capability, with the reason. No note appears where
//! nothing is lost.

use crate::common::parse;
use softband_catalog::{LoadedFabric, Warning};

/// Returns two hosts with these `hcas`, each cabled to its own switch, and both switches joined.
/// Cables are of `cable` and `between`.
fn two_switches(hcas: [&str; 2], switches: [&str; 2], cable: &str, between: &str) -> String {
    let mut text = String::new();
    for (name, hca) in ["a", "b"].iter().zip(hcas) {
        text += &format!("[hosts.{name}]\npart = \"modern-host\"\n[[hosts.{name}.hcas]]\ndevice = \"d\"\n{hca}\n");
    }
    for (name, switch) in ["l", "m"].iter().zip(switches) {
        text += &format!("[switches.{name}]\npart = \"{switch}\"\n");
    }
    for (cable, from, to) in [(cable, "a/d/1", "l/1"), (cable, "b/d/1", "m/1"), (between, "l/2", "m/2")] {
        text += &format!("[[cables]]\n{cable}\nfrom = \"{from}\"\nto = \"{to}\"\n");
    }
    text
}

/// Returns two hosts, back to back by `cable`.
fn pair(hcas: [&str; 2], cable: &str) -> String {
    let host = |(name, hca): (&str, &str)| format!("[hosts.{name}]\npart = \"modern-host\"\n[[hosts.{name}.hcas]]\ndevice = \"d\"\n{hca}\n");
    let hosts: String = ["a", "b"].into_iter().zip(hcas).map(host).collect();
    format!("{hosts}[[cables]]\n{cable}\nfrom = \"a/d/1\"\nto = \"b/d/1\"\n")
}

/// Returns the messages about links, without those about slots.
fn said(loaded: &LoadedFabric) -> Vec<String> {
    loaded.warnings.iter().map(Warning::message).filter(|message| message.starts_with("the link")).map(str::to_owned).collect()
}

fn notes(text: &str) -> Vec<String> {
    said(&parse(text).unwrap_or_else(|error| panic!("{}", error.to_text())))
}

const CONNECTX7: &str = "part = \"connectx7\"";
const VOLTAIRE_DDR: &str = "part = \"voltaire-ddr\"";
const OPTICAL: &str = "part = \"optical-active\"\nlength = \"50 m\"";
const COPPER_12X: &str = "part = \"copper-12x\"\nlength = \"1 m\"";
const COPPER_4X: &str = "part = \"copper-4x\"\nlength = \"1 m\"";
const ETHERNET: &str = "part = \"ethernet-optical\"\nlength = \"5 m\"";

#[test]
fn ends_that_have_nothing_faster_in_common_are_both_to_blame() {
    let text = two_switches([CONNECTX7; 2], ["quantum-2", "infiniscale-iv"], OPTICAL, OPTICAL);
    let loaded = parse(&text).unwrap();
    assert_eq!(
        said(&loaded),
        [
            "the link of `b/d/1` trains to DDR: `b/d/1` does SDR/DDR/FDR/EDR/HDR/NDR, `m/1` does SDR/DDR/QDR",
            "the link of `l/2` trains to SDR: `l/2` does SDR/FDR/EDR/HDR/NDR, `m/2` does SDR/DDR/QDR"
        ]
    );
    let place = |line: &str| text.lines().position(|found| found == line).unwrap() + 1;
    let last = loaded.warnings.last().unwrap().to_text();
    let (from, to) = (place("from = \"l/2\""), place("to = \"m/2\""));
    assert!(last.starts_with(&format!("test.toml:{from}:8: note: ")), "{last}");
    assert!(last.ends_with(&format!("\n  test.toml:{to}:6: QDR port")), "{last}");
    // A `rate` that only one end supports is part of the reason. A `rate` that the link trains to
    // was requested.
    let capped =
        |rate: &str| notes(&two_switches([CONNECTX7; 2], ["quantum-2", "infiniscale-iv"], OPTICAL, &format!("{OPTICAL}\nrate = \"{rate}\"")));
    assert_eq!(capped("SDR").len(), 1);
    let both = two_switches([CONNECTX7; 2], ["quantum-2"; 2], OPTICAL, &format!("{OPTICAL}\nrate = \"QDR\""));
    let does = "does SDR/FDR/EDR/HDR/NDR";
    assert_eq!(notes(&both), [format!("the link of `l/2` trains to SDR: `l/2` {does}, `m/2` {does}, `rate` allows up to QDR")]);
}

#[test]
fn a_cable_is_to_blame_alone_or_with_an_end() {
    let slow = "part = \"emcore-qm3400\"";
    assert_eq!(
        notes(&two_switches([VOLTAIRE_DDR; 2], ["flextronics-f-x430046", "infiniscale-24"], slow, COPPER_4X))[..2],
        [
            "the link of `a/d/1` trains to SDR: cable `emcore-qm3400` is rated for SDR",
            "the link of `b/d/1` trains to SDR: `m/1` is SDR, cable `emcore-qm3400` is rated for SDR"
        ]
    );
    // The cable is rated for QDR, which neither end supports.
    let does = "does SDR/FDR/EDR/HDR/NDR";
    let copper = two_switches([CONNECTX7; 2], ["quantum-2"; 2], OPTICAL, COPPER_12X);
    assert_eq!(notes(&copper), [format!("the link of `l/2` trains to SDR: `l/2` {does}, `m/2` {does}, cable `copper-12x` is rated for QDR")]);
}

#[test]
fn a_link_that_trains_to_fewer_lanes_is_said() {
    let wide = two_switches([VOLTAIRE_DDR; 2], ["infiniscale-iii-12x"; 2], COPPER_12X, COPPER_12X);
    let wanted = ["the link of `l/1` trains to 4X: `a/d/1` is 4X", "the link of `m/1` trains to 4X: `b/d/1` is 4X"];
    assert_eq!(notes(&wide), wanted);
    let narrow = two_switches([VOLTAIRE_DDR; 2], ["infiniscale-iii-12x", "infiniscale-24"], COPPER_12X, COPPER_12X);
    assert_eq!(
        notes(&narrow)[2..],
        ["the link of `l/2` trains to 4X: `m/2` is 4X".to_owned(), "the link of `l/2` trains to SDR: `m/2` is SDR".to_owned()]
    );
    let by_cable = two_switches([VOLTAIRE_DDR; 2], ["infiniscale-iii-12x"; 2], COPPER_12X, COPPER_4X);
    assert_eq!(notes(&by_cable)[2], "the link of `l/2` trains to 4X: cable `copper-4x` is rated for 4X");
    // A cable made for the narrower end shows that the user wants no more.
    let meant = two_switches([VOLTAIRE_DDR; 2], ["infiniscale-iii-12x"; 2], COPPER_4X, COPPER_12X);
    assert_eq!(notes(&meant), [""; 0]);
    // A cable rated for more than both ends limits nothing.
    assert_eq!(notes(&pair([VOLTAIRE_DDR; 2], COPPER_12X)), [""; 0]);
}

#[test]
fn ethernet_links_that_train_down_are_said() {
    let ethernet = |part: &str| format!("part = \"{part}\"\nlink_layer = \"ethernet\"");
    let back_to_back = |a: &str, b: &str, cable: &str| notes(&pair([&ethernet(a), &ethernet(b)], cable));
    assert_eq!(back_to_back("connectx7", "connectx3-pro", ETHERNET), ["the link of `a/d/1` trains to 40GbE: `b/d/1` is 40GbE"]);
    assert_eq!(back_to_back("connectx7", "connectx7", ETHERNET), [""; 0]);
    assert_eq!(back_to_back("connectx7", "connectx7", &format!("{ETHERNET}\nrate = \"100GbE\"")), [""; 0]);
    let star = |[a, b]: [&str; 2], switch: &str| notes(&two_switches([&ethernet(a), &ethernet(b)], [switch; 2], ETHERNET, ETHERNET));
    assert_eq!(
        star(["connectx7", "connectx3-pro"], "sn5600"),
        [
            "the link of `l/1` trains to 400GbE: `a/d/1` is 400GbE",
            "the link of `b/d/1` trains to 10GbE: `b/d/1` does 10GbE/40GbE, `m/1` does 10GbE/25GbE/50GbE/100GbE/200GbE/400GbE/800GbE"
        ]
    );
    assert_eq!(star(["connectx5", "connectx3-pro"], "sn2700"), ["the link of `m/1` trains to 40GbE: `b/d/1` is 40GbE"]);
}
