"""The catalogue's pages of the site: a page a part, its values, its links, and parts of the user."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from html import unescape
from pathlib import Path

import pytest
from conftest import DIST, Softband
from softband_lab.site.links import check_links

ROOT = Path(__file__).resolve().parents[2]
CATALOG = ROOT / "catalog"
# The other makers of the site write these pages.
OTHERS = ("book/", "rust/", "python/")


def build(softband: Softband, out: Path, *options: str, home: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SOFTBAND_BIN": str(softband.binary), "SOFTBAND_HOME": str(home)}
    command = [sys.executable, "-P", "-m", "softband_lab", "site", str(out), *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of the installed catalogue, without results."""
    out = tmp_path_factory.mktemp("site") / "site"
    binary = Path(os.environ.get("SOFTBAND_BIN", DIST / "bin" / "softband"))
    done = build(Softband(binary, out.parent), out)
    assert done.returncode == 0, done.stderr
    return out


def cells(page: str, parameter: str) -> list[str]:
    """Returns the texts of the row of a parameter: name, value, unit, status, source."""
    found = re.search(rf'<tr id="{parameter}">(.*?)</tr>', page, re.DOTALL)
    assert found is not None, parameter
    return [unescape(re.sub("<[^>]*>", "", cell)).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", found[1], re.DOTALL)]


def test_each_part_file_has_a_page_with_its_values(site: Path) -> None:
    checked = 0
    for path in sorted(CATALOG.rglob("*.toml")):
        document = tomllib.loads(path.read_text())
        folder = site / "catalog" / path.parent.name
        # A file with a list of lanes describes a part for each.
        pages = [page for page in (folder / f"{path.stem}.html",) if page.is_file()] or sorted(folder.glob(f"{path.stem}-x*.html"))
        assert pages, path
        for file in pages:
            page = file.read_text()
            assert unescape(page).count(document["summary"]) >= 1
            for parameter, value in document.items():
                if isinstance(value, dict) and not (parameter == "lanes" and isinstance(value["value"], list)):
                    row = cells(page, parameter)
                    assert (row[2], row[3]) == (value["unit"], value["status"]), (path, parameter)
                    assert row[4].startswith(value["source"]), (path, parameter)
                    checked += is_shown(value["value"], row[1], f"{path}: {parameter}")
    assert checked > 1000


def is_shown(value: object, text: str, where: str) -> bool:
    if isinstance(value, list):
        return all(is_shown(one, shown, where) for one, shown in zip(value, text.split(", "), strict=True))
    if isinstance(value, int | float):
        assert float(text) == value, where
    else:
        assert text == str(value), where
    return True


def test_the_index_lists_each_page_and_the_kinds_have_drawings(site: Path) -> None:
    index = (site / "catalog" / "index.html").read_text()
    pages = sorted((site / "catalog").glob("*/*.html"))
    assert len(pages) > 120
    for page in pages:
        assert f'href="{page.relative_to(site / "catalog")}"' in index
        text = page.read_text()
        assert re.search(r'<svg class="chart part"[^>]* role="img"><title>[^<]{10,}</title>', text), page
    assert "drawing" not in index and "<p class=\"search\" hidden>" in index


def test_parts_and_fabrics_name_each_other(site: Path) -> None:
    host = (site / "catalog" / "host" / "se7520jr23d.html").read_text()
    assert 'href="../../catalog/bus/pcie-gen1-x8.html"' in host and "fabrics/cables/ddr-cx4.html" in host
    bus = (site / "catalog" / "bus" / "pcie-gen1-x8.html").read_text()
    assert 'href="../../catalog/host/se7520jr23d.html"' in bus
    fabric = (site / "fabrics" / "cables" / "ddr-cx4.html").read_text()
    assert "catalog/hca/voltaire-ddr.html" in fabric and (site / "fabrics" / "cables" / "ddr-cx4.svg").is_file()


def test_no_link_is_broken_but_those_to_pages_of_other_makers(site: Path) -> None:
    checked = check_links(site)
    others = [fault for fault in checked.faults if any(f"/{name}index.html: " in f"/{fault.split(': ', 1)[1]}" for name in OTHERS)]
    assert [fault for fault in checked.faults if fault not in others] == []
    assert checked.internal > 2000


def test_studies_without_results_say_that_they_did_not_run(site: Path) -> None:
    for path in (ROOT / "studies").glob("*/study.toml"):
        page = (site / "studies" / f"{path.parent.name}.html").read_text()
        assert "did not run this study" in page
    assert "built without results" in (site / "catalog" / "hca" / "voltaire-ddr.html").read_text()


@pytest.fixture
def small_home(tmp_path: Path) -> Path:
    """An installation with the catalogue and one fabric."""
    home = tmp_path / "home"
    for name in ("studies", "references", "fabrics"):
        (home / name).mkdir(parents=True)
    (home / "catalog").symlink_to(CATALOG)
    (home / "fabrics" / "default.toml").write_text((ROOT / "fabrics" / "default.toml").read_text())
    return home


PART = """# A note with <b>tags</b> & signs.
summary = "our <HCA> & \\"yours\\""
like = "modern-hca"

gap_write = { value = 95, unit = "ns", source = "our <script>alert(1)</script> & https://example.org/a?b=1&c=2", status = "assumed" }
"""


def test_a_folder_of_own_parts_has_pages_with_special_characters_escaped(softband: Softband, small_home: Path, tmp_path: Path) -> None:
    (tmp_path / "own" / "hca").mkdir(parents=True)
    (tmp_path / "own" / "hca" / "mine & co.toml").write_text(PART)
    done = build(softband, tmp_path / "site", "--catalog", str(tmp_path / "own"), home=small_home)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "catalog" / "hca" / "mine & co.html").read_text()
    assert "<script>alert" not in page and "<b>tags</b>" not in page and "our <HCA>" not in page
    assert 'our &lt;HCA&gt; &amp; &#34;yours&#34;' in page and "A note with &lt;b&gt;tags&lt;/b&gt; &amp; signs." in page
    assert '<a href="https://example.org/a?b=1&amp;c=2">' in page
    assert cells(page, "gap_write")[1:4] == ["95", "ns", "assumed"]
    assert "../../catalog/hca/modern-hca.html" in page
    faults = [fault for fault in check_links(tmp_path / "site").faults if "mine" in fault and not any(name in fault for name in OTHERS)]
    assert faults == []


def test_a_wrong_folder_or_part_is_an_error_with_its_place(softband: Softband, tmp_path: Path) -> None:
    done = build(softband, tmp_path / "site", "--catalog", str(tmp_path / "none"))
    assert done.returncode == 2 and "is not a folder" in done.stderr
    (tmp_path / "own" / "hca").mkdir(parents=True)
    (tmp_path / "own" / "hca" / "broken.toml").write_text('summary = "x"\nlike = "nothing"\n')
    done = build(softband, tmp_path / "site", "--catalog", str(tmp_path / "own"))
    assert done.returncode == 2 and "broken.toml" in done.stderr
    assert not (tmp_path / "site").exists()


def test_parts_show_prints_several_parts_as_json(softband: Softband) -> None:
    import json

    done = softband.command("parts", "show", "--json", "cx4", "aoc")
    parts = json.loads(done.stdout)["parts"]
    assert [(part["kind"], part["name"]) for part in parts] == [("cable", "cx4"), ("cable", "aoc"), ("limit", "aoc")]
    length = next(row for row in parts[0]["parameters"] if row["name"] == "length")
    written = tomllib.loads((CATALOG / "cable" / "cx4.toml").read_text())["length"]
    assert length == {"name": "length", "value": "8", "unit": "m", "status": "datasheet", "on": [], "source": written["source"]}
    wrong = softband.command("parts", "show", "--json", "cx4", "cx5")
    assert wrong.returncode == 2 and wrong.stdout == "" and "no part is called `cx5`" in wrong.stderr
