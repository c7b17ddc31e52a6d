//! Names of hosts, HCAs and switches from node descriptions.

use std::collections::{BTreeMap, BTreeSet};

/// Longest label of a host name (RFC 1123, 2.1) and longest device name of verbs.
const NAME_MAX: usize = 63;

/// Returns the description as a label of a host name (RFC 1123). Other characters become `-`.
pub(super) fn label(description: &str) -> String {
    let mut label = String::new();
    for letter in description.chars() {
        if letter.is_ascii_alphanumeric() {
            label.push(letter);
        } else if !label.is_empty() && !label.ends_with('-') {
            label.push('-');
        }
        if label.len() == NAME_MAX {
            break;
        }
    }
    label.truncate(label.trim_end_matches('-').len());
    // The loader refuses names that resolvers read as addresses.
    if label.is_empty() || label.eq_ignore_ascii_case("localhost") || label.bytes().all(|byte| byte.is_ascii_digit()) {
        label.truncate(NAME_MAX - 2);
        label.insert_str(0, if label.is_empty() { "node" } else { "n-" });
    }
    label
}

/// An HCA's name, as the driver writes it into the node description.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Device {
    /// `mlx5_0`, after the name of the host.
    Named(String),
    /// `HCA-1`, the notation before device names.
    Numbered(String),
    Unknown,
}

/// Splits a description into the name of the host and of the HCA.
pub(super) fn of_hca(description: &str) -> (String, Device) {
    let words: Vec<&str> = description.split_whitespace().collect();
    let is_number = |word: &str| word.strip_prefix("HCA-").is_some_and(|digits| digits.parse::<u16>().is_ok());
    match words.as_slice() {
        [host @ .., last] if !host.is_empty() && is_number(last) => (host_label(&host.join(" ")), Device::Numbered((*last).to_owned())),
        [host, device] if is_device(device) => (host_label(host), Device::Named((*device).to_owned())),
        _ => (label(description), Device::Unknown),
    }
}

/// Returns the label of a host: the first label of a fully qualified name, as `hostname -s` prints it.
fn host_label(host: &str) -> String {
    let first = host.split('.').next().unwrap_or_default();
    // An IPv4 address is no qualified name.
    let is_qualified = !host.contains(' ') && first.bytes().any(|byte| byte.is_ascii_alphabetic());
    label(if is_qualified { first } else { host })
}

/// Checks whether verbs can have a device of this name.
fn is_device(word: &str) -> bool {
    word.len() <= NAME_MAX && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Names in use. Hosts and switches share a name space, which ignores the case of letters.
#[derive(Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
    /// Next number of a name that is in use.
    next: BTreeMap<String, usize>,
}

impl Names {
    /// Returns the name, or the name with a number if it is in use.
    pub(super) fn take(&mut self, name: &str) -> String {
        let key = name.to_ascii_lowercase();
        if self.taken.insert(key.clone()) {
            return name.to_owned();
        }
        let next = self.next.entry(key).or_insert(2);
        loop {
            let suffix = format!("-{next}");
            *next += 1;
            let stem = name[..name.len().min(NAME_MAX - suffix.len())].trim_end_matches('-');
            let numbered = format!("{stem}{suffix}");
            if self.taken.insert(numbered.to_ascii_lowercase()) {
                return numbered;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_description_becomes_a_label() {
        let cases = [
            ("a", "a"),
            ("MF0;sw01:MSX6036F/U1", "MF0-sw01-MSX6036F-U1"),
            ("", "node"),
            ("--", "node"),
            ("12", "n-12"),
            ("Localhost", "n-Localhost"),
            ("Ünode 7.", "node-7"),
        ];
        for (description, expected) in cases {
            assert_eq!(label(description), expected, "{description}");
        }
        assert_eq!((label(&"x".repeat(99)).len(), label(&"7".repeat(99)).len()), (63, 63));
    }

    #[test]
    fn a_description_names_the_host_and_the_hca() {
        let named = |name: &str| Device::Named(name.into());
        assert_eq!(of_hca("a mlx5_0"), ("a".into(), named("mlx5_0")));
        assert_eq!(of_hca("n1.example.org mlx5_0"), ("n1".into(), named("mlx5_0")));
        assert_eq!(of_hca("10.0.0.1 mlx5_0"), ("10-0-0-1".into(), named("mlx5_0")));
        assert_eq!(of_hca("my node HCA-2"), ("my-node".into(), Device::Numbered("HCA-2".into())));
        assert_eq!(of_hca("MT4099 ConnectX3   Mellanox Technologies"), ("MT4099-ConnectX3-Mellanox-Technologies".into(), Device::Unknown));
        assert_eq!(of_hca("HCA-1"), ("HCA-1".into(), Device::Unknown));
    }

    #[test]
    fn a_name_in_use_gets_a_number() {
        let mut names = Names::default();
        let taken: Vec<String> = ["a", "a-2", "A", "a"].iter().map(|name| names.take(name)).collect();
        assert_eq!(taken, ["a", "a-2", "A-3", "a-4"]);
        let long = "x".repeat(63);
        assert_eq!((names.take(&long).len(), names.take(&long).len()), (63, 63));
    }
}
