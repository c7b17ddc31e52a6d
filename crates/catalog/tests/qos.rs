//! Arbitration tables and SL-to-VL maps in fabric files, and every mistake in them.

use crate::common;

use crate::common::{HOSTS_AND_SWITCH, error_of, parse};
use softband_model::link::Sl2Vl;
use softband_types::{ServiceLevel, VirtualLane};

/// Returns a fabric with the settings in `[subnet]`, from line 2 on, before two hosts on a switch
/// of eight lanes.
fn fabric(settings: &str) -> String {
    let cables: String = ["a", "b"]
        .iter()
        .enumerate()
        .map(|(index, host)| format!("[[cables]]\npart = \"cx4\"\nfrom = \"{host}/mthca0/1\"\nto = \"sw/{}\"\n", index + 1))
        .collect();
    format!("[subnet]\n{settings}\n{HOSTS_AND_SWITCH}{cables}")
}

fn warnings(settings: &str) -> Vec<String> {
    parse(&fabric(settings)).unwrap().warnings.iter().map(|warning| warning.to_text()).collect()
}

#[test]
fn a_file_without_tables_has_none_and_resolves_as_before() {
    for settings in ["", "qos = false", "qos = false\nqos_vlarb_low = \"0:1\""] {
        let loaded = parse(&fabric(settings)).unwrap();
        assert_eq!(loaded.spec.subnet.qos, None);
        assert!(!loaded.resolved_toml().contains("qos"));
    }
}

#[test]
fn tables_have_opensms_defaults_and_kinds_of_ports_their_own() {
    let qos = parse(&fabric("qos = true")).unwrap().spec.subnet.qos.unwrap();
    assert_eq!(qos.hca, qos.switch);
    let weights = |table: &[softband_model::link::WeightedLane]| table.iter().map(|line| line.weight).collect::<Vec<_>>();
    assert_eq!(weights(&qos.hca.tables.high)[..3], [4, 0, 0]);
    assert_eq!(weights(&qos.hca.tables.low)[..3], [0, 4, 4]);
    assert_eq!((qos.hca.tables.low.len(), qos.hca.tables.high_limit, qos.hca.sl2vl), (15, 0, Sl2Vl::OPENSM));
    let settings = "qos = true\nqos_high_limit = 255\nqos_vlarb_low = \"0:64, 1:192\"\nqos_swe_high_limit = 7\n\
                    qos_ca_vlarb_high = \"\"\nqos_swe_sl2vl = \"1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0\"";
    let qos = parse(&fabric(settings)).unwrap().spec.subnet.qos.unwrap();
    assert_eq!((qos.hca.tables.high_limit, qos.switch.tables.high_limit), (255, 7));
    assert_eq!([&qos.hca, &qos.switch].map(|classes| weights(&classes.tables.low)), [[64, 192], [64, 192]]);
    assert_eq!((qos.hca.tables.high.len(), qos.switch.tables.high.len()), (0, 15));
    let eight = softband_types::OperationalVls::from_code(4).unwrap();
    assert_eq!(qos.switch.sl2vl.lane(ServiceLevel(4), eight), VirtualLane(1));
    assert_eq!(qos.hca.sl2vl.lane(ServiceLevel(4), eight), VirtualLane(4));
}

#[test]
fn tables_resolve_to_themselves() {
    for settings in ["qos = true", "qos = true\nqos_ca_vlarb_high = \"\"\nqos_vlarb_low = \"3:9,0:255\"\nqos_swe_high_limit = 9"] {
        let loaded = parse(&fabric(settings)).unwrap();
        let resolved = loaded.resolved_toml();
        let subnet = &resolved[resolved.find("[subnet]").unwrap()..resolved.find("\n[hosts").unwrap()];
        assert_eq!(parse(&format!("{subnet}{HOSTS_AND_SWITCH}")).unwrap().spec.subnet, loaded.spec.subnet, "{subnet}");
    }
}

#[test]
fn mistakes_are_named_by_line_with_what_is_possible() {
    let error = |settings: &str| error_of(&fabric(&format!("qos = true\n{settings}")));
    let line = "lane:weight with commas between, lanes 0 to 14, weights 0 to 255 in units of 64 bytes: \"0:64,1:192\"";
    for wrong in ["15:1", "0:256", "3", "a:b", "0:-1", "0:1:2"] {
        assert_eq!(
            error(&format!("qos_vlarb_low = \"0:4,{wrong}\"")),
            format!("test.toml:3:17: error: `qos_vlarb_low` has no line `{wrong}`\n  help: write {line}")
        );
    }
    let long = vec!["0:1"; 65].join(",");
    assert_eq!(
        error(&format!("qos_ca_vlarb_high = \"{long}\"")),
        "test.toml:3:21: error: `qos_ca_vlarb_high` has 65 lines\n  help: a port's table has 64 lines"
    );
    assert_eq!(
        error("qos_high_limit = 256"),
        "test.toml:3:18: error: `qos_high_limit` cannot be 256\n  help: write 0 (one packet) to 254 (in steps of 4 KiB), or 255 for no limit"
    );
    let map = "write a lane from 0 to 14 for each service level: \"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7\"";
    for wrong in ["0,1", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,16", "a"] {
        assert_eq!(
            error(&format!("qos_swe_sl2vl = \"{wrong}\"")),
            format!("test.toml:3:17: error: `qos_swe_sl2vl` is not a list of sixteen lanes\n  help: {map}")
        );
    }
    assert_eq!(
        error("qos_sl2vl = \"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\""),
        format!("test.toml:3:13: error: `qos_sl2vl` drops packets by VL15, which is not simulated\n  help: {map}")
    );
    assert_eq!(error_of(&fabric("qos = 1")), "test.toml:2:7: error: `qos` must be true or false");
    assert!(error("qos_vlarb_low = 3").contains("test.toml:3:17: error: `qos_vlarb_low` must be a text in double quotes"));
    assert!(error("qos_vlarb_lo = \"\"").contains("did you mean `qos_vlarb_low`?"));
}

#[test]
fn settings_that_nobody_switched_on_are_an_error() {
    assert_eq!(
        error_of(&fabric("qos_swe_sl2vl = \"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7\"")),
        "test.toml:2:1: error: `qos_swe_sl2vl` has no effect without `qos`\n  help: write `qos = true` beside it, or `qos = false` to keep it for later"
    );
}

#[test]
fn routing_that_chooses_lanes_takes_tables_and_no_map() {
    let text = std::fs::read_to_string(common::root().join("fabrics/torus-4x4.toml")).unwrap();
    let torus = |settings: &str| format!("[subnet]\nqos = true\n{settings}\n{text}");
    let map = torus("qos_sl2vl = \"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7\"");
    let error = error_of(&map);
    assert_eq!(
        error,
        "test.toml:3:1: error: `qos_sl2vl` cannot be kept: routing `torus` chooses lanes by path\n  \
         help: leave `qos_sl2vl` out, or write `routing = \"up-down\"`"
    );
    let loaded = parse(&torus("qos_vlarb_low = \"0:4\"")).unwrap();
    let qos = loaded.spec.subnet.qos.as_ref().unwrap();
    assert_eq!([qos.hca.sl2vl, qos.switch.sl2vl], [Sl2Vl::IDENTITY; 2]);
    assert!(loaded.warnings.iter().any(|warning| warning.to_text().contains("never send on VL 1 to")));
    assert!(parse(&torus("")).unwrap().warnings.iter().all(|warning| !warning.to_text().contains("never send")));
}

#[test]
fn ethernet_has_no_arbitration_tables() {
    let text = std::fs::read_to_string(common::root().join("fabrics/roce-100g.toml")).unwrap();
    let error = error_of(&format!("{text}\n[subnet]\nqos = true\n"));
    assert!(error.contains("error: `qos` is InfiniBand's, and this fabric has Ethernet ports"), "{error}");
}

#[test]
fn a_lane_that_no_table_lists_is_a_warning() {
    assert_eq!(warnings("qos = true"), Vec::<String>::new());
    assert_eq!(
        warnings("qos = true\nqos_vlarb_low = \"0:64,1:192,2:0\"\nqos_swe_vlarb_low = \"1:1,2:1,3:1,4:1,5:1,6:1\""),
        [
            "test.toml:3:1: warning: ports of HCAs never send packets of service level 2 to 7, 10 to 15: no arbitration table gives VL 2 to 7 a \
             weight\n  help: list these lanes in `qos_vlarb_low`, or map the levels to listed lanes by `qos_sl2vl`",
            "test.toml:4:1: warning: ports of switches never send packets of service level 7, 15: no arbitration table gives VL 7 a weight\n  \
             help: list these lanes in `qos_vlarb_low`, or map the levels to listed lanes by `qos_sl2vl`"
        ]
    );
    // A single lane needs no table, and a map may give every level a listed lane.
    assert_eq!(warnings("max_op_vls = 1\nqos = true\nqos_vlarb_high = \"\"\nqos_vlarb_low = \"\""), Vec::<String>::new());
    assert_eq!(warnings("qos = true\nqos_vlarb_low = \"0:64,1:192\"\nqos_sl2vl = \"0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1\""), Vec::<String>::new());
    // The link has only two lanes.
    assert_eq!(warnings("max_op_vls = 2\nqos = true\nqos_vlarb_low = \"0:64,1:192\""), Vec::<String>::new());
}

#[test]
fn credit_loops_are_on_the_lanes_of_the_map() {
    let text = std::fs::read_to_string(common::root().join("fabrics/ring-of-five.toml")).unwrap();
    let loops = |settings: &str| {
        let spec = parse(&text.replace("[subnet]\n", &format!("[subnet]\n{settings}"))).unwrap().spec;
        softband_spec::credit_loops(&spec).iter().map(|found| found.describe(&spec)).collect::<Vec<_>>()
    };
    let (without, with) = (loops(""), loops("qos = true\nqos_sl2vl = \"0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,5\"\n"));
    assert!(without.len() == 2 && without[0].ends_with("(VL0-7)"), "{without:?}");
    assert!(with.len() == 2 && with[0].ends_with("(VL0-1, VL5)"), "{with:?}");
}
