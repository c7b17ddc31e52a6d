//! Sizes as people write them.

/// Text that is no size in bytes. It prints the problem and the valid units.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a size\n  help: write bytes (65536), or a number with B, KiB, MiB or GiB (64KiB)")]
pub struct SizeError(String);

const UNITS: [(&str, u64); 5] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1), ("", 1)];

/// Returns the bytes of a size such as `65536`, `64KiB` or `64 KiB`; units are B, KiB, MiB and GiB.
///
/// # Errors
/// If the text is not a number, has an unknown unit, or does not fit.
pub fn parse_bytes(text: &str) -> Result<u64, SizeError> {
    let error = || SizeError(text.to_owned());
    let trimmed = text.trim();
    let digits = trimmed.find(|character: char| !character.is_ascii_digit()).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(error)?;
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor)).ok_or_else(error)
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn sizes_have_binary_units_or_none() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("64KiB"), Ok(65536));
        assert_eq!(parse_bytes("1 MiB"), Ok(1 << 20));
    }

    #[test]
    fn what_is_no_size_is_refused_with_what_would_be_one() {
        for wrong in ["", "KiB", "4 kB", "-1", "1.5MiB", "99999999999GiB"] {
            assert!(parse_bytes(wrong).unwrap_err().to_string().contains("64KiB"), "{wrong}");
        }
    }
}
