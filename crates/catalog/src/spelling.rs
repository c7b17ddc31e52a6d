//! Suggestions for misspelt names: one rule for every name of the product.

/// Most names in a list before it is cut.
const SHOWN_MAX: usize = 24;
/// Least number of letters for a match with the beginning of a name.
const PREFIX_MIN: usize = 3;
/// Separators between the parts of a name.
const SEPARATORS: [char; 4] = ['-', '_', '/', '.'];

/// Returns the name of `known` that `word` probably means.
///
/// A name is near if at most a third of its letters must be changed, added, dropped or swapped with
/// their neighbour.
/// If no whole name is near, a near last part counts (`sdr-cx4` of `cables/sdr-cx4`). Otherwise
/// `word` may be the beginning or a part of the name.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let candidates = known.into_iter().filter_map(|name| Some((farness(&word, &name.to_lowercase())?, name)));
    candidates.min_by_key(|(farness, _)| *farness).map(|(_, name)| name)
}

/// Returns the rank of a match: edits of the whole name, then edits of its last part, then
/// beginnings and parts. Returns `None` if the words have nothing in common.
fn farness(word: &str, name: &str) -> Option<(u8, usize)> {
    let letters = |text: &str| text.chars().count();
    let few_edits = |name: &str| Some(strsim::osa_distance(word, name)).filter(|edits| *edits <= (letters(word).max(letters(name)) + 1) / 3);
    if let Some(edits) = few_edits(name) {
        return Some((0, edits));
    }
    let is_long_enough = letters(word) >= PREFIX_MIN;
    if let Some(edits) = few_edits(name.rsplit('/').next().unwrap_or(name)).filter(|_| is_long_enough) {
        return Some((1, edits));
    }
    let is_part = || name.split(SEPARATORS).any(|part| part == word || (letters(part) > PREFIX_MIN && strsim::osa_distance(word, part) <= 1));
    (is_long_enough && (name.starts_with(word) || is_part())).then(|| (2, letters(name)))
}

/// Returns "did you mean `x`? The ... are: a, b, c", or the list alone. Long lists are cut.
pub fn suggest(word: &str, what: &str, known: &[&str]) -> String {
    let mut list = known.iter().take(SHOWN_MAX).copied().collect::<Vec<_>>().join(", ");
    if known.len() > SHOWN_MAX {
        list.push_str(&format!(" and {} more", known.len() - SHOWN_MAX));
    }
    if known.is_empty() {
        return format!("there are no {what}");
    }
    match closest(word, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`? The {what} are: {list}"),
        None => format!("the {what} are: {list}"),
    }
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn a_name_is_found_by_few_edits_by_its_beginning_or_by_one_of_its_parts() {
        let cases = include_str!("spelling_cases.txt").lines().filter(|line| !line.starts_with('#'));
        for case in cases {
            let mut parts = case.split('|').map(str::trim);
            let mut part = || parts.next().unwrap_or_else(|| panic!("{case}"));
            let (word, known, expected) = (part(), part(), part());
            let expected = Some(expected).filter(|name| !name.is_empty());
            assert_eq!(closest(word, known.split_whitespace()), expected, "{case}");
        }
    }
}
