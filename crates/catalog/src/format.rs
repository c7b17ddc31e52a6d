//! One form of a fabric file: spacing, blank lines, and the order of keys. Comments stay.

use toml_edit::{Array, Decor, DocumentMut, InlineTable, Item, Key, KeyMut, RawString, Table, Value};

use crate::diagnostic::{FabricError, Findings};
use crate::document::{self, Entry};

/// Order of keys, by the table that holds them. A star stands for any name. Other keys follow as
/// they stand.
const ORDERS: [(&[&str], &[&str]); 8] = [
    (&["fabric"], &["edition", "title", "seed", "start_date", "kernel"]),
    (&["hosts", "*"], &["part", "kernel"]),
    (&["hosts", "*", "hcas"], &["device", "part", "slot", "bus", "link_layer", "pkeys", "node_guid", "options"]),
    (&["hosts", "*", "nics", "*"], &["part", "slot", "bus", "node_guid"]),
    (&["hosts", "*", "interfaces", "*"], &["kind"]),
    (&["interfaces", "*"], &["kind"]),
    (&["switches", "*"], &["part", "node_guid"]),
    (&["cables"], &["part", "length", "rate", "from", "to"]),
];

/// Returns the text of a fabric file in its one form. `file` names it in messages.
///
/// The order of tables stays, because it numbers hosts and switches. Lists over several lines stay
/// as they are.
///
/// # Errors
/// If the text is not TOML. Other mistakes of a fabric do not matter here.
pub fn format_fabric(file: &str, text: &str) -> Result<String, FabricError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let mut findings = Findings::new(file, &text);
    let before = document::parse(&text, &mut findings);
    let (Some(before), Ok(mut document)) = (before, text.parse::<DocumentMut>()) else { return Err(FabricError::new(findings.errors)) };
    table(&mut Vec::new(), document.as_table_mut());
    let trailing = lines_of(document.trailing());
    document.set_trailing(trailing);
    let formatted = format!("{}\n", document.to_string().trim_matches('\n'));
    let formatted = if formatted == "\n" { String::new() } else { formatted };
    let after = document::parse(&formatted, &mut findings);
    if !after.is_some_and(|after| is_same(&before, &after)) {
        findings.error("Softband cannot format this file without a change of its meaning".into(), Vec::new(), Some("please report it".into()));
        return Err(FabricError::new(findings.errors));
    }
    Ok(formatted)
}

fn table(path: &mut Vec<String>, table: &mut Table) {
    if let Some(order) = order_of(path) {
        let rank = |key: &Key| order.iter().position(|name| *name == key.get()).unwrap_or(order.len());
        table.sort_values_by(|one, _, other, _| rank(one).cmp(&rank(other)));
    }
    let mut is_first = true;
    for (mut key, item) in table.iter_mut() {
        path.push(key.get().to_owned());
        match item {
            Item::None => {}
            Item::Value(value) => {
                leaf(&mut key, value, is_first);
                is_first = false;
            }
            Item::Table(inner) => {
                if !inner.is_dotted() {
                    head(inner.decor_mut());
                    key.leaf_decor_mut().clear();
                }
                key.dotted_decor_mut().clear();
                self::table(path, inner);
            }
            Item::ArrayOfTables(tables) => {
                key.leaf_decor_mut().clear();
                key.dotted_decor_mut().clear();
                for inner in tables.iter_mut() {
                    head(inner.decor_mut());
                    self::table(path, inner);
                }
            }
        }
        path.pop();
    }
}

fn order_of(path: &[String]) -> Option<&'static [&'static str]> {
    let fits = |pattern: &[&str]| pattern.len() == path.len() && pattern.iter().zip(path).all(|(wanted, name)| *wanted == "*" || wanted == name);
    ORDERS.iter().find(|(pattern, _)| fits(pattern)).map(|(_, order)| *order)
}

/// Puts one empty line before a heading and its comments.
fn head(decor: &mut Decor) {
    let before = lines_of(decor.prefix().unwrap_or(&RawString::default()));
    let comment = comment_of(decor.suffix());
    *decor = Decor::new(format!("\n{}", before.trim_start_matches('\n')), comment);
}

/// Formats a key and its value.
fn leaf(key: &mut KeyMut<'_>, value: &mut Value, is_first: bool) {
    let before = lines_of(key.leaf_decor().prefix().unwrap_or(&RawString::default()));
    let before = if is_first { before.trim_start_matches('\n') } else { &before };
    *key.leaf_decor_mut() = Decor::new(before, " ");
    key.dotted_decor_mut().clear();
    inside(value);
    let comment = comment_of(value.decor().suffix());
    *value.decor_mut() = Decor::new(" ", comment);
}

/// Formats the inside of lists and inline tables. Those over several lines stay as they are.
fn inside(value: &mut Value) {
    let is_long = |text: String| text.trim().contains('\n');
    match value {
        Value::Array(array) if !is_long(array.to_string()) => list(array),
        Value::InlineTable(inline) if !is_long(inline.to_string()) => inline_table(inline),
        _ => {}
    }
}

fn list(array: &mut Array) {
    array.iter_mut().for_each(inside);
    array.fmt();
}

fn inline_table(inline: &mut InlineTable) {
    inline.iter_mut().for_each(|(_, value)| inside(value));
    inline.fmt();
}

/// Returns the lines before a key or heading: comments without space around them, and at most one
/// empty line in a row.
fn lines_of(raw: &RawString) -> String {
    let text = raw.as_str().unwrap_or_default();
    // The rest behind the last line is the indentation of the key.
    let Some((lines, _)) = text.rsplit_once('\n') else { return String::new() };
    let mut kept = String::new();
    for line in lines.split('\n').map(str::trim) {
        if line.is_empty() && (kept.ends_with("\n\n") || kept == "\n") {
            continue;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// Returns the comment at the end of a line, two spaces behind the value.
fn comment_of(raw: Option<&RawString>) -> String {
    match raw.and_then(RawString::as_str).map(str::trim).unwrap_or_default() {
        "" => String::new(),
        comment => format!("  {comment}"),
    }
}

/// Compares keys and values, regardless of the order of keys within a table without tables.
fn is_same(before: &[Entry], after: &[Entry]) -> bool {
    let tables = |entries: &[Entry]| -> Vec<String> {
        let tables = entries.iter().filter(|entry| matches!(entry.node.value, document::Value::Table(_)));
        tables.map(|entry| entry.key.clone()).collect()
    };
    let is_kept = |entry: &Entry| after.iter().any(|other| other.key == entry.key && is_same_value(&entry.node, &other.node));
    before.len() == after.len() && tables(before) == tables(after) && before.iter().all(is_kept)
}

fn is_same_value(before: &document::Node, after: &document::Node) -> bool {
    use document::Value::{Array, Table};
    match (&before.value, &after.value) {
        (Table(before), Table(after)) => is_same(before, after),
        (Array(before), Array(after)) => before.len() == after.len() && before.iter().zip(after).all(|(before, after)| is_same_value(before, after)),
        (before, after) => format!("{before:?}") == format!("{after:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::format_fabric;

    fn of(text: &str) -> String {
        format_fabric("f", text).unwrap()
    }

    #[test]
    fn keys_have_one_order_and_comments_stay_with_them() {
        let text = "\n\n# Head.\n\n\n  [ fabric ]   # about\n\n# The name.\ntitle=\"x\"   #   short\n   edition = \"2026\"\n\n\n[hosts.b]\npart='p'\n[[hosts.b.hcas]]\npart = \"h\" # card\n\
                    device = \"d\"\n[hosts.a]\npart = \"p\"\n[[cables]]\nto=\"sw/1\"\nfrom = \"a\"\n# Long.\nlength = \"2 m\"\npart = \"c\"\n\t# The end.\n\n";
        let wanted = "# Head.\n\n[fabric]  # about\nedition = \"2026\"\n\n# The name.\ntitle = \"x\"  #   short\n\n[hosts.b]\npart = 'p'\n\n[[hosts.b.hcas]]\n\
                      device = \"d\"\npart = \"h\"  # card\n\n[hosts.a]\npart = \"p\"\n\n[[cables]]\npart = \"c\"\n# Long.\nlength = \"2 m\"\nfrom = \"a\"\nto = \"sw/1\"\n# The end.\n";
        assert_eq!(of(text), wanted);
        assert_eq!(of(wanted), wanted);
    }

    #[test]
    fn lists_and_inline_tables_have_one_form_unless_they_have_several_lines() {
        assert_eq!(of("a.b=[1,0x8005 ,]\nc = {x=1,y=[ 2,3 ]}"), "a.b = [1, 0x8005]\nc = { x = 1, y = [2, 3] }\n");
        let long = "a = [\n    1,  # one\n    2,\n]\nb = \"\"\"\n  x  \n\n\n\"\"\"\n";
        assert_eq!(of(long), long);
    }

    #[test]
    fn line_ends_and_byte_order_marks_of_other_systems_go() {
        assert_eq!(of("\u{feff}[fabric]\r\ntitle = \"x\"\r\n\r\n"), "[fabric]\ntitle = \"x\"\n");
        assert_eq!(of(""), "");
        assert_eq!(of("\n# only\n"), "# only\n");
    }

    #[test]
    fn a_text_that_is_not_toml_names_its_line() {
        for text in ["[fabric]\ntitle = \n", "[fabric]\ntitle = \"a\"\ntitle = \"b\"\n"] {
            let error = format_fabric("f.toml", text).unwrap_err().to_text();
            assert!(error.starts_with("f.toml:") && error.contains("not valid TOML"), "{error}");
        }
    }
}
