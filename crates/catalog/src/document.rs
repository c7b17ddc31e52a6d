//! A TOML file as a tree that records the place of every key and value.

use std::ops::Range;

use toml_edit::{ImDocument, InlineTable, Item, Key, Table};

use crate::diagnostic::{Findings, suggest};
use crate::units::Number;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Number(Number),
    Bool(bool),
    Date,
    Array(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key of a table with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Range<usize>,
    pub(crate) node: Node,
}

impl Entry {
    /// Returns whether the value is a table that contains `key`, valid or not.
    pub(crate) fn has(&self, key: &str) -> bool {
        matches!(&self.node.value, Value::Table(entries) if entries.iter().any(|entry| entry.key == key))
    }
}

impl Value {
    pub(crate) fn same_integer(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Number(Number::Integer(one)), Self::Number(Number::Integer(two))) if one == two)
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Number(Number::Integer(_)) => "a whole number",
            Self::Number(Number::Decimal(_)) => "a decimal number",
            Self::Bool(_) => "true or false",
            Self::Date => "a date",
            Self::Array(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// Parses `text`. A syntax error goes to `findings`.
pub(crate) fn parse(text: &str, findings: &mut Findings) -> Option<Vec<Entry>> {
    match ImDocument::parse(text) {
        Ok(document) => Some(table_entries(document.as_table(), &(0..0))),
        Err(error) => {
            let span = error.span().unwrap_or(0..0);
            let message = error.message().trim().replace('\n', ": ");
            let help = if message.contains("duplicate key") {
                "each name may stand only once in its table; rename one or remove it"
            } else {
                "the file is TOML: `key = value` lines under `[table]` headings; texts stand in double quotes"
            };
            findings.error(format!("not valid TOML: {message}"), vec![(span, "here".into())], Some(help.into()));
            None
        }
    }
}

fn table_entries(table: &Table, fallback: &Range<usize>) -> Vec<Entry> {
    let keyed = table.iter().filter_map(|(name, _)| table.get_key_value(name));
    keyed.filter_map(|(key, item)| entry(key, item, fallback)).collect()
}

fn inline_entries(table: &InlineTable, fallback: &Range<usize>) -> Vec<Entry> {
    let keyed = table.iter().filter_map(|(name, _)| table.get_key_value(name));
    keyed.filter_map(|(key, item)| entry(key, item, fallback)).collect()
}

fn entry(key: &Key, item: &Item, fallback: &Range<usize>) -> Option<Entry> {
    let key_span = key.span().unwrap_or_else(|| fallback.clone());
    let node = match item {
        Item::None => return None,
        Item::Value(value) => value_node(value, &key_span),
        Item::Table(table) => Node { span: table.span().unwrap_or_else(|| key_span.clone()), value: Value::Table(table_entries(table, &key_span)) },
        Item::ArrayOfTables(tables) => {
            let nodes = tables
                .iter()
                .map(|table| Node { span: table.span().unwrap_or_else(|| key_span.clone()), value: Value::Table(table_entries(table, &key_span)) });
            Node { span: tables.span().unwrap_or_else(|| key_span.clone()), value: Value::Array(nodes.collect()) }
        }
    };
    Some(Entry { key: key.get().to_owned(), key_span, node })
}

fn value_node(value: &toml_edit::Value, fallback: &Range<usize>) -> Node {
    let span = value.span().unwrap_or_else(|| fallback.clone());
    let value = match value {
        toml_edit::Value::String(text) => Value::Text(text.value().clone()),
        toml_edit::Value::Integer(number) => Value::Number(Number::Integer(*number.value())),
        toml_edit::Value::Float(number) => Value::Number(Number::Decimal(*number.value())),
        toml_edit::Value::Boolean(flag) => Value::Bool(*flag.value()),
        toml_edit::Value::Datetime(_) => Value::Date,
        toml_edit::Value::Array(array) => Value::Array(array.iter().map(|item| value_node(item, &span)).collect()),
        toml_edit::Value::InlineTable(table) => Value::Table(inline_entries(table, &span)),
    };
    Node { span, value }
}

/// The entries of one table. The reader takes them key by key; the rest are unknown.
pub(crate) struct Fields<'a> {
    /// Name of the table in messages, such as `` `[fabric]` ``.
    what: String,
    /// Place that an error marks when a key is missing.
    span: Range<usize>,
    entries: &'a [Entry],
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(what: impl Into<String>, span: Range<usize>, entries: &'a [Entry]) -> Self {
        Self { what: what.into(), span, entries, known: Vec::new() }
    }
    /// Opens a node that must be a table.
    pub(crate) fn of(what: impl Into<String>, node: &'a Node, span: Range<usize>, findings: &mut Findings) -> Option<Self> {
        let what = what.into();
        if let Value::Table(entries) = &node.value {
            return Some(Self::new(what, span, entries));
        }
        let label = vec![(node.span.clone(), format!("this is {}", node.value.kind()))];
        findings.error(format!("{what} must be a table"), label, None);
        None
    }

    pub(crate) fn span(&self) -> Range<usize> {
        self.span.clone()
    }
    pub(crate) fn optional(&mut self, key: &'static str) -> Option<&'a Entry> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.entries.iter().find(|entry| entry.key == key)
    }
    /// Returns whether the table contains `key`, valid or not.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }
    pub(crate) fn required(&mut self, key: &'static str, example: &str, findings: &mut Findings) -> Option<&'a Entry> {
        let found = self.optional(key);
        if found.is_none() {
            let label = vec![(self.span(), format!("`{key}` is missing"))];
            findings.error(format!("{} needs `{key}`", self.what), label, Some(format!("write `{key} = {example}`")));
        }
        found
    }
    /// Reads an optional text. `example` is a valid value, for the error message.
    pub(crate) fn optional_text(&mut self, key: &'static str, example: &str, findings: &mut Findings) -> Option<(&'a str, Range<usize>)> {
        self.optional(key).and_then(|entry| text_of(entry, example, findings))
    }
    pub(crate) fn required_text(&mut self, key: &'static str, example: &str, findings: &mut Findings) -> Option<(&'a str, Range<usize>)> {
        self.required(key, example, findings).and_then(|entry| text_of(entry, example, findings))
    }
    pub(crate) fn optional_integer(&mut self, key: &'static str, findings: &mut Findings) -> Option<(i64, Range<usize>)> {
        let entry = self.optional(key)?;
        if let Value::Number(Number::Integer(number)) = entry.node.value {
            return Some((number, entry.node.span.clone()));
        }
        wrong_kind(entry, "a whole number", findings);
        None
    }

    /// Reports every key that the reader did not take.
    pub(crate) fn finish(self, findings: &mut Findings) {
        for entry in self.entries.iter().filter(|entry| !self.known.contains(&entry.key.as_str())) {
            let label = vec![(entry.key_span.clone(), "not a key of this table".to_owned())];
            let help = suggest(&entry.key, "keys here", &self.known);
            findings.error(format!("{} has no key `{}`", self.what, entry.key), label, Some(help));
        }
    }
}

fn text_of<'a>(entry: &'a Entry, example: &str, findings: &mut Findings) -> Option<(&'a str, Range<usize>)> {
    if let Value::Text(text) = &entry.node.value {
        return Some((text, entry.node.span.clone()));
    }
    refuse_kind(entry, "a text in double quotes", Some(format!("write it as in `{} = {example}`", entry.key)), findings);
    None
}

pub(crate) fn wrong_kind(entry: &Entry, wanted: &str, findings: &mut Findings) {
    refuse_kind(entry, wanted, None, findings);
}

fn refuse_kind(entry: &Entry, wanted: &str, help: Option<String>, findings: &mut Findings) {
    let label = vec![(entry.node.span.clone(), format!("this is {}", entry.node.value.kind()))];
    findings.error(format!("`{}` must be {wanted}", entry.key), label, help);
}
