//! Simulated time and number of packets with which the built-in subnet manager brings fabrics up.
//!
//! It prints figures and has no limits. Agents take 10 us for each packet, as in the catalogue.
#![allow(clippy::disallowed_methods)] // a benchmark reads the clock; the model never does

#[path = "../tests/management/sweeper.rs"]
#[allow(dead_code)] // tests use the rest of it
mod sweeper;

use softband_catalog::{Catalog, LoadOptions, parse_fabric};
use softband_fabric::World;
use std::path::Path;
use std::time::Instant;
use sweeper::Sweeper;

const PARTS: &str = "host = \"qdr-host\"\nhca = \"connectx2-qdr\"\nhost_cable = \"copper-4x\"\nhost_cable_length = \"1 m\"\n";
const SWITCH: &str = "switch = \"infiniscale-iv\"\n";

const FABRICS: [(&str, &str); 4] = [
    ("2 hosts", "kind = \"back-to-back\""),
    ("64 hosts, fat tree", "kind = \"fat-tree\"\nhosts = 64\nports = 16"),
    ("1,008 hosts, fat tree", "kind = \"fat-tree\"\nhosts = 1008\nports = 36\nlevels = 3"),
    ("1,008 hosts, torus", "kind = \"torus\"\ndimensions = [6, 6, 7]\nhosts_per_switch = 4"),
];

fn main() {
    let catalog = Catalog::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog")).unwrap_or_else(|error| panic!("{}", error.to_text()));
    for (name, form) in FABRICS {
        let switch = if form.contains("back-to-back") { "" } else { SWITCH };
        let loaded = parse_fabric("bench.toml", &format!("[generate]\n{PARTS}{switch}{form}\n"), &catalog, &LoadOptions::default());
        let spec = loaded.unwrap_or_else(|error| panic!("{}", error.to_text())).spec;
        let begun = Instant::now();
        drop(World::new(&spec, 1));
        let constructed = begun.elapsed().as_secs_f64();
        let mut sweeper = Sweeper::new(&spec);
        let begun = Instant::now();
        let first = sweeper.sweep();
        let (seconds, tally) = (begun.elapsed().as_secs_f64(), sweeper.manager.tally());
        assert_eq!(sweeper.manager.problems(), []);
        let again = sweeper.sweep();
        let sent = sweeper.manager.tally().sent - tally.sent;
        println!("{name}: {} switches", spec.switches.len());
        println!("  first sweep  {:>9} requests, {:>9.3} simulated ms, {seconds:.3} s", tally.sent, first.as_secs_f64() * 1e3);
        println!("  next sweep   {sent:>9} requests, {:>9.3} simulated ms", again.as_secs_f64() * 1e3);
        println!("  construction before time zero {constructed:.3} s");
    }
}
