//! Traces in the text form of GOAL (Hoefler, Siebert and Lumsdaine 2009), as LogGOPSim and ATLAHS
//! read them:
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//!   l1: calc 1000
//!   l2: send 8b to 1 tag 5 cpu 0 nic 0
//!   l2 requires l1
//! }
//! ```
//!
//! A comment `// softband: protocol ucx` before `num_ranks` names the protocol that carries the
//! messages. A step may end with a semicolon. Every rank has its block, `rank 2 { }` if it does nothing.
//! `calc` is in nanoseconds. `requires` waits for the end of a step, `irequires` for its beginning.

mod protocol;
mod words;

use crate::schedule::{Action, Cause, Schedule, ScheduleError, Wait};
pub use protocol::PROTOCOL_MARK;
use std::collections::BTreeMap;
use words::Word;

/// Defect of a trace: its line, and the remedy. It prints as `line: error: ...`, to follow a file
/// name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: error: {message}\n  help: {help}")]
pub struct GoalError {
    /// Line of the defect, from 1.
    pub line: u32,
    /// Statement of the problem.
    pub message: String,
    /// Remedy.
    pub help: String,
}

/// Most ranks, because each needs queues and memory. A larger number is a typing error.
const RANKS_MAX: u64 = 1 << 20;
/// Largest message in bytes: half of the largest RDMA message (IBTA 9.7.7: 2^31 bytes).
const BYTES_MAX: u64 = 1 << 30;
/// Most labels that an error names in a cycle.
const CYCLE_NAMED: usize = 12;
/// Most ranks without a block that an error names.
const RANKS_NAMED: usize = 8;

/// Message for files that contain no text.
pub const NO_TEXT: &str = "the file is not text: only GOAL traces in text form are read";
/// Remedy for files that contain no text.
pub const TEXT_FORM: &str = "binary traces can be turned back into text, or are written as text by the program that made them";

const STEP_FORMS: &str = "a line is `l1: send 8b to 1 tag 5`, `l2: recv 8b from 1 tag 5`, `l3: calc 1000`, `l3 requires l1` or `l3 irequires l1`";

/// Reads a trace and checks that a run can complete it.
///
/// # Errors
/// The first mistake in the trace.
pub fn parse(text: &str) -> Result<Schedule, GoalError> {
    let Reader { mut schedule, lines, names, .. } = read(text)?;
    schedule.receives_all = true;
    schedule.protocol = protocol::of(text)?;
    match schedule.check() {
        Ok(()) => Ok(schedule),
        Err(error) => Err(explain(&schedule, &lines, &names, error)),
    }
}

/// Lines and labels of the steps of a trace. A run does not keep them: few are ever needed, and all
/// would take much memory.
pub struct Places<'a> {
    lines: Vec<u32>,
    names: Vec<&'a str>,
}

impl Places<'_> {
    /// Returns the line and the label of a step. The label is empty if the step has none.
    pub fn of(&self, step: u32) -> (u32, &str) {
        (self.lines[step as usize], self.names[step as usize])
    }
}

/// Returns the lines and labels of the steps of a trace.
///
/// # Errors
/// As of [`parse`].
pub fn places(text: &str) -> Result<Places<'_>, GoalError> {
    let Reader { lines, names, .. } = read(text)?;
    Ok(Places { lines, names })
}

fn read(text: &str) -> Result<Reader<'_>, GoalError> {
    // Some editors begin a file with a byte-order mark.
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    if let Some((line, _)) = (1..).zip(text.lines()).find(|(_, text)| text.contains(|letter: char| letter.is_control() && !letter.is_whitespace())) {
        return error(line, NO_TEXT, TEXT_FORM);
    }
    let mut reader = Reader {
        words: words::words(text),
        at: 0,
        lines_last: text.lines().count().max(1) as u32,
        nanos: 0,
        schedule: Schedule::new(0),
        lines: Vec::new(),
        names: Vec::new(),
        seen: Vec::new(),
    };
    reader.trace()?;
    reader.check_all_there()?;
    Ok(reader)
}

fn error<T>(line: u32, message: impl Into<String>, help: impl Into<String>) -> Result<T, GoalError> {
    const SHOWN_MAX: usize = 200;
    let mut message = message.into();
    if let Some((end, _)) = message.char_indices().nth(SHOWN_MAX) {
        // Another kind of file may be a single long word.
        message.replace_range(end.., "...");
    }
    Err(GoalError { line, message, help: help.into() })
}

struct Reader<'a> {
    words: Vec<Word<'a>>,
    at: usize,
    lines_last: u32,
    /// Total of all calculations so far, in nanoseconds.
    nanos: u64,
    schedule: Schedule,
    /// Line and label of each step.
    lines: Vec<u32>,
    names: Vec<&'a str>,
    /// Line of the block of each rank; 0 before its block.
    seen: Vec<u32>,
}

/// `later requires earlier` on a line.
struct Order<'a> {
    later: &'a str,
    earlier: &'a str,
    wait: Wait,
    line: u32,
}

impl<'a> Reader<'a> {
    fn trace(&mut self) -> Result<(), GoalError> {
        let head = self.next("num_ranks")?;
        if head.text != "num_ranks" {
            return error(head.line, format!("a trace begins with `num_ranks N`, not with `{}`", head.text), "write `num_ranks 2` first");
        }
        let (ranks, line) = self.number("how many ranks there are")?;
        if !(1..=RANKS_MAX).contains(&ranks) {
            return error(line, format!("num_ranks {ranks} is out of range"), format!("from 1 to {RANKS_MAX} ranks are possible"));
        }
        self.schedule.ranks = ranks as u32;
        self.seen = vec![0; ranks as usize];
        while let Some(word) = self.words.get(self.at).copied() {
            self.at += 1;
            match word.text {
                "rank" => self.block()?,
                ";" => {}
                other => return error(word.line, format!("`{other}` where a rank's block begins"), "write `rank 0 {`, and close it with `}`"),
            }
        }
        Ok(())
    }

    /// Checks that every rank has a block. A file truncated between two blocks looks complete
    /// except for the missing ranks.
    fn check_all_there(&self) -> Result<(), GoalError> {
        let missing: Vec<usize> = self.seen.iter().enumerate().filter(|(_, line)| **line == 0).map(|(rank, _)| rank).collect();
        let Some(first) = missing.first() else { return Ok(()) };
        let mut named: Vec<String> = missing.iter().take(RANKS_NAMED).map(usize::to_string).collect();
        if missing.len() > RANKS_NAMED {
            named.push(format!("{} more", missing.len() - RANKS_NAMED));
        }
        let (ranks, verb) = if missing.len() == 1 { ("rank", "has") } else { ("ranks", "have") };
        let message = format!("the trace ends, and {ranks} {} of num_ranks {} {verb} no block", named.join(", "), self.schedule.ranks);
        error(self.lines_last, message, format!("it may have been cut off; a rank that does nothing is written `rank {first} {{ }}`"))
    }

    fn next(&mut self, wanted: &str) -> Result<Word<'a>, GoalError> {
        let Some(word) = self.words.get(self.at).copied() else {
            return error(self.lines_last, format!("the trace ends before {wanted}"), "it may have been cut off: write it out again");
        };
        self.at += 1;
        Ok(word)
    }

    fn skip(&mut self, text: &str) -> bool {
        let there = self.words.get(self.at).is_some_and(|word| word.text == text);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, text: &str) -> Result<u32, GoalError> {
        let word = self.next(&format!("`{text}`"))?;
        if word.text == text { Ok(word.line) } else { error(word.line, format!("expected `{text}`, found `{}`", word.text), STEP_FORMS) }
    }

    fn number(&mut self, what: &str) -> Result<(u64, u32), GoalError> {
        let word = self.next(what)?;
        match word.text.parse::<u64>() {
            Ok(number) => Ok((number, word.line)),
            Err(_) if word.text == "-1" => error(
                word.line,
                format!("`-1` is not a value for {what}: any source and any tag are not supported"),
                "name the source and the tag: otherwise the order of arrival would select the message",
            ),
            Err(_) => {
                error(word.line, format!("`{}` is not a number: it should state {what}", word.text), "write a whole number that is not negative")
            }
        }
    }

    fn small_number(&mut self, what: &str) -> Result<u32, GoalError> {
        let (number, line) = self.number(what)?;
        u32::try_from(number).or_else(|_| error(line, format!("{number} is too large for {what}"), format!("{} is the most", u32::MAX)))
    }

    fn rank(&mut self, what: &str) -> Result<(u32, u32), GoalError> {
        let (rank, line) = self.number(what)?;
        if rank < u64::from(self.schedule.ranks) {
            return Ok((rank as u32, line));
        }
        let ranks = self.schedule.ranks;
        error(line, format!("rank {rank} is beyond num_ranks {ranks}"), format!("ranks are 0 to {}, or num_ranks should be larger", ranks - 1))
    }

    /// Reads the steps of a rank: `5 { ... }`.
    fn block(&mut self) -> Result<(), GoalError> {
        let (rank, line) = self.rank("which rank")?;
        let former = std::mem::replace(&mut self.seen[rank as usize], line);
        if former != 0 {
            return error(line, format!("rank {rank} has a block already, on line {former}"), "put its steps into one block");
        }
        self.expect("{")?;
        let mut labels: BTreeMap<&'a str, u32> = BTreeMap::new();
        let mut orders: Vec<Order<'a>> = Vec::new();
        loop {
            let word = match self.next("`}`") {
                Ok(word) => word,
                Err(cut) => return error(cut.line, format!("the trace ends within rank {rank}, which began on line {line}"), "close it with `}`"),
            };
            match word.text {
                "}" => break,
                ";" => {}
                "{" | ":" => return error(word.line, format!("`{}` where a step begins", word.text), STEP_FORMS),
                "send" | "recv" | "calc" => {
                    self.at -= 1;
                    self.step(rank, "")?;
                }
                label if self.skip(":") => {
                    let step = self.step(rank, label)?;
                    if let Some(former) = labels.insert(label, step) {
                        let former = self.lines[former as usize];
                        return error(word.line, format!("the label {label} is there already, on line {former}"), "each step of a rank has its own");
                    }
                }
                later => orders.push(self.order(later)?),
            }
        }
        orders.iter().try_for_each(|order| self.put_order(rank, &labels, order))
    }

    fn order(&mut self, later: &'a str) -> Result<Order<'a>, GoalError> {
        let verb = self.next("`requires`")?;
        let wait = match verb.text {
            "requires" => Wait::UntilDone,
            "irequires" => Wait::UntilBegun,
            other => return error(verb.line, format!("`{later} {other}` is neither a step nor an order"), STEP_FORMS),
        };
        let earlier = self.next("a label")?;
        Ok(Order { later, earlier: earlier.text, wait, line: earlier.line })
    }

    fn put_order(&mut self, rank: u32, labels: &BTreeMap<&'a str, u32>, order: &Order<'a>) -> Result<(), GoalError> {
        let of = |label: &str| match labels.get(label) {
            Some(step) => Ok(*step),
            None => error(order.line, format!("rank {rank} has no label {label}"), "orders name steps of their own rank"),
        };
        let (earlier, later) = (of(order.earlier)?, of(order.later)?);
        self.schedule.order.push((earlier, later, order.wait));
        Ok(())
    }

    /// Reads `send 8b to 1 tag 5 cpu 0 nic 0`, `recv ... from ...` or `calc 1000`.
    fn step(&mut self, rank: u32, label: &'a str) -> Result<u32, GoalError> {
        let what = self.next("send, recv or calc")?;
        let mut action = match what.text {
            "send" => {
                let bytes = self.bytes()?;
                self.expect("to")?;
                Action::Send { to: self.rank("to which rank")?.0, bytes, messages: 1, tag: 0 }
            }
            "recv" => {
                self.bytes()?;
                self.expect("from")?;
                Action::Receive { from: self.rank("from which rank")?.0, tag: 0 }
            }
            "calc" => Action::Calculate { nanos: self.nanos()?, cpu: 0 },
            other => return error(what.line, format!("there is no step `{other}`"), STEP_FORMS),
        };
        self.options(&mut action)?;
        self.lines.push(what.line);
        self.names.push(label);
        Ok(self.schedule.push(rank, action))
    }

    fn bytes(&mut self) -> Result<u32, GoalError> {
        let word = self.next("a size")?;
        let digits = word.text.strip_suffix(['b', 'B']).unwrap_or(word.text);
        if digits == word.text && !self.skip("b") {
            self.skip("B");
        }
        match digits.parse::<u64>() {
            Ok(bytes) if bytes <= BYTES_MAX => Ok(bytes as u32),
            Ok(bytes) => error(word.line, format!("a message of {bytes} bytes is too large"), format!("{BYTES_MAX} are the most: send it in parts")),
            Err(_) => error(word.line, format!("`{}` is not a size", word.text), "write bytes as `8b`"),
        }
    }

    /// Reads a duration of at most an hour, in nanoseconds. A run of days has no meaning.
    fn nanos(&mut self) -> Result<u64, GoalError> {
        const NANOS_MAX: u64 = 3_600_000_000_000;
        // A hundred days: simulated time ends after 213.
        const ALL_NANOS_MAX: u64 = 100 * 24 * NANOS_MAX;
        let (nanos, line) = self.number("how many nanoseconds")?;
        if nanos > NANOS_MAX {
            return error(line, format!("calc {nanos} is too long"), format!("{NANOS_MAX} ns are the most"));
        }
        self.nanos += nanos;
        if self.nanos > ALL_NANOS_MAX {
            return error(line, "all calculations together are too long", format!("{ALL_NANOS_MAX} ns are the most: cut the trace"));
        }
        Ok(nanos)
    }

    fn options(&mut self, action: &mut Action) -> Result<(), GoalError> {
        loop {
            if self.skip("tag") {
                let number = self.small_number("a tag")?;
                match action {
                    Action::Send { tag, .. } | Action::Receive { tag, .. } => *tag = number,
                    Action::Calculate { .. } => return error(self.words[self.at - 1].line, "a calc has no tag", "leave it out"),
                }
            } else if self.skip("cpu") {
                let number = self.small_number("a processor")?;
                if let Action::Calculate { cpu, .. } = action {
                    *cpu = number;
                }
            } else if self.skip("nic") {
                self.small_number("an HCA")?;
            } else {
                return Ok(());
            }
        }
    }
}

/// Describes a mistake of the whole trace by its lines and labels.
fn explain(schedule: &Schedule, lines: &[u32], names: &[&str], error: ScheduleError) -> GoalError {
    let at = |step: u32| (lines[step as usize], schedule.steps[step as usize]);
    match error {
        ScheduleError::Cycle(cycle) => explain_cycle(schedule, lines, names, &cycle),
        ScheduleError::Unreceived { step } => {
            let (line, step) = at(step);
            let Action::Send { to, tag, .. } = step.action else { unreachable!("a send is not received") };
            let message = format!("no rank receives the message that rank {} sends to rank {to} with tag {tag}", step.rank);
            GoalError { line, message, help: format!("rank {to} needs a `recv ... from {} tag {tag}` for each", step.rank) }
        }
        ScheduleError::Unsent { step } => {
            let (line, step) = at(step);
            let Action::Receive { from, tag } = step.action else { unreachable!("a receive is not sent to") };
            let message = format!("no rank sends the message that rank {} receives from rank {from} with tag {tag}", step.rank);
            GoalError { line, message, help: format!("rank {from} needs a `send ... to {} tag {tag}` for each", step.rank) }
        }
    }
}

/// Describes a cycle. Within a rank, the text follows the trace; across ranks, it adds the line of
/// each step.
fn explain_cycle(schedule: &Schedule, lines: &[u32], names: &[&str], cycle: &[(u32, Cause)]) -> GoalError {
    let (line, rank) = (lines[cycle[0].0 as usize], schedule.steps[cycle[0].0 as usize].rank);
    let is_across = cycle.iter().any(|(_, cause)| *cause == Cause::Message);
    let mut text = String::new();
    let mut former = None;
    for (step, cause) in cycle.iter().take(CYCLE_NAMED) {
        let at = schedule.steps[*step as usize].rank;
        text.push_str(names[*step as usize]);
        if is_across {
            let of_rank = if former.replace(at) == Some(at) { String::new() } else { format!(" of rank {at}") };
            text.push_str(&format!("{of_rank} (line {})", lines[*step as usize]));
        }
        text.push_str(match cause {
            Cause::Order(Wait::UntilDone) => " requires ",
            Cause::Order(Wait::UntilBegun) => " irequires ",
            Cause::Message => " receives from ",
        });
    }
    text.push_str(if cycle.len() > CYCLE_NAMED { "..." } else { names[cycle[0].0 as usize] });
    if !is_across {
        return GoalError { line, message: format!("steps of rank {rank} wait for each other: {text}"), help: "take one of these orders out".into() };
    }
    let of_rank = if cycle.len() > CYCLE_NAMED { String::new() } else { format!(" of rank {rank}") };
    let message = format!("ranks wait for each other: {text}{of_rank}");
    GoalError { line, message, help: "let one of these ranks send before it receives: take one of these orders out".into() }
}

#[cfg(test)]
mod tests;
