use super::*;
use crate::goal as reader;
use crate::recording::trace::{Options, goal};
use crate::recording::{RankRecord, merge};

const OPTIONS: Options = Options { protocol: None, eager_bytes: 1024, factor: 1.0 };

/// Returns the neighbours of a rank on a grid, with the tag of each direction.
fn neighbours(lengths: &[u32], is_periodic: bool, rank: u32) -> Vec<(u32, usize)> {
    let (mut found, mut stride) = (Vec::new(), 1);
    for (axis, length) in lengths.iter().enumerate().rev() {
        let (stride_of_axis, coordinate) = (stride, rank / stride % length);
        stride *= length;
        for (side, offset) in [(0, length - 1), (1, 1)] {
            let is_inside = if side == 0 { coordinate > 0 } else { coordinate + 1 < *length };
            if is_periodic || is_inside {
                let neighbour = (coordinate + offset) % length;
                found.push((rank - coordinate * stride_of_axis + neighbour * stride_of_axis, 2 * axis + side));
            }
        }
    }
    found
}

/// Records a halo exchange: each rank exchanges with its neighbours, adds a number of all, sends its
/// blocks to all, and adds a number along the last axis.
fn halo(lengths: &[u32], is_periodic: bool) -> Recording {
    let ranks: u32 = lengths.iter().product();
    let all: Vec<String> = (0..ranks).map(|rank| rank.to_string()).collect();
    let record = |rank: u32| {
        let around = neighbours(lengths, is_periodic, rank);
        let mut text = format!("{{\"format\":\"softband-mpi-rank\",\"version\":1,\"rank\":{rank},\"ranks\":{ranks},\"library\":\"X\"}}\n");
        text += &format!("{{\"comm\":0,\"inter\":0,\"members\":[{}]}}\n", all.join(","));
        let last = lengths[lengths.len() - 1];
        let row: Vec<String> = (0..last).map(|place| (rank / last * last + place).to_string()).collect();
        let call = format!("{{\"c\":\"MPI_Comm_split\",\"t\":7,\"comm\":0}}\n{{\"comm\":1,\"inter\":0,\"members\":[{}]}}\n", row.join(","));
        text += &call;
        for (request, (from, side)) in around.iter().enumerate() {
            text += &format!("{{\"c\":\"MPI_Irecv\",\"t\":0,\"comm\":0,\"from\":{from},\"rtag\":{},\"rb\":4096,\"rq\":{request}}}\n", side ^ 1);
        }
        for (number, (to, side)) in around.iter().enumerate() {
            let bytes = 100 * (side / 2 + 1);
            let request = around.len() + number;
            text += &format!("{{\"c\":\"MPI_Isend\",\"t\":5,\"comm\":0,\"to\":{to},\"tag\":{side},\"b\":{bytes},\"rq\":{request}}}\n");
        }
        let received = around.iter().enumerate().map(|(request, (from, side))| format!("[{request},{from},{},{}]", side ^ 1, 100 * (side / 2 + 1)));
        let sent = (0..around.len()).map(|number| format!("[{}]", around.len() + number));
        let done: Vec<String> = received.chain(sent).collect();
        text += &format!("{{\"c\":\"MPI_Waitall\",\"t\":{},\"done\":[{}]}}\n", 10 * around.len(), done.join(","));
        text += "{\"c\":\"MPI_Allreduce\",\"t\":3,\"comm\":0,\"b\":8}\n{\"c\":\"MPI_Bcast\",\"t\":3,\"comm\":0,\"b\":8,\"root\":0}\n";
        let sizes = vec!["50"; ranks as usize].join(",");
        text += &format!("{{\"c\":\"MPI_Alltoallv\",\"t\":3,\"comm\":0,\"sizes\":[{sizes}],\"rsizes\":[{sizes}]}}\n");
        text += "{\"c\":\"MPI_Allreduce\",\"t\":3,\"comm\":1,\"b\":16}\n{\"end\":1}\n";
        RankRecord::parse("rank", &text).unwrap()
    };
    merge(&[(0..ranks).map(record).collect()]).unwrap()
}

fn multiplied(recording: &Recording, rule: &str, size: &str) -> Result<Recording, RecordingError> {
    multiply(recording, &Rule::parse(rule).unwrap(), &Size::parse(size).unwrap())
}

#[test]
fn a_recording_multiplied_by_one_is_the_same() {
    for (lengths, size) in [(vec![4], "4"), (vec![2, 3], "2x3"), (vec![1, 2, 2], "1x2x2")] {
        for periodic in [false, true] {
            let recording = halo(&lengths, periodic);
            let rule = format!("{}-{}d:{size}", if periodic { "periodic" } else { "open" }, lengths.len());
            assert_eq!(multiplied(&recording, &rule, size).unwrap(), recording, "{rule}");
        }
    }
}

#[test]
fn a_multiplied_halo_exchange_is_that_of_the_larger_grid() {
    let grids: [(&[u32], &[u32]); 6] =
        [(&[4], &[16]), (&[3, 3], &[4, 4]), (&[4, 4], &[8, 8]), (&[3, 4], &[7, 5]), (&[2, 3], &[2, 9]), (&[3, 3, 3], &[4, 4, 4])];
    let words = |lengths: &[u32]| lengths.iter().map(u32::to_string).collect::<Vec<_>>().join("x");
    for (recorded, wanted) in grids {
        for periodic in [false, true] {
            let rule = format!("{}-{}d:{}", if periodic { "periodic" } else { "open" }, recorded.len(), words(recorded));
            let (made, native) = (multiplied(&halo(recorded, periodic), &rule, &words(wanted)).unwrap(), halo(wanted, periodic));
            assert_eq!(made, native, "{rule} to {wanted:?}");
            let text = goal(&made, &OPTIONS).unwrap();
            assert_eq!(text, goal(&native, &OPTIONS).unwrap());
            reader::parse(&text).unwrap();
        }
    }
}

#[test]
fn grids_that_leave_a_neighbour_open_are_refused() {
    let error = multiplied(&halo(&[2, 2], true), "periodic-2d", "16").unwrap_err();
    assert_eq!(
        error.message,
        "axis 0 of the recorded grid has 2 of the 3 ranks that a rule needs: its two neighbours are one rank (2x2 ranks to 4x4)"
    );
    let error = multiplied(&halo(&[2, 2], false), "open-2d", "16").unwrap_err();
    assert!(error.message.contains("no rank has two neighbours"), "{error}");
    assert!(multiplied(&halo(&[4], false), "open-1d", "2").unwrap_err().message.contains("axis 0 of the grid shrinks from 4 to 2"));
    assert!(multiplied(&halo(&[4], false), "open-1d:5", "8").unwrap_err().message.contains("does not have the 4 ranks"));
    assert!(multiplied(&halo(&[4], false), "open-1d", "2x4").unwrap_err().message.contains("--ranks names 2 axes"));
}

/// Returns the recording with a change of the text of its file.
fn changed(recording: &Recording, from: &str, to: &str) -> Recording {
    let text = recording.text();
    assert!(text.contains(from), "{from}");
    Recording::parse("x", &text.replacen(from, to, 1)).unwrap()
}

#[test]
fn recordings_that_no_rule_fits_are_refused_with_rank_and_call() {
    let ring = halo(&[4], true);
    // A ring has neighbours over its ends, which an open grid lacks.
    let error = multiplied(&ring, "open-1d", "8").unwrap_err();
    assert_eq!(error.message, "rank 0 of the larger grid, call 3: MPI_Isend sends 100 bytes to rank 3 with tag 0, which does not receive them");
    let far = changed(&ring, "\"from\":1,", "\"from\":2,");
    let error = multiplied(&far, "periodic-1d", "8").unwrap_err();
    assert_eq!(error.message, "rank 0, call 2: MPI_Irecv: its partner is half the grid away on axis 0, so it lies on both sides");
    let lonely = changed(&ring, "\"members\":[0,1,2,3]}\n{\"c\":\"MPI_Irecv\"", "\"members\":[0,2]}\n{\"c\":\"MPI_Irecv\"");
    let error = multiplied(&lonely, "periodic-1d", "8").unwrap_err();
    assert_eq!(error.message, "rank 0, call 1: the members of its communicator 1 are no row, plane or whole of the grid (as rank 0)");
}

#[test]
fn calls_without_a_counterpart_are_refused_with_rank_and_call() {
    let ring = halo(&[4], true);
    let longer = changed(&ring, "\"b\":100,", "\"b\":101,");
    let error = multiplied(&longer, "periodic-1d", "8").unwrap_err();
    assert_eq!(error.message, "rank 0 of the larger grid, call 3: MPI_Isend sends 101 bytes to rank 7 with tag 0, which receives 100");
    let unsent = changed(&ring, "{\"c\":\"MPI_Isend\",\"t\":5,\"comm\":0,\"to\":3,\"tag\":0,\"b\":100,\"rq\":2}\n", "");
    let error = multiplied(&unsent, "periodic-1d", "8").unwrap_err();
    assert_eq!(error.message, "rank 7 of the larger grid, call 5: MPI_Waitall receives 100 bytes of rank 0 with tag 0, which does not send them");
    let shorter = changed(&ring, "{\"c\":\"MPI_Bcast\"", "{\"c\":\"MPI_Reduce\"");
    let error = multiplied(&shorter, "periodic-1d", "8").unwrap_err();
    assert!(
        error
            .message
            .starts_with("rank 1 of the larger grid, call 7: MPI_Bcast is MPI_Bcast of 8 bytes with root 0, and call 7 of rank 0 is MPI_Reduce"),
        "{error}"
    );
}
