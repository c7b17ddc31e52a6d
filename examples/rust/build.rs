//! Compiles the C functions. `rdma_verbs.h` has them inline, so no library exports them.

use std::path::Path;
use std::process::Command;

fn main() {
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let (object, archive) = (Path::new(&out).join("endpoint.o"), Path::new(&out).join("libendpoint.a"));
    run(Command::new("cc").args(["-O2", "-Wall", "-Wextra", "-fPIC", "-c", "src/endpoint.c", "-o"]).arg(&object));
    run(Command::new("ar").arg("crs").arg(&archive).arg(&object));
    println!("cargo:rerun-if-changed=src/endpoint.c");
    println!("cargo:rustc-link-search=native={out}");
    println!("cargo:rustc-link-lib=static=endpoint");
    println!("cargo:rustc-link-lib=rdmacm");
    println!("cargo:rustc-link-lib=ibverbs");
}

fn run(command: &mut Command) {
    assert!(command.status().is_ok_and(|status| status.success()), "{command:?} failed");
}
