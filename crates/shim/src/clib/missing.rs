//! Kernel interfaces that Softband lacks. Libraries open their files first, so a warning at that
//! open states the reason.

use crate::runtime::attach::attached;
use softband_client::warn;

/// An interface that a program needs, identified by the files that its library opens.
struct Interface {
    /// Path prefixes. A number, more of the path, or nothing follows.
    files: &'static [&'static [u8]],
    line: &'static str,
}

const INTERFACES: [Interface; 1] = [Interface {
    files: &[b"/dev/infiniband/rdma_cm", b"/dev/infiniband/ucm", CONNECTION_MANAGER, b"/sys/class/infiniband_cm", b"/sys/class/infiniband_ucma"],
    line: "librdmacm finds no device, because Softband has no connection manager (/dev/infiniband/rdma_cm): \
               exchange addresses over a socket, as perftest does without -R",
}];

/// Files of the connection manager. It is no device of its own for the kernel, so its files lie
/// apart from those of HCAs.
pub const CONNECTION_MANAGER: &[u8] = b"/sys/class/misc/rdma_cm";

/// Warns that Softband lacks an interface if `path` is a file of it. Warns once for each interface.
pub fn note(path: &[u8]) {
    if let Some(line) = line_about(path)
        && attached()
    {
        warn::once(line);
    }
}

fn line_about(path: &[u8]) -> Option<&'static str> {
    // Nearly every path ends here.
    if !path.starts_with(b"/dev/infiniband/") && !path.starts_with(b"/sys/class/") {
        return None;
    }
    let is_file_of = |interface: &&Interface| interface.files.iter().any(|file| is_below(path, file));
    INTERFACES.iter().find(is_file_of).map(|interface| interface.line)
}

/// Returns whether `path` is `file`, `file` with a number, or a file below these.
fn is_below(path: &[u8], file: &[u8]) -> bool {
    path.strip_prefix(file).is_some_and(|rest| rest.iter().take_while(|byte| **byte != b'/').all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_of_an_interface_is_told_of_by_its_own_line() {
        for path in
            ["/dev/infiniband/rdma_cm", "/dev/infiniband/ucm0", "/sys/class/misc/rdma_cm/abi_version", "/sys/class/infiniband_ucma/abi_version"]
        {
            assert!(line_about(path.as_bytes()).is_some_and(|line| line.contains("librdmacm")), "{path}");
        }
    }

    #[test]
    fn other_files_are_none_of_them() {
        for path in [
            "",
            "/dev/infiniband",
            "/dev/infiniband/uverbs0",
            "/dev/infiniband/umad0",
            "/sys/class/infiniband_mad",
            "/sys/class/infiniband/mlx5_0",
            "/sys/class/misc/fuse",
            "rdma_cm",
        ] {
            assert!(line_about(path.as_bytes()).is_none(), "{path}");
        }
    }
}
