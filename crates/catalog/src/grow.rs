//! Grows a fabric file to any number of hosts, for the default fabric.

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

/// Returns the text of a fabric file with `count` hosts. Each host is a copy of the first host of
/// `text`, on a copy of its first cable.
/// The cable of each host leads to the switch port with the host's number. The loader checks that
/// the switch has this port.
///
/// # Errors
/// If `text` does not have that form.
pub fn with_hosts(text: &str, count: usize) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let hosts = document.get_mut("hosts").and_then(Item::as_table_mut).ok_or("it has no hosts")?;
    let (first, host) = hosts.iter().next().map(|(name, host)| (name.to_owned(), host.clone())).ok_or("it has no hosts")?;
    hosts.clear();
    for index in 0..count {
        hosts.insert(&host_name(index), host.clone());
    }
    let cables = document.get("cables").and_then(Item::as_array_of_tables);
    let is_first = |cable: &&Table| cable.get("from").and_then(Item::as_str).is_some_and(|from| from.split('/').next() == Some(&first));
    let cable = cables.and_then(|cables| cables.iter().find(is_first)).cloned().ok_or("its first host has no cable")?;
    let end = |name: &str| cable.get(name).and_then(Item::as_str).and_then(|end| end.split_once('/')).ok_or("a cable's end is not NODE/PORT");
    let ((_, device), (switch, _)) = (end("from")?, end("to")?);
    let mut grown = ArrayOfTables::new();
    for index in 0..count {
        let mut cable = cable.clone();
        cable.insert("from", value(format!("{}/{device}", host_name(index))));
        cable.insert("to", value(format!("{switch}/{}", index + 1)));
        grown.push(cable);
    }
    document.insert("cables", Item::ArrayOfTables(grown));
    Ok(document.to_string())
}

/// Returns the usual name of a host by its number: a to z, then aa, ab and so on.
pub fn host_name(index: usize) -> String {
    let letter = char::from(b'a' + (index % 26) as u8);
    if index < 26 { letter.to_string() } else { format!("{}{letter}", host_name(index / 26 - 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[hosts.only]\npart = \"p\"\n[[hosts.only.hcas]]\npart = \"q\"\n[switches.sw]\npart = \"s\"\n[[cables]]\nfrom = \"only/m/1\"\nto = \"sw/9\"\n";

    #[test]
    fn every_host_is_as_the_first_and_has_a_cable_of_its_own() {
        let grown = with_hosts(TEXT, 28).unwrap();
        for part in ["[hosts.a]", "[[hosts.z.hcas]]", "[hosts.ab]", "\"ab/m/1\"", "\"sw/28\""] {
            assert!(grown.contains(part), "{part} in {grown}");
        }
        assert!(!grown.contains("hosts.only") && !grown.contains("sw/29"), "{grown}");
    }

    #[test]
    fn a_text_of_another_form_is_refused() {
        for text in ["", "[hosts]\n", "[hosts.a]\n", "[hosts.a]\n[[cables]]\nfrom = \"a\"\nto = \"b\"\n", "="] {
            assert!(with_hosts(text, 2).is_err(), "{text}");
        }
    }
}
