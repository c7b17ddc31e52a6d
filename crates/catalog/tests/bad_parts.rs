//! Mistakes in part files: a value without unit or source never gets into the model.

use softband_catalog::{Catalog, PartFile, PartKind};

const BUS: &str = r#"summary = "a bus"
raw_rate = { value = 2000, unit = "MB/s", source = "s", status = "datasheet" }
max_payload = { value = 128, unit = "B", source = "s", status = "datasheet" }
write_header = { value = 24, unit = "B", source = "s", status = "datasheet" }
completion = { value = 64, unit = "B", source = "s", status = "datasheet" }
completion_header = { value = 20, unit = "B", source = "s", status = "datasheet" }
link_layer_share = { value = 2, unit = "%", source = "s", status = "assumed" }
"#;

fn bus(text: &str) -> PartFile {
    PartFile { kind: PartKind::Bus, name: "x8".into(), file: "bus/x8.toml".into(), text: text.into() }
}

fn error_of(text: &str) -> String {
    Catalog::from_files(&[bus(text)]).map(|_| ()).expect_err("the part is wrong").to_text()
}

#[test]
fn a_right_part_is_converted_to_the_models_integers() {
    let catalog = Catalog::from_files(&[bus(BUS)]).unwrap();
    let part = catalog.bus("x8").unwrap();
    assert_eq!((part.raw_bytes_per_second, part.link_layer_ppm, part.duplex_bytes_per_second), (2_000_000_000, 20_000, None));
    let sheet = catalog.sheet(PartKind::Bus, "x8").unwrap();
    assert_eq!((sheet.parameters[0].value.as_str(), sheet.parameters[0].unit.as_str()), ("2000", "MB/s"));
}

#[test]
fn a_value_needs_unit_source_and_status() {
    assert_eq!(error_of(&BUS.replace("unit = \"MB/s\", ", "")), "bus/x8.toml:2:1: error: `raw_rate` needs `unit`\n  help: write `unit = \"B\"`");
    assert_eq!(
        error_of(&BUS.replacen("max_payload", "max_p", 1)),
        "bus/x8.toml:1:1: error: bus part `x8` has no `max_payload`\n  \
         help: write `max_payload = { value = ..., unit = \"B\", source = \"...\", status = \"...\" }`\n\
         bus/x8.toml:3:1: error: a bus part has no `max_p`\n  help: did you mean `max_payload`? The parameters are: \
         raw_rate, max_payload, write_header, completion, completion_header, link_layer_share, duplex_rate"
    );
    let no_source = error_of(&BUS.replacen("source = \"s\", ", "", 1));
    assert!(no_source.starts_with("bus/x8.toml:2:1: error: `raw_rate` needs `source`"), "{no_source}");
    let no_status = error_of(&BUS.replacen(", status = \"datasheet\"", "", 1));
    assert!(no_status.starts_with("bus/x8.toml:2:1: error: `raw_rate` needs `status`"), "{no_status}");
    let empty = error_of(&BUS.replacen("source = \"s\"", "source = \" \"", 1));
    assert!(empty.starts_with("bus/x8.toml:2:52: error: `raw_rate` has no source"), "{empty}");
    let plain = error_of(&format!("{BUS}duplex_rate = 2727\n"));
    assert!(plain.starts_with("bus/x8.toml:8:15: error: `duplex_rate` must be a table with unit and source"), "{plain}");
}

#[test]
fn a_wrong_unit_says_which_are_right() {
    assert_eq!(
        error_of(&BUS.replacen("\"MB/s\"", "\"MHz\"", 1)),
        "bus/x8.toml:2:35: error: `raw_rate` cannot be in `MHz`\n  help: accepted here: B/s, MB/s, MiB/s, GB/s or Gb/s"
    );
}

#[test]
fn unknown_parameters_and_statuses_are_named() {
    let extra = "max_paylod = { value = 128, unit = \"B\", source = \"s\", status = \"datasheet\" }\n";
    let error = error_of(&format!("{BUS}{extra}"));
    assert!(error.starts_with("bus/x8.toml:8:1: error: a bus part has no `max_paylod`\n  help: did you mean `max_payload`?"), "{error}");
    let error = error_of(&BUS.replacen("datasheet", "guessed", 1));
    assert!(error.contains("error: unknown status `guessed`\n  help: write datasheet, measured, derived, calibrated or assumed"), "{error}");
}

#[test]
fn a_calibrated_value_names_its_figures_and_no_other_does() {
    let error = error_of(&BUS.replace("assumed", "calibrated"));
    assert!(error.starts_with("bus/x8.toml:7:1: error: `link_layer_share` is calibrated, on which published figures?"), "{error}");
    let error = error_of(&BUS.replace("\"assumed\"", "\"assumed\", on = [\"A040\"]"));
    assert!(error.starts_with("bus/x8.toml:7:1: error: `link_layer_share` names figures but is not calibrated"), "{error}");
}

#[test]
fn values_that_the_model_cannot_use_are_refused() {
    let negative = error_of(&BUS.replacen("value = 2000", "value = -1", 1));
    assert_eq!(negative, "bus/x8.toml:2:22: error: `raw_rate`: -1 MB/s is negative");
    let none = error_of(&BUS.replacen("value = 2000", "value = 0", 1));
    assert_eq!(none, "bus/x8.toml:2:22: error: `raw_rate`: a rate must be positive");
    let share = error_of(&BUS.replacen("value = 2,", "value = 100,", 1));
    assert!(share.starts_with("bus/x8.toml:7:30: error: `link_layer_share`: nothing of the bus is left"), "{share}");
}

#[test]
fn a_part_may_be_like_another_and_its_faults_are_reported_once() {
    let like = PartFile {
        name: "x4".into(),
        file: "bus/x4.toml".into(),
        ..bus("summary = \"half\"\nlike = \"x8\"\nraw_rate = { value = 1, unit = \"GB/s\", source = \"s\", status = \"datasheet\" }\n")
    };
    let catalog = Catalog::from_files(&[bus(BUS), like.clone()]).unwrap();
    assert_eq!(catalog.bus("x4").unwrap().raw_bytes_per_second, 1_000_000_000);
    assert_eq!(catalog.bus("x4").unwrap().max_payload_bytes, 128);
    let error = Catalog::from_files(&[bus(&BUS.replace("\"%\"", "\"m\"")), like]).map(|_| ()).unwrap_err();
    assert_eq!(error.faults().len(), 1, "{}", error.to_text());
    let lost = error_of("summary = \"half\"\nlike = \"x9\"\n");
    assert!(lost.starts_with("bus/x8.toml:2:8: error: no bus part `x9`\n  help: there are no bus parts"), "{lost}");
}

#[test]
fn congestion_control_of_a_part_is_yes_or_no_with_a_source() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/switch/infiniscale-iv.toml");
    let text: String =
        std::fs::read_to_string(folder).unwrap().lines().filter(|line| !line.starts_with("congestion_control")).collect::<Vec<_>>().join("\n");
    let load = |line: &str| {
        let file = PartFile { kind: PartKind::Switch, name: "sw".into(), file: "switch/sw.toml".into(), text: format!("{text}\n{line}\n") };
        Catalog::from_files(&[file])
    };
    let error_of = |line: &str| load(line).map(|_| ()).expect_err("the part is wrong").to_text();
    assert!(!load("").unwrap().switch("sw").unwrap().congestion_control);
    let right = "congestion_control = { value = \"yes\", unit = \"name\", source = \"s\", status = \"datasheet\" }";
    assert!(load(right).unwrap().switch("sw").unwrap().congestion_control);
    assert!(error_of(&right.replace("yes", "maybe")).contains("`congestion_control`: unknown value `maybe`\n  help: the values are: no, yes"));
    assert!(error_of(&right.replace("\"name\"", "\"code\"")).contains("`congestion_control` cannot be in `code`\n  help: accepted here: name"));
    assert!(error_of(&right.replace("source = \"s\", ", "")).contains("`congestion_control` needs `source`"));
    assert!(
        error_of(&right.replace("_control", "_contol"))
            .contains("a switch part has no `congestion_contol`\n  help: did you mean `congestion_control`?")
    );
}
