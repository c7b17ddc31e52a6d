"""The judged claims of study results, each with the fabrics that its rule looks at."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from softband_lab.base.errors import LabError
from softband_lab.rules.claims import load_rules
from softband_lab.rules.evaluators import AnyRule
from softband_lab.spec.published import load_published
from softband_lab.spec.study import Study
from softband_lab.spec.study_file import list_studies, load_study

PAPERS = "papers"
_UNJUDGED = ("not run", "not testable", "")


@dataclass(frozen=True)
class Row:
    """A row of claims.csv, with its study and the fabrics whose measurements judge it."""

    study: str
    id: str
    claim: str
    published: str
    unit: str
    predicted: str
    deviation: float | None
    verdict: str
    basis: str
    fabrics: frozenset[str]


def results_folder(results: Path | None, study: str) -> Path | None:
    """Returns the folder with a study's results: results/STUDY, or that of the campaign `papers`."""
    if results is None:
        return None
    folders = (results / study, results / PAPERS / study)
    return next((folder for folder in folders if (folder / "claims.csv").is_file()), None)


def load_rows(home: Path, results: Path | None) -> dict[str, list[Row]]:
    """Returns the rows of each study of the installation. A study without results has none."""
    studies = {name: load_study(home, name) for name in list_studies(home)}
    found = {}
    for name, study in studies.items():
        folder = results_folder(results, name)
        found[name] = _rows(study, studies, home, folder / "claims.csv") if folder else []
    return found


def _rows(study: Study, studies: dict[str, Study], home: Path, path: Path) -> list[Row]:
    reference = study.claims_path(home)
    rules = load_rules(study, load_published(reference), reference)
    with path.open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    try:
        return [_row(study, line, _fabrics(rules[line["id"]], study, studies)) for line in table]
    except (KeyError, ValueError) as error:
        raise LabError(path, f"is not a table of this study's claims: {error}", "run the study again") from None


def _row(study: Study, line: dict[str, str], fabrics: frozenset[str]) -> Row:
    deviation = float(line["deviation_percent"]) if line["deviation_percent"] else None
    texts = {name: line[name] for name in ("id", "claim", "published", "unit", "predicted", "verdict", "basis")}
    return Row(study=study.head.name, deviation=deviation, fabrics=fabrics, **texts)


def _fabrics(rule: AnyRule, study: Study, studies: dict[str, Study]) -> frozenset[str]:
    """Returns the fabrics of a rule's curves, named as in fabrics/ without `.toml`."""
    of = studies[rule.study] if rule.study else study
    runs = [of.run_of(look.curve, look.test) for look in rule.looks_at()]
    return frozenset(run.fabric.removesuffix(".toml") for run in runs if run is not None)


def judged(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.verdict not in _UNJUDGED]


def median_deviation(rows: Iterable[Row], basis: str = "predicted") -> tuple[int, float | None]:
    """Returns the count of numbers of a basis and their median absolute deviation in percent."""
    found = [abs(row.deviation) for row in judged(rows) if row.basis == basis and row.deviation is not None]
    return len(found), statistics.median(found) if found else None
