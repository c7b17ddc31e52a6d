//! Numbers with their nouns, for messages.

use std::fmt::Display;

/// Returns a number with its noun: `one` after the number 1, `many` after any other number.
///
/// ```
/// use softband_types::counted;
/// assert_eq!(counted(1, "switch", "switches"), "1 switch");
/// assert_eq!(counted(2, "switch", "switches"), "2 switches");
/// ```
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, one: &str, many: &str) -> String {
    let noun = if number == N::from(1) { one } else { many };
    format!("{number} {noun}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn only_one_has_the_singular() {
        let said: Vec<String> = [0_usize, 1, 2, 11].into_iter().map(|number| counted(number, "switch", "switches")).collect();
        assert_eq!(said, ["0 switches", "1 switch", "2 switches", "11 switches"]);
        assert_eq!(counted(1_u64, "has", "have"), "1 has");
    }
}
