//! Faults in a fabric file: their values, and the message for each mistake.

use crate::common::{HOSTS_AND_SWITCH, error_of, parse};
use softband_sim::{SimDuration, SimTime};
use softband_spec::PortRef;
use softband_spec::faults::{BitErrorRate, FaultKind, FaultSpec, PacketClass};
use softband_types::PortNumber;

const CABLES: &str = "[[cables]]\npart = \"cx4\"\n# 8 m\nfrom = \"a/mthca0/1\"\nto = \"sw/1\"\n\
     [[cables]]\npart = \"cx4\"\n# 8 m\nfrom = \"b/mthca0/1\"\nto = \"sw/2\"\n";

/// Returns a fabric of two hosts, whose first fault begins in line 23.
fn with(faults: &str) -> String {
    format!("{HOSTS_AND_SWITCH}{CABLES}{faults}")
}

fn error(fault: &str) -> String {
    error_of(&with(&format!("[[faults]]\n{fault}\n")))
}

const ALL: &str = r#"
[[faults]]
at = "1 ms"
kind = "link_down"
link = "a/mthca0/1"
[[faults]]
at = "1.5 s"
kind = "link_up"
link = "sw/1"
[[faults]]
at = "2 s"
kind = "link_recovers"
link = "sw/2"
lasts = "10 us"
[[faults]]
kind = "bit_errors"
link = "b/mthca0/1"
rate = 1e-12
[[faults]]
kind = "drop"
port = "sw/2"
packet = "ack"
number = 3
[[faults]]
at = "5 us"
kind = "drop"
port = "a/mthca0/1"
number = 1
[[faults]]
at = "3 s"
kind = "host_dies"
host = "b"
[[faults]]
at = "4 s"
kind = "switch_dies"
switch = "sw"
"#;

#[test]
fn every_kind_of_fault_is_read_and_written_out_again() {
    let loaded = parse(&with(ALL)).unwrap();
    let at = |micros: u64, kind| FaultSpec { at: SimTime::ZERO + SimDuration::from_micros(micros), kind };
    let expected = [
        at(1_000, FaultKind::LinkDown { cable: 0 }),
        at(1_500_000, FaultKind::LinkUp { cable: 0 }),
        at(2_000_000, FaultKind::LinkRecovers { cable: 1, lasts: SimDuration::from_micros(10) }),
        at(0, FaultKind::BitErrors { cable: 1, rate: BitErrorRate::new(1e-12).unwrap() }),
        at(0, FaultKind::Drop { port: PortRef::Switch { switch: 0, port: PortNumber(2) }, packet: PacketClass::Ack, number: 3 }),
        at(5, FaultKind::Drop { port: PortRef::Hca { host: 0, hca: 0, port: PortNumber(1) }, packet: PacketClass::Any, number: 1 }),
        at(3_000_000, FaultKind::HostDies { host: 1 }),
        at(4_000_000, FaultKind::SwitchDies { switch: 0 }),
    ];
    assert_eq!(loaded.spec.faults, expected);
    let written = loaded.resolved_toml();
    let faults = &written[written.find("[[faults]]").unwrap()..written.find("[parts.").unwrap()];
    assert_eq!(parse(&with(faults)).unwrap().spec.faults, expected);
}

#[test]
fn a_misspelt_kind_key_or_name_comes_with_the_right_one() {
    assert_eq!(
        error("at = \"1 ms\"\nkind = \"link_dwn\"\nlink = \"sw/1\""),
        "test.toml:25:8: error: no fault `link_dwn`\n  help: did you mean `link_down`? The kinds of faults are: \
         link_down, link_up, link_recovers, bit_errors, drop, host_dies, switch_dies"
    );
    assert_eq!(
        error("at = \"1 ms\"\nkind = \"link_up\"\nlnk = \"sw/1\""),
        "test.toml:23:1: error: fault 1 needs `link`\n  help: write `link = \"host/device/port\" or \"switch/port\"`\n\
         test.toml:26:1: error: fault 1 has no key `lnk`\n  help: did you mean `link`? The keys here are: kind, at, link"
    );
    assert_eq!(error("at = \"1 ms\"\nkind = \"host_dies\"\nhost = \"c\""), "test.toml:26:8: error: `host`: no host `c`\n  help: the hosts are: a, b");
    assert_eq!(
        error("at = \"1 ms\"\nkind = \"link_down\"\nlink = \"a/mthca0/2\""),
        "test.toml:26:8: error: `link`: no cable ends on `a/mthca0/2`\n  help: did you mean `a/mthca0/1`? The ports with a cable are: \
         a/mthca0/1, b/mthca0/1"
    );
    assert_eq!(
        error("kind = \"drop\"\nport = \"sw/1\"\npacket = \"acks\"\nnumber = 1"),
        "test.toml:26:10: error: `packet`: no kind of packet `acks`\n  help: did you mean `ack`? The kinds of packets are: \
         any, send, write, read_request, read_response, atomic, atomic_ack, datagram, ack, nak, cn"
    );
    assert!(error("at = \"1 ms\"\nkind = \"link_down\"\nlink = \"sw/1\"\nrate = 0.1").contains("fault 1 has no key `rate`"));
}

#[test]
fn times_rates_and_numbers_must_be_possible() {
    assert_eq!(
        error("at = \"1\"\nkind = \"switch_dies\"\nswitch = \"sw\""),
        "test.toml:24:6: error: `at` has no unit: `1`\n  help: write a number and a unit: \"1 ms\"; accepted units: ps, ns, us, ms or s"
    );
    assert!(error("kind = \"switch_dies\"\nswitch = \"sw\"").contains("fault 1 needs `at`"));
    assert_eq!(
        error("kind = \"bit_errors\"\nlink = \"sw/1\"\nrate = 1"),
        "test.toml:26:8: error: `rate` cannot be 1\n  help: it is the probability that a bit is wrong: 0 or more, and less than 1"
    );
    assert!(error("kind = \"bit_errors\"\nlink = \"sw/1\"\nrate = \"1e-12\"").contains("`rate` must be a number, such as 1e-12"));
    assert!(error("kind = \"bit_errors\"\nlink = \"sw/1\"\nrate = nan").contains("`rate` cannot be NaN"));
    assert!(error("kind = \"drop\"\nport = \"sw/1\"\nnumber = 0").contains("the first packet that leaves has number 1"));
    assert!(error_of(&with("[faults]\nkind = \"drop\"\n")).contains("`faults` must be a list of tables: write `[[faults]]`"));
}

#[test]
fn a_plan_of_its_own_adds_to_the_faults_of_the_file() {
    let mut loaded = parse(&with(ALL)).expect("a fabric");
    let before = loaded.spec.faults.clone();
    loaded.add_faults("plan.toml", "[[faults]]\nat = \"3 ms\"\nkind = \"link_down\"\nlink = \"sw/2\"\n").expect("a plan");
    assert_eq!(loaded.spec.faults.len(), before.len() + 1);
    assert_eq!(loaded.spec.faults[..before.len()], before);
    assert_eq!(loaded.spec.faults[before.len()].at, SimTime::from_picos(3_000_000_000));
}

#[test]
fn mistakes_of_a_plan_name_its_lines_and_leave_the_fabric() {
    let mut loaded = parse(&with("")).expect("a fabric");
    let mut error = |plan: &str| loaded.add_faults("plan.toml", plan).expect_err("a mistake").to_text();
    assert!(error("[[faults]]\nkind = \"drip\"\n").starts_with("plan.toml:2:8: error: no fault `drip`"));
    assert!(error("[fabric]\nseed = 1\n[[faults]]\nkind = \"bit_errors\"\nlink = \"sw/2\"\nrate = 1e-9\n").contains("no key `fabric`"));
    assert!(error("").contains("the fault plan has no fault"));
    assert!(error("[[faults]\n").starts_with("plan.toml:1"));
    assert!(loaded.spec.faults.is_empty());
}
