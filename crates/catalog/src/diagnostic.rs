//! Faults in files: the problem, the location and the remedy.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::parts::PartKind;
pub(crate) use crate::spelling::suggest;

/// Severity of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The loader cannot use the file.
    Error,
    /// The loader can use the file, but perhaps not as its author meant.
    Warning,
    /// Information for the user.
    Note,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A file with the name that the loader knows.
#[derive(Debug)]
struct Source {
    name: String,
    text: String,
}

/// A mistake or a note, with the places in the file that it concerns.
#[derive(Clone, Debug)]
pub struct Fault {
    severity: Severity,
    message: String,
    labels: Vec<(Range<usize>, String)>,
    help: Option<String>,
    source: Arc<Source>,
}

/// Maximum length of a shown line, in characters.
const LINE_MAX: usize = 160;

/// A fault that does not stop the load: a permitted error, or a note.
pub type Warning = Fault;

impl Fault {
    /// Returns the problem in one sentence.
    pub fn message(&self) -> &str {
        &self.message
    }
    /// Returns the remedy.
    pub fn help_text(&self) -> Option<&str> {
        self.help.as_deref()
    }
    /// Returns the severity.
    pub fn level(&self) -> Severity {
        self.severity
    }
    /// Returns the file name that the loader received.
    pub fn file(&self) -> &str {
        &self.source.name
    }
    /// Returns line and column (both from 1) of the first place, if the fault has a place.
    pub fn location(&self) -> Option<(usize, usize)> {
        self.labels.first().map(|(span, _)| line_and_column(&self.source.text, span.start))
    }

    /// Returns the fault in plain lines: `file:line:column: error: message`, further places, help.
    pub fn to_text(&self) -> String {
        self.drawn(false)
    }

    /// Returns the same text, with the line of the file below each place.
    pub fn to_snippet(&self) -> String {
        self.drawn(true)
    }

    fn drawn(&self, with_lines: bool) -> String {
        let (file, level) = (self.file(), self.severity.word());
        let place = |span: &Range<usize>| line_and_column(&self.source.text, span.start);
        let lines = |span: &Range<usize>, label: &str| if with_lines { self.line(span, label) } else { String::new() };
        let mut text = match self.labels.first() {
            Some((span, label)) => {
                let (line, column) = place(span);
                format!("{file}:{line}:{column}: {level}: {}{}", self.message, lines(span, label))
            }
            None => format!("{file}: {level}: {}", self.message),
        };
        for (span, label) in self.labels.iter().skip(1) {
            let (line, column) = place(span);
            text.push_str(&format!("\n  {file}:{line}:{column}: {label}{}", lines(span, "")));
        }
        if let Some(help) = &self.help {
            text.push_str(&format!("\n  help: {help}"));
        }
        text
    }

    /// Returns the line of a place, with marks below the characters that the fault concerns. A
    /// control character appears as one space.
    fn line(&self, span: &Range<usize>, label: &str) -> String {
        let (number, column) = line_and_column(&self.source.text, span.start);
        let Some(line) = self.source.text.lines().nth(number - 1) else { return String::new() };
        let shown: String = line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(LINE_MAX).collect();
        let marked = self.source.text.get(span.clone()).map_or(1, |text| text.lines().next().unwrap_or_default().chars().count());
        let room = shown.chars().count().saturating_sub(column - 1);
        let (margin, marks) = (" ".repeat(number.to_string().len()), "^".repeat(marked.min(room).max(1)));
        let line = format!("\n  {number} | {shown}\n  {margin} | {}{marks} {label}", " ".repeat((column - 1).min(LINE_MAX)));
        line.trim_end().to_owned()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

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
            /// Returns all faults, in the order of the file.
            pub fn faults(&self) -> &[Fault] {
                &self.faults
            }
            /// Returns every fault in plain lines, for output without snippets.
            pub fn to_text(&self) -> String {
                self.faults.iter().map(Fault::to_text).collect::<Vec<_>>().join("\n")
            }
            /// Returns every fault with its lines of the file, for terminals.
            pub fn to_snippet(&self) -> String {
                self.faults.iter().map(Fault::to_snippet).collect::<Vec<_>>().join("\n")
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
    };
}

fault_list!(
    /// All mistakes of an unusable fabric file, each with its place in the file.
    FabricError, "the fabric file");
fault_list!(
    /// All mistakes of an unusable catalogue, each with its place in its file.
    CatalogError, "the catalogue");

/// Collects the faults of one file.
pub(crate) struct Findings {
    source: Arc<Source>,
    pub(crate) errors: Vec<Fault>,
    pub(crate) warnings: Vec<Fault>,
}

/// A place in the file and the text to show there.
pub(crate) type Label = (Range<usize>, String);

impl Findings {
    pub(crate) fn new(file: &str, text: &str) -> Self {
        Self { source: Arc::new(Source { name: file.to_owned(), text: text.to_owned() }), errors: Vec::new(), warnings: Vec::new() }
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
        let fault = self.fault(Severity::Note, message, labels, help);
        self.warnings.push(fault);
    }
    /// Warns that parts of this file replace the parts of the same name in `old`.
    pub(crate) fn replaced(&mut self, kind: PartKind, names: &[String], old: &str) {
        let names = names.join("`, `");
        let help = "give the file a name of its own to have both";
        self.warning(format!("{kind} part `{names}` takes the place of the one in {old}"), Vec::new(), Some(help.into()));
    }
    /// Keeps one of all faults at a place whose messages differ only in numbers, because generated
    /// nodes are all alike.
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

fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let offset = (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    (line, column)
}
