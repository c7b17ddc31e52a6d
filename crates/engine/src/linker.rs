//! Variables of the dynamic linker.

use std::path::Path;

/// Returns `first`, followed by the present value of the variable.
pub(crate) fn joined(first: &Path, variable: &str, separator: char) -> String {
    match std::env::var(variable) {
        Ok(rest) if !rest.is_empty() => format!("{}{separator}{rest}", first.display()),
        _ => first.display().to_string(),
    }
}

/// Returns a list of preloaded libraries with ours at its end. Ours stands for the kernel, so others
/// that a user preloads (librspreload) come before it.
pub(crate) fn preload_list(others: Option<&str>, own: &Path) -> String {
    match others {
        Some(others) if !others.is_empty() => format!("{others} {}", own.display()),
        _ => own.display().to_string(),
    }
}
