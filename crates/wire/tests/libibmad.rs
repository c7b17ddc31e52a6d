//! Compares the places of fields with an independent implementation, Debian's libibmad. The test
//! needs libibmad-dev and a C compiler.

mod libibmad {
    pub(super) mod rows;
}

use libibmad::rows::ROWS;
use softband_wire::mad::{Description, Field, LAYOUTS, MAD_BYTES};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

const HEADER: &str = "/usr/include/infiniband/mad.h";
const IMAGES: usize = 32;

#[test]
fn libibmad_finds_each_field_at_the_same_place() {
    if !Path::new(HEADER).exists() {
        eprintln!("no {HEADER} is installed: the fields were not compared");
        return;
    }
    let images = images();
    let theirs = read_by_libibmad(&images);
    let mut lines = theirs.lines();
    for image in images.chunks_exact(MAD_BYTES) {
        for (layout, field, name) in rows() {
            let mut emitted = [0; MAD_BYTES];
            (layout.reemit)(image, &mut emitted).expect("an image is long enough");
            let ours = hex(&emitted, field);
            assert_eq!(lines.next(), Some(ours.as_str()), "{} {} is not {name}", layout.name, field.name);
        }
    }
    assert_eq!(lines.next(), None);
}

/// Returns our field for each field of libibmad.
fn rows() -> impl Iterator<Item = (&'static Description, &'static Field, &'static str)> {
    ROWS.iter().map(|(path, name)| {
        let (layout, field) = path.split_once('.').expect("Layout.field");
        let layout = LAYOUTS.iter().find(|known| known.name == layout).unwrap_or_else(|| panic!("no layout {layout}"));
        let field = layout.fields.iter().find(|known| known.name == field).unwrap_or_else(|| panic!("no field {path}"));
        (layout, field, *name)
    })
}

/// Returns images of random bytes, alike in each run (splitmix64).
fn images() -> Vec<u8> {
    let mut state = 0u64;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31).to_le_bytes()
    });
    words.take(IMAGES * MAD_BYTES / 8).flatten().collect()
}

/// Returns the bits of a field as a hexadecimal number, without a leading 0 unless it has more than
/// 64 bits.
fn hex(bytes: &[u8], field: &Field) -> String {
    if field.width > 64 {
        let whole = &bytes[field.bit / 8..(field.bit + field.width) / 8];
        return whole.iter().map(|byte| format!("{byte:02x}")).collect();
    }
    let bits = field.bit..field.bit + field.width;
    let value = bits.fold(0u64, |value, bit| value << 1 | u64::from(bytes[bit / 8] >> (7 - bit % 8) & 1));
    format!("{value:x}")
}

/// Compiles and runs a program that prints each field of each image.
fn read_by_libibmad(images: &[u8]) -> String {
    let mut program = String::from("#include <stdio.h>\n#include <infiniband/mad.h>\n");
    program.push_str("int main(void) {\n\tunsigned char image[256], value[256];\n\tint i;\n");
    program.push_str("\twhile (fread(image, sizeof image, 1, stdin) == 1) {\n");
    for (_, field, name) in rows() {
        let _ = match field.width {
            0..=32 => writeln!(program, "\t\tprintf(\"%x\\n\", mad_get_field(image, 0, {name}));"),
            33..=64 => writeln!(program, "\t\tprintf(\"%llx\\n\", (unsigned long long)mad_get_field64(image, 0, {name}));"),
            bits => writeln!(
                program,
                "\t\tmad_get_array(image, 0, {name}, value);\n\t\tfor (i = 0; i < {}; i++)\n\t\t\tprintf(\"%02x\", value[i]);\n\t\tputchar('\\n');",
                bits / 8
            ),
        };
    }
    program.push_str("\t}\n\treturn 0;\n}\n");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (folder.join("libibmad.c"), folder.join("libibmad"));
    std::fs::write(&source, program).expect("a folder for the program");
    let compiled = Command::new("cc").arg("-o").arg(&binary).arg(&source).arg("-libmad").output().expect("a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut child = Command::new(&binary).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program");
    let mut stdin = child.stdin.take().expect("its input");
    let images = images.to_vec();
    let writer = std::thread::Builder::new().spawn(move || stdin.write_all(&images)).expect("a thread");
    let output = child.wait_with_output().expect("its output");
    writer.join().expect("the writer").expect("the program reads all images");
    String::from_utf8(output.stdout).expect("hexadecimal digits")
}
