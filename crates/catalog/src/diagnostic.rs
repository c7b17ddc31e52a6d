//! What is wrong, where, and what would be right.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use miette::{Diagnostic, LabeledSpan, NamedSource, Severity, SourceCode};

use crate::parts::PartKind;

/// One mistake, or one thing to know, with the places in the file that it speaks of.
#[derive(Clone, Debug)]
pub struct Fault {
    severity: Severity,
    message: String,
    labels: Vec<(Range<usize>, String)>,
    help: Option<String>,
    source: Arc<NamedSource<String>>,
}

/// Something that does not stop a fabric from being loaded: an error that was allowed, or a note.
pub type Warning = Fault;

impl Fault {
    /// What is wrong, in one sentence.
    pub fn message(&self) -> &str {
        &self.message
    }
    /// What would be right.
    pub fn help_text(&self) -> Option<&str> {
        self.help.as_deref()
    }
    /// Error, warning or advice.
    pub fn level(&self) -> Severity {
        self.severity
    }
    /// The file as it was named to the loader.
    pub fn file(&self) -> &str {
        self.source.name()
    }
    /// Line and column (both from 1) of the first place, if the fault has a place.
    pub fn location(&self) -> Option<(usize, usize)> {
        self.labels.first().map(|(span, _)| line_and_column(self.source.inner(), span.start))
    }

    /// The fault in plain lines: `file:line:column: error: message`, further places, help.
    pub fn to_text(&self) -> String {
        let level = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Advice => "note",
        };
        let mut text = match self.location() {
            Some((line, column)) => format!("{}:{line}:{column}: {level}: {}", self.file(), self.message),
            None => format!("{}: {level}: {}", self.file(), self.message),
        };
        for (span, label) in self.labels.iter().skip(1) {
            let (line, column) = line_and_column(self.source.inner(), span.start);
            text.push_str(&format!("\n  {}:{line}:{column}: {label}", self.file()));
        }
        if let Some(help) = &self.help {
            text.push_str(&format!("\n  help: {help}"));
        }
        text
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl Diagnostic for Fault {
    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }
    fn source_code(&self) -> Option<&dyn SourceCode> {
        (!self.labels.is_empty()).then_some(&*self.source as &dyn SourceCode)
    }
    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        if self.labels.is_empty() {
            return None;
        }
        let spans = self.labels.iter().map(|(span, text)| LabeledSpan::new_with_span(Some(text.clone()), span.clone()));
        Some(Box::new(spans))
    }
}

macro_rules! fault_list {
    ($(#[$meta:meta])* $name:ident, $what:literal) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name {
            faults: Vec<Fault>,
        }

        impl $name {
            pub(crate) fn new(faults: Vec<Fault>) -> Self {
                assert!(!faults.is_empty(), "an error says what is wrong");
                Self { faults }
            }
            /// Everything found, in the order of the file.
            pub fn faults(&self) -> &[Fault] {
                &self.faults
            }
            /// Every fault in plain lines, for places that draw no snippets.
            pub fn to_text(&self) -> String {
                self.faults.iter().map(Fault::to_text).collect::<Vec<_>>().join("\n")
            }
            fn only(&self) -> Option<&Fault> {
                (self.faults.len() == 1).then(|| &self.faults[0])
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.only() {
                    Some(fault) => fault.fmt(f),
                    None => write!(f, "{} mistakes in {}", self.faults.len(), $what),
                }
            }
        }

        impl std::error::Error for $name {}

        impl Diagnostic for $name {
            fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
                self.only().and_then(Diagnostic::help)
            }
            fn source_code(&self) -> Option<&dyn SourceCode> {
                self.only().and_then(Diagnostic::source_code)
            }
            fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
                self.only().and_then(Diagnostic::labels)
            }
            fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
                if self.faults.len() == 1 {
                    return None;
                }
                Some(Box::new(self.faults.iter().map(|fault| fault as &dyn Diagnostic)))
            }
        }
    };
}

fault_list!(
    /// A fabric file that cannot be used: all of its mistakes, each pointing into the file.
    FabricError, "the fabric file");
fault_list!(
    /// A catalogue that cannot be used: all of its mistakes, each pointing into its file.
    CatalogError, "the catalogue");

/// Collects what is found in one file.
pub(crate) struct Findings {
    source: Arc<NamedSource<String>>,
    pub(crate) errors: Vec<Fault>,
    pub(crate) warnings: Vec<Fault>,
}

/// A place in the file and what to say there.
pub(crate) type Label = (Range<usize>, String);

impl Findings {
    pub(crate) fn new(file: &str, text: &str) -> Self {
        Self { source: Arc::new(NamedSource::new(file, text.to_owned())), errors: Vec::new(), warnings: Vec::new() }
    }
    pub(crate) fn error(&mut self, message: String, labels: Vec<Label>, help: Option<String>) {
        let fault = self.fault(Severity::Error, message, labels, help);
        self.errors.push(fault);
    }
    pub(crate) fn warning(&mut self, message: String, labels: Vec<Label>, help: Option<String>) {
        let fault = self.fault(Severity::Warning, message, labels, help);
        self.warnings.push(fault);
    }
    pub(crate) fn note(&mut self, message: String, labels: Vec<Label>, help: Option<String>) {
        let fault = self.fault(Severity::Advice, message, labels, help);
        self.warnings.push(fault);
    }
    /// Parts of this file stand in for those of that name in `old`.
    pub(crate) fn replaced(&mut self, kind: PartKind, names: &[String], old: &str) {
        let names = names.join("`, `");
        let help = "give the file a name of its own to have both";
        self.warning(format!("{kind} part `{names}` takes the place of the one in {old}"), Vec::new(), Some(help.into()));
    }
    /// Keeps the first of those that say the same of the same place but for numbers: generated nodes are all alike.
    pub(crate) fn say_once(&mut self) {
        let mut said = BTreeSet::new();
        for faults in [&mut self.errors, &mut self.warnings] {
            faults.retain(|fault| {
                let words: String = fault.message.chars().filter(|letter| !letter.is_ascii_digit()).collect();
                said.insert((words, fault.labels.first().map_or(0, |(span, _)| span.start)))
            });
        }
    }
    fn fault(&self, severity: Severity, message: String, labels: Vec<Label>, help: Option<String>) -> Fault {
        Fault { severity, message, labels, help, source: self.source.clone() }
    }
}

/// `known` closest to `word`, when it is close enough to be what was meant.
pub(crate) fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(word, name), name))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

/// "did you mean `x`? known ...: a, b, c", or the list alone; long lists are cut.
pub(crate) fn suggest(word: &str, what: &str, known: &[&str]) -> String {
    const SHOWN_MAX: usize = 24;
    let mut list = known.iter().take(SHOWN_MAX).copied().collect::<Vec<_>>().join(", ");
    if known.len() > SHOWN_MAX {
        list.push_str(&format!(" and {} more", known.len() - SHOWN_MAX));
    }
    if known.is_empty() {
        return format!("there are no {what}");
    }
    match closest(word, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`? The {what} are: {list}"),
        None => format!("the {what} are: {list}"),
    }
}

fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let offset = (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    (line, column)
}
