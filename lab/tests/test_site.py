"""The site: broken links and anchors are found, notes and addresses are read, drawings name their values."""

from __future__ import annotations

import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from softband_lab.base.errors import LabError
from softband_lab.site.drawing import part_drawing
from softband_lab.site.links import check_links
from softband_lab.site.pages import start_afresh
from softband_lab.site.parts import Parameter, Part, fabrics_of, notes_of, with_references
from softband_lab.site.rows import Row, judged, load_rows, median_deviation

ROOT = Path(__file__).resolve().parents[2]


def write(folder: Path, **pages: str) -> Path:
    for name, body in pages.items():
        path = folder / f"{name.replace('__', '/')}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"<!doctype html>\n<body>{body}</body>")
    return folder


def test_right_links_and_anchors_have_no_fault(tmp_path: Path) -> None:
    site = write(
        tmp_path,
        index='<h1 id="top-part">x</h1><a href="sub/page.html#here">a</a><a href="#top-part">b</a><a href="sub/">c</a>',
        sub__page='<b id="here">x</b><a href="../index.html?x=1">d</a><a href="https://example.org/x#y">e</a>',
        sub__index='<a href="page.html#3-4">f</a><i id="3"></i>',
    )
    more = '<i id="3"></i><i id="4"></i><p id="a%3Cb"></p><p id="c d"></p><a href="#a%3Cb">g</a><a href="#c%20d">h</a>'
    (site / "sub" / "page.html").write_text((site / "sub" / "page.html").read_text() + more)
    checked = check_links(site)
    assert checked.faults == [] and (checked.pages, checked.internal) == (3, 7)
    assert checked.external == {"https://example.org/x": 1}


def test_an_anchor_behind_a_page_that_leads_on_is_checked(tmp_path: Path) -> None:
    links = '<a href="old.html#here">a</a><a href="old.html#nowhere">b</a>'
    site = write(tmp_path, index=links, new='<b id="here">x</b>')
    (site / "old.html").write_text('<meta http-equiv="refresh" content="0;URL=new.html">')
    assert [fault.split(": ", 2)[1] for fault in check_links(site).faults] == ["old.html#nowhere"]


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ('<a href="missing.html">', "there is no such file"),
        ('<img src="missing.svg">', "there is no such file"),
        ('<link rel="stylesheet" href="missing.css">', "there is no such file"),
        ('<script src="missing.js"></script>', "there is no such file"),
        ('<a href="other.html#nowhere">', "other.html has no anchor `nowhere`"),
        ('<a href="#nowhere">', "index.html has no anchor `nowhere`"),
        ('<a href="../outside.html">', "leads out of the site"),
        ('<a href="/index.html">', "begins at the root of a server"),
        ('<a href="other.html#1-2">', "has no anchor `1-2`"),
    ],
)
def test_a_broken_link_or_anchor_is_found_with_its_place(link: str, problem: str, tmp_path: Path) -> None:
    site = write(tmp_path, index=link, other='<b id="1">x</b>')
    faults = check_links(site).faults
    assert len(faults) == 1 and faults[0].startswith("index.html:2: ") and problem in faults[0]


def test_notes_carry_the_parameter_that_follows() -> None:
    text = "# One\n# line.\nsummary = 1\n\n# Two.\nport_buffer = { value = 1 }\n# The end.\n"
    assert list(notes_of(text)) == [("One line.", ""), ("Two.", "port_buffer"), ("The end.", "")]


def test_addresses_in_a_source_end_before_its_punctuation() -> None:
    source = "see https://example.org/a?b=1&c, and (http://example.com/x)."
    pieces = Parameter("x", "1", "ns", "assumed", source, ()).source_pieces
    assert [piece for piece, is_address in pieces if is_address] == ["https://example.org/a?b=1&c", "http://example.com/x"]
    assert "".join(piece for piece, _ in pieces) == source


def test_a_drawing_escapes_its_words_and_names_the_values() -> None:
    rows = [
        Parameter("length", "7", "m", "datasheet", "x", ()),
        Parameter("medium", "a<b & c", "name", "assumed", "x", ()),
    ]
    drawing = part_drawing(Part("cable", "a&b", "x", rows))
    tree = ElementTree.fromstring(drawing)
    assert tree.get("role") == "img"
    title = tree.find("title")
    assert title is not None and title.text is not None
    assert "cable a&b" in title.text and "7 m" in title.text and "a<b & c" in title.text


def test_every_fabric_names_parts_that_the_catalogue_has() -> None:
    files = {(path.parent.name, path.stem) for path in (ROOT / "catalog").rglob("*.toml")}
    fabrics = fabrics_of(ROOT)
    assert len(fabrics) > 50
    assert ("host", "se7520jr23d") in fabrics["cables/ddr-cx4"] and ("hca", "connectx2-qdr") in fabrics["fat-tree-16"]
    named = {key for keys in fabrics.values() for key in keys}
    assert {key for key in named if key[0] != "bus"} <= files


def test_a_fabric_uses_the_bus_of_its_hosts_and_not_the_parts_that_they_are_like() -> None:
    parts = {(kind, name): Part(kind, name, "", []) for kind, name in (("host", "h"), ("bus", "b"), ("host", "old"))}
    parts["host", "h"].refers_to = [("bus", ("bus", "b")), ("like", ("host", "old"))]
    assert with_references(parts, {("host", "h"), ("hca", "unknown")}) == {("host", "h"), ("bus", "b")}


def row(deviation: float | None, basis: str = "predicted", verdict: str = "off") -> Row:
    return Row("s", "A001", "c", "1", "us", "1", deviation, verdict, basis, frozenset())


def test_the_median_counts_only_judged_numbers_of_the_basis() -> None:
    rows = [row(-3.0), row(1.0), row(None), row(50.0, "calibrated"), row(9.0, verdict="not run")]
    assert median_deviation(rows) == (2, 2.0) and len(judged(rows)) == 4
    assert median_deviation([]) == (0, None)


def test_results_get_the_fabrics_of_their_rules(tmp_path: Path) -> None:
    (tmp_path / "papers" / "cables").mkdir(parents=True)
    head = "id,claim,published,unit,predicted,deviation_percent,verdict,basis\n"
    table = tmp_path / "papers" / "cables" / "claims.csv"
    rules = tomllib.loads((ROOT / "studies" / "cables" / "claims.toml").read_text())
    wanted = next(name for name, rule in rules.items() if rule["kind"] == "value")
    table.write_text(f"{head}{wanted},c,1,us,2,100.00,off,predicted\n")
    rows = load_rows(ROOT, tmp_path)
    assert rows["generations"] == [] and [one.id for one in rows["cables"]] == [wanted]
    assert all((ROOT / "fabrics" / f"{name}.toml").is_file() for name in rows["cables"][0].fabrics)
    assert rows["cables"][0].fabrics
    table.write_text(f"{head}Z999,c,1,us,2,100.00,off,predicted\n")
    with pytest.raises(LabError, match="is not a table of this study's claims"):
        load_rows(ROOT, tmp_path)


def test_only_an_earlier_site_is_removed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    with pytest.raises(LabError, match="is not an earlier site"):
        start_afresh(tmp_path)
    assert (tmp_path / "precious").is_file()
    (tmp_path / "site.css").write_text("")
    start_afresh(tmp_path)
    assert not tmp_path.exists()


def test_the_install_line_is_that_of_the_readme() -> None:
    page = (ROOT / "lab/src/softband_lab/site/templates/start.html.jinja").read_text().replace("&amp;", "&")
    line = next(line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("make install"))
    assert line.split("  ")[0] in page


def test_the_crates_of_the_site_are_those_that_may_be_published() -> None:
    script = (ROOT / "scripts" / "site.sh").read_text()
    listed = next(line for line in script.splitlines() if line.startswith("crates="))
    manifests = {path.parent.name: path.read_text() for path in (ROOT / "crates").glob("*/Cargo.toml")}
    published = sorted(name for name, text in manifests.items() if "publish.workspace" not in text)
    assert sorted(listed.split('"')[1].split()) == published
