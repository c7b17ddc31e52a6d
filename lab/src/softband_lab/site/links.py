"""Checks the links of a folder of HTML pages: each page, file and anchor that they name must be there."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LINKS = {
    "a": "href", "link": "href", "area": "href", "img": "src", "script": "src", "source": "src", "iframe": "src",
}  # fmt: skip
# rustdoc names lines of sources as `12-34`, and its script selects them.
_LINES = re.compile(r"(\d+)-(\d+)")


@dataclass
class Page(HTMLParser):
    """The links of a page, with their lines, and its anchors."""

    links: list[tuple[int, str]] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    # The page that this page only leads to, if any.
    moved_to: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := found.get(name))}
        if tag == "meta" and (found.get("http-equiv") or "").lower() == "refresh":
            self.moved_to = (found.get("content") or "").partition("URL=")[2]
        target = found.get(_LINKS.get(tag, ""))
        if target:
            self.links.append((self.getpos()[0], target))


@dataclass
class Checked:
    """The faults of a site, the addresses outside of it, and the number of links within."""

    pages: int = 0
    internal: int = 0
    faults: list[str] = field(default_factory=list)
    external: dict[str, int] = field(default_factory=dict)


def check_links(root: Path) -> Checked:
    """Checks each link of each page below `root`. Does not ask for external addresses; only counts them."""
    root = root.resolve()
    pages = {path: _read(path) for path in sorted(root.rglob("*.html"))}
    checked = Checked(pages=len(pages))
    for path, page in pages.items():
        for line, target in page.links:
            parts = urlsplit(target)
            if parts.scheme in ("data", "mailto", "javascript"):
                continue
            if parts.scheme or parts.netloc:
                address = target.partition("#")[0]
                checked.external[address] = checked.external.get(address, 0) + 1
                continue
            checked.internal += 1
            problem = _problem(root, pages, path, unquote(parts.path), parts.fragment)
            if problem:
                checked.faults.append(f"{path.relative_to(root)}:{line}: {target}: {problem}")
    return checked


def _read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def _problem(root: Path, pages: dict[Path, Page], path: Path, name: str, anchor: str) -> str:
    """Returns the fault of a link, or "" if it is right."""
    if name.startswith("/"):
        return "begins at the root of a server, where the site need not lie"
    file = (path.parent / name).resolve() if name else path
    if not file.is_relative_to(root):
        return "leads out of the site"
    if file.is_dir():
        file = file / "index.html"
    if not file.is_file():
        # rustdoc leaves out the list of a trait's implementors in other crates if there is none.
        return "" if "trait.impl" in file.parts and file.suffix == ".js" else "there is no such file"
    if not anchor or anchor == "top" or file not in pages:
        return ""
    if pages[file].moved_to:
        return _problem(root, {**pages, file: Page()}, file, unquote(pages[file].moved_to), anchor)
    found, lines = pages[file].anchors, _LINES.fullmatch(anchor)
    # Browsers look for the anchor as written, then for its decoded form.
    if anchor in found or unquote(anchor) in found or (lines is not None and {lines[1], lines[2]} <= found):
        return ""
    return f"{file.relative_to(root)} has no anchor `{anchor}`"
