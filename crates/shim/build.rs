//! Compiles the variadic functions, which Rust cannot define.

fn main() {
    println!("cargo::rerun-if-changed=src/variadic.c");
    cc::Build::new().file("src/variadic.c").pic(true).warnings(true).compile("softband_shim_variadic");
}
