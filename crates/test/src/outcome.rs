//! Outcome of a run.

use crate::Error;
use crate::command::Folder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A program that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Host of the program.
    pub host: String,
    /// Its command line.
    pub command: String,
    /// Its exit status, or 128 and the number of the signal that ended it.
    pub status: i32,
    /// Its standard output.
    pub output: String,
    /// Its standard error.
    pub errors: String,
}

/// Programs of a run, in the order of their start. Dropping it removes the run's files, except in a
/// test that fails.
#[derive(Debug)]
pub struct Outcome {
    /// The worst exit status of all programs.
    pub status: i32,
    /// All programs.
    pub programs: Vec<Program>,
    /// Messages of Softband and standard error of the programs.
    pub messages: String,
    /// Content of `run.json`: durations, bottlenecks, warnings and the failure, if any.
    pub report: Value,
    folder: Folder,
}

impl Outcome {
    pub(crate) fn read(folder: Folder, messages: String) -> Result<Self, Error> {
        let Ok(report) = serde_json::from_str::<Value>(&folder.text("run.json")) else {
            return Err(Error::Refused(messages));
        };
        if !report["failure"]["TimedOut"].is_null() {
            return Err(Error::TimeLimit(messages));
        }
        let mut numbers = BTreeMap::<String, u32>::new();
        let status = |value: &Value| value["exit_status"].as_i64().and_then(|status| i32::try_from(status).ok());
        let program = |value: &Value| {
            let host = value["host"].as_str()?.to_owned();
            let number = numbers.entry(host.clone()).or_default();
            let [output, errors] = ["out", "err"].map(|ending| folder.text(&format!("{host}-{number}.{ending}")));
            *number += 1;
            Some(Program { host, command: value["command"].as_str()?.to_owned(), status: status(value)?, output, errors })
        };
        let programs = report["programs"].as_array().and_then(|programs| programs.iter().map(program).collect::<Option<Vec<_>>>());
        let (Some(status), Some(programs)) = (status(&report), programs) else {
            return Err(Error::Refused(format!("run.json of this softband has another format\n{messages}")));
        };
        Ok(Self { status, programs, messages, report, folder })
    }

    /// Returns the folder with all files of the run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the first program of a host.
    ///
    /// # Panics
    /// If no program ran there.
    #[track_caller]
    pub fn program(&self, host: &str) -> &Program {
        let hosts = || self.programs.iter().map(|program| program.host.as_str()).collect::<Vec<_>>().join(", ");
        self.programs.iter().find(|program| program.host == host).unwrap_or_else(|| panic!("no program on host {host}: programs ran on {}", hosts()))
    }

    /// Returns the outcome if all programs succeeded.
    ///
    /// # Panics
    /// If a program failed. The message has the output of all programs and the run's folder.
    #[track_caller]
    pub fn assert_success(&self) -> &Self {
        assert!(self.status == 0, "the run ended with status {}: {}\n{}{}", self.status, self.folder().display(), self.text(), self.messages);
        self
    }

    fn text(&self) -> String {
        let text = |program: &Program| format!("{}: {:?}: status {}\n{}", program.host, program.command, program.status, program.output);
        self.programs.iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Program};
    use crate::Error;
    use crate::command::Folder;

    fn outcome(json: &str) -> Result<Outcome, Error> {
        let folder = Folder::make().unwrap();
        let files = [("run.json", json), ("a-0.out", "first"), ("a-1.out", "second"), ("b-0.err", "broken")];
        files.iter().for_each(|(name, text)| std::fs::write(folder.path().join(name), text).unwrap());
        Outcome::read(folder, "messages".into())
    }

    const THREE: &str = r#"{"exit_status": 3, "failure": null, "programs": [
        {"host": "a", "command": "x", "exit_status": 0}, {"host": "b", "command": "y", "exit_status": 3},
        {"host": "a", "command": "z", "exit_status": 0}]}"#;

    #[test]
    fn each_program_has_its_own_output() {
        let outcome = outcome(THREE).unwrap();
        let program = |host: &str, command: &str, status, output: &str, errors: &str| Program {
            host: host.into(),
            command: command.into(),
            status,
            output: output.into(),
            errors: errors.into(),
        };
        assert_eq!(outcome.programs, [program("a", "x", 0, "first", ""), program("b", "y", 3, "", "broken"), program("a", "z", 0, "second", "")]);
        assert_eq!(outcome.program("b").errors, "broken");
    }

    #[test]
    #[should_panic(expected = "no program on host c: programs ran on a, b, a")]
    fn a_host_without_a_program_is_named() {
        outcome(THREE).unwrap().program("c");
    }

    #[test]
    #[should_panic(expected = "b: \"y\": status 3")]
    fn a_failed_program_is_shown() {
        outcome(THREE).unwrap().assert_success();
    }

    #[test]
    fn runs_without_results_are_errors() {
        assert!(matches!(outcome(""), Err(Error::Refused(messages)) if messages == "messages"));
        assert!(matches!(outcome("{}"), Err(Error::Refused(messages)) if messages.starts_with("run.json of this softband")));
        let late = r#"{"exit_status": 124, "failure": {"TimedOut": {}}, "programs": []}"#;
        assert!(matches!(outcome(late), Err(Error::TimeLimit(messages)) if messages == "messages"));
    }
}
