//! The comment that names the protocol of a trace. Other simulators skip it.

use super::{GoalError, error};
use crate::protocol::Protocol;

/// Beginning of the comment.
pub const PROTOCOL_MARK: &str = "// softband: protocol";

const FORM: &str = "write `// softband: protocol ucx`, with `direct BYTES` or `rendezvous BYTES` behind it for other limits";

/// Returns the protocol that a trace names before its first statement.
pub(super) fn of(text: &str) -> Result<Option<Protocol>, GoalError> {
    let is_comment = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with(['/', '#']);
    for (number, line) in (1..).zip(text.trim_start_matches('\u{FEFF}').lines().take_while(is_comment)) {
        if let Some(words) = line.trim_start().strip_prefix(PROTOCOL_MARK) {
            return parse(number, words).map(Some);
        }
    }
    Ok(None)
}

fn parse(line: u32, words: &str) -> Result<Protocol, GoalError> {
    let mut words = words.split_whitespace();
    let mut protocol = match words.next() {
        Some(Protocol::UCX_NAME) => Protocol::UCX,
        other => return error(line, format!("there is no protocol `{}`", other.unwrap_or_default()), FORM),
    };
    while let Some(word) = words.next() {
        let limit = match word {
            "direct" => &mut protocol.direct_bytes,
            "rendezvous" => &mut protocol.rendezvous_bytes,
            _ => return error(line, format!("a protocol has no `{word}`"), FORM),
        };
        let value = words.next().unwrap_or_default();
        match value.parse::<u32>() {
            Ok(0) if word == "rendezvous" => return error(line, "a rendezvous reads at least 1 byte, not 0", FORM),
            Ok(bytes) => *limit = Some(bytes),
            Err(_) => return error(line, format!("`{value}` is not a number of bytes for {word}"), FORM),
        }
    }
    Ok(protocol)
}
