//! `softband fabric list`: the fabrics of the installation.

use crate::{home, output};
use clap::Args;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;

/// Exit status of a list in which nothing matches the words.
pub(crate) const EXIT_NOTHING_FOUND: i32 = 1;

/// What both lists take.
#[derive(Args)]
pub(crate) struct Search {
    /// List only entries with all these words in their name or description
    words: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl Search {
    pub(crate) fn finds(&self, texts: &[&str]) -> bool {
        let texts: Vec<String> = texts.iter().map(|text| text.to_lowercase()).collect();
        self.words.iter().all(|word| texts.iter().any(|text| text.contains(&word.to_lowercase())))
    }

    /// Reports that nothing was found. Returns the exit status.
    pub(crate) fn nothing(&self, what: &str, command: &str) -> i32 {
        eprintln!("softband: error: no {what} has `{}` in its name or description\n  help: `{command}` lists all", self.words.join(" "));
        EXIT_NOTHING_FOUND
    }
}

/// A fabric with the name that commands accept, and its title.
pub(crate) struct Listed {
    pub(crate) name: String,
    title: String,
}

/// The part of a fabric file that the list needs.
#[derive(Deserialize)]
struct FabricFile {
    fabric: Head,
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    title: String,
}

pub(crate) fn run(search: &Search) -> anyhow::Result<i32> {
    let folder = home::home()?.join("fabrics");
    let all = all(&folder);
    if all.is_empty() {
        anyhow::bail!("there are no fabric files in {}\n  help: set SOFTBAND_HOME to the folder of the installation", folder.display());
    }
    let found: Vec<&Listed> = all.iter().filter(|fabric| search.finds(&[&fabric.name, &fabric.title])).collect();
    if search.json {
        let fabric = |fabric: &&Listed| json!({ "name": fabric.name, "title": fabric.title, "file": folder.join(format!("{}.toml", fabric.name)) });
        output::say(format_args!("{:#}\n", json!({ "fabrics": found.iter().map(fabric).collect::<Vec<_>>() })))?;
    } else if found.is_empty() {
        return Ok(search.nothing("fabric", "softband fabric list"));
    } else {
        let width = found.iter().map(|fabric| fabric.name.chars().count()).max().unwrap_or(0);
        let line = |fabric: &&Listed| format!("{:width$}  {}\n", fabric.name, fabric.title);
        output::say(found.iter().map(line).collect::<String>())?;
    }
    Ok(if found.is_empty() { EXIT_NOTHING_FOUND } else { 0 })
}

/// Returns the names of the installation's fabrics, such as `cables/sdr-cx4`. Returns none without
/// an installation.
pub(crate) fn names() -> Vec<String> {
    let folder = home::home().map(|home| home.join("fabrics"));
    folder.map(|folder| all(&folder)).unwrap_or_default().into_iter().map(|fabric| fabric.name).collect()
}

/// Returns all fabrics by name, those of the folder itself first.
fn all(folder: &Path) -> Vec<Listed> {
    let mut found = Vec::new();
    collect(folder, "", &mut found);
    found.sort_by(|a, b| (a.name.matches('/').count(), &a.name).cmp(&(b.name.matches('/').count(), &b.name)));
    found
}

fn collect(folder: &Path, prefix: &str, found: &mut Vec<Listed>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = entry.path();
        if path.is_dir() {
            collect(&path, &format!("{prefix}{name}/"), found);
        } else if let Some(stem) = name.strip_suffix(".toml") {
            // A part in a folder `catalog` beside fabrics has no title and is not a fabric.
            let head = std::fs::read_to_string(&path).ok().and_then(|text| toml::from_str::<FabricFile>(&text).ok());
            head.into_iter().for_each(|file| found.push(Listed { name: format!("{prefix}{stem}"), title: file.fabric.title }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Search, all};
    use std::path::Path;

    #[test]
    fn every_fabric_of_the_installation_is_listed_with_its_title() {
        let all = all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fabrics"));
        assert!(all.len() > 50 && all.iter().all(|fabric| !fabric.title.is_empty()));
        assert!(all.iter().any(|fabric| fabric.name == "cables/sdr-cx4"));
        assert!(all[0].name < all[1].name && !all[0].name.contains('/'));
    }

    #[test]
    fn all_words_have_to_be_there_in_either_text() {
        let search = |words: &[&str]| Search { words: words.iter().map(|word| (*word).to_owned()).collect(), json: false };
        assert!(search(&[]).finds(&["x"]));
        assert!(search(&["DDR", "100"]).finds(&["cables/ddr-cx4", "over 100 m"]));
        assert!(!search(&["ddr", "qdr"]).finds(&["cables/ddr-cx4", "over 100 m"]));
    }
}
