//! Editions of fabric files: `edition` in `[fabric]`. A file without it is of the first.

use crate::diagnostic::Findings;
use crate::document::{Entry, Fields};

/// All editions, the newest last. A new edition may change keys; a reader of old ones remains.
const EDITIONS: [&str; 1] = ["2026"];

/// Returns whether this Softband can read a file of the stated edition. Otherwise reports only
/// that: the keys of other editions are unknown here.
pub(super) fn is_known(entries: &[Entry], findings: &mut Findings) -> bool {
    let Some(fabric) = entries.iter().find(|entry| entry.key == "fabric") else { return true };
    let Some(mut fields) = Fields::of("`[fabric]`", &fabric.node, fabric.key_span.clone(), &mut Findings::new("", "")) else { return true };
    if !fields.has("edition") {
        return true;
    }
    let newest = EDITIONS[EDITIONS.len() - 1];
    let Some((edition, span)) = fields.optional_text("edition", &format!("{newest:?}"), findings) else { return false };
    if EDITIONS.contains(&edition) {
        return true;
    }
    let is_newer = edition.parse::<u32>().ok() > newest.parse().ok();
    let (message, help) = if is_newer {
        (format!("the file is of edition `{edition}`, and the newest that this Softband reads is `{newest}`"), "use a newer Softband".to_owned())
    } else {
        (format!("no edition `{edition}`"), format!("the editions are: {}", EDITIONS.join(", ")))
    };
    findings.error(message, vec![(span, "here".into())], Some(help));
    false
}

#[cfg(test)]
mod tests {
    use crate::{Catalog, LoadOptions, parse_fabric};

    fn said(text: &str) -> String {
        let catalog = Catalog::from_files(&[]).unwrap();
        parse_fabric("f.toml", text, &catalog, &LoadOptions::default()).unwrap_err().to_text()
    }

    #[test]
    fn a_newer_edition_is_the_only_error() {
        let error = said("[fabric]\nedition = \"2031\"\n[wonders]\n");
        assert_eq!(
            error,
            "f.toml:2:11: error: the file is of edition `2031`, and the newest that this Softband reads is `2026`\n  help: use a newer Softband"
        );
    }

    #[test]
    fn other_editions_are_refused_and_the_first_may_be_left_out() {
        assert_eq!(said("[fabric]\nedition = \"1\"\n"), "f.toml:2:11: error: no edition `1`\n  help: the editions are: 2026");
        assert!(said("[fabric]\nedition = 2026\n").contains("`edition` must be a text in double quotes"));
        for text in ["[fabric]\nedition = \"2026\"\n", "[fabric]\n", ""] {
            assert!(said(text).contains("the fabric has no host"), "{text}");
        }
    }
}
