//! Colours and fonts of all pictures, for light and dark themes. The colours are literals, because
//! some viewers do not support CSS variables.

use super::MARGIN;
use std::fmt::Write;

/// Upper bound of the average letter width of ordinary text, in hundredths of a pixel.
pub(super) const LETTER: i64 = 700;
/// The same bound for a title.
const TITLE_LETTER: i64 = 1130;
/// The same bound for small text.
const SMALL_LETTER: i64 = 620;
/// Distances between lines, in pixels.
const TITLE_LINE: i64 = 23;
const SMALL_LINE: i64 = 18;

/// Least displayed width of a picture, in percent of its own width. Letters stay readable, and a
/// narrow window scrolls.
const SHRUNK_MIN: i64 = 75;

const LIGHT: &str = "svg:root { background: #ffffff; }
text { font-family: 'Helvetica Neue', Arial, sans-serif; font-size: 13px; fill: #1f2937; }
.title { font-size: 18px; font-weight: 600; }
.head { font-weight: 600; }
.small { font-size: 12px; fill: #4b5563; }
.mark { font-size: 12px; font-weight: 600; text-anchor: middle; }
.port { font-size: 11px; text-anchor: middle; fill: #4b5563; stroke: #ffffff; stroke-width: 3px; paint-order: stroke; }
.end { text-anchor: end; }
.middle { text-anchor: middle; }
path { fill: none; }
.paper { fill: #ffffff; }
.host { fill: #eff6ff; stroke: #64748b; }
.switch { fill: #f0fdf4; stroke: #64748b; }
.badge { fill: #ffffff; stroke: #1f2937; }
.tick { stroke: #64748b; }
.gap { stroke: #ffffff; stroke-width: 0.8; }
.copper { stroke: #b45309; }
.optical { stroke: #0e7490; }
";

const DARK: &str = "svg:root { background: #0f172a; }
text { fill: #e5e7eb; }
.small { fill: #a3b1c4; }
.port { fill: #c3cedd; stroke: #0f172a; }
.paper { fill: #0f172a; }
.host { fill: #1e3a5f; stroke: #94a3b8; }
.switch { fill: #14432a; stroke: #94a3b8; }
.badge { fill: #0f172a; stroke: #e5e7eb; }
.tick { stroke: #94a3b8; }
.gap { stroke: #0f172a; }
.copper { stroke: #f59e0b; }
.optical { stroke: #22d3ee; }
";

/// Returns the style sheet of a picture of this width in pixels. The picture's own rules for light
/// and dark themes follow the shared rules.
pub fn style(width: i64, light: &str, dark: &str) -> String {
    let min = width * SHRUNK_MIN / 100;
    let root = format!("svg:root {{ max-width: 100%; min-width: {min}px; height: auto; }}\n");
    format!("<style>\n{root}{LIGHT}{light}@media (prefers-color-scheme: dark) {{\n{DARK}{dark}}}\n</style>\n")
}

/// Returns the beginning of a picture: size, title, description for readers who cannot see it,
/// style and background.
pub fn opening((width, height): (i64, i64), title: &str, description: &str, style: &str) -> String {
    let (title, description) = (escape_xml(title), escape_xml(description));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
         aria-label=\"{title}\">\n<title>{title}</title>\n<desc>{description}</desc>\n{style}\
         <rect width=\"{width}\" height=\"{height}\" class=\"paper\"/>\n"
    )
}

/// Writes the title and the lines below it, from the top of a picture of this width in pixels.
/// Returns their lower end.
pub fn heading(out: &mut String, width: i64, title: &str, small: &[&str]) -> i64 {
    let room = width - 2 * MARGIN;
    let mut y = 12;
    for line in wrapped(title, letters(room, TITLE_LETTER)) {
        y += TITLE_LINE;
        let _ = writeln!(out, "<text x=\"{MARGIN}\" y=\"{y}\" class=\"title\">{}</text>", escape_xml(&line));
    }
    for line in small.iter().flat_map(|text| wrapped(text, letters(room, SMALL_LETTER))) {
        y += SMALL_LINE;
        let _ = writeln!(out, "<text x=\"{MARGIN}\" y=\"{}\" class=\"small\">{}</text>", y + 2, escape_xml(&line));
    }
    y + 2
}

/// Returns how many letters fit into `room` pixels, if a letter takes `letter` hundredths of a
/// pixel. Returns at least 8.
pub(super) fn letters(room: i64, letter: i64) -> usize {
    (room * 100 / letter).max(8) as usize
}

/// Wraps text into lines of at most `letters` letters. Cuts longer words.
pub(super) fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        while !word.is_empty() {
            let used = lines.last().map_or(0, |line| line.chars().count());
            let gap = usize::from(used > 0);
            if used > 0 && used + gap + word.len() > letters {
                lines.push(String::new());
                continue;
            }
            let rest = word.split_off(word.len().min(letters));
            if let Some(line) = lines.last_mut() {
                line.extend([" "].iter().take(gap).flat_map(|gap| gap.chars()).chain(word));
            }
            word = rest;
        }
    }
    lines
}

/// Escapes the special characters of XML and drops those that XML cannot hold.
pub fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{FFFE}' | '\u{FFFF}' => {}
            character if character.is_control() => {}
            character => escaped.push(character),
        }
    }
    escaped
}
