//! Text, lines and tokens of a topology, and the detection of its format.

use std::borrow::Cow;
use std::ops::Range;

use super::{LINE_MAX, TopologyFormat, Trouble};

/// Reason why bytes are no text.
pub(super) struct NoText {
    pub(super) message: String,
    /// Start of the line, in bytes.
    pub(super) line_start: usize,
    pub(super) help: String,
}

const HELP: &str = "name the output of `ibnetdiscover`, or a net file of ibsim";

/// Returns the text of a file. Node descriptions are bytes of any encoding, so the function replaces
/// bytes that are not UTF-8. It refuses control bytes and long lines, which no topology has.
pub(super) fn text_of(bytes: &[u8]) -> Result<Cow<'_, str>, NoText> {
    // RFC 1952: the magic number of gzip.
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let message = "the file is compressed (gzip)".to_owned();
        return Err(NoText { message, line_start: 0, help: "unpack it first: `gunzip`".into() });
    }
    let mut line_start = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        let head = &line[..line.len().min(LINE_MAX)];
        if head.iter().any(|byte| *byte < b' ' && !matches!(byte, b'\t' | b'\r' | 0x0c)) {
            return Err(NoText { message: "the file is not text: a line has control bytes".into(), line_start, help: HELP.into() });
        }
        if line.len() > LINE_MAX {
            let message = format!("a line has {} bytes, and no line of a topology has more than {LINE_MAX}", line.len());
            return Err(NoText { message, line_start, help: HELP.into() });
        }
        line_start += line.len() + 1;
    }
    Ok(String::from_utf8_lossy(bytes))
}

/// A line without its indentation, and its place.
#[derive(Clone)]
pub(super) struct Line<'a> {
    pub(super) text: &'a str,
    pub(super) span: Range<usize>,
}

/// Returns the lines of a text.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut at = 0;
    text.split('\n').map(move |line| {
        let start = at + (line.len() - line.trim_start().len());
        at += line.len() + 1;
        let text = line.trim();
        Line { text, span: start..start + text.len() }
    })
}

/// The first word of a line.
pub(super) fn first_word(line: &str) -> &str {
    line.split([' ', '\t', '"', '=', '+', '[']).next().unwrap_or_default()
}

/// Returns the format that the first decisive line shows.
pub(super) fn detect(text: &str) -> Result<TopologyFormat, Trouble> {
    for line in lines(text) {
        if line.text.starts_with("# Topology file: ") {
            return Ok(TopologyFormat::Ibnetdiscover);
        }
        match first_word(line.text) {
            "Hca" | "hcaguids" | "hcaguid" | "module" | "include" | "do" | "width" | "speed" | "extspeed" | "switchguids" => {
                return Ok(TopologyFormat::Ibsim);
            }
            "Switch" | "Ca" | "Rt" => return Ok(if names_a_guid(line.text) { TopologyFormat::Ibnetdiscover } else { TopologyFormat::Ibsim }),
            _ => {}
        }
    }
    let first = lines(text).find(|line| !line.text.is_empty()).map_or(0..0, |line| line.span);
    let help = format!("{HELP}; iblinkinfo and other tools write other formats");
    Err(Trouble::at(&first, "neither the output of ibnetdiscover nor a net file of ibsim: no line names a node", help))
}

/// Checks whether the node of a line is called as `ibnetdiscover` calls it: `S-0002c90300001234`.
fn names_a_guid(line: &str) -> bool {
    let id = line.split('"').nth(1).or_else(|| line.split_whitespace().nth(2));
    id.and_then(guid_of_id).is_some()
}

/// Returns the GUID in the name of a node: `S-0002c90300001234`.
pub(super) fn guid_of_id(id: &str) -> Option<u64> {
    let digits = ["S-", "H-", "R-"].iter().find_map(|kind| id.strip_prefix(kind))?;
    (digits.len() == 16).then(|| hexadecimal(digits)).flatten()
}

/// Reads hexadecimal digits, without a sign.
pub(super) fn hexadecimal(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// Reads `0x1f`, or a decimal number.
pub(super) fn number(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(text.len());
    match text[..end].strip_prefix("0x") {
        Some(digits) => hexadecimal(digits),
        None => text[..end].parse().ok(),
    }
}

/// A reader of the tokens of a line.
pub(super) struct Tokens<'a> {
    pub(super) rest: &'a str,
}

impl<'a> Tokens<'a> {
    pub(super) fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes the text between `open` and `close`, if the rest begins with `open`.
    pub(super) fn between(&mut self, open: char, close: char) -> Option<&'a str> {
        let (inside, rest) = self.rest.strip_prefix(open)?.split_once(close)?;
        self.rest = rest;
        Some(inside)
    }

    /// Takes a name in quotes. Takes a word up to a space or a bracket if the quotes are missing.
    pub(super) fn name(&mut self) -> Option<&'a str> {
        if self.rest.starts_with('"') {
            return self.between('"', '"').filter(|name| !name.is_empty());
        }
        let end = self.rest.find(|letter: char| letter.is_whitespace() || letter == '[' || letter == '#').unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(name).filter(|name| !name.is_empty())
    }

    pub(super) fn digits(&mut self) -> Option<u32> {
        let end = self.rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits.parse().ok()
    }
}
