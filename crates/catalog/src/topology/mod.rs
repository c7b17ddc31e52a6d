//! Topologies from the field: dumps of `ibnetdiscover` and net files of ibsim, read and written.
//!
//! Both formats list nodes with their ports. ibsim reads the output of `ibnetdiscover` and has some
//! more statements, so the two share a reader. They differ in the rates of links: `ibnetdiscover`
//! states the trained rate, and ibsim the enabled widths and speeds.

mod choose;
mod discovery;
mod export;
mod hosts;
mod lines;
mod links;
mod names;
mod rates;
mod read;
mod write;

use std::fmt;
use std::ops::Range;

use crate::catalog::Catalog;
use crate::diagnostic::{FabricError, Findings, Label, Warning};
use crate::fabric_file::{LoadOptions, parse_fabric};
pub(crate) use choose::host_for;
pub use export::{ExportedTopology, export_topology};

/// Format of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyFormat {
    /// Output of `ibnetdiscover` (infiniband-diags).
    Ibnetdiscover,
    /// Net file of ibsim.
    Ibsim,
}

impl fmt::Display for TopologyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ibnetdiscover => "ibnetdiscover",
            Self::Ibsim => "ibsim",
        })
    }
}

/// A topology as a fabric file.
#[derive(Clone, Debug)]
pub struct ImportedTopology {
    /// Text of the fabric file.
    pub text: String,
    /// Guesses and omissions, for the user.
    pub notes: Vec<Warning>,
}

/// Longest line of a topology, in bytes. `ibnetdiscover` writes some 200.
const LINE_MAX: usize = 4_096;
/// Most notes of a kind, because each node of a dump can differ.
const NOTES_MAX: usize = 24;

/// Converts a topology to a fabric file. `file` names it in messages. Detects the format if `format`
/// is `None`. Reads no files and never panics.
///
/// # Errors
/// If the file is no topology, or contradicts itself. The error names the line.
pub fn import_topology(file: &str, bytes: &[u8], format: Option<TopologyFormat>, catalog: &Catalog) -> Result<ImportedTopology, FabricError> {
    let text = match lines::text_of(bytes) {
        Ok(text) => text,
        Err(trouble) => {
            let readable = String::from_utf8_lossy(&bytes[..trouble.line_start.min(bytes.len())]);
            let mut findings = Findings::new(file, &format!("{readable} "));
            findings.error(trouble.message, vec![(readable.len()..readable.len(), String::new())], Some(trouble.help));
            return Err(FabricError::new(findings.errors));
        }
    };
    let mut findings = Findings::new(file, &text);
    match import(file, &text, format, catalog, &mut findings) {
        Ok(text) => Ok(ImportedTopology { text, notes: findings.warnings }),
        Err(trouble) => {
            findings.error(trouble.message, trouble.labels, Some(trouble.help));
            Err(FabricError::new(findings.errors))
        }
    }
}

fn import(file: &str, text: &str, format: Option<TopologyFormat>, catalog: &Catalog, findings: &mut Findings) -> Result<String, Trouble> {
    let format = match format {
        Some(format) => format,
        None => lines::detect(text)?,
    };
    let dump = read::read(text, format)?;
    let graph = links::link(&dump, format)?;
    let plan = hosts::plan(&dump, &graph, findings);
    let parts = choose::choose(&dump, &graph, catalog)?;
    for note in dump.notes.iter().chain(&graph.notes).chain(&parts.notes).take(NOTES_MAX) {
        findings.note(note.0.clone(), vec![(note.1.clone(), String::new())], None);
    }
    let source = write::Source { file, format, dump: &dump, graph: &graph, plan: &plan, parts: &parts, catalog };
    let written = write::fabric_file(&source);
    check(file, &written, catalog)?;
    Ok(written)
}

/// Checks that the fabric file loads. Its parts come from the catalogue, which a user can change.
fn check(file: &str, written: &str, catalog: &Catalog) -> Result<(), Trouble> {
    let Err(error) = parse_fabric(file, written, catalog, &LoadOptions::default()) else { return Ok(()) };
    let fault = &error.faults()[0];
    let help = fault.help_text().unwrap_or("use the catalogue of the installation");
    let message = format!("the parts of the catalogue do not fit this topology: {}", fault.message());
    Err(Trouble { message, labels: Vec::new(), help: help.to_owned() })
}

/// A mistake in a topology: the problem, its places, and the remedy.
#[derive(Debug)]
struct Trouble {
    message: String,
    labels: Vec<Label>,
    help: String,
}

impl Trouble {
    fn at(span: &Range<usize>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), labels: vec![(span.clone(), "here".to_owned())], help: help.into() }
    }
    fn and(mut self, span: &Range<usize>, label: &str) -> Self {
        self.labels.push((span.clone(), label.to_owned()));
        self
    }
}

/// A note with its place.
type Note = (String, Range<usize>);
