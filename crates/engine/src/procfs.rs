//! Facts of the kernel about processes.

/// Reads a `stat` file of `/proc`; returns empty text if it does not exist. Process names may be
/// any bytes, and a cut name may not be UTF-8.
pub(crate) fn stat(path: String) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
