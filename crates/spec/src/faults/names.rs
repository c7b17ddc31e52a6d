//! Names of ports, hosts and switches in files and commands.

use super::{BitErrorRate, FaultKind, PacketClass};
use crate::{FabricSpec, PortRef};
use softband_sim::SimDuration;
use softband_types::PortNumber;

/// Unknown word, and the valid words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Statement of the problem.
    pub message: String,
    /// The unknown word.
    pub word: String,
    /// Category of the `known` words, in the plural.
    pub what: String,
    /// Valid words, in the order of the fabric. An empty list if there are too many.
    pub known: Vec<String>,
}

impl Unknown {
    fn new(message: String, word: &str, what: impl Into<String>, known: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { message, word: word.into(), what: what.into(), known: known.into_iter().map(Into::into).collect() }
    }
}

impl FabricSpec {
    /// Returns the index of the host with this name.
    ///
    /// # Errors
    /// `Unknown` if no host has this name.
    pub fn find_host(&self, name: &str) -> Result<usize, Unknown> {
        let names = || self.hosts.iter().map(|host| host.name.as_str());
        names().position(|of| of == name).ok_or_else(|| Unknown::new(format!("no host `{name}`"), name, "hosts", names()))
    }

    /// Returns the index of the switch with this name.
    ///
    /// # Errors
    /// `Unknown` if no switch has this name.
    pub fn find_switch(&self, name: &str) -> Result<usize, Unknown> {
        let names = || self.switches.iter().map(|switch| switch.name.as_str());
        names().position(|of| of == name).ok_or_else(|| Unknown::new(format!("no switch `{name}`"), name, "switches", names()))
    }

    /// Returns the port that `text` names: `host/device/port` or `switch/port`.
    ///
    /// # Errors
    /// `Unknown` if the fabric has no port with this name.
    pub fn find_port(&self, text: &str) -> Result<PortRef, Unknown> {
        let words: Vec<&str> = text.split('/').collect();
        let number = |word: &str, ports: u8| {
            let number = word.parse::<u8>().ok().filter(|number| (1..=ports).contains(number)).map(PortNumber);
            let ports = (1..=ports).map(|port| port.to_string());
            number.ok_or_else(|| Unknown::new(format!("no port `{text}`"), word, format!("ports of `{}`", words[0]), ports))
        };
        if let Ok(switch) = self.find_switch(words[0])
            && let [_, port] = words[..]
        {
            return Ok(PortRef::Switch { switch, port: number(port, self.switches[switch].part.ports)? });
        }
        let Ok(host) = self.find_host(words[0]) else {
            let names = self.hosts.iter().map(|host| &host.name).chain(self.switches.iter().map(|switch| &switch.name));
            return Err(Unknown::new(format!("`{text}` does not name a port"), words[0], "hosts and switches", names.cloned()));
        };
        let of_host = &self.hosts[host];
        let devices = || of_host.hcas.iter().map(|hca| hca.device.as_str());
        let [_, device, port] = words[..] else {
            let ports = devices().map(|device| format!("{}/{device}/1", of_host.name));
            return Err(Unknown::new(format!("`{text}` does not name a port"), text, format!("first ports of `{}`", of_host.name), ports));
        };
        let hca = devices().position(|of| of == device).ok_or_else(|| {
            let message = format!("`{text}` does not name a port: host `{}` has no HCA `{device}`", of_host.name);
            Unknown::new(message, device, format!("HCAs of host `{}`", of_host.name), devices())
        })?;
        Ok(PortRef::Hca { host, hca, port: number(port, of_host.hcas[hca].part.ports)? })
    }

    /// Returns the port that `text` names, and the cable on it.
    ///
    /// # Errors
    /// `Unknown` if the fabric has no port with this name, or if no cable ends on it.
    pub fn find_cable(&self, text: &str) -> Result<(PortRef, usize), Unknown> {
        let port = self.find_port(text)?;
        let cabled = || self.cables.iter().map(|cable| self.port_name(cable.ends[0]));
        let unknown = || Unknown::new(format!("no cable ends on `{text}`"), text, "ports with a cable", cabled());
        self.cable_at(port).map(|cable| (port, cable)).ok_or_else(unknown)
    }
}

impl PacketClass {
    /// Returns the class with this name.
    ///
    /// # Errors
    /// `Unknown` if no class of packets has this name.
    pub fn find(name: &str) -> Result<Self, Unknown> {
        Self::parse(name).ok_or_else(|| Unknown::new(format!("no kind of packet `{name}`"), name, "kinds of packets", Self::ALL.map(Self::name)))
    }
}

impl FaultKind {
    /// Parses a fault from the words of a command: its name, then its arguments.
    ///
    /// # Errors
    /// `Unknown` if a word has no meaning here.
    pub fn of_words(spec: &FabricSpec, words: &[&str]) -> Result<Self, Unknown> {
        let wrong = |word: &str, wanted: &str| Unknown::new(format!("`{word}` is not {wanted}"), word, "", Vec::<String>::new());
        match *words {
            ["link_down", link] => Ok(Self::LinkDown { cable: spec.find_cable(link)?.1 }),
            ["link_up", link] => Ok(Self::LinkUp { cable: spec.find_cable(link)?.1 }),
            ["link_recovers", picos, link] => {
                let lasts = picos.parse().ok().filter(|picos| *picos > 0).map(SimDuration::from_picos);
                Ok(Self::LinkRecovers { lasts: lasts.ok_or_else(|| wrong(picos, "a time in picoseconds"))?, cable: spec.find_cable(link)?.1 })
            }
            ["bit_errors", rate, link] => {
                let rate = rate.parse().ok().and_then(BitErrorRate::new).ok_or_else(|| wrong(rate, "a rate: write 0 or more, and less than 1"))?;
                Ok(Self::BitErrors { rate, cable: spec.find_cable(link)?.1 })
            }
            ["drop", packet, number, port] => {
                let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(|| wrong(number, "a number: write 1 or more"))?;
                Ok(Self::Drop { packet: PacketClass::find(packet)?, number, port: spec.find_cable(port)?.0 })
            }
            ["host_dies", host] => Ok(Self::HostDies { host: spec.find_host(host)? }),
            ["switch_dies", switch] => Ok(Self::SwitchDies { switch: spec.find_switch(switch)? }),
            _ => Err(Unknown::new(format!("no fault `{}`", words.join(" ")), words.first().unwrap_or(&""), "faults", Self::NAMES)),
        }
    }

    /// Formats the fault as the words that [`Self::of_words`] parses.
    pub fn words(&self, spec: &FabricSpec) -> Vec<String> {
        let link = |cable: usize| spec.port_name(spec.cables[cable].ends[0]);
        let mut words = vec![self.name().to_owned()];
        match self {
            Self::LinkDown { cable } | Self::LinkUp { cable } => words.push(link(*cable)),
            Self::LinkRecovers { cable, lasts } => words.extend([lasts.as_picos().to_string(), link(*cable)]),
            Self::BitErrors { cable, rate } => words.extend([format!("{:e}", rate.get()), link(*cable)]),
            Self::Drop { port, packet, number } => words.extend([packet.name().to_owned(), number.to_string(), spec.port_name(*port)]),
            Self::HostDies { host } => words.push(spec.hosts[*host].name.clone()),
            Self::SwitchDies { switch } => words.push(spec.switches[*switch].name.clone()),
        }
        words
    }
}
