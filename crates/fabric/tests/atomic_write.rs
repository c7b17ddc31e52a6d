//! Atomic writes: eight bytes, all or nothing, exactly once, and only to permitted memory.

use crate::common::*;
use softband_model::verbs::api::*;
use softband_types::*;

fn lab() -> (Lab, Qpn, Qpn) {
    let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300)));
    let (a, b) = lab.connect_with(0, 1, QpType::Rc, |m| m.retry_count = m.retry_count.map(|_| 7));
    lab.fill(0, 0, 64, 3);
    (lab, a, b)
}

fn write(lab: &Lab, address: u64, len_bytes: u32) -> SendRequest {
    let operation = SendOperation::AtomicWrite { remote_address: address, rkey: lab.programs[1].rkey };
    lab.request(0, 5, operation, 0, len_bytes)
}

#[test]
fn eight_bytes_arrive_and_what_they_were_taken_from_stays() {
    for loss_ppm in [0, 100_000] {
        let (mut lab, a, _) = lab();
        lab.world.set_packet_loss(loss_ppm);
        let source = lab.memory.blocks[0][..8].to_vec();
        let request = write(&lab, BASE + 16, 8);
        lab.send(0, a, request);
        lab.run();
        let done = lab.completions(0).pop().unwrap();
        assert_eq!((done.wr_id, done.status, done.opcode), (5, WcStatus::Success, WcOpcode::AtomicWrite));
        assert_eq!(lab.memory.blocks[1][16..24], source);
        assert_eq!(lab.memory.blocks[0][..8], source);
    }
}

#[test]
fn wrong_lengths_places_and_rights_move_no_byte() {
    let refused = |change: fn(&mut Lab, Qpn, Qpn) -> SendRequest, status: WcStatus| {
        let (mut lab, a, b) = lab();
        let request = change(&mut lab, a, b);
        lab.send(0, a, request);
        lab.run();
        assert_eq!(lab.statuses(0), [(5, status)]);
        assert!(lab.memory.blocks[1].iter().all(|byte| *byte == 0));
    };
    let nothing_to_who_takes_none = |lab: &mut Lab, _: Qpn, b: Qpn| {
        let access = Access { remote_write: false, ..ALL_RIGHTS };
        lab.modify(1, b, QpModification { access: Some(access), ..Default::default() }).unwrap();
        let operation = lab.write_to(1, 0);
        lab.request(0, 5, operation, 0, 0)
    };
    refused(nothing_to_who_takes_none, WcStatus::RemoteInvalidRequestError);
    refused(|lab, _, _| write(lab, BASE, 7), WcStatus::LocalLengthError);
    refused(|lab, _, _| write(lab, BASE + 4, 8), WcStatus::RemoteInvalidRequestError);
    refused(|lab, _, _| write(lab, BASE + MEMORY_BYTES as u64, 8), WcStatus::RemoteAccessError);
    refused(
        |lab, _, b| {
            let access = Access { remote_write: false, ..ALL_RIGHTS };
            lab.modify(1, b, QpModification { access: Some(access), ..Default::default() }).unwrap();
            write(lab, BASE, 8)
        },
        WcStatus::RemoteInvalidRequestError,
    );
}
