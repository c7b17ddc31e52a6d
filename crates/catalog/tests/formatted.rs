//! The form of fabric files changes no fabric.

use crate::common;

use crate::common::{catalog, fabric_paths, parse};
use softband_catalog::{LoadOptions, LoadedFabric, format_fabric, load_fabric, parse_fabric};

/// Turns the keys of each table round, and changes the space around them.
fn untidy(text: &str) -> String {
    let mut out = Vec::new();
    let mut keys: Vec<String> = Vec::new();
    for line in text.lines() {
        match line.split_once(" = ").filter(|_| !line.starts_with(['#', '[', ' '])) {
            Some((key, value)) => keys.push(format!("\t{key}=   {value} ")),
            None => {
                out.extend(keys.drain(..).rev());
                out.push(format!("{line}\n"));
            }
        }
    }
    out.extend(keys.drain(..).rev());
    out.join("\n")
}

fn comments(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = text.lines().filter_map(|line| Some(line[line.find('#')?..].trim())).collect();
    found.sort_unstable();
    found
}

fn same(before: &LoadedFabric, after: &LoadedFabric, what: &str) {
    assert_eq!(before.spec, after.spec, "{what}");
    assert_eq!((before.seed, before.start_date), (after.seed, after.start_date), "{what}");
    assert_eq!(before.resolved_toml(), after.resolved_toml(), "{what}");
}

#[test]
fn every_installed_fabric_has_the_form() {
    let paths = fabric_paths();
    assert!(paths.len() > 50);
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(format_fabric("f", &text).unwrap(), text, "{}", path.display());
    }
}

#[test]
fn an_untidy_fabric_stays_the_same_fabric_with_all_its_comments() {
    let catalog = catalog();
    for path in fabric_paths() {
        let text = untidy(&std::fs::read_to_string(&path).unwrap());
        let what = path.display().to_string();
        let formatted = format_fabric(&what, &text).unwrap();
        assert_ne!(formatted, text, "{what}");
        assert_eq!(format_fabric(&what, &formatted).unwrap(), formatted, "{what}");
        assert_eq!(comments(&text), comments(&formatted), "{what}");
        let options = LoadOptions { allow_out_of_spec: true };
        let [before, after] = [&text, &formatted].map(|text| parse_fabric(&what, text, &catalog, &options).unwrap());
        same(&before, &after, &what);
        same(&before, &load_fabric(&path, &catalog, &options).unwrap(), &what);
    }
}

#[test]
fn a_resolved_fabric_stays_the_same_fabric() {
    let loaded = parse(&format!("[fabric]\ntitle = \"x\"\nseed = 7\n{}", common::HOSTS_AND_SWITCH)).unwrap();
    let text = loaded.resolved_toml();
    let formatted = format_fabric("f", &text).unwrap();
    same(&loaded, &parse(&formatted).unwrap(), "resolved");
}
