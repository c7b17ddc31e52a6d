#!/usr/bin/env python3
"""Copies the pages of the documentation into one folder from which mdBook builds a book.

docs/SUMMARY.md also names pages outside docs/, such as LIMITATIONS.md. mdBook reads one folder only.
So this script copies them beside the pages of docs/ and changes all links to fit.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

CODE = r"^ *(?P<fence>```|~~~).*?^ *(?P=fence)|`[^`\n]*`"
LINK = r"(?P<before>!?\[(?:[^\[\]]|!?\[[^\]]*\](?:\([^)]*\))?)*\]\(\s*<?)(?P<target>[^)\s>]+)(?P<after>>?[^)]*\))"
CODE_OR_LINK = re.compile(f"{CODE}|{LINK}", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^ *(?P<fence>```|~~~).*?^ *(?P=fence)", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)
ABSOLUTE = re.compile(r"[a-z][a-z+.-]*:")


def links(text: str) -> list[str]:
    """Returns the targets of the links of a page, without those in code."""
    return [found["target"] for found in CODE_OR_LINK.finditer(text) if found["target"]]


def with_links(text: str, change: Callable[[str], str]) -> str:
    """Returns a page with each link target changed, and code as it was."""

    def changed(found: re.Match[str]) -> str:
        if not found["target"]:
            return found[0]
        return f"{found['before']}{change(found['target'])}{found['after']}"

    return CODE_OR_LINK.sub(changed, text)


def anchors(text: str) -> set[str]:
    """Returns the anchors that GitHub and mdBook make for the headings of a page."""
    slugs: set[str] = set()
    for heading in HEADING.findall(FENCED.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 0
        unique = slug
        while unique in slugs:
            number += 1
            unique = f"{slug}-{number}"
        slugs.add(unique)
    return slugs


def places(root: Path) -> dict[Path, Path]:
    """Returns the place in the book of each page and file, both relative to their folders.

    Fails if two pages would have the same place.
    """
    docs = root / "docs"
    found = {path.relative_to(root): path.relative_to(docs) for path in sorted(docs.rglob("*")) if path.is_file()}
    for target in links((docs / "SUMMARY.md").read_text(encoding="utf-8")):
        page = (docs / target).resolve().relative_to(root)
        if page in found:
            continue
        # mdBook writes README.md to index.html, but links to README.html.
        place = page.with_name("index.md") if page.name == "README.md" else page
        if place in found.values():
            raise SystemExit(f"book: docs/{place} and {page} would be the same page of the book: rename docs/{place}")
        found[page] = place
    return found


def link_from(page: Path, target: str, root: Path, book: dict[Path, Path], repository: str) -> str:
    """Returns a link of a page as the book needs it. Files outside the book become links to the repository."""
    name, hash_mark, anchor = target.partition("#")
    if not name or ABSOLUTE.match(target):
        return target
    file = Path(os.path.normpath(page.parent / name))
    if file in book:
        return os.path.relpath(book[file], book[page].parent) + hash_mark + anchor
    kind = "tree" if (root / file).is_dir() else "blob"
    return f"{repository}/{kind}/main/{file}{hash_mark}{anchor}"


def copy(root: Path, out: Path) -> None:
    """Writes all pages and files of the book into `out`, which must be new or an earlier copy."""
    manifest = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))
    repository = manifest["workspace"]["package"]["repository"]
    book = places(root)
    if out.exists():
        if not (out / "book.toml").is_file():
            raise SystemExit(f"book: {out} is not a copy of the pages: remove it or name another folder")
        shutil.rmtree(out)
    for source, place in book.items():
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        if source.suffix != ".md":
            shutil.copyfile(root / source, out / place)
            continue
        change = partial(link_from, source, root=root, book=book, repository=repository)
        text = with_links((root / source).read_text(encoding="utf-8"), change)
        (out / place).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: book.py DIR")
    copy(ROOT, Path(sys.argv[1]))
