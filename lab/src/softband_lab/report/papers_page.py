"""The page of all papers: chapters with figures beside the published numbers, and tables over all rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softband_lab.report.errors import Errors
from softband_lab.report.page import Report, claim_context, figure_context, provenance, render
from softband_lab.rules.claims import VERDICTS, ClaimRow
from softband_lab.rules.judgement import NUMBER_TOLERANCE_PERCENT, Basis
from softband_lab.spec.papers import Chapter, Papers, Unanswered

NOT_ANSWERED = "not answered"
_COUNTED: tuple[Basis, ...] = ("predicted", "calibrated")


@dataclass(frozen=True)
class PaperRow:
    """A published row: the claim that a study judged, or the reason why no study answers it."""

    chapter: Chapter
    study: str
    claim: ClaimRow | None
    unanswered: Unanswered | None
    # The generation of the HCAs, if a study judged the row.
    generation: str = ""

    @property
    def verdict(self) -> str:
        return self.claim.judgement.verdict if self.claim else NOT_ANSWERED

    @property
    def system(self) -> str:
        known = self.claim.published if self.claim else self.unanswered.published if self.unanswered else None
        return known.system if known else ""

    def context(self) -> dict[str, Any]:
        """Returns the fields of the row, for the page and for papers.csv."""
        if self.claim is not None:
            effect = self.claim.host_effect
            found = {**claim_context(self.claim), "host_effect": effect}
        else:
            assert self.unanswered is not None
            row = self.unanswered.published
            found = {
                "id": row.id, "claim": "", "published": row.value, "unit": row.unit, "predicted": "",
                "deviation_percent": "", "deviation": None, "verdict": NOT_ANSWERED, "basis": "",
                "section": row.section, "quality": row.quality, "figures": [], "host_effect": "",
                "note": " | ".join(part for part in (f"not answered: {self.unanswered.reason}", row.note) if part),
            }  # fmt: skip
        return {**found, "study": self.study, "paper": self.chapter.paper.title, "system": self.system}


@dataclass(frozen=True)
class PapersReport:
    """The content of the page. `reports`: the pages of the studies by name."""

    papers: Papers
    rows: list[PaperRow]
    reports: dict[str, Report]
    command: str
    quick: bool


def write_papers_page(report: PapersReport, path: Path) -> None:
    judged = [row.claim for row in report.rows if row.claim is not None]
    counts = count_rows(report.rows)
    render(
        "papers.html.jinja",
        path,
        {
            "papers": report.papers,
            "quick": report.quick,
            "tolerance": NUMBER_TOLERANCE_PERCENT,
            "counts": counts,
            "total": len(report.rows),
            "errors": {basis: Errors.of(judged, basis) for basis in _COUNTED},
            "chapters": [_chapter(report, number) for number in range(len(report.papers.chapters))],
            "systems": _systems(report.rows),
            "generations": _generations(report),
            "rows": [row.context() for row in report.rows],
            "failures": [
                (name, failure) for name, one in report.reports.items() for failure in one.outcome.failures.values()
            ],
            "provenance": _provenance(report),
        },
    )


def count_rows(rows: list[PaperRow]) -> dict[str, int]:
    """Counts the verdicts that rows have, in a fixed order."""
    counted = Counter(row.verdict for row in rows)
    return {verdict: counted[verdict] for verdict in (*VERDICTS, NOT_ANSWERED) if counted[verdict]}


def _chapter(report: PapersReport, index: int) -> dict[str, Any]:
    chapter = report.papers.chapters[index]
    rows = [row for row in report.rows if row.chapter is chapter]
    judged = [row.claim for row in rows if row.claim is not None]
    return {
        "number": index + 1,
        "title": chapter.paper.title,
        "source": chapter.paper.source,
        "total": len(rows),
        "counts": count_rows(rows),
        "errors": {basis: Errors.of(judged, basis) for basis in _COUNTED},
        "studies": [_study(report, study.head.name) for study in chapter.studies],
        "unanswered": [row.context() for row in rows if row.claim is None],
        "without_figure": [
            row.context() for row in rows if row.claim is not None and not _is_shown(row, report.reports.get(row.study))
        ],
    }


def _is_shown(row: PaperRow, report: Report | None) -> bool:
    shown = {figure.number for figure in report.figures} if report else set()
    return row.claim is not None and bool(shown & set(row.claim.rule.figures))


def _study(report: PapersReport, name: str) -> dict[str, Any]:
    found = report.reports.get(name)
    if found is None:
        return {"name": name, "head": None, "figures": []}
    figures = []
    for figure in found.figures:
        claims = [row for row in found.claims if figure.number in row.rule.figures]
        shown = [{**claim_context(row), "host_effect": row.host_effect} for row in claims]
        figures.append({**figure_context(found, figure), "claims": shown})
    return {"name": name, "head": found.study.head, "figures": figures, "left_out": _left_out(found)}


def _left_out(report: Report) -> list[int]:
    shown = [figure.number for figure in report.figures]
    return [figure.number for figure in report.study.figures if figure.number not in shown]


def _systems(rows: list[PaperRow]) -> list[dict[str, Any]]:
    """Returns the errors of each system of each paper, in the order of the rows."""
    found: dict[tuple[str, str], list[PaperRow]] = {}
    for row in rows:
        found.setdefault((row.chapter.paper.title, row.chapter.paper.system(row.system)), []).append(row)
    return [
        {"paper": paper, "system": system or "no system named", **_errors(own)}
        for (paper, system), own in found.items()
    ]


def _generations(report: PapersReport) -> list[dict[str, Any]]:
    found: dict[str, list[PaperRow]] = {}
    for row in report.rows:
        if row.generation:
            found.setdefault(row.generation, []).append(row)
    settings = report.papers.generations.accuracy
    titles = [one.title for one in settings.generations] if settings else []
    order = sorted(found, key=lambda title: titles.index(title) if title in titles else len(titles))
    return [{"title": title, **_errors(found[title])} for title in order]


def _errors(rows: list[PaperRow]) -> dict[str, Any]:
    judged = [row.claim for row in rows if row.claim is not None]
    return {
        "total": len(rows),
        "counts": count_rows(rows),
        **{basis: Errors.of(judged, basis) for basis in _COUNTED},
    }


def _provenance(report: PapersReport) -> list[tuple[str, str]]:
    first = next(iter(report.reports.values()), None)
    versions = provenance(first) if first else []
    seeds = sorted({one.study.head.seed for one in report.reports.values()})
    kept = [(name, value) for name, value in versions if name in ("Softband", "Lab")]
    runs = sum(len(one.outcome.results) for one in report.reports.values())
    return [
        ("Command", report.command),
        ("Seeds", ", ".join(map(str, seeds)) or "none"),
        *kept,
        ("Runs of all studies", str(runs)),
    ]
