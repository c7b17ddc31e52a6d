//! Which host each rank runs on.

use crate::output::count as counted;
use anyhow::bail;

/// The user's words about hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) ranks: Option<usize>,
    /// `HOST` or `HOST:SLOTS`.
    pub(crate) hosts: Vec<String>,
    pub(crate) ranks_per_host: Option<usize>,
}

impl Wish {
    /// Returns the number of hosts that a fabric made for this job needs. Its hosts are a, b and so
    /// on; the fabric has room for `room`.
    pub(crate) fn hosts_needed(&self, room: usize) -> usize {
        let named = self.hosts.iter().filter_map(|word| index_of_name(split(word).0)).map(|index| index + 1).max();
        let for_ranks = || self.ranks.map(|ranks| ranks.div_ceil(self.ranks_per_host.unwrap_or(1)));
        let needed = named.or_else(for_ranks).unwrap_or(2);
        if self.ranks_per_host.is_none() && named.is_none() { needed.min(room) } else { needed }
    }

    /// Returns the host of each rank. Ranks fill each host before the next.
    ///
    /// # Errors
    /// If the fabric lacks a host, or the hosts have too few slots.
    pub(crate) fn place(&self, fabric: &[String]) -> anyhow::Result<Vec<usize>> {
        let (hosts, slots) = self.slots(fabric)?;
        let total = slots.as_ref().map(|slots| slots.iter().sum());
        let ranks = self.ranks.or(total).unwrap_or(hosts.len());
        let slots = match slots {
            Some(slots) if ranks > slots.iter().sum() => {
                let all = counted(slots.iter().sum::<usize>() as u64, "slot", "slots");
                let on = counted(hosts.len() as u64, "host", "hosts");
                bail!(
                    "{} are more than the {all} of {on}\n  help: ask for fewer with -n, for more of each host (--ppn, --hosts a:4), or for more hosts",
                    counted(ranks as u64, "rank", "ranks")
                )
            }
            Some(slots) => slots,
            None => (0..hosts.len()).map(|host| ranks / hosts.len() + usize::from(host < ranks % hosts.len())).collect(),
        };
        let filled = hosts.iter().zip(slots).flat_map(|(host, slots)| std::iter::repeat_n(*host, slots));
        Ok(filled.take(ranks).collect())
    }

    /// Returns the hosts in order, and their slots if the user limited them.
    fn slots(&self, fabric: &[String]) -> anyhow::Result<(Vec<usize>, Option<Vec<usize>>)> {
        if self.hosts.is_empty() {
            return Ok(((0..fabric.len()).collect(), self.ranks_per_host.map(|slots| vec![slots; fabric.len()])));
        }
        let (mut hosts, mut slots) = (Vec::new(), Vec::new());
        for word in &self.hosts {
            let (name, number) = split(word);
            let Some(host) = fabric.iter().position(|host| host == name) else {
                let known: Vec<&str> = fabric.iter().map(String::as_str).collect();
                bail!("--hosts {word}: the fabric has no host of this name\n  help: {}", softband_catalog::suggest(name, "hosts", &known));
            };
            if hosts.contains(&host) {
                bail!("--hosts names {name} twice\n  help: write {name}:2 for two ranks on it");
            }
            let number = match number.map(str::parse::<usize>) {
                Some(Ok(number)) if number > 0 => Some(number),
                Some(_) => bail!("--hosts {word}: the number of slots is not above 0\n  help: write {name}:2 for two ranks on it"),
                None => None,
            };
            hosts.push(host);
            slots.push(number);
        }
        let limited = slots.iter().any(Option::is_some).then(|| slots.iter().map(|slots| slots.unwrap_or(1)).collect());
        Ok((hosts, limited))
    }
}

fn split(word: &str) -> (&str, Option<&str>) {
    word.split_once(':').map_or((word, None), |(name, slots)| (name, Some(slots)))
}

/// Returns the place of a name in a, b, ..., z, aa, ab and so on.
fn index_of_name(name: &str) -> Option<usize> {
    if name.is_empty() || name.len() > 2 || !name.bytes().all(|letter| letter.is_ascii_lowercase()) {
        return None;
    }
    Some(name.bytes().fold(0, |index, letter| index * 26 + usize::from(letter - b'a') + 1) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(ranks: Option<usize>, hosts: &[&str], ranks_per_host: Option<usize>) -> Wish {
        Wish { ranks, hosts: hosts.iter().map(|host| (*host).to_owned()).collect(), ranks_per_host }
    }

    fn fabric() -> Vec<String> {
        ["a", "b", "c"].map(String::from).to_vec()
    }

    #[test]
    fn ranks_fill_hosts_in_blocks() {
        assert_eq!(wish(None, &[], None).place(&fabric()).unwrap(), [0, 1, 2]);
        assert_eq!(wish(Some(5), &[], None).place(&fabric()).unwrap(), [0, 0, 1, 1, 2]);
        assert_eq!(wish(Some(2), &[], None).place(&fabric()).unwrap(), [0, 1]);
        assert_eq!(wish(Some(4), &[], Some(3)).place(&fabric()).unwrap(), [0, 0, 0, 1]);
        assert_eq!(wish(None, &["c:2", "a"], None).place(&fabric()).unwrap(), [2, 2, 0]);
        assert_eq!(wish(Some(4), &["c", "a"], None).place(&fabric()).unwrap(), [2, 2, 0, 0]);
    }

    #[test]
    fn wishes_that_do_not_fit_are_refused() {
        let error = |wish: Wish| wish.place(&fabric()).unwrap_err().to_string();
        assert!(error(wish(Some(7), &[], Some(2))).starts_with("7 ranks are more than the 6 slots of 3 hosts"));
        assert!(error(wish(Some(4), &["a:2", "b"], None)).starts_with("4 ranks are more than the 3 slots of 2 hosts"));
        assert!(error(wish(None, &["x"], None)).contains("no host of this name"));
        assert!(error(wish(None, &["a", "a"], None)).contains("twice"));
        assert!(error(wish(None, &["a:0"], None)).contains("not above 0"));
        assert!(error(wish(None, &["a:x"], None)).contains("not above 0"));
    }

    #[test]
    fn a_fabric_made_for_the_job_has_the_hosts_that_it_needs() {
        assert_eq!(wish(Some(8), &[], None).hosts_needed(64), 8);
        assert_eq!(wish(Some(8), &[], Some(3)).hosts_needed(64), 3);
        assert_eq!(wish(Some(100), &[], None).hosts_needed(64), 64);
        assert_eq!(wish(Some(100), &[], Some(1)).hosts_needed(64), 100);
        assert_eq!(wish(None, &["d:2", "b"], None).hosts_needed(64), 4);
        assert_eq!(wish(None, &["ab"], None).hosts_needed(64), 28);
        assert_eq!(wish(None, &[], None).hosts_needed(64), 2);
    }
}
