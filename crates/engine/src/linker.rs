//! Variables of the dynamic linker.

use std::path::Path;

/// Returns `first`, followed by the present value of the variable.
pub(crate) fn joined(first: &Path, variable: &str, separator: char) -> String {
    match std::env::var(variable) {
        Ok(rest) if !rest.is_empty() => format!("{}{separator}{rest}", first.display()),
        _ => first.display().to_string(),
    }
}
