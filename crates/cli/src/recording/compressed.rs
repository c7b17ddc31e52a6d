//! Files of recordings, which may be compressed by gzip.

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// First bytes of a compressed file (RFC 1952, 2.3.1).
const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Largest text of a recording, in bytes. A small compressed file could otherwise fill the memory.
const TEXT_MAX: u64 = 4 << 30;

/// Reads a text, compressed or not.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let content = std::fs::read(path)?;
    let mut text = String::new();
    if !content.starts_with(&MAGIC) {
        return String::from_utf8(content).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text"));
    }
    let read = MultiGzDecoder::new(content.as_slice()).take(TEXT_MAX).read_to_string(&mut text)?;
    if read as u64 == TEXT_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its text has 4 GiB or more"));
    }
    Ok(text)
}

/// Returns the content of a file with this text, compressed if the name ends with `.gz`.
pub(super) fn content(path: &Path, text: &str) -> io::Result<Vec<u8>> {
    if path.extension().is_none_or(|extension| extension != "gz") {
        return Ok(text.as_bytes().to_vec());
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::super::folder::Folder;
    use super::*;

    #[test]
    fn a_compressed_file_reads_as_the_text_and_a_cut_one_is_an_error() {
        let folder = Folder::new().expect("a temporary folder");
        let text = "{\"rank\":0}\n".repeat(1000);
        for name in ["app.rec", "app.rec.gz"] {
            let path = folder.path().join(name);
            let content = content(&path, &text).expect("content");
            std::fs::write(&path, &content).expect("a file");
            assert_eq!(read(&path).expect("the text"), text);
            assert_eq!(content.len() < 1000, name.ends_with(".gz"));
            std::fs::write(&path, &content[..content.len() / 2]).expect("a file");
            assert_eq!(read(&path).is_ok(), !name.ends_with(".gz"));
        }
    }

    #[test]
    fn all_members_of_a_compressed_file_are_its_text() {
        let folder = Folder::new().expect("a temporary folder");
        let path = folder.path().join("app.rec.gz");
        let members = ["one\n", "two\n"].map(|text| content(&path, text).expect("content"));
        std::fs::write(&path, members.concat()).expect("a file");
        assert_eq!(read(&path).expect("the text"), "one\ntwo\n");
    }
}
