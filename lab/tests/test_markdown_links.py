"""Relative links of all Markdown files lead to files and headings that exist, in the repository and in the book."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from book import ABSOLUTE, anchors, copy, links, places  # noqa: E402

# Folders that builds, runs and editors leave.
SKIPPED = {"target", "results", "node_modules", "venv", "__pycache__"}
SUMMARY = ROOT / "docs" / "SUMMARY.md"


def markdown_files(folder: Path = ROOT) -> list[Path]:
    found = (path.relative_to(folder) for path in folder.rglob("*.md"))
    return sorted(path for path in found if not any(part in SKIPPED or part.startswith(".") for part in path.parts))


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in links(page.read_text(encoding="utf-8")):
        if ABSOLUTE.match(target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists():
            broken.append(f"{target}: no such file")
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
            broken.append(f"{target}: no such heading")
    return broken


def faults_of_summary(docs: Path) -> list[str]:
    """Returns the pages that the summary of a folder misses, names twice, or names without a file."""
    named = [(docs / target).resolve() for target in links((docs / "SUMMARY.md").read_text(encoding="utf-8"))]
    pages = {path.resolve() for path in docs.rglob("*.md")} - {(docs / "SUMMARY.md").resolve()}
    missing = [f"{path.relative_to(docs.resolve())}: not in the summary" for path in pages - set(named)]
    twice = [f"{path.name}: more than once" for path in set(named) if named.count(path) > 1]
    absent = [f"{path.name}: no such page" for path in set(named) if not path.is_file()]
    return sorted(missing + twice + absent)


@pytest.mark.parametrize("name", markdown_files(), ids=str)
def test_links_of_a_page_lead_somewhere(name: Path) -> None:
    assert broken_links(ROOT / name) == []


def test_every_page_of_docs_is_in_the_summary_once() -> None:
    assert faults_of_summary(ROOT / "docs") == []


def test_the_summary_names_the_pages_of_the_project() -> None:
    named = {(SUMMARY.parent / target).resolve().relative_to(ROOT) for target in links(SUMMARY.read_text())}
    assert {Path("README.md"), Path("LIMITATIONS.md"), Path("ARCHITECTURE.md"), Path("CHANGELOG.md")} <= named


def test_links_of_the_book_lead_somewhere(tmp_path: Path) -> None:
    book = tmp_path / "book"
    copy(ROOT, book)
    pages = markdown_files(book)
    assert len(pages) > len(list((ROOT / "docs").glob("*.md")))
    assert [(str(page), link) for page in pages for link in broken_links(book / page)] == []
    # A second copy replaces the first one.
    (book / "old.md").write_text("# Old\n")
    copy(ROOT, book)
    assert not (book / "old.md").exists()


def test_a_folder_with_other_content_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ada")
    with pytest.raises(SystemExit, match="is not a copy"):
        copy(ROOT, tmp_path)
    assert (tmp_path / "letter.txt").exists()


def test_the_book_changes_links_but_not_code(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "docs" / "topics").mkdir(parents=True)
    (root / "Cargo.toml").write_text('[workspace.package]\nrepository = "https://x.org/r"\n')
    (root / "docs" / "book.toml").write_text("[book]\n")
    (root / "docs" / "SUMMARY.md").write_text("[Start](../README.md)\n- [A](topics/a.md)\n")
    (root / "README.md").write_text("[a](docs/topics/a.md#b) [licence](LICENSE) [c](https://y.org)\n")
    (root / "LICENSE").write_text("free\n")
    (root / "docs" / "topics" / "a.md").write_text("# B\n[up](../../README.md) [here](#b) `[x](../../README.md)`\n")
    book = tmp_path / "book"
    copy(root, book)
    licence = "https://x.org/r/blob/main/LICENSE"
    assert (book / "index.md").read_text() == f"[a](topics/a.md#b) [licence]({licence}) [c](https://y.org)\n"
    assert (book / "topics" / "a.md").read_text() == "# B\n[up](../index.md) [here](#b) `[x](../../README.md)`\n"
    assert (book / "SUMMARY.md").read_text() == "[Start](index.md)\n- [A](topics/a.md)\n"


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A *heading*, with `code`\n[a](#a-heading-with-code) [b](none.md) [c](#none) `[d](none)` [e](https://x.org)\n"
        "```\n[f](none)\n```\n[![g](none.png)](page.md)\n"
    )
    assert broken_links(page) == ["none.md: no such file", "#none: no such heading"]


def test_two_pages_with_one_place_in_the_book_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "SUMMARY.md").write_text("- [Start](../README.md)\n")
    for name in ("README.md", "docs/index.md"):
        (tmp_path / name).write_text("# Page\n")
    with pytest.raises(SystemExit, match=r"rename docs/index\.md"):
        places(tmp_path)


def test_faults_of_a_summary_are_found(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.md", "b.md", "sub/c.md"):
        (tmp_path / name).write_text("# Page\n")
    (tmp_path / "SUMMARY.md").write_text("- [a](a.md)\n- [a again](a.md)\n- [c](sub/none.md)\n")
    assert faults_of_summary(tmp_path) == [
        "a.md: more than once",
        "b.md: not in the summary",
        "none.md: no such page",
        "sub/c.md: not in the summary",
    ]
