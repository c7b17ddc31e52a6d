//! Long answers of the built-in manager's subnet administration.

use crate::desk::*;
use crate::equality::generated;
use softband_types::*;
use softband_wire::mad::*;
use std::collections::BTreeSet;

#[test]
fn all_paths_of_a_large_subnet_come_in_segments() {
    let spec = generated("[generate]\nkind = \"fat-tree\"\nhosts = 260\nports = 36\nlevels = 2\n");
    let mut desk = Desk::new(&spec);
    let records: Vec<PathRecord> = desk.table(AttributeId::PATH_RECORD, ComponentMask(0), &PathRecord::default(), Method::GET_TABLE);
    let pairs: BTreeSet<(Lid, Lid)> = records.iter().map(|record| (record.slid, record.dlid)).collect();
    let ends = 260 + spec.switches.len();
    assert_eq!((records.len(), pairs.len()), (ends * ends, ends * ends));
    assert!(records.len() > 1 << 16);
    assert!(records.iter().all(|record| record.numb_path == 1 && record.mtu == MtuCode::B4096));
    let last = Lid(ends as u16);
    assert_eq!((pairs.first(), pairs.last()), (Some(&(Lid(1), Lid(1))), Some(&(last, last))));
}

#[test]
fn routes_of_packets_have_no_records() {
    let mut desk = Desk::of_three();
    for method in [Method::GET_TRACE_TABLE, Method::GET, Method::GET_TABLE] {
        let (status, _) = desk.administer(method, AttributeId::TRACE_RECORD, ComponentMask(0), &PathRecord::default());
        assert_eq!(status, Status::METHOD_ATTRIBUTE_NOT_SUPPORTED, "{method:?}");
    }
}
