//! Mistakes in part files: a value without unit or source never reaches the model.

use softband_catalog::{Catalog, PartFile, PartKind};
use softband_model::parts::Slot;

const BUS: &str = r#"summary = "a bus"
kind = { value = "pci-express", unit = "name", source = "s", status = "datasheet" }
generation = { value = 1, unit = "count", source = "s", status = "datasheet" }
lanes = { value = 8, unit = "count", source = "s", status = "datasheet" }
max_payload = { value = 128, unit = "B", source = "s", status = "datasheet" }
write_header = { value = 16, unit = "B", source = "s", status = "datasheet" }
completion = { value = 64, unit = "B", source = "s", status = "datasheet" }
completion_header = { value = 12, unit = "B", source = "s", status = "datasheet" }
link_layer_share = { value = 2, unit = "%", source = "s", status = "assumed" }
"#;

const PCI_X: &str = r#"summary = "a bus"
kind = { value = "pci-x", unit = "name", source = "s", status = "datasheet" }
clock = { value = 133, unit = "MHz", source = "s", status = "datasheet" }
width = { value = 64, unit = "bit", source = "s", status = "datasheet" }
request_clocks = { value = 4, unit = "count", source = "s", status = "assumed" }
burst_clocks = { value = 6, unit = "count", source = "s", status = "assumed" }
write_burst = { value = 512, unit = "B", source = "s", status = "assumed" }
"#;

const BRIDGE: &str = r#"summary = "a bridge"
kind = { value = "bridge", unit = "name", source = "s", status = "datasheet" }
slot = { value = "x8", unit = "part", source = "s", status = "datasheet" }
delay = { value = 100, unit = "ns", source = "s", status = "assumed" }
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
    let Slot::PciExpress(slot) = part.slot else { panic!("{part:?}") };
    assert_eq!((slot.raw_bytes_per_second(), slot.link_layer_ppm, part.bridge), (2_000_000_000, 20_000, None));
    let sheet = catalog.sheet(PartKind::Bus, "x8").unwrap();
    assert_eq!((sheet.parameters[3].value.as_str(), sheet.parameters[3].unit.as_str()), ("128", "B"));
}

#[test]
fn a_value_needs_unit_source_and_status() {
    assert_eq!(
        error_of(&BUS.replacen("unit = \"B\", ", "", 1)),
        "bus/x8.toml:5:1: error: `max_payload` needs `unit`\n  help: write `unit = \"B\"`, `unit = \"KiB\"` or `unit = \"MiB\"`"
    );
    // The help names units of this parameter only.
    let delay = BRIDGE.replacen("unit = \"ns\", ", "", 1);
    let delay = Catalog::from_files(&[bridge("aaa", &delay), bus(PCI_X)]).map(|_| ()).unwrap_err().to_text();
    let help = "write `unit = \"ps\"`, `unit = \"ns\"`, `unit = \"us\"` or `unit = \"ms\"`";
    assert_eq!(delay, format!("bus/aaa.toml:4:1: error: `delay` needs `unit`\n  help: {help}"));
    let no_text = error_of(&BUS.replacen("unit = \"B\"", "unit = 5", 1));
    assert_eq!(no_text, "bus/x8.toml:5:37: error: `unit` must be a text in double quotes\n  help: write it as in `unit = \"B\"`");
    assert_eq!(
        error_of(&BUS.replacen("max_payload", "max_p", 1)),
        "bus/x8.toml:1:1: error: bus part `x8` has no `max_payload`\n  \
         help: write `max_payload = { value = ..., unit = \"B\", source = \"...\", status = \"...\" }`\n\
         bus/x8.toml:5:1: error: a bus part has no `max_p`\n  help: did you mean `max_payload`? The parameters are: \
         kind, generation, lanes, max_payload, write_header, completion, completion_header, link_layer_share"
    );
    let no_source = error_of(&BUS.replacen("source = \"s\", ", "", 1));
    assert!(no_source.starts_with("bus/x8.toml:2:1: error: `kind` needs `source`"), "{no_source}");
    let no_status = error_of(&BUS.replacen(", status = \"datasheet\"", "", 1));
    assert!(no_status.starts_with("bus/x8.toml:2:1: error: `kind` needs `status`"), "{no_status}");
    let empty = error_of(&BUS.replacen("source = \"s\"", "source = \" \"", 1));
    assert!(empty.starts_with("bus/x8.toml:2:57: error: `kind` has no source"), "{empty}");
    let plain = error_of(&BUS.replace("generation = { value = 1, unit = \"count\", source = \"s\", status = \"datasheet\" }", "generation = 1"));
    assert!(plain.starts_with("bus/x8.toml:3:14: error: `generation` must be a table with unit and source"), "{plain}");
}

#[test]
fn a_wrong_unit_says_which_are_right() {
    assert_eq!(
        error_of(&BUS.replacen("\"B\"", "\"MHz\"", 1)),
        "bus/x8.toml:5:37: error: `max_payload` cannot be in `MHz`\n  help: accepted here: B, KiB or MiB"
    );
    let clock = error_of(&PCI_X.replace("\"MHz\"", "\"ns\""));
    assert_eq!(clock, "bus/x8.toml:3:31: error: `clock` cannot be in `ns`\n  help: accepted here: MHz");
}

#[test]
fn unknown_parameters_and_statuses_are_named() {
    let extra = "max_paylod = { value = 128, unit = \"B\", source = \"s\", status = \"datasheet\" }\n";
    let error = error_of(&format!("{BUS}{extra}"));
    assert!(error.starts_with("bus/x8.toml:10:1: error: a bus part has no `max_paylod`\n  help: did you mean `max_payload`?"), "{error}");
    let error = error_of(&BUS.replacen("datasheet", "guessed", 1));
    assert!(error.contains("error: unknown status `guessed`\n  help: write datasheet, measured, derived, calibrated or assumed"), "{error}");
    let lanes = "lanes = { value = 8, unit = \"count\", source = \"s\", status = \"datasheet\" }\n";
    let error = error_of(&format!("{PCI_X}{lanes}"));
    assert!(error.starts_with("bus/x8.toml:8:1: error: a bus part has no `lanes`"), "{error}");
}

#[test]
fn a_calibrated_value_names_its_figures_and_no_other_does() {
    let error = error_of(&BUS.replace("assumed", "calibrated"));
    assert!(error.starts_with("bus/x8.toml:9:1: error: `link_layer_share` is calibrated, on which published figures?"), "{error}");
    let error = error_of(&BUS.replace("\"assumed\"", "\"assumed\", on = [\"A040\"]"));
    assert!(error.starts_with("bus/x8.toml:9:1: error: `link_layer_share` names figures but is not calibrated"), "{error}");
}

#[test]
fn values_that_the_model_cannot_use_are_refused() {
    let of = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        error_of(&text.replacen(from, to, 1))
    };
    assert_eq!(of(BUS, "value = 128", "value = -1"), "bus/x8.toml:5:25: error: `max_payload`: -1 B is negative");
    assert_eq!(
        of(BUS, "value = 128", "value = 100"),
        "bus/x8.toml:5:25: error: `max_payload`: 100 B is not a payload size of PCI Express\n  help: write 128, 256, 512, 1024, 2048 or 4096 B"
    );
    assert_eq!(
        of(BUS, "value = 64", "value = 0"),
        "bus/x8.toml:7:24: error: `completion`: 0 B is not a size of completions\n  help: write 64, 128, 256, 512, 1024, 2048 or 4096 B"
    );
    for share in ["50.1", "99.9", "100"] {
        let error = of(BUS, "value = 2,", &format!("value = {share},"));
        let wanted = "bus/x8.toml:9:30: error: `link_layer_share`: less than half of the bus is left\n  help: write 50 % or less;";
        assert!(error.starts_with(wanted), "{error}");
    }
    assert_eq!(
        of(BUS, "generation = { value = 1", "generation = { value = 7"),
        "bus/x8.toml:3:24: error: `generation`: there is no generation 7 of PCI Express\n  help: write 1 to 6"
    );
    assert_eq!(
        of(BUS, "value = 8", "value = 3"),
        "bus/x8.toml:4:19: error: `lanes`: PCI Express has no links of 3 lanes\n  help: write 1, 2, 4, 8, 12 or 16"
    );
    assert_eq!(of(PCI_X, "133", "125"), "bus/x8.toml:3:19: error: `clock`: PCI-X has no clock of 125 MHz\n  help: write 66, 100 or 133");
    assert_eq!(of(PCI_X, "value = 64", "value = 16"), "bus/x8.toml:4:19: error: `width`: PCI-X has two widths\n  help: write 32 or 64");
    for width in [39, 65, 71] {
        let width = of(PCI_X, "value = 64", &format!("value = {width}"));
        assert_eq!(width, "bus/x8.toml:4:19: error: `width`: PCI-X has two widths\n  help: write 32 or 64");
    }
    let clocks = of(PCI_X, "value = 4", "value = 0");
    assert!(clocks.starts_with("bus/x8.toml:5:28: error: `request_clocks`: 0 clocks are not possible"), "{clocks}");
    let burst = of(PCI_X, "value = 512", "value = 96");
    assert!(burst.starts_with("bus/x8.toml:7:25: error: `write_burst`: 96 B is not a burst of whole 128 B blocks"), "{burst}");
    for number in ["nan", "inf"] {
        let share = of(BUS, "value = 2,", &format!("value = {number},"));
        let shown = number.replace("nan", "NaN");
        assert_eq!(share, format!("bus/x8.toml:9:30: error: `link_layer_share`: `{shown}` is not a number\n  help: write a number with digits"));
    }
    assert_eq!(of(BUS, "value = 2,", "value = 1e300,"), "bus/x8.toml:9:30: error: `link_layer_share`: 1e300 % is too large");
    let kind = of(BUS, "pci-express", "pcie");
    assert!(kind.starts_with("bus/x8.toml:2:18: error: `kind`: unknown value `pcie`\n  help: did you mean"), "{kind}");
}

fn bridge(name: &str, text: &str) -> PartFile {
    PartFile { name: name.into(), file: format!("bus/{name}.toml"), ..bus(text) }
}

#[test]
fn a_bridge_offers_the_slot_of_a_part_that_is_none() {
    let catalog = Catalog::from_files(&[bridge("aaa", BRIDGE), bus(PCI_X)]).unwrap();
    let (behind, slot) = (catalog.bus("aaa").unwrap(), catalog.bus("x8").unwrap());
    assert_eq!((behind.slot, behind.bridge.unwrap().delay.as_nanos()), (slot.slot, 100));
    let error = |text: &str| Catalog::from_files(&[bridge("aaa", text), bus(PCI_X)]).map(|_| ()).unwrap_err().to_text();
    assert_eq!(
        error(&BRIDGE.replace("\"x8\"", "\"x9\"")),
        "bus/aaa.toml:3:18: error: `slot`: no usable bus part `x9` that is no bridge\n  help: did you mean `x8`? The bus parts are: x8"
    );
    let chain = Catalog::from_files(&[bridge("aaa", BRIDGE), bridge("bbb", &BRIDGE.replace("\"x8\"", "\"aaa\"")), bus(PCI_X)]).unwrap_err().to_text();
    assert!(chain.starts_with("bus/bbb.toml:3:18: error: `slot`: no usable bus part `aaa` that is no bridge"), "{chain}");
}

#[test]
fn a_list_of_lanes_is_a_part_each_and_shared_faults_are_reported_once() {
    let family = BUS.replace("value = 8", "value = [1, 4, 16]");
    let catalog = Catalog::from_files(&[bus(&family)]).unwrap();
    assert_eq!(catalog.parts(PartKind::Bus), ["x8-x1", "x8-x16", "x8-x4"]);
    let Slot::PciExpress(slot) = catalog.bus("x8-x16").unwrap().slot else { panic!() };
    assert_eq!((slot.lanes, slot.raw_bytes_per_second()), (16, 4_000_000_000));
    let error = error_of(&family.replace("value = 128", "value = 1"));
    assert!(error.starts_with("bus/x8.toml:5:25: error: `max_payload`: 1 B is not") && error.lines().count() == 2, "{error}");
    let lanes = error_of(&family.replace("16]", "32]"));
    assert!(lanes.starts_with("bus/x8.toml:4:26: error: `lanes`: PCI Express has no links of 32 lanes"), "{lanes}");
    assert_eq!(
        error_of(&family.replace("16]", "4]")),
        "bus/x8.toml:4:19: error: `lanes`: a number stands in the list twice\n  help: write each value once"
    );
    let empty = error_of(&family.replace("[1, 4, 16]", "[]"));
    assert!(empty.starts_with("bus/x8.toml:4:19: error: `lanes` must be a number"), "{empty}");
}

#[test]
fn a_part_may_be_like_another_and_its_faults_are_reported_once() {
    let like = PartFile {
        name: "x4".into(),
        file: "bus/x4.toml".into(),
        ..bus("summary = \"half\"\nlike = \"x8\"\nlanes = { value = 4, unit = \"count\", source = \"s\", status = \"datasheet\" }\n")
    };
    let catalog = Catalog::from_files(&[bus(BUS), like.clone()]).unwrap();
    let Slot::PciExpress(slot) = catalog.bus("x4").unwrap().slot else { panic!() };
    assert_eq!((slot.raw_bytes_per_second(), slot.max_payload_bytes), (1_000_000_000, 128));
    let error = Catalog::from_files(&[bus(&BUS.replace("\"%\"", "\"m\"")), like]).map(|_| ()).unwrap_err();
    assert_eq!(error.faults().len(), 1, "{}", error.to_text());
    let lost = error_of("summary = \"half\"\nlike = \"x9\"\n");
    assert!(lost.starts_with("bus/x8.toml:2:8: error: no bus part `x9`\n  help: there are no bus parts"), "{lost}");
}

#[test]
fn a_part_is_like_another_by_way_of_a_third_but_not_like_itself() {
    let like = |name: &str, base: &str| PartFile {
        name: name.into(),
        file: format!("bus/{name}.toml"),
        ..bus(&format!("summary = \"s\"\nlike = \"{base}\"\n"))
    };
    let catalog = Catalog::from_files(&[bus(BUS), like("b", "x8"), like("a", "b")]).unwrap();
    assert_eq!(catalog.bus("a").unwrap().slot, catalog.bus("x8").unwrap().slot);
    let error = Catalog::from_files(&[like("a", "b"), like("b", "a")]).map(|_| ()).expect_err("a cycle").to_text();
    assert!(error.starts_with("bus/a.toml:2:8: error: what `a` is like goes round in a cycle: a, b, a\n  help: name a part"), "{error}");
}

fn fibre(lines: &str) -> PartFile {
    let text = format!(
        "summary = \"fibre\"\n\
         medium = {{ value = \"optical\", unit = \"name\", source = \"s\", status = \"assumed\" }}\n\
         propagation = {{ value = 5, unit = \"ns/m\", source = \"s\", status = \"assumed\" }}\n\
         converter_delay = {{ value = 5, unit = \"ns\", source = \"s\", status = \"assumed\" }}\n\
         width_max = {{ value = \"4X\", unit = \"link width\", source = \"s\", status = \"assumed\" }}\n{lines}"
    );
    PartFile { kind: PartKind::Cable, name: "fibre".into(), file: "cable/fibre.toml".into(), text }
}

fn rated(speed: &str) -> String {
    format!("speed_max = {{ value = \"{speed}\", unit = \"link speed\", source = \"s\", status = \"assumed\" }}\n")
}

fn correction(speed: &str) -> String {
    format!("fec_latency_{speed} = {{ value = 34, unit = \"ns\", source = \"s\", status = \"assumed\" }}\n")
}

#[test]
fn a_cable_says_what_forward_error_correction_costs_at_the_speeds_that_need_it() {
    let error = |lines: &str| Catalog::from_files(&[fibre(lines)]).map(|_| ()).expect_err("the part is wrong").to_text();
    assert!(Catalog::from_files(&[fibre(&rated("EDR"))]).is_ok(), "up to EDR links work without");
    assert!(Catalog::from_files(&[fibre(&(rated("HDR") + &correction("edr") + &correction("hdr")))]).is_ok());
    let missing = error(&rated("HDR"));
    assert!(
        missing.starts_with("cable/fibre.toml:1:1: error: cable part `fibre` has no `fec_latency_hdr`\n  help: write `fec_latency_hdr = {"),
        "{missing}"
    );
    let needless = error(&(rated("EDR") + &correction("hdr")));
    assert_eq!(
        needless,
        "cable/fibre.toml:7:29: error: `fec_latency_hdr`: the cable does not run at HDR\n  help: raise `speed_max` or remove `fec_latency_hdr`"
    );
    let unknown = error(&rated("HHDR"));
    assert!(unknown.contains("`speed_max`: unknown value `HHDR`\n  help: did you mean `HDR`?"), "{unknown}");
}

#[test]
fn a_list_has_each_value_once() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/switch/infiniscale-iv.toml");
    let text = std::fs::read_to_string(folder).unwrap();
    let speeds = text.lines().find(|line| line.starts_with("speeds")).unwrap();
    let file = |line: &str| PartFile { kind: PartKind::Switch, name: "sw".into(), file: "switch/sw.toml".into(), text: text.replace(speeds, line) };
    let twice = speeds.replacen('[', "[\"SDR\", ", 1);
    let error = Catalog::from_files(&[file(&twice)]).map(|_| ()).expect_err("SDR is there twice").to_text();
    assert!(error.contains("`speeds`: `SDR` stands in the list twice\n  help: write each value once"), "{error}");
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
