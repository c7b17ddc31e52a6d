//! `cargo xtask abi`: compares our copies of declarations with the installed headers, and the
//! exports of our linked libraries with those of Debian's library.

use crate::link;
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "usage: cargo xtask abi [--write] [--tree DIR]";

/// Runs `cargo xtask abi [--write] [--tree DIR]`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (mut write, mut tree) = (false, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--write" => write = true,
            "--tree" => tree = Some(PathBuf::from(rest.next().with_context(|| format!("--tree takes a folder; {USAGE}"))?)),
            other => bail!("cargo xtask abi does not know {other}; {USAGE}"),
        }
    }
    let out = link::target_directory().join("abi");
    std::fs::create_dir_all(&out)?;
    layouts(&out, write)?;
    match tree {
        Some(tree) => symbols(&tree),
        None => {
            link::link(&link::build()?, &out)?;
            symbols(&out)
        }
    }
}

/// Compiles every C expression of `softband_abi::layout` against the installed headers and compares
/// the values.
fn layouts(out: &Path, write: bool) -> Result<()> {
    let ours: BTreeMap<String, usize> = softband_abi::layout().collect();
    let theirs = measure(out, ours.keys())?;
    let mut differences = String::new();
    for (expression, value) in &ours {
        if theirs.get(expression) != Some(value) {
            let _ = writeln!(differences, "  {expression}: the header says {:?}, crates/abi says {value}", theirs.get(expression));
        }
    }
    ensure!(differences.is_empty(), "crates/abi differs from the installed headers:\n{differences}");
    let mut list = String::new();
    for (expression, value) in &theirs {
        let _ = writeln!(list, "{expression} {value}");
    }
    let expected = link::root().join("crates/abi/expected/rdma-core-44.0.txt");
    if write {
        std::fs::write(&expected, &list)?;
    }
    ensure!(std::fs::read_to_string(&expected)? == list, "{} is out of date: cargo xtask abi --write", expected.display());
    println!("{} sizes, offsets and constants agree with the installed headers", ours.len());
    Ok(())
}

fn measure<'a>(out: &Path, expressions: impl Iterator<Item = &'a String>) -> Result<BTreeMap<String, usize>> {
    let mut program = String::from("#include <stdio.h>\n");
    for header in softband_abi::HEADERS {
        let _ = writeln!(program, "#include <{header}>");
    }
    program.push_str("int main(void) {\n");
    for expression in expressions {
        let _ = writeln!(program, "\tprintf(\"%s %zu\\n\", \"{expression}\", (size_t)(unsigned long)({expression}));");
    }
    program.push_str("\treturn 0;\n}\n");
    let source = out.join("layout.c");
    let binary = out.join("layout");
    std::fs::write(&source, program)?;
    link::must_succeed(Command::new("cc").arg("-w").arg("-o").arg(&binary).arg(&source))?;
    let printed = Command::new(&binary).output().context("cannot run the program that prints the layouts")?;
    let text = String::from_utf8(printed.stdout)?;
    text.lines()
        .map(|line| {
            let (expression, value) = line.rsplit_once(' ').context("the program printed a line without a value")?;
            // Constants are 32-bit, because an enumerator may be negative in C.
            Ok((expression.to_owned(), value.parse::<usize>()? & if expression.contains('(') { usize::MAX } else { 0xFFFF_FFFF }))
        })
        .collect()
}

/// Compares the exports of both libraries in `out`/lib with the lists.
fn symbols(out: &Path) -> Result<()> {
    let library = out.join("lib/libibverbs.so.1");
    let exported = exported_symbols(&library)?;
    let mut missing = Vec::new();
    for entry in link::versioned_symbols()? {
        if !exported.contains(&(entry.name.clone(), Some(entry.version.clone()))) {
            missing.push(format!("{}@{}", entry.name, entry.version));
        }
    }
    ensure!(missing.is_empty(), "{} does not export {missing:?}", library.display());

    let preload = out.join("lib/libsoftband.so");
    let exported = exported_symbols(&preload)?;
    let expected = link::preload_symbols()?;
    let missing: Vec<_> = expected.iter().filter(|name| !exported.contains(&((*name).clone(), None))).collect();
    ensure!(missing.is_empty(), "{} does not export {missing:?}", preload.display());
    let surplus: Vec<_> = exported.iter().map(|(name, _)| name).filter(|name| !name.starts_with("softband_") && !expected.contains(*name)).collect();
    ensure!(surplus.is_empty(), "{} exports what no list names: {surplus:?}", preload.display());
    compare_with_installed()?;
    println!("both libraries export what the lists name");
    Ok(())
}

/// Checks that our list contains every symbol of the installed libibverbs, private symbols
/// included.
fn compare_with_installed() -> Result<()> {
    let installed = Path::new("/usr/lib/x86_64-linux-gnu/libibverbs.so.1");
    if !installed.exists() {
        println!("no libibverbs is installed: the list of versions was not compared");
        return Ok(());
    }
    let ours: BTreeSet<_> = link::versioned_symbols()?.into_iter().map(|entry| (entry.name, Some(entry.version))).collect();
    let missing: Vec<_> = exported_symbols(installed)?
        .into_iter()
        .filter(|(name, version)| version.as_deref().is_some_and(|version| version != name) && !ours.contains(&(name.clone(), version.clone())))
        .collect();
    ensure!(missing.is_empty(), "crates/libibverbs/versions.txt lacks {missing:?}");
    Ok(())
}

fn exported_symbols(library: &Path) -> Result<BTreeSet<(String, Option<String>)>> {
    let output = Command::new("nm").args(["-D", "--defined-only", "--with-symbol-versions"]).arg(library).output()?;
    if !output.status.success() {
        bail!("nm {} failed", library.display());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .map(|symbol| match symbol.split_once('@') {
            Some((name, version)) => (name.to_owned(), Some(version.trim_start_matches('@').to_owned())),
            None => (symbol.to_owned(), None),
        })
        .filter(|(name, _)| !name.starts_with("IBVERBS_"))
        .collect())
}
