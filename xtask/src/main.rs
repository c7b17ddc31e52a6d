//! Tasks of CI and the Makefile, each with a name: `cargo xtask NAME`.

#![allow(clippy::disallowed_methods)] // a tool on the developer's machine: it reads the environment

mod abi;
mod link;
mod models;
mod simulate;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = arguments.split_first().map_or(("help", &[][..]), |(name, rest)| (name.as_str(), rest));
    match name {
        "link" => link::run(rest),
        "abi" => abi::run(rest),
        "simulate" => simulate::run(rest),
        "models" => models::run(rest),
        _ => {
            println!("cargo xtask link [--archive FILE] --out DIR     the shared objects that programs load");
            println!("cargo xtask abi [--write] [--tree DIR]          layouts and symbols against the installed headers and library");
            println!("cargo xtask simulate SEED                       a random fabric, programs and faults under an oracle");
            println!("cargo xtask simulate --minutes M [--from SEED]  one seed after another");
            println!("cargo xtask models [--preemptions N]            loom models of the shared-memory protocol");
            println!("cargo xtask models --mutants                    breaks chosen lines in turn: a model must notice");
            println!("cargo xtask models --miri                       its unit tests under Miri");
            anyhow::ensure!(name == "help", "there is no xtask called {name}");
            Ok(())
        }
    }
}
