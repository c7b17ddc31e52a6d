//! The words of a trace, with their lines.

/// A word, or `{`, `}`, `:` or `;`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    pub text: &'a str,
    /// Line, from 1.
    pub line: u32,
}

const MARKS: [char; 4] = ['{', '}', ':', ';'];

/// Returns the words of the trace without comments. A comment follows `//` or `#` on a line, or
/// stands between `/*` and `*/`.
pub(super) fn words(text: &str) -> Vec<Word<'_>> {
    let (mut words, mut is_comment) = (Vec::new(), false);
    for (line, mut rest) in (1..).zip(text.lines()) {
        loop {
            if is_comment {
                let Some(end) = rest.find("*/") else { break };
                (rest, is_comment) = (&rest[end + 2..], false);
            }
            let end = ["//", "#", "/*"].into_iter().filter_map(|mark| rest.find(mark)).min().unwrap_or(rest.len());
            words.extend(of_line(&rest[..end]).map(|text| Word { text, line }));
            if !rest[end..].starts_with("/*") {
                break;
            }
            (rest, is_comment) = (&rest[end + 2..], true);
        }
    }
    words
}

fn of_line(mut rest: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let stops = |character: char| character.is_whitespace() || MARKS.contains(&character);
        let end = if MARKS.contains(&first) { 1 } else { rest.find(stops).unwrap_or(rest.len()) };
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}
