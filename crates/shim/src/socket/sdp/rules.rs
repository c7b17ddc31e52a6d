//! Rules of `libsdp.conf`: which streams use SDP.
//!
//! `use sdp|tcp|both server|client|listen|connect PROGRAM ADDRESS[/BITS]|*:PORT[-PORT]|*`
//! The first rule that matches decides. Without one, a stream uses TCP.

use std::net::Ipv4Addr;

/// Protocol of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Sdp,
    /// A server takes both. A client prefers SDP.
    Both,
}

/// Side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Server,
    Client,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    transport: Transport,
    /// `None` for both roles.
    role: Option<Role>,
    /// Name of the program with the wildcards `*` and `?`.
    program: String,
    network: u32,
    mask: u32,
    first_port: u16,
    last_port: u16,
}

/// Rules in the order of their file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Returns the rule that all streams use a protocol.
    pub fn all(transport: Transport) -> Self {
        Self(vec![Rule { transport, role: None, program: "*".into(), network: 0, mask: 0, first_port: 0, last_port: u16::MAX }])
    }

    /// Reads the rules of a file. An error begins with the number of its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split_once('#').map_or(line, |(before, _)| before);
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.first().copied() {
                // Messages of Softband go to standard error.
                None | Some("log") => {}
                Some("use") => rules.push(rule(&words[1..]).map_err(|error| format!("{number}: {error}"))?),
                Some(other) => return Err(format!("{number}: unknown statement `{other}`; write `use` or `log`")),
            }
        }
        Ok(Self(rules))
    }

    /// Returns the protocol of a stream with this address: the own one of a server, or the peer's.
    pub fn transport(&self, role: Role, program: &str, address: Ipv4Addr, port: u16) -> Transport {
        let matches = |rule: &&Rule| {
            rule.role.is_none_or(|own| own == role)
                && u32::from(address) & rule.mask == rule.network
                && (rule.first_port..=rule.last_port).contains(&port)
                && fits(rule.program.as_bytes(), program.as_bytes())
        };
        self.0.iter().find(matches).map_or(Transport::Tcp, |rule| rule.transport)
    }
}

fn rule(words: &[&str]) -> Result<Rule, String> {
    let (transport, role, program, place) = match *words {
        [transport, role, program, place] => (transport, role, program, place),
        [transport, role, place] => (transport, role, "*", place),
        _ => return Err(format!("a rule has {} words behind `use`; write FAMILY ROLE PROGRAM ADDRESS:PORT", words.len())),
    };
    let transport = match transport {
        "sdp" => Transport::Sdp,
        "tcp" => Transport::Tcp,
        "both" => Transport::Both,
        other => return Err(format!("unknown family `{other}`; write `sdp`, `tcp` or `both`")),
    };
    let role = match role {
        "server" | "listen" => Role::Server,
        "client" | "connect" => Role::Client,
        other => return Err(format!("unknown role `{other}`; write `server`, `client`, `listen` or `connect`")),
    };
    let (address, ports) = place.rsplit_once(':').ok_or_else(|| format!("`{place}` has no port; write ADDRESS:PORT"))?;
    let (network, mask) = network(address)?;
    let (first_port, last_port) = range(ports)?;
    Ok(Rule { transport, role: Some(role), program: program.into(), network, mask, first_port, last_port })
}

/// Reads an address with the bits of its prefix, as a network and its mask.
fn network(text: &str) -> Result<(u32, u32), String> {
    if text == "*" {
        return Ok((0, 0));
    }
    let (address, bits) = text.split_once('/').unwrap_or((text, "32"));
    let address: Ipv4Addr = address.parse().map_err(|_| format!("`{address}` is no address of IPv4; write one like 192.168.1.0, or `*`"))?;
    let bits: u32 = bits.parse().ok().filter(|bits| *bits <= 32).ok_or_else(|| format!("`{bits}` is no prefix; write 0 to 32"))?;
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    Ok((u32::from(address) & mask, mask))
}

fn range(text: &str) -> Result<(u16, u16), String> {
    if text == "*" {
        return Ok((0, u16::MAX));
    }
    let port = |text: &str| text.parse().map_err(|_| format!("`{text}` is no port; write 0 to 65535, or `*`"));
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (port(first)?, port(last)?),
        None => (port(text)?, port(text)?),
    };
    if first > last { Err(format!("the ports {text} are in the wrong order")) } else { Ok((first, last)) }
}

/// Returns whether a name fits a pattern with `*` and `?`. Takes time of the product of both lengths.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut done, mut star) = (0, 0, None);
    while done < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, done));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[done] => (at, done) = (at + 1, done + 1),
            _ => {
                let Some((star_at, from)) = star else { return false };
                star = Some((star_at, from + 1));
                (at, done) = (star_at + 1, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_matches_decides() {
        let text = "# rules\nlog min-level 9 destination stderr\nuse tcp server sshd *:22\nuse both listen nc* 10.1.0.0/16:*\n\
                    use sdp client iperf? *:5001-5010 # many\nuse tcp connect * *:*\n";
        let rules = Rules::parse(text).expect("correct rules");
        let at = |last| Ipv4Addr::new(10, 1, 0, last);
        let of = |role, program, port| rules.transport(role, program, at(1), port);
        assert_eq!(of(Role::Server, "sshd", 22), Transport::Tcp);
        assert_eq!(of(Role::Server, "ncat", 80), Transport::Both);
        assert_eq!(of(Role::Client, "iperf3", 5_001), Transport::Sdp);
        assert_eq!(of(Role::Client, "iperf", 5_001), Transport::Tcp);
        assert_eq!(of(Role::Client, "iperf3", 5_011), Transport::Tcp);
        assert_eq!(rules.transport(Role::Server, "ncat", Ipv4Addr::LOCALHOST, 80), Transport::Tcp);
        assert_eq!(Rules::all(Transport::Sdp).transport(Role::Server, "x", at(9), 1), Transport::Sdp);
    }

    #[test]
    fn an_error_names_its_line_and_a_remedy() {
        let error = |text: &str| Rules::parse(text).expect_err("a wrong rule");
        assert_eq!(error("\nmatch all"), "2: unknown statement `match`; write `use` or `log`");
        assert_eq!(error("use udp server * *:*"), "1: unknown family `udp`; write `sdp`, `tcp` or `both`");
        assert_eq!(error("use sdp peer * *:*"), "1: unknown role `peer`; write `server`, `client`, `listen` or `connect`");
        assert_eq!(error("use sdp server"), "1: a rule has 2 words behind `use`; write FAMILY ROLE PROGRAM ADDRESS:PORT");
        assert_eq!(error("use sdp server * *"), "1: `*` has no port; write ADDRESS:PORT");
        assert_eq!(error("use sdp server * 10.0.0.0/33:*"), "1: `33` is no prefix; write 0 to 32");
        assert_eq!(error("use sdp server * ::1:80"), "1: `::1` is no address of IPv4; write one like 192.168.1.0, or `*`");
        assert_eq!(error("use sdp server * *:70000"), "1: `70000` is no port; write 0 to 65535, or `*`");
        assert_eq!(error("use sdp server * *:9-8"), "1: the ports 9-8 are in the wrong order");
    }

    #[test]
    fn wildcards_fit_as_those_of_a_shell() {
        for (pattern, name, expected) in
            [("*", "", true), ("db2*", "db2", true), ("t?cp", "ttcp", true), ("t?cp", "tcp", false), ("*a*b", "xaab", true), ("*a*b", "xaa", false)]
        {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
