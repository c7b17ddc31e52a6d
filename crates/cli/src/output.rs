//! Output of programs: on the terminal after the host's name, and unchanged in files.

use anyhow::Context;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;

pub(crate) use softband_types::counted as count;

/// Returns an error of the catalogue with its place in the file. On a terminal, includes the line.
pub(crate) fn diagnostic(error: softband_catalog::FabricError) -> anyhow::Error {
    anyhow::Error::msg(if std::io::stderr().is_terminal() { error.to_snippet() } else { error.to_text() })
}

/// Returns the form of every error: `softband: error: message`, or `file:line:column: error:
/// message` for a place in a file.
pub(crate) fn error_text(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    if first.contains(": error: ") { message.to_owned() } else { format!("softband: error: {message}") }
}

/// Prints the answer of a command. Fails unless standard output takes every byte.
pub(crate) fn say(text: impl std::fmt::Display) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "{text}").and_then(|()| out.flush()).context("cannot write to standard output")
}

static LOST: Mutex<Option<String>> = Mutex::new(None);

fn note_loss(place: &str, written: std::io::Result<()>) {
    if let Err(error) = written
        && let Ok(mut lost) = LOST.lock()
    {
        lost.get_or_insert(format!("output of programs was lost, {place} cannot be written: {error}"));
    }
}

/// Returns the first error of writing output, if any.
pub(crate) fn take_loss() -> Option<String> {
    LOST.lock().ok()?.take()
}

/// Our own stream that receives a program's stream.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    Out,
    Error,
}

/// Copies a program's stream: completely into a file, line by line to the terminal.
pub(crate) struct Copy {
    pub(crate) stream: Stream,
    /// Prefix of every line; empty for a single program.
    pub(crate) prefix: String,
    pub(crate) file: Option<File>,
    pub(crate) line: Vec<u8>,
}

impl Copy {
    fn show(&mut self, end: usize) {
        let line: Vec<u8> = self.line.drain(..end).collect();
        let mut text = self.prefix.clone().into_bytes();
        text.extend(line);
        // The terminal may be gone; the file still gets everything.
        let written = match self.stream {
            Stream::Out => std::io::stdout().lock().write_all(&text),
            Stream::Error => std::io::stderr().lock().write_all(&text),
        };
        note_loss("the terminal", written);
    }
}

impl Write for Copy {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Some(file) = &mut self.file {
            note_loss("the run folder", file.write_all(bytes));
        }
        if self.prefix.is_empty() {
            self.line.extend(bytes);
            self.show(self.line.len());
            return Ok(bytes.len());
        }
        self.line.extend(bytes);
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            self.show(end + 1);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if !self.line.is_empty() {
            self.line.push(b'\n');
            self.show(self.line.len());
        }
        note_loss("the terminal", std::io::stdout().flush());
        Ok(())
    }
}
