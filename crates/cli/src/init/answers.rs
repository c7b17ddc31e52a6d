//! The four answers: from options, from defaults, or from a terminal.

use super::{Topology, fabric_of};
use anyhow::bail;
use softband_catalog::{Catalog, PartKind, SuitedParts, suggest};
use softband_types::LinkLayer;
use std::io::BufRead;

/// Usual number of hosts, and the most that the largest fat tree can have.
const HOSTS: u32 = 2;
const HOSTS_MAX: u32 = 11_664;

/// Answers that options give.
pub(super) struct Given {
    pub(super) hosts: Option<u32>,
    pub(super) hca: Option<String>,
    pub(super) link_layer: Option<LinkLayer>,
    pub(super) topology: Option<Topology>,
}

/// All answers, with the parts that follow.
pub(super) struct Answers {
    pub(super) hosts: u32,
    pub(super) hca: String,
    pub(super) link_layer: LinkLayer,
    pub(super) topology: Topology,
    pub(super) parts: SuitedParts,
}

impl Given {
    pub(super) fn has_any(&self) -> bool {
        self.hosts.is_some() || self.hca.is_some() || self.link_layer.is_some() || self.topology.is_some()
    }

    /// Takes the default for each answer that is missing, and prints these defaults.
    pub(super) fn with_defaults(self, catalog: &Catalog, usual_hca: &str) -> anyhow::Result<Answers> {
        let mut taken = Vec::new();
        let hosts = self.hosts.unwrap_or_else(|| {
            taken.push(format!("--hosts {HOSTS}"));
            HOSTS
        });
        let hca = self.hca.unwrap_or_else(|| {
            taken.push(format!("--hca {usual_hca}"));
            usual_hca.to_owned()
        });
        check_hca(catalog, &hca)?;
        let link_layer = self.link_layer.unwrap_or_else(|| {
            taken.push(format!("--link-layer {}", name_of(LinkLayer::Infiniband)));
            LinkLayer::Infiniband
        });
        let parts = parts(catalog, &hca, link_layer)?;
        let topology = self.topology.unwrap_or_else(|| {
            let usual = usual_topology(hosts, link_layer, &parts);
            taken.push(format!("--topology {}", usual.name()));
            usual
        });
        if !taken.is_empty() {
            eprintln!("softband: defaults: {}", taken.join(" "));
        }
        check_topology(hosts, link_layer, topology, &parts)?;
        Ok(Answers { hosts, hca, link_layer, topology, parts })
    }
}

/// Asks on the terminal for each answer that is missing. A bad answer repeats its question.
pub(super) fn ask(given: Given, catalog: &Catalog, usual_hca: &str) -> anyhow::Result<Answers> {
    let hosts = match given.hosts {
        Some(hosts) => hosts,
        None => question("Number of hosts", &HOSTS.to_string(), |word| parse_hosts(word).map_err(anyhow::Error::msg))?,
    };
    let check = |word: &str| check_hca(catalog, word).map(|()| word.to_owned());
    let hca = match given.hca {
        Some(hca) => check(&hca)?,
        None => {
            eprintln!("HCA parts: {}", catalog.parts(PartKind::Hca).join(", "));
            question("HCA part", usual_hca, check)?
        }
    };
    let suit = |layer| parts(catalog, &hca, layer).map(|parts| (layer, parts));
    let (link_layer, parts) = match given.link_layer {
        Some(layer) => suit(layer)?,
        None => question("Link layer (infiniband, ethernet)", name_of(LinkLayer::Infiniband), |word| {
            suit(parse_link_layer(word).map_err(anyhow::Error::msg)?)
        })?,
    };
    let answers = |topology| {
        check_topology(hosts, link_layer, topology, &parts)?;
        let answers = Answers { hosts, hca: hca.clone(), link_layer, topology, parts: parts.clone() };
        fabric_of(&answers, catalog).map(|_| answers)
    };
    match given.topology {
        Some(topology) => answers(topology),
        None => question("Topology (back-to-back, star, fat-tree)", usual_topology(hosts, link_layer, &parts).name(), |word| {
            answers(parse_topology(word).map_err(anyhow::Error::msg)?)
        }),
    }
}

/// Asks until the answer is good. An empty answer stands for the usual one.
fn question<T>(text: &str, usual: &str, read: impl Fn(&str) -> anyhow::Result<T>) -> anyhow::Result<T> {
    loop {
        eprint!("{text} [{usual}]: ");
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line)? == 0 {
            eprintln!();
            bail!("the input ended before all answers\n  help: `softband init --yes` takes the defaults");
        }
        let word = line.trim();
        match read(if word.is_empty() { usual } else { word }) {
            Ok(answer) => return Ok(answer),
            Err(error) => eprintln!("  {error:#}"),
        }
    }
}

pub(super) fn parse_hosts(word: &str) -> Result<u32, String> {
    let hosts = word.parse::<u32>().ok().filter(|hosts| (1..=HOSTS_MAX).contains(hosts));
    hosts.ok_or_else(|| format!("`{word}` is no number of hosts\n  help: write a whole number from 1 to {HOSTS_MAX}"))
}

pub(super) fn parse_link_layer(word: &str) -> Result<LinkLayer, String> {
    let layers = [LinkLayer::Infiniband, LinkLayer::Ethernet];
    let found = layers.into_iter().find(|layer| name_of(*layer) == word);
    found.ok_or_else(|| format!("no link layer `{word}`\n  help: {}", suggest(word, "link layers", &layers.map(name_of))))
}

pub(super) fn parse_topology(word: &str) -> Result<Topology, String> {
    let found = Topology::ALL.into_iter().find(|topology| topology.name() == word);
    let help = || suggest(word, "topologies here", &Topology::ALL.map(Topology::name));
    found.ok_or_else(|| format!("no topology `{word}`\n  help: {}. `softband fabric generate` makes more", help()))
}

fn name_of(layer: LinkLayer) -> &'static str {
    match layer {
        LinkLayer::Infiniband => "infiniband",
        LinkLayer::Ethernet => "ethernet",
    }
}

fn check_hca(catalog: &Catalog, word: &str) -> anyhow::Result<()> {
    if catalog.hca(word).is_none() {
        bail!("no hca part `{word}`\n  help: {}", suggest(word, "hca parts", &catalog.parts(PartKind::Hca)));
    }
    Ok(())
}

fn parts(catalog: &Catalog, hca: &str, layer: LinkLayer) -> anyhow::Result<SuitedParts> {
    if layer == LinkLayer::Ethernet && !catalog.has_ethernet_ports(hca) {
        let able: Vec<&str> = catalog.parts(PartKind::Hca).into_iter().filter(|name| catalog.has_ethernet_ports(name)).collect();
        bail!("`{hca}` has no Ethernet ports\n  help: take infiniband, or one of {}", able.join(", "));
    }
    let found = catalog.suited_parts(hca, layer);
    found.ok_or_else(|| anyhow::anyhow!("no switch and cable of the catalogue suit `{hca}`\n  help: add parts: `docs/parts.md` shows how"))
}

/// Returns a star, or a fat tree for more hosts than the switch has ports.
fn usual_topology(hosts: u32, layer: LinkLayer, parts: &SuitedParts) -> Topology {
    if layer == LinkLayer::Infiniband && hosts > u32::from(parts.switch_ports) { Topology::FatTree } else { Topology::Star }
}

fn check_topology(hosts: u32, layer: LinkLayer, topology: Topology, parts: &SuitedParts) -> anyhow::Result<()> {
    let ports = u32::from(parts.switch_ports);
    match topology {
        Topology::BackToBack if hosts != 2 => bail!("back-to-back joins 2 hosts, not {hosts}\n  help: take star, or 2 hosts"),
        Topology::FatTree if layer == LinkLayer::Ethernet => {
            bail!("a fat tree has several paths, and frames of Ethernet have one\n  help: take star")
        }
        Topology::Star if hosts > ports => {
            let other = if layer == LinkLayer::Infiniband { "take fat-tree, or fewer hosts" } else { "take fewer hosts" };
            bail!("switch `{}` has {ports} ports, too few for {hosts} hosts\n  help: {other}", parts.switch)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suited(ports: u8) -> SuitedParts {
        let [host, device, switch, cable, cable_length] = ["h", "d0", "s", "c", "1 m"].map(str::to_owned);
        SuitedParts { host, device, switch, switch_ports: ports, cable, cable_length }
    }

    #[test]
    fn words_that_are_no_answer_are_refused_with_the_answers() {
        assert_eq!(parse_hosts("16"), Ok(16));
        for word in ["", "0", "-1", "two", "11665", "2.5", "99999999999"] {
            assert!(parse_hosts(word).is_err_and(|error| error.contains("1 to 11664")), "{word}");
        }
        assert!(parse_topology("fattree").is_err_and(|error| error.contains("did you mean `fat-tree`?")));
        assert!(parse_link_layer("Ethernet").is_err_and(|error| error.contains("did you mean `ethernet`?")));
    }

    #[test]
    fn a_topology_must_have_room_for_the_hosts() {
        let check = |hosts, layer, topology| check_topology(hosts, layer, topology, &suited(4)).map_err(|error| error.to_string());
        let (ib, ethernet) = (LinkLayer::Infiniband, LinkLayer::Ethernet);
        assert!(check(2, ib, Topology::BackToBack).is_ok() && check(4, ethernet, Topology::Star).is_ok() && check(9, ib, Topology::FatTree).is_ok());
        assert!(check(3, ib, Topology::BackToBack).is_err_and(|error| error.contains("joins 2 hosts")));
        assert!(check(5, ib, Topology::Star).is_err_and(|error| error.contains("take fat-tree")));
        assert!(check(5, ethernet, Topology::Star).is_err_and(|error| !error.contains("fat-tree")));
        assert!(check(4, ethernet, Topology::FatTree).is_err());
        assert_eq!((usual_topology(4, ib, &suited(4)), usual_topology(5, ib, &suited(4))), (Topology::Star, Topology::FatTree));
    }
}
