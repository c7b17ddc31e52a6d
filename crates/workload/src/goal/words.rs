//! The words of a trace, with their lines.

/// A word, or one of `{`, `}`, `:`, `;`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    pub text: &'a str,
    /// From 1 on.
    pub line: u32,
}

const MARKS: [char; 4] = ['{', '}', ':', ';'];

/// Words of the trace; what follows `//` or `#` on a line is a comment.
pub(super) fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    (1..).zip(text.lines()).flat_map(|(line, text)| {
        let end = [text.find("//"), text.find('#')].into_iter().flatten().min().unwrap_or(text.len());
        of_line(&text[..end]).map(move |text| Word { text, line })
    })
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
