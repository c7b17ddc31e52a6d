//! Readers of both files: a rank's record and a whole recording.

use super::line::{Call, Communicator, Line};
use super::{AGAIN, RankRecord, Recording, RecordingError, VERSION, fail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

const RANK_FORMAT: &str = "softband-mpi-rank";
const FORMAT: &str = "softband-mpi-record";
/// Most ranks. A larger number is a damaged file.
const RANKS_MAX: u32 = 1 << 20;

/// Longest stretch of computation, a day. A longer one is a damaged file.
const STRETCH_MAX_NANOS: u64 = 24 * 3_600_000_000_000;

/// First line of either file.
#[derive(Serialize, Deserialize)]
pub(super) struct Head {
    format: String,
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
    ranks: u32,
    #[serde(default)]
    repetitions: u32,
    library: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    rates: BTreeMap<String, u64>,
}

impl Head {
    pub(super) fn of(recording: &Recording) -> Self {
        Self {
            format: FORMAT.into(),
            version: VERSION,
            rank: None,
            ranks: recording.ranks.len() as u32,
            repetitions: recording.repetitions,
            library: recording.library.clone(),
            rates: recording.rates.clone(),
        }
    }

    fn parse(name: &str, text: Option<&str>, format: &str) -> Result<Self, RecordingError> {
        let head: Option<Self> = text.and_then(|text| serde_json::from_str(text).ok());
        let Some(head) = head.filter(|head| head.format == format) else {
            return fail(format!("{name}:1: this is no {format} file"), "name a file that `softband record` wrote");
        };
        if head.version != VERSION {
            return fail(format!("{name}:1: version {} of the format is unknown", head.version), format!("version {VERSION} is known: {AGAIN}"));
        }
        if !(1..=RANKS_MAX).contains(&head.ranks) {
            return fail(format!("{name}:1: {} ranks are out of range", head.ranks), format!("1 to {RANKS_MAX} are possible: {AGAIN}"));
        }
        Ok(head)
    }
}

/// Lines of a file with their numbers, from 2.
type Lines<'a> = std::iter::Zip<std::ops::RangeFrom<usize>, std::str::Lines<'a>>;

/// Reads the lines of a rank up to its end.
fn rank_lines(name: &str, rank: u32, ranks: u32, lines: &mut Lines<'_>) -> Result<Vec<Line>, RecordingError> {
    let mut found = Vec::new();
    let mut communicators = 0;
    for (number, text) in lines {
        let damaged = |error: &dyn std::fmt::Display| {
            let message = format!("{name}:{number}: {error}");
            RecordingError { message, help: format!("the line is damaged: {AGAIN}") }
        };
        let value: Value = serde_json::from_str(text).map_err(|error| damaged(&error))?;
        if value.get("end").is_some() {
            return Ok(found);
        }
        let line = if value.get("c").is_some() {
            Line::Call(Box::new(serde_json::from_value::<Call>(value).map_err(|error| damaged(&error))?))
        } else {
            Line::Communicator(serde_json::from_value::<Communicator>(value).map_err(|error| damaged(&error))?)
        };
        check(&line, ranks, &mut communicators).map_err(|what| damaged(&what))?;
        found.push(line);
    }
    fail(
        format!("{name}: the record of rank {rank} has no end: this rank ended before MPI_Finalize, or the file is cut off"),
        "let every rank reach MPI_Finalize, and record the program again",
    )
}

/// Checks what later steps rely on: communicators in order, and ranks that exist.
fn check(line: &Line, ranks: u32, communicators: &mut u32) -> Result<(), String> {
    let is_rank = |rank: i64| rank < i64::from(ranks);
    match line {
        Line::Communicator(new) => {
            if new.comm != *communicators {
                return Err(format!("communicator {} where {communicators} is next", new.comm));
            }
            *communicators += 1;
            if !new.members.iter().all(|member| is_rank(*member)) {
                return Err(format!("a member of communicator {} is no rank", new.comm));
            }
        }
        Line::Call(call) => {
            if call.comm.is_some_and(|comm| comm >= *communicators) {
                return Err(format!("{} on an unknown communicator", call.name));
            }
            if call.nanos > STRETCH_MAX_NANOS {
                return Err(format!("{} ns of computation are more than a day", call.nanos));
            }
            if call.name.is_empty() || call.name.contains(char::is_whitespace) {
                return Err("a call without a name".into());
            }
            let peers = [call.to, call.from, call.root, call.got.map(|got| got[0])];
            if !peers.into_iter().flatten().all(is_rank) {
                return Err(format!("{} names a rank that does not exist", call.name));
            }
            if call.done.iter().flatten().any(|done| !(matches!(done.len(), 1 | 4) && done.get(1).is_none_or(|from| is_rank(*from)))) {
                return Err(format!("{} ends a request of an unknown form", call.name));
            }
        }
    }
    Ok(())
}

impl RankRecord {
    /// Reads the file of a rank. `name` is its name in errors.
    ///
    /// # Errors
    /// The first defect of the file, or its missing end.
    pub fn parse(name: &str, text: &str) -> Result<Self, RecordingError> {
        let mut lines = (1..).zip(text.lines());
        let head = Head::parse(name, lines.next().map(|(_, text)| text), RANK_FORMAT)?;
        let Some(rank) = head.rank.filter(|rank| *rank < head.ranks) else {
            return fail(format!("{name}:1: the rank is missing or out of range"), AGAIN);
        };
        Ok(Self { rank, ranks: head.ranks, library: head.library, lines: rank_lines(name, rank, head.ranks, &mut lines)? })
    }
}

impl Recording {
    /// Reads a recording. `name` is its name in errors.
    ///
    /// # Errors
    /// The first defect of the file, or a rank that is missing.
    pub fn parse(name: &str, text: &str) -> Result<Self, RecordingError> {
        let mut lines = (1..).zip(text.lines());
        let head = Head::parse(name, lines.next().map(|(_, text)| text), FORMAT)?;
        let mut ranks = Vec::new();
        while let Some((number, text)) = lines.next() {
            let rank = serde_json::from_str::<Value>(text).ok().and_then(|value| value.get("rank").and_then(Value::as_u64));
            if rank != Some(ranks.len() as u64) || ranks.len() as u32 == head.ranks {
                return fail(format!("{name}:{number}: expected the beginning of rank {}", ranks.len()), AGAIN);
            }
            let lines = rank_lines(name, ranks.len() as u32, head.ranks, &mut lines)?;
            if let Some(late) = lines.iter().find_map(|line| line.call()?.at.filter(|at| *at > STRETCH_MAX_NANOS)) {
                return fail(format!("{name}: rank {} starts after {late} ns, more than a day", ranks.len()), AGAIN);
            }
            ranks.push(lines);
        }
        if ranks.len() as u32 != head.ranks {
            return fail(format!("{name}: the file ends after {} of {} ranks", ranks.len(), head.ranks), format!("it is cut off: {AGAIN}"));
        }
        Ok(Self { repetitions: head.repetitions, library: head.library, rates: head.rates, ranks })
    }
}
