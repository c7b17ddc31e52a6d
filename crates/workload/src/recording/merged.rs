//! Repetitions into one recording: the median of each stretch.

use super::line::{Call, Line};
use super::{AGAIN, RankRecord, Recording, RecordingError, fail};

/// Merges the records of all ranks of all repetitions. Each repetition lists its ranks in order.
///
/// # Errors
/// If ranks are missing, or if repetitions made other calls.
pub fn merge(repetitions: &[Vec<RankRecord>]) -> Result<Recording, RecordingError> {
    let Some(first) = repetitions.first().and_then(|ranks| ranks.first()) else {
        return fail("there is no record to merge", "name the folder of a recorded run");
    };
    let ranks = first.ranks;
    for (number, repetition) in repetitions.iter().enumerate() {
        let complete = repetition.len() as u32 == ranks && (0..).zip(repetition).all(|(rank, record)| record.rank == rank && record.ranks == ranks);
        if !complete {
            return fail(
                format!("repetition {number} has {} records of {ranks} ranks", repetition.len()),
                "start every repetition with the same number of ranks",
            );
        }
    }
    let of_rank = |rank: usize| repetitions.iter().map(|repetition| repetition[rank].lines.as_slice()).collect::<Vec<_>>();
    let mut ranks = (0..ranks as usize).map(|rank| merge_rank(rank, &of_rank(rank))).collect::<Result<Vec<_>, _>>()?;
    count_from_first_start(&mut ranks);
    Ok(Recording { repetitions: repetitions.len() as u32, library: first.library.clone(), ranks, ..Recording::default() })
}

/// Lets the starts of the ranks count from the first one. They are those of the first repetition.
fn count_from_first_start(ranks: &mut [Vec<Line>]) {
    let starts = || ranks.iter().map(|lines| lines.iter().find_map(|line| line.call()?.at));
    let first = if starts().all(|start| start.is_some()) { starts().flatten().min() } else { None };
    for line in ranks.iter_mut().flatten() {
        if let Line::Call(call) = line {
            call.at = call.at.zip(first).map(|(at, first)| at.saturating_sub(first));
        }
    }
}

/// Counted calls of a rank, each with all computation since the former one.
fn stretches(lines: &[Line]) -> Vec<(&Call, u64)> {
    let (mut found, mut nanos) = (Vec::new(), 0u64);
    for call in lines.iter().filter_map(Line::call) {
        nanos = nanos.saturating_add(call.nanos);
        if !call.is_poll() {
            found.push((call, std::mem::take(&mut nanos)));
        }
    }
    found
}

fn merge_rank(rank: usize, repetitions: &[&[Line]]) -> Result<Vec<Line>, RecordingError> {
    let all: Vec<_> = repetitions.iter().map(|lines| stretches(lines)).collect();
    for (number, other) in all.iter().enumerate().skip(1) {
        check_same(rank, number, &all[0], other)?;
    }
    let medians: Vec<u64> = (0..all[0].len()).map(|call| median(all.iter().map(|one| one[call].1).collect())).collect();
    Ok(with_times(repetitions[0], &all[0], &medians))
}

fn check_same(rank: usize, number: usize, first: &[(&Call, u64)], other: &[(&Call, u64)]) -> Result<(), RecordingError> {
    let help = format!("only a program that makes the same calls each time can be recorded: {AGAIN}, with fixed arguments");
    for (call, (one, two)) in first.iter().zip(other).enumerate() {
        let [one, two] = [one.0.signature(), two.0.signature()];
        if one != two {
            return fail(format!("rank {rank}, call {call}: `{one}` in repetition 0, and `{two}` in repetition {number}"), help);
        }
    }
    if first.len() != other.len() {
        return fail(format!("rank {rank} made {} calls in repetition 0, and {} in repetition {number}", first.len(), other.len()), help);
    }
    Ok(())
}

/// Returns the middle of the values, or the mean of both middle values.
fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { values[half - 1].midpoint(values[half]) }
}

/// Gives the lines of the first repetition the merged times. Looks keep their share of a stretch.
fn with_times(lines: &[Line], stretches: &[(&Call, u64)], medians: &[u64]) -> Vec<Line> {
    let mut merged = lines.to_vec();
    let (mut call_number, mut left) = (0, None);
    for line in &mut merged {
        let Line::Call(call) = line else { continue };
        let (Some((_, whole)), Some(median)) = (stretches.get(call_number), medians.get(call_number)) else {
            continue; // looks after the last counted call
        };
        let rest = left.get_or_insert(*median);
        if call.is_poll() {
            let share = if *whole == 0 { 0 } else { (u128::from(call.nanos) * u128::from(*median) / u128::from(*whole)) as u64 };
            call.nanos = share.min(*rest);
            *rest -= call.nanos;
        } else {
            call.nanos = *rest;
            left = None;
            call_number += 1;
        }
    }
    merged
}
