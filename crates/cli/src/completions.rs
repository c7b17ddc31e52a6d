//! `softband completions`: the commands and options, for shells and for `man`.

use crate::{definition, files, output};
use anyhow::Context;
use clap::Args;
use clap_complete::Shell;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct CompletionsArguments {
    /// Print the completions of this shell
    shell: Option<Shell>,
    /// Write a man page for each command into this folder
    #[arg(long, value_name = "DIR")]
    man: Option<PathBuf>,
}

pub(crate) fn run(arguments: &CompletionsArguments) -> anyhow::Result<i32> {
    if let Some(folder) = &arguments.man {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut command = definition::complete().disable_help_subcommand(true);
        command.build();
        write_pages(&command, "softband", folder)?;
    } else if let Some(shell) = arguments.shell {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut definition::complete(), "softband", &mut text);
        output::say(String::from_utf8(text)?)?;
    }
    Ok(0)
}

/// Writes the pages of a command and its subcommands, such as `softband-fabric-show.1` for
/// `softband fabric show`.
fn write_pages(command: &clap::Command, name: &str, folder: &Path) -> anyhow::Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).title(name.to_uppercase()).render(&mut page)?;
    files::write(&folder.join(format!("{name}.1")), &String::from_utf8(page)?)?;
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.into_iter().try_for_each(|command| write_pages(command, &format!("{name}-{}", command.get_name()), folder))
}
