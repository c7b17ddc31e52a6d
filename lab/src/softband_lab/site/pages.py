"""Writes the pages of the site: start page, catalogue, fabrics, studies, and the list of the Rust crates."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from softband_lab.base.errors import LabError
from softband_lab.base.files import cannot_write
from softband_lab.base.places import fabric_path
from softband_lab.base.softband import Softband
from softband_lab.report import svg
from softband_lab.report.page import read_asset
from softband_lab.report.takeaway import signed_percent
from softband_lab.rules.claims import calibrated_parameters
from softband_lab.site.drawing import part_drawing
from softband_lab.site.parts import KINDS, Key, Part, fabrics_of, load_parts, with_references
from softband_lab.site.rows import PAPERS, Row, judged, load_rows, median_deviation, results_folder
from softband_lab.spec.published import load_published
from softband_lab.spec.study_file import load_study

TITLES = {
    "hca": "HCAs", "nic": "NICs", "switch": "Switches", "cable": "Cables", "limit": "Length limits of cables",
    "bus": "Buses", "host": "Hosts", "kernel": "Kernels",
}  # fmt: skip


@dataclass(frozen=True)
class Site:
    """The content of the site. `own` is a folder of the user's parts, `results` a folder of study results."""

    out: Path
    home: Path
    softband: Softband
    own: Path | None = None
    results: Path | None = None

    def write(self) -> int:
        """Writes all pages of the site that the lab makes. Returns the number of parts."""
        parts = load_parts(self.softband, self.home, self.own)
        rows, fabrics = load_rows(self.home, self.results), fabrics_of(self.home)
        self._asset("site.css", svg.page_rules() + read_asset("page.css") + _own_asset("site.css"))
        self._asset("site.js", _own_asset("site.js"))
        self._asset("page.js", read_asset("page.js"))
        for name, named in fabrics.items():
            for key in with_references(parts, named):
                parts[key].fabrics.append(name)
        self._write_catalog(parts, rows, fabrics)
        self._write_fabrics(parts, fabrics)
        self._write_studies(rows)
        self._page("index.html", "start.html.jinja", {"softband": self.softband.version, "parts": len(parts)})
        return len(parts)

    def write_rust(self, manifests: list[Path]) -> None:
        """Writes the list of the crates whose documentation lies in `rust/`. Fails if a crate's pages are missing."""
        crates = []
        for manifest in manifests:
            package = tomllib.loads(manifest.read_text(encoding="utf-8"))["package"]
            folder = str(package["name"]).replace("-", "_")
            if not (self.out / "rust" / folder / "index.html").is_file():
                raise LabError(self.out / "rust" / folder, "has no index.html", f"cargo doc -p {package['name']}")
            crates.append({"name": package["name"], "folder": folder, "description": package["description"]})
        self._page("rust/index.html", "rust.html.jinja", {"crates": crates})

    def _write_catalog(self, parts: dict[Key, Part], rows: dict[str, list[Row]], fabrics: dict[str, set[Key]]) -> None:
        of_part = _rows_by_part(parts, rows, fabrics)
        known = {row.id: row.study for found in rows.values() for row in found}
        calibrated = calibrated_parameters(self.home / "catalog")
        kinds = [(kind, TITLES[kind], [part for part in parts.values() if part.kind == kind]) for kind in KINDS]
        self._page("catalog/index.html", "catalog.html.jinja", {"kinds": kinds, "accuracy": _medians(of_part)})
        for part in parts.values():
            found = of_part[part.key]
            numbers = {basis: median_deviation(found, basis) for basis in ("predicted", "calibrated")}
            context = {
                "part": part,
                "drawing": Markup(part_drawing(part)),
                "rows": found,
                "numbers": numbers,
                "known": known,
                "calibrated": calibrated,
                "has_results": any(rows.values()),
                "missing": sum(row.verdict == "not run" for found in rows.values() for row in found),
            }
            self._page(f"catalog/{part.file}", "part.html.jinja", context)

    def _write_fabrics(self, parts: dict[Key, Part], fabrics: dict[str, set[Key]]) -> None:
        for name, named in fabrics.items():
            file = fabric_path(self.home, f"{name}.toml")
            picture = self.out / "fabrics" / f"{name}.svg"
            context = {
                "name": name,
                "title": tomllib.loads(file.read_text(encoding="utf-8"))["fabric"].get("title", name),
                "drawn": picture.name if self.softband.draw(file, picture) else "",
                "parts": sorted((parts[key] for key in named if key in parts), key=lambda part: part.key),
                "text": file.read_text(encoding="utf-8"),
            }
            self._page(f"fabrics/{name}.html", "fabric.html.jinja", context)

    def _write_studies(self, rows: dict[str, list[Row]]) -> None:
        entries = [self._study(name, found) for name, found in rows.items()]
        papers = self.results / PAPERS / "report.html" if self.results else None
        has_papers = papers is not None and papers.is_file()
        if papers is not None and has_papers:
            self._copy(papers, f"studies/{PAPERS}.html")
            self._relink(self.out / "studies" / f"{PAPERS}.html", list(rows))
        self._page("studies/index.html", "studies.html.jinja", {"entries": entries, "has_papers": has_papers})

    def _study(self, name: str, rows: list[Row]) -> dict[str, Any]:
        """Writes the page of a study: its report if results exist, else its published claims."""
        study, folder = load_study(self.home, name), results_folder(self.results, name)
        page, count, done = f"studies/{name}.html", len(rows), len(judged(rows))
        missing = sum(row.verdict == "not run" for row in rows)
        entry = {"name": name, "study": study.head, "rows": count, "done": done, "missing": missing}
        report = folder / "report.html" if folder else None
        if report is not None and report.is_file():
            text = f"{missing} of {count} published rows have no run on this page." if missing else ""
            self._copy(report, page, text)
        else:
            published = load_published(study.claims_path(self.home))
            self._page(page, "study.html.jinja", {**entry, "published": published})
        return {**entry, "median": median_deviation(rows)}

    def _copy(self, report: Path, name: str, note: str = "") -> None:
        """Copies a page of the lab, with a line that leads back to the site."""
        head, body, rest = report.read_text(encoding="utf-8").partition("<body>")
        if not body:
            raise LabError(report, "is not a page of the lab: it has no <body>", "run the study again")
        strip = _environment().get_template("strip.html.jinja").render(note=note)
        self._asset(name, f"{head}{body}\n{strip}{rest}")

    def _relink(self, page: Path, studies: list[str]) -> None:
        """Changes the links to the pages of studies, which lie in their own folders beside the results."""
        text = page.read_text(encoding="utf-8")
        for name in studies:
            text = text.replace(f'href="{name}/report.html', f'href="{name}.html')
        self._asset(page.relative_to(self.out).as_posix(), text)

    def _asset(self, name: str, content: str) -> None:
        """Writes a file of the site. A failed build starts afresh, so files need no rename to be whole."""
        path = self.out / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        except OSError as error:
            raise cannot_write(path, error) from None

    def _page(self, name: str, template: str, context: Mapping[str, Any]) -> None:
        root = "../" * name.count("/")
        self._asset(name, _environment().get_template(template).render(root=root, **context))


def start_afresh(out: Path) -> None:
    """Removes an earlier site. Fails if the folder is something else."""
    if out.is_dir() and any(out.iterdir()):
        if not (out / "site.css").is_file():
            raise LabError(out, "is not an earlier site", "remove it, or name another folder")
        shutil.rmtree(out)


def _rows_by_part(
    parts: dict[Key, Part], rows: dict[str, list[Row]], fabrics: dict[str, set[Key]]
) -> dict[Key, list[Row]]:
    """Returns the judged rows of each part: those whose fabrics use it, directly or by a reference."""
    used = {name: with_references(parts, named) for name, named in fabrics.items()}
    found: dict[Key, list[Row]] = {key: [] for key in parts}
    for row in judged(row for of_study in rows.values() for row in of_study):
        for key in set().union(*(used.get(name, set()) for name in row.fabrics)):
            found[key].append(row)
    return found


def _medians(rows: dict[Key, list[Row]]) -> dict[Key, tuple[int, float | None]]:
    return {key: median_deviation(found) for key, found in rows.items()}


def _own_asset(name: str) -> str:
    return files("softband_lab.site").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("softband_lab.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["signed_percent"] = signed_percent
    return environment
