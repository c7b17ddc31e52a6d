"""Comments and help texts name their subject: no line has a phrase that hides the actor, or is wider than the code."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("crates", "xtask", "fuzz", "lab", "scripts", "tools", "tests", "conformance", "benches")
FOLDERS += ("recipes", "examples")
SKIPPED = {"target", "build", "__pycache__", "corpus", "artifacts"}
COLUMNS_MAX = tomllib.loads((ROOT / "rustfmt.toml").read_text())["max_width"]
# These quote the phrases.
QUOTING = {Path(__file__), Path(__file__).with_name("test_prose.py")}
# A sentence whose subject is a question.
QUESTION = re.compile(r"(^[/!]?\s*|[.:;] )What (is|are|was|were) [^?]*$")
# The phrases to avoid, and their replacements.
AVOIDED = {
    r"(is|are|was|were|been) (told|said)": "name the actor: the program gets, the page states",
    r"[Ww]hoever": "name the actor: the thread, the caller, the peer",
    r"where there is one": "if the ... has one",
    r"of (which|whom)": "two sentences, or whose",
}
COMMENT = {
    ".rs": r"//(.*)",
    ".c": r"(?:/\*|^\s*\*)(.*)",
    ".h": r"(?:/\*|^\s*\*)(.*)",
    ".py": r'(?:#|""")(.*)',
    ".toml": r"#(.*)",
    ".sh": r"#(.*)",
}


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if (
                path.suffix in COMMENT
                and path not in QUOTING
                and not SKIPPED.intersection(path.relative_to(ROOT).parts)
            ):
                yield path


def faults(name: str, text: str) -> list[str]:
    """Returns the phrases to avoid in the comments of a file, and its comments that are too wide."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        comment = re.search(COMMENT[Path(name).suffix], line)
        if comment is None:
            continue
        # Rustfmt wraps code only.
        if len(line) > COLUMNS_MAX and line.lstrip().startswith("//") and "://" not in line:
            found.append(f"{name}:{number}: {len(line)} columns, more than {COLUMNS_MAX}")
        for phrase, replacement in AVOIDED.items():
            if match := re.search(rf"\b({phrase})\b", comment[1]):
                found.append(f"{name}:{number}: `{match[0]}`: {replacement}: {line.strip()}")
        if match := QUESTION.search(comment[1]):
            found.append(f"{name}:{number}: `What {match[2]}`: name the subject: {line.strip()}")
    return found


def test_comments_name_their_subjects_and_are_no_wider_than_the_code() -> None:
    paths = sorted(sources())
    assert len(paths) > 400, "the sources were not found"
    found = [fault for path in paths for fault in faults(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.rs", "/// Whoever asks."),
        ("a.py", '"""What is asked goes on."""'),
        ("a.rs", "//! The ring. What was posted is gone."),
        ("a.c", "/* The peer is told. */"),
        ("a.toml", "a = 1 # the bus where there is one"),
        ("a.rs", f"// {'x' * 150}"),
    ],
)
def test_a_phrase_to_avoid_is_found_in_each_language(name: str, line: str) -> None:
    assert len(faults(name, f"\n{line}\n")) == 1
    assert faults(name, f"\n{line}\n")[0].startswith(f"{name}:2: ")


def test_code_and_questions_are_no_faults() -> None:
    assert faults("a.rs", "// What is it?\n") == []
    assert faults("a.rs", f'let whoever = "{"x" * 200}";\n') == []
