"""Relative links of all Markdown files lead to files and headings that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Folders that builds, runs and editors leave.
SKIPPED = {"target", "results", "node_modules", "venv", "__pycache__"}

CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)


def markdown_files() -> list[Path]:
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*.md"))
    return sorted(path for path in found if not any(part in SKIPPED or part.startswith(".") for part in path.parts))


def anchors(text: str) -> set[str]:
    """Returns the anchors that GitHub makes for the headings of a page."""
    slugs: set[str] = set()
    for heading in HEADING.findall(CODE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 0
        unique = slug
        while unique in slugs:
            number += 1
            unique = f"{slug}-{number}"
        slugs.add(unique)
    return slugs


def broken_links(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    broken = []
    for target in LINK.findall(INLINE_CODE.sub("", CODE.sub("", text))):
        if re.match(r"[a-z][a-z+.-]*:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists():
            broken.append(f"{target}: no such file")
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
            broken.append(f"{target}: no such heading")
    return broken


@pytest.mark.parametrize("name", markdown_files(), ids=str)
def test_links_of_a_page_lead_somewhere(name: Path) -> None:
    assert broken_links(ROOT / name) == []


def test_every_page_of_docs_is_in_the_summary() -> None:
    summary = set(LINK.findall((ROOT / "docs" / "SUMMARY.md").read_text(encoding="utf-8")))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - {"SUMMARY.md"} == summary


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A *heading*, with `code`\n[a](#a-heading-with-code) [b](none.md) [c](#none) `[d](none)` [e](https://x.org)\n"
    )
    assert broken_links(page) == ["none.md: no such file", "#none: no such heading"]
