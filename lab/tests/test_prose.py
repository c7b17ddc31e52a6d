"""All pages follow the measurable prose rules: short sentences, short lines, the words of the glossary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Folders that builds, runs and editors leave.
SKIPPED = {"target", "results", "venv", "node_modules"}
# The changelog quotes commands and outputs of former versions as they were.
PAGES = sorted(
    page
    for page in ROOT.rglob("*.md")
    if page != ROOT / "CHANGELOG.md"
    and not any(part in SKIPPED or part.startswith(".") for part in page.relative_to(ROOT).parts)
)
WORDS_MAX = 25
COLUMNS_MAX = 100
# The words to avoid, and their replacements. A page may use them in code.
AVOIDED = {
    r"virtual (time|second)s?": "simulated time",
    r"era": "epoch",
    r"(is|are|was|were) (told|said)": "name the actor: the program gets, the page states",
    r"[Ww]hatever|[Ww]hoever|where there is one": "name the subject",
    r"of which": "two sentences",
    r"network card|network adapter": "NIC",
    r"MTU of (a|the) path": "path MTU",
}
FENCED = re.compile(r"^( *)(```|~~~)[^\n]*\n.*?^\1\2[^\n]*$", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"^\s*([-*]|\d+\.)\s+")


def prose(text: str) -> list[str]:
    """Returns the lines of a page, with empty lines in place of its code, tables and headings."""
    blank = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
    return ["" if line.startswith(("|", "#", "    ", "\t")) else line for line in blank.splitlines()]


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yields the line number and the text of each paragraph and list item."""
    start, words = 0, ""
    for number, line in enumerate([*prose(text), ""], 1):
        if words and (not line.strip() or ITEM.match(line)):
            yield start, words
            words = ""
        if line.strip():
            start = start if words else number
            words = f"{words} {ITEM.sub('', line).strip()}".strip()


def sentences(paragraph: str) -> list[str]:
    plain = re.sub(r"`[^`]*`", "`", paragraph)
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", plain).replace("*", "")
    return re.split(r"(?<=[.!?])\)?\s+|(?<=[:;])\s+", plain)


def faults(text: str) -> list[str]:
    found = []
    for number, line in enumerate(prose(text), 1):
        # A link cannot be wrapped.
        if len(line) > COLUMNS_MAX and "](" not in line:
            found.append(f"line {number}: {len(line)} columns, more than {COLUMNS_MAX}")
    for number, paragraph in paragraphs(text):
        for sentence in sentences(paragraph):
            words = [word for word in sentence.split() if re.search(r"[\w`]", word)]
            if len(words) > WORDS_MAX:
                found.append(f"line {number}: {len(words)} words, more than {WORDS_MAX}: {sentence}")
            for word, replacement in AVOIDED.items():
                if match := re.search(rf"\b({word})\b", sentence):
                    found.append(f"line {number}: `{match[0]}`: {replacement}: {sentence}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_follows_the_prose_rules(page: Path) -> None:
    assert faults(page.read_text(encoding="utf-8")) == []


def test_faults_are_found_with_their_lines() -> None:
    long = "two\n" * 26
    page = ["# Title " + "x" * 101, "", "The clock shows virtual", "time.", "", "- short", f"- {long}"]
    page += ["```", "x" * 101, "```", f"| {'x' * 101} |", "", "x" * 101]
    assert [fault.split(":")[:2] for fault in faults("\n".join(page))] == [
        ["line 39", " 101 columns, more than 100"],
        ["line 3", " `virtual time`"],
        ["line 7", " 26 words, more than 25"],
    ]


def test_code_links_and_short_sentences_are_no_faults() -> None:
    short = "two\n" * 20
    assert faults(f"The `virtual time` ends. {short}ends; {short}end.\n\n    {'code ' * 40}\n") == []
    assert faults(f"[{'a' * 60}]({'b' * 60})\n") == []
