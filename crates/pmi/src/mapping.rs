//! The process mapping: which ranks share a host, as `(vector,(first host,hosts,ranks of each),...)`.

use crate::VALUE_MAX;

/// Most ranks of a mapping that this module reads.
const RANKS_MAX: usize = 1 << 20;

/// Writes the hosts of all ranks, in the order of the ranks. Returns `None` if the text is too long
/// for a value.
#[must_use]
pub fn text(hosts: &[usize]) -> Option<String> {
    // Runs of ranks on one host: the host and the number of ranks.
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for host in hosts {
        match runs.last_mut() {
            Some((last, ranks)) if last == host => *ranks += 1,
            _ => runs.push((*host, 1)),
        }
    }
    let mut blocks: Vec<(usize, usize, usize)> = Vec::new();
    for (host, ranks) in runs {
        match blocks.last_mut() {
            Some((first, count, each)) if first.checked_add(*count) == Some(host) && *each == ranks => *count += 1,
            _ => blocks.push((host, 1, ranks)),
        }
    }
    let blocks: Vec<String> = blocks.iter().map(|(first, count, each)| format!("({first},{count},{each})")).collect();
    let text = format!("(vector,{})", blocks.join(","));
    (text.len() <= VALUE_MAX).then_some(text)
}

/// Reads the hosts of `ranks` ranks. Blocks repeat until every rank has a host. Returns `None` if
/// the text is no mapping.
#[must_use]
pub fn hosts_of(text: &str, ranks: usize) -> Option<Vec<usize>> {
    let blocks = text.strip_prefix("(vector,(")?.strip_suffix("))")?;
    let mut hosts = Vec::new();
    let blocks: Vec<[usize; 3]> = blocks.split("),(").map(block).collect::<Option<_>>()?;
    if ranks > RANKS_MAX || blocks.iter().any(|[_, count, each]| *count == 0 || *each == 0) {
        return None;
    }
    for [first, count, each] in blocks.iter().cycle() {
        for host in 0..*count {
            for _ in 0..*each {
                if hosts.len() == ranks {
                    return Some(hosts);
                }
                hosts.push(first.checked_add(host)?);
            }
        }
    }
    None
}

fn block(text: &str) -> Option<[usize; 3]> {
    let numbers: Vec<usize> = text.split(',').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_of_equal_hosts_become_one() {
        assert_eq!(text(&[0, 0, 1, 1, 2, 2]).as_deref(), Some("(vector,(0,3,2))"));
        assert!(text(&[usize::MAX, 0]).is_some());
        assert_eq!(text(&[0, 1, 0]).as_deref(), Some("(vector,(0,2,1),(0,1,1))"));
        assert_eq!(text(&(0..2000).rev().collect::<Vec<_>>()), None);
    }

    #[test]
    fn blocks_repeat_and_other_text_is_refused() {
        assert_eq!(hosts_of("(vector,(0,2,1))", 5), Some(vec![0, 1, 0, 1, 0]));
        for text in ["", "(vector)", "(vector,(0,0,1))", "(vector,(0,1))", "(vector,(0,1,1)", "(matrix,(0,1,1))"] {
            assert_eq!(hosts_of(text, 2), None, "{text}");
        }
        assert_eq!(hosts_of("(vector,(0,1,1))", usize::MAX), None);
    }

    proptest! {
        #[test]
        fn a_mapping_reads_back(hosts in prop::collection::vec(0_usize..4, 1..40)) {
            let text = text(&hosts).unwrap();
            prop_assert_eq!(hosts_of(&text, hosts.len()), Some(hosts));
        }
    }
}
