//! The lines of PMI-1: requests of ranks, and the words of any line.

use crate::{KEY_MAX, VALUE_MAX};

/// A request of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// First line on a connection to a port: the number by which the launcher knows the rank.
    Identify {
        id: usize,
    },
    Init,
    Maxes,
    SpaceName,
    AppNumber,
    UniverseSize,
    Put {
        key: String,
        value: String,
    },
    Get {
        key: String,
    },
    /// Reads the key-value space by position.
    GetByIndex {
        index: usize,
    },
    Barrier,
    Finalize,
    Abort {
        code: i32,
    },
    /// Services of MPI programs that connect to each other. The job has none.
    Publish,
    Lookup,
    Unpublish,
    /// Begins several lines about processes to start. `SpawnLine` and `SpawnEnd` follow.
    Spawn,
    SpawnEnd,
}

/// Reason why a line is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The line has no `cmd=`, or an unknown command.
    Command,
    /// A word of the command is missing, too long, or no number.
    Word(&'static str),
}

/// Returns the value of the word `name=value` of a line.
#[must_use]
pub fn word<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// Returns the value of the last word `name=value` of a line, which may contain blanks.
#[must_use]
pub fn last_word<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let begins = |at: &usize| line[*at..].strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
    let starts = std::iter::once(0).chain(line.match_indices(' ').map(|(blank, _)| blank + 1));
    starts.into_iter().find(begins).map(|at| &line[at + name.len() + 1..])
}

/// Returns the command of a line.
#[must_use]
pub fn command(line: &str) -> Option<&str> {
    word(line, "cmd").or_else(|| word(line, "mcmd")).or_else(|| (line == "endcmd").then_some("endcmd"))
}

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    /// If the line is no request of PMI-1.
    pub fn parse(line: &str) -> Result<Self, Unreadable> {
        let number = |name: &'static str| word(line, name).and_then(|word| word.parse().ok()).ok_or(Unreadable::Word(name));
        Ok(match command(line).ok_or(Unreadable::Command)? {
            "initack" => Self::Identify { id: number("pmiid")? },
            "init" => Self::Init,
            "get_maxes" => Self::Maxes,
            "get_my_kvsname" => Self::SpaceName,
            "get_appnum" => Self::AppNumber,
            "get_universe_size" => Self::UniverseSize,
            "put" => Self::Put { key: bounded(word(line, "key"), "key", KEY_MAX)?, value: bounded(last_word(line, "value"), "value", VALUE_MAX)? },
            "get" => Self::Get { key: bounded(word(line, "key"), "key", KEY_MAX)? },
            "getbyidx" => Self::GetByIndex { index: number("idx")? },
            "barrier_in" => Self::Barrier,
            "finalize" => Self::Finalize,
            "abort" => Self::Abort { code: word(line, "exitcode").and_then(|code| code.parse().ok()).unwrap_or(1) },
            "publish_name" => Self::Publish,
            "lookup_name" => Self::Lookup,
            "unpublish_name" => Self::Unpublish,
            "spawn" => Self::Spawn,
            "endcmd" => Self::SpawnEnd,
            _ => return Err(Unreadable::Command),
        })
    }
}

fn bounded(word: Option<&str>, name: &'static str, longest: usize) -> Result<String, Unreadable> {
    word.filter(|word| word.len() <= longest).map(str::to_owned).ok_or(Unreadable::Word(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_their_words_in_any_order_and_values_last() {
        assert_eq!(Request::parse("cmd=initack pmiid=3"), Ok(Request::Identify { id: 3 }));
        let put = Request::Put { key: "k".into(), value: "a=b".into() };
        assert_eq!(Request::parse("cmd=put kvsname=softband key=k value=a=b"), Ok(put.clone()));
        assert_eq!(Request::parse("kvsname=softband key=k cmd=put value=a=b"), Ok(put));
        let blanks = Request::Put { key: "k".into(), value: "two words ".into() };
        assert_eq!(Request::parse("cmd=put key=k value=two words "), Ok(blanks));
        assert_eq!(Request::parse("cmd=abort exitcode=-7"), Ok(Request::Abort { code: -7 }));
        assert_eq!(Request::parse("cmd=abort"), Ok(Request::Abort { code: 1 }));
        assert_eq!(Request::parse("mcmd=spawn"), Ok(Request::Spawn));
    }

    #[test]
    fn other_lines_are_refused_with_the_reason() {
        assert_eq!(Request::parse(""), Err(Unreadable::Command));
        assert_eq!(Request::parse("cmd=fly"), Err(Unreadable::Command));
        assert_eq!(Request::parse("cmd=initack pmiid=-1"), Err(Unreadable::Word("pmiid")));
        assert_eq!(Request::parse("cmd=put key=k"), Err(Unreadable::Word("value")));
        let long = format!("cmd=get key={}", "k".repeat(KEY_MAX + 1));
        assert_eq!(Request::parse(&long), Err(Unreadable::Word("key")));
    }
}
