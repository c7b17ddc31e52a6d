//! Parts of the user beside those of the installation.

use std::fs;
use std::path::PathBuf;

use crate::common::{HOSTS_AND_SWITCH, root};
use softband_catalog::{Catalog, CatalogError, LoadOptions, PartFile, PartKind, Status, digest_of_parts, parse_fabric};
use softband_model::parts::Slot;

fn file(kind: PartKind, name: &str, place: &str, text: &str) -> PartFile {
    PartFile { kind, name: name.into(), file: format!("{place}/{kind}/{name}.toml"), text: text.into() }
}

/// Returns the installation's parts of these kinds.
fn installed(kinds: &[PartKind]) -> Vec<PartFile> {
    let of_kind = |kind: &PartKind| {
        let kind = *kind;
        let paths = fs::read_dir(root().join("catalog").join(kind.folder())).unwrap().map(|entry| entry.unwrap().path());
        paths.map(move |path| file(kind, path.file_stem().unwrap().to_str().unwrap(), "installed", &fs::read_to_string(&path).unwrap()))
    };
    kinds.iter().flat_map(of_kind).collect()
}

fn error_of(layers: &[&[PartFile]]) -> String {
    Catalog::from_layers(layers).map(|_| ()).unwrap_err().to_text()
}

fn count(name: &str, value: u32) -> String {
    format!("{name} = {{ value = {value}, unit = \"count\", source = \"ours\", status = \"assumed\" }}\n")
}

/// Creates a folder of parts from relative paths and texts.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn load_with(own: &PathBuf) -> Result<Catalog, CatalogError> {
    Catalog::load_with(&root().join("catalog"), std::slice::from_ref(own))
}

#[test]
fn an_own_part_stands_beside_those_of_the_installation_and_may_be_like_them() {
    let text = format!("summary = \"ours\"\nlike = \"connectx5\"\n{}", count("processing_engines", 3));
    let own = folder("beside", &[("hca/mine.toml", &text)]);
    let catalog = load_with(&own).unwrap();
    let (mine, base) = (catalog.hca("mine").unwrap(), catalog.hca("connectx5").unwrap());
    assert_eq!((mine.processing_engines, mine.vendor_part_id), (3, base.vendor_part_id));
    assert!(base.processing_engines > 3 && catalog.warnings().is_empty());
    let fabric = HOSTS_AND_SWITCH.replace("part = \"voltaire-ddr\"", "part = \"mine\"\nslot = \"pcie-gen3-x16\"");
    assert!(parse_fabric("f.toml", &fabric, &catalog, &LoadOptions::default()).is_ok());
}

#[test]
fn an_own_part_takes_the_place_of_its_name_and_that_is_said() {
    let base = installed(&[PartKind::Hca]);
    let text = format!("summary = \"ours\"\nlike = \"connectx4\"\n{}", count("max_qp", 5));
    let own = [file(PartKind::Hca, "connectx4", "own", &text), file(PartKind::Hca, "mine", "own", "summary = \"s\"\nlike = \"connectx4\"\n")];
    let catalog = Catalog::from_layers(&[&base, &own]).unwrap();
    let max_qp = |name: &str| catalog.hca(name).unwrap().max_qp;
    assert_eq!((max_qp("connectx4"), max_qp("mine")), (5, 5));
    // Files of the installation stay as they were: connectx5 is like the installation's connectx4.
    assert!(max_qp("connectx5") > 5);
    let warnings: Vec<String> = catalog.warnings().iter().map(|warning| warning.to_text()).collect();
    assert_eq!(
        warnings,
        ["own/hca/connectx4.toml: warning: hca part `connectx4` takes the place of the one in installed/hca/connectx4.toml\n  \
          help: give the file a name of its own to have both"]
    );
    let copy: Vec<PartFile> = base.iter().map(|part| file(part.kind, &part.name, "own", &part.text)).collect();
    assert!(Catalog::from_layers(&[&base, &copy]).unwrap().warnings().is_empty(), "the same text changes nothing");
}

#[test]
fn an_own_slot_takes_the_place_of_a_generated_one_for_hosts_of_the_installation_too() {
    let base = installed(&[PartKind::Bus, PartKind::Host]);
    let payload = "max_payload = { value = 1024, unit = \"B\", source = \"ours\", status = \"assumed\" }\n";
    let own = [file(PartKind::Bus, "pcie-gen3-x8", "own", &format!("summary = \"s\"\nlike = \"pcie-gen3-x8\"\n{payload}"))];
    let catalog = Catalog::from_layers(&[&base, &own]).unwrap();
    let payload = |name: &str| match catalog.bus(name).unwrap().slot {
        Slot::PciExpress(slot) => (slot.lanes, slot.max_payload_bytes),
        Slot::PciX(_) => panic!("{name}"),
    };
    assert_eq!((payload("pcie-gen3-x8"), payload("pcie-gen3-x16")), ((8, 1024), (16, 256)));
    let on_it = |host: &&str| catalog.host(host).unwrap().bus.name == "pcie-gen3-x8";
    let host = catalog.parts(PartKind::Host).into_iter().find(on_it).unwrap();
    assert_eq!(catalog.host(host).unwrap().bus, *catalog.bus("pcie-gen3-x8").unwrap());
    let warning = catalog.warnings()[0].to_text();
    assert!(
        warning.starts_with("own/bus/pcie-gen3-x8.toml: warning: bus part `pcie-gen3-x8` takes the place of the one in installed/bus/pcie-gen3.toml")
    );
}

#[test]
fn a_bus_is_like_one_of_a_family_by_the_name_that_it_is_listed_by() {
    let base = installed(&[PartKind::Bus]);
    let part = |text: &str| vec![file(PartKind::Bus, "mine", "own", text)];
    let catalog = Catalog::from_layers(&[&base, &part("summary = \"s\"\nlike = \"pcie-gen4-x8\"\n")]).unwrap();
    assert_eq!(catalog.bus("mine").unwrap().slot, catalog.bus("pcie-gen4-x8").unwrap().slot);
    let wrong = error_of(&[&base, &part("summary = \"s\"\nlike = \"pcie-gen4-x9\"\n")]);
    assert!(wrong.starts_with("own/bus/mine.toml:2:8: error: no bus part `pcie-gen4-x9`\n  help: did you mean `pcie-gen4-x"), "{wrong}");
    assert_eq!(wrong.lines().count(), 2, "{wrong}");
}

#[test]
fn what_is_wrong_with_a_base_is_said_once() {
    let part = |name: &str, text: &str| file(PartKind::Hca, name, "own", text);
    let lost = [part("a", "summary = \"s\"\nlike = \"connectx55\"\n"), part("b", "summary = \"s\"\nlike = \"a\"\n")];
    let error = error_of(&[&installed(&[PartKind::Hca]), &lost]);
    assert!(error.starts_with("own/hca/a.toml:2:8: error: no hca part `connectx55`\n  help: did you mean `connectx5`?"), "{error}");
    assert_eq!(error.lines().count(), 2, "{error}");
    let unreadable = [part("a", "summary = \"s\n"), part("b", "summary = \"s\"\nlike = \"a\"\n")];
    let error = error_of(&[&unreadable]);
    assert!(error.starts_with("own/hca/a.toml:1:") && error.lines().count() == 2, "{error}");
    let number = [part("a", "summary = \"s\"\nlike = 5\n")];
    let error = error_of(&[&number]);
    assert!(error.starts_with("own/hca/a.toml:2:8: error: `like` must be a text") && error.matches("error").count() == 1, "{error}");
}

#[test]
fn mistakes_of_own_parts_point_into_their_files() {
    let own = folder("wrong", &[("hca/mine.toml", &format!("summary = \"s\"\nlike = \"connectx5\"\n{}", count("ports", 0)))]);
    let error = load_with(&own).map(|_| ()).unwrap_err().to_text();
    let place = own.join("hca/mine.toml");
    assert!(error.starts_with(&format!("{}:3:19: error: `ports`: 0 ports are not possible", place.display())), "{error}");
    let missing = load_with(&own.join("no-such")).map(|_| ()).unwrap_err().to_text();
    assert!(missing.contains("no-such: No such file"), "{missing}");
}

#[test]
fn part_files_that_lie_where_none_are_read_are_named() {
    let own = folder("strays", &[("hcas/mine.toml", ""), ("other.toml", ""), ("README.md", ""), ("notes/a.md", "")]);
    let warnings: Vec<String> = load_with(&own).unwrap().warnings().iter().map(|warning| warning.to_text()).collect();
    let starts = [own.join("other.toml"), own.join("hcas/mine.toml")].map(|path| format!("{}: warning: not read", path.display()));
    assert!(warnings.len() == 2 && warnings.iter().zip(&starts).all(|(warning, start)| warning.starts_with(start)), "{warnings:?}");
}

#[test]
fn the_digest_of_own_parts_changes_with_what_they_say() {
    let digest = |files: &[(&str, &str)]| digest_of_parts(&[folder("digest", files)]);
    let one = digest(&[("hca/mine.toml", "summary = \"s\"\n")]);
    assert!(one.is_some() && one == digest(&[("hca/mine.toml", "summary = \"s\"\n"), ("README.md", "words")]));
    assert_ne!(one, digest(&[("hca/mine.toml", "summary = \"t\"\n")]));
    assert_ne!(one, digest(&[("hca/yours.toml", "summary = \"s\"\n")]));
    assert_eq!(digest(&[]), None);
}

#[test]
fn a_list_of_what_a_part_can_have_has_each_name_once() {
    let own = [file(PartKind::Hca, "mine", "own", &format!("summary = \"s\"\nlike = \"connectx5\"\n{}", count("engines", 2)))];
    let error = error_of(&[&installed(&[PartKind::Hca]), &own]);
    assert!(error.starts_with("own/hca/mine.toml:3:1: error: a hca part has no `engines`\n  help: "), "{error}");
    // Long lists are cut.
    for name in ["tuned_read_request", "processing_engines"] {
        assert_eq!(error.matches(&format!(" {name},")).count(), 1, "{error}");
    }
}

#[test]
fn a_host_part_without_costs_of_the_kernel_gets_assumed_ones_and_may_state_some() {
    let installed = fs::read_to_string(root().join("catalog/host/qdr-host.toml")).unwrap();
    let is_of_path = |line: &str| ["socket_", "packet_", "moderation_"].iter().any(|start| line.starts_with(start));
    let earlier: String = installed.lines().filter(|line| !is_of_path(line)).map(|line| format!("{line}\n")).collect();
    let text = earlier + "packet_send = { value = 7, unit = \"ns\", source = \"ours\", status = \"assumed\" }\n";
    let own = folder("earlier-host", &[("host/mine.toml", &text)]);
    let catalog = load_with(&own).unwrap();
    let path = catalog.host("mine").unwrap().kernel_path;
    assert_eq!((path.send_packet.as_picos(), path.receive_packet.as_picos()), (7_000, 1_500_000));
    let sheet = catalog.sheet(PartKind::Host, "mine").unwrap();
    let row = sheet.parameters.iter().find(|parameter| parameter.name == "packet_receive").unwrap();
    assert_eq!(row.status, Status::Assumed);
    let wrong = text.replace("value = 7, unit = \"ns\"", "value = 7, unit = \"B\"");
    let error = load_with(&folder("earlier-host-wrong", &[("host/mine.toml", &wrong)])).map(|_| ()).unwrap_err().to_text();
    assert!(error.contains("`packet_send` cannot be in `B`"), "{error}");
}
