//! `softband fabric fmt`: one form for fabric files.

use crate::{files, output};
use clap::Args;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Exit status of `--check` if a file would change, and of a file with an error.
const EXIT_WOULD_CHANGE: i32 = 1;
const EXIT_FAULTY: i32 = 2;
/// File name that stands for standard input.
const INPUT: &str = "-";

#[derive(Args)]
pub(crate) struct FormatArguments {
    /// Fabric files to format in place; - reads standard input and writes standard output
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Change nothing, name the files that would change, and exit with status 1 if there are any
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &FormatArguments) -> anyhow::Result<i32> {
    let mut status = 0;
    for file in &arguments.files {
        let outcome = if file == Path::new(INPUT) { filter(arguments.check) } else { in_place(file, arguments.check) };
        match outcome {
            Ok(is_changed) => status = status.max(if is_changed && arguments.check { EXIT_WOULD_CHANGE } else { 0 }),
            Err(error) => {
                eprintln!("{}", output::error_text(&format!("{error:#}")));
                status = EXIT_FAULTY;
            }
        }
    }
    Ok(status)
}

/// Formats a file. Returns whether its text differs from the formatted text.
fn in_place(file: &Path, check: bool) -> anyhow::Result<bool> {
    if file.is_dir() {
        anyhow::bail!("{} is a folder\n  help: name fabric files, such as {}/*.toml", file.display(), file.display());
    }
    let bytes = std::fs::read(file).map_err(|error| anyhow::anyhow!("cannot read {}: {error}\n  help: name a fabric file", file.display()))?;
    let text = text_of(bytes, &file.display().to_string())?;
    let formatted = softband_catalog::format_fabric(&file.display().to_string(), &text).map_err(output::diagnostic)?;
    let is_changed = formatted != text;
    if is_changed && !check {
        files::write(file, &formatted)?;
    }
    if is_changed {
        let verb = if check { "would change" } else { "formatted" };
        output::say(format_args!("{verb} {}\n", file.display()))?;
    }
    Ok(is_changed)
}

/// Formats standard input. Returns whether its text differs from the formatted text.
fn filter(check: bool) -> anyhow::Result<bool> {
    let name = "<stdin>";
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| anyhow::anyhow!("cannot read standard input: {error}"))?;
    let text = text_of(bytes, name)?;
    let formatted = softband_catalog::format_fabric(name, &text).map_err(output::diagnostic)?;
    match check {
        false => output::say(&formatted)?,
        true if formatted != text => output::say(format_args!("would change {name}\n"))?,
        true => {}
    }
    Ok(formatted != text)
}

fn text_of(bytes: Vec<u8>, name: &str) -> anyhow::Result<String> {
    String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("{name}: error: it is not text in UTF-8\n  help: a fabric file is TOML"))
}
