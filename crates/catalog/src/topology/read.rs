//! Records of a topology: nodes with their ports, in the order of the file.

use std::collections::BTreeMap;
use std::ops::Range;

use softband_types::LinkRate;

use super::lines::{Line, Tokens, first_word, guid_of_id, hexadecimal, lines, number};
use super::rates::{self, Enabled, Stated};
use super::{Note, TopologyFormat, Trouble};

/// Kind of a node (NodeType, IBTA 14.2.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Hca,
    Switch,
    Router,
}

/// A node as the file describes it.
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) description: String,
    pub(super) ports: u8,
    pub(super) guid: Option<u64>,
    pub(super) system_guid: u64,
    pub(super) vendor_id: u64,
    pub(super) device_id: u64,
    /// Smallest LID of its ports; 0 if the file gives none.
    pub(super) lid: u32,
    pub(super) span: Range<usize>,
    pub(super) lines: Vec<PortLine>,
}

/// A port with its cable.
pub(super) struct PortLine {
    pub(super) port: u8,
    pub(super) remote: String,
    pub(super) remote_port: u8,
    pub(super) rate: Option<Stated>,
    pub(super) span: Range<usize>,
}

/// All records of a file.
pub(super) struct Dump {
    pub(super) nodes: Vec<Node>,
    pub(super) by_id: BTreeMap<String, usize>,
    pub(super) notes: Vec<Note>,
}

/// Most ports of a node (NumPorts has 8 bits; 255 stands for all ports, IBTA 14.2.5.3).
const PORTS_MAX: u32 = 254;
const CUT: &str = "the file may be cut off here: write the topology again";

/// Statements that concern the nodes after them.
struct State {
    format: TopologyFormat,
    /// Prefix of node names (`module` of ibsim).
    prefix: String,
    /// Base and next GUID by kind: HCA, switch, router.
    guids: [(u64, Option<u64>); 3],
    system_guid: u64,
    vendor_id: u64,
    device_id: u64,
    enabled: Enabled,
}

/// Reads all records.
pub(super) fn read(text: &str, format: TopologyFormat) -> Result<Dump, Trouble> {
    let mut dump = Dump { nodes: Vec::new(), by_id: BTreeMap::new(), notes: Vec::new() };
    let enabled = Enabled::DEFAULT;
    let mut state = State { format, prefix: String::new(), guids: [(0, None); 3], system_guid: 0, vendor_id: 0, device_id: 0, enabled };
    // A record ends at the first line that is no port and no comment.
    let mut record: Option<usize> = None;
    for line in lines(text) {
        if line.text.starts_with('#') {
            continue;
        }
        if line.text.starts_with(['[', '@']) {
            let Some(index) = record else {
                return Err(Trouble::at(
                    &line.span,
                    "a port stands outside of the record of a node",
                    "write it below the line of its switch or HCA, without an empty line between",
                ));
            };
            let node = &mut dump.nodes[index];
            let (port, lid) = port_line(&line, node, &state)?;
            node.lines.push(port);
            node.lid = [node.lid, lid].into_iter().filter(|lid| *lid > 0).min().unwrap_or(0);
            continue;
        }
        record = match first_word(line.text) {
            "Switch" => Some(node(&line, Kind::Switch, &mut state, &mut dump)?),
            "Hca" | "Ca" => Some(node(&line, Kind::Hca, &mut state, &mut dump)?),
            "Rt" => Some(node(&line, Kind::Router, &mut state, &mut dump)?),
            _ => {
                statement(&line, &mut state, &mut dump.notes)?;
                None
            }
        };
    }
    Ok(dump)
}

/// Reads a line such as `devid=0x1003`.
fn statement(line: &Line<'_>, state: &mut State, notes: &mut Vec<Note>) -> Result<(), Trouble> {
    let word = first_word(line.text);
    let value = || {
        let text = line.text.split_once(['=', '+']).map_or("", |(_, text)| text.trim_start());
        number(text).ok_or_else(|| Trouble::at(&line.span, format!("`{word}` has no number"), CUT))
    };
    let is_relative = line.text[word.len()..].trim_start().starts_with('+');
    let mut guid = |kind: usize| {
        let (base, next) = &mut state.guids[kind];
        let value = value()?;
        *base = if is_relative { *base } else { value };
        *next = Some(if is_relative { base.wrapping_add(value) } else { value });
        Ok(())
    };
    let mask = |limit: u64| value().and_then(|value| checked_mask(value, limit, word, line));
    match word {
        "caguid" | "caguids" | "hcaguid" | "hcaguids" => guid(0)?,
        "switchguid" | "switchguids" => guid(1)?,
        "rtguid" | "rtguids" => guid(2)?,
        "sysimgguid" => state.system_guid = value()?,
        "vendid" => state.vendor_id = value()?,
        "devid" => state.device_id = value()?,
        "width" => state.enabled.widths = mask(31)?,
        "speed" => state.enabled.speeds = mask(7)?,
        "extspeed" => state.enabled.extended = mask(63)?,
        "module" => state.prefix = line.text.split('"').nth(1).filter(|name| !name.is_empty()).map_or(String::new(), |name| format!("{name}#")),
        "include" => {
            let help = "put the lines of that file into this file instead";
            return Err(Trouble::at(&line.span, "`include` of another file is not supported", help));
        }
        "do" => notes.push(("a command of ibsim has no effect here".into(), line.span.clone())),
        _ => {}
    }
    Ok(())
}

fn checked_mask(value: u64, limit: u64, word: &str, line: &Line<'_>) -> Result<u8, Trouble> {
    match u8::try_from(value).ok().filter(|_| value <= limit) {
        Some(value) => Ok(value),
        None => Err(Trouble::at(
            &line.span,
            format!("`{word}={value}` is no set of link widths or speeds"),
            format!("write 0 to {limit}: the sum of the codes of PortInfo"),
        )),
    }
}

/// Reads the first line of a record. Returns the index of its node.
fn node(line: &Line<'_>, kind: Kind, state: &mut State, dump: &mut Dump) -> Result<usize, Trouble> {
    let mut tokens = Tokens { rest: &line.text[first_word(line.text).len()..] };
    tokens.skip_space();
    let ports = tokens.digits();
    tokens.skip_space();
    let (Some(ports), Some(id)) = (ports, tokens.name()) else {
        let help = format!("write it as in `Switch 24 \"name\"`, or `Ca 2 \"name\"`; {CUT}");
        return Err(Trouble::at(&line.span, "a node needs its number of ports and its name", help));
    };
    let Some(ports) = u8::try_from(ports).ok().filter(|_| (1..=PORTS_MAX).contains(&ports)) else {
        let help = format!("no part has more than {PORTS_MAX} ports: write 1 to {PORTS_MAX}");
        return Err(Trouble::at(&line.span, format!("a node with {ports} ports cannot be"), help));
    };
    let index = dump.nodes.len();
    let name = format!("{}{id}", state.prefix);
    if let Some(first) = dump.by_id.insert(name, index) {
        let help = "a name stands for one node: remove one of the records, or rename it";
        let first = dump.nodes[first].span.clone();
        return Err(Trouble::at(&line.span, format!("two nodes are called `{id}`"), help).and(&first, "first used here"));
    }
    let comment = tokens.rest.split_once('#').map_or("", |(_, comment)| comment);
    let described = description(comment);
    let lid = after_word(comment, "lid").and_then(|words| words.split_whitespace().next()?.parse().ok()).filter(|_| kind == Kind::Switch);
    let guid = guid(kind, ports, id, line, state)?;
    dump.nodes.push(Node {
        kind,
        description: if described.is_empty() { id.to_owned() } else { described.to_owned() },
        ports,
        guid,
        system_guid: std::mem::take(&mut state.system_guid),
        vendor_id: std::mem::take(&mut state.vendor_id),
        device_id: std::mem::take(&mut state.device_id),
        lid: lid.unwrap_or(0),
        span: line.span.clone(),
        lines: Vec::new(),
    });
    Ok(index)
}

/// Returns the GUID of a node: from the statement before it, or else from its name. ibsim numbers
/// further nodes after a statement.
fn guid(kind: Kind, ports: u8, id: &str, line: &Line<'_>, state: &mut State) -> Result<Option<u64>, Trouble> {
    let (index, step) = match kind {
        Kind::Hca => (0, u64::from(ports) + 1),
        Kind::Switch => (1, 1),
        Kind::Router => (2, u64::from(ports) + 1),
    };
    let (named, next) = (guid_of_id(id), &mut state.guids[index].1);
    let stated = *next;
    *next = if state.format == TopologyFormat::Ibsim { stated.map(|guid| guid.wrapping_add(step)) } else { None };
    if let (Some(named), Some(stated), TopologyFormat::Ibnetdiscover) = (named, stated, state.format)
        && named != stated
    {
        let message = format!("the node is called `{id}`, and the line before gives it the GUID {stated:#018x}");
        return Err(Trouble::at(&line.span, message, "correct the one that is wrong"));
    }
    Ok(stated.or(named).filter(|guid| *guid != 0))
}

/// Returns the description in a comment, with or without its quotes.
fn description(comment: &str) -> &str {
    let comment = comment.trim();
    let quoted = comment.strip_prefix('"').and_then(|rest| rest.rfind('"').map(|end| &rest[..end]));
    let cut = || [" enhanced port ", " base port ", " lid ", " lmc "].iter().filter_map(|word| comment.find(word)).min().unwrap_or(comment.len());
    quoted.unwrap_or_else(|| comment[..cut()].trim_matches('"')).trim()
}

/// Returns the text after the last `word` that stands outside of quotes.
fn after_word<'a>(comment: &'a str, word: &str) -> Option<&'a str> {
    let tail = comment.rfind('"').map_or(comment, |at| &comment[at + 1..]);
    let at = tail.rfind(&format!("{word} ")).filter(|at| tail[..*at].chars().next_back().is_none_or(char::is_whitespace))?;
    Some(&tail[at + word.len() + 1..])
}

/// Reads `[1](guid) "S-..."[3] # lid 5 lmc 0 "name" lid 1 4xQDR`. Returns the port and its own LID.
fn port_line(line: &Line<'_>, node: &Node, state: &State) -> Result<(PortLine, u32), Trouble> {
    if line.text.starts_with('@') {
        return Err(Trouble::at(&line.span, "an alias of a port (`@`) is not supported", "name the node and the port themselves at both ends"));
    }
    let malformed = || Trouble::at(&line.span, "this is not a port with its cable", format!("write it as in `[1] \"name\"[3]`; {CUT}"));
    let mut tokens = Tokens { rest: line.text };
    let port = tokens.between('[', ']').ok_or_else(malformed)?;
    skip_details(&mut tokens);
    let remote = tokens.name().ok_or_else(malformed)?;
    tokens.skip_space();
    // ibsim takes port 1 if the line names none.
    let is_brief = state.format == TopologyFormat::Ibsim && !tokens.rest.starts_with('[');
    let remote_port = if is_brief { "1" } else { tokens.between('[', ']').ok_or_else(malformed)? };
    skip_details(&mut tokens);
    let number = |text: &str| text.trim().parse::<u8>().ok().filter(|number| *number > 0);
    let Some(port) = number(port).filter(|port| *port <= node.ports) else {
        let help = format!("its node has ports 1 to {}", node.ports);
        return Err(Trouble::at(&line.span, format!("there is no port `{port}`"), help).and(&node.span, "this node"));
    };
    let Some(remote_port) = number(remote_port) else {
        return Err(Trouble::at(&line.span, format!("there is no port `{remote_port}`"), "ports have the numbers 1 to 254"));
    };
    let comment = tokens.rest.split_once('#').map_or("", |(_, comment)| comment);
    let lid = comment.trim_start().strip_prefix("lid ").and_then(|words| words.split_whitespace().next()?.parse().ok());
    let lid = lid.filter(|_| node.kind != Kind::Switch).unwrap_or(0);
    let remote = if remote.contains('#') { remote.to_owned() } else { format!("{}{remote}", state.prefix) };
    let rate = rate_of(line, tokens.rest, comment, state)?;
    Ok((PortLine { port, remote, remote_port, rate, span: line.span.clone() }, lid))
}

/// Skips the number of an external port and the GUID: `[ext 3]`, `(2c90300001235)`.
fn skip_details(tokens: &mut Tokens<'_>) {
    loop {
        tokens.skip_space();
        let is_external = tokens.rest.starts_with("[ext");
        let is_guid = tokens.rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).is_some_and(|(digits, _)| hexadecimal(digits).is_some());
        let skipped = (is_external && tokens.between('[', ']').is_some()) || (is_guid && tokens.between('(', ')').is_some());
        if !skipped {
            return;
        }
    }
}

/// Returns the rate of a port: `4xQDR` after the LID of the other end, or ibsim's options.
fn rate_of(line: &Line<'_>, rest: &str, comment: &str, state: &State) -> Result<Option<Stated>, Trouble> {
    let trained = trained(line, comment)?;
    if state.format == TopologyFormat::Ibnetdiscover {
        return Ok(trained.map(Stated::Trained));
    }
    let mut enabled = state.enabled;
    let outside_quotes = rest.split('"').step_by(2);
    for (option, value) in outside_quotes.flat_map(str::split_whitespace).filter_map(|word| word.split_once('=')) {
        let mask =
            |limit| number(value).ok_or(()).map_err(|()| malformed_option(line, option)).and_then(|value| checked_mask(value, limit, option, line));
        match option.chars().next_back() {
            Some('w') => enabled.widths = mask(31)?,
            // 0 stands for QDR.
            Some('s') => enabled.speeds = Some(mask(7)?).filter(|speeds| *speeds != 0).unwrap_or(4),
            Some('e') => enabled.extended = mask(63)?,
            _ => {}
        }
    }
    Ok(Some(Stated::Enabled(trained.map_or(enabled, Enabled::up_to))))
}

fn malformed_option(line: &Line<'_>, option: &str) -> Trouble {
    Trouble::at(&line.span, format!("the option `{option}` has no number"), "write it as in `w=2`")
}

fn trained(line: &Line<'_>, comment: &str) -> Result<Option<LinkRate>, Trouble> {
    let Some(word) = after_word(comment, "lid").and_then(|words| words.split_whitespace().nth(1)) else { return Ok(None) };
    if !word.starts_with(|letter: char| letter.is_ascii_digit() || letter == '?') {
        return Ok(None);
    }
    match rates::parse(word) {
        Some(rate) => Ok(Some(rate)),
        None => {
            let help =
                "write a width (1x, 2x, 4x, 8x, 12x) and a speed (SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR), such as `4xQDR`, at both ends";
            Err(Trouble::at(&line.span, format!("`{word}` is no width and speed of a link"), help))
        }
    }
}
