"""The page of a study: one file without outside references."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from softband_lab.base.files import write_whole
from softband_lab.base.version import VERSION
from softband_lab.campaign.engine_job import EngineJob, JobResult
from softband_lab.campaign.runner import Outcome
from softband_lab.report import scatter, svg
from softband_lab.report.charts import Panel, page_panel
from softband_lab.report.takeaway import signed_percent, takeaway
from softband_lab.rules.claims import ClaimRow, count_by_basis, count_verdicts
from softband_lab.rules.families import Compared, Group, groups, panels
from softband_lab.rules.host_rules import LeftOut, spreads
from softband_lab.spec.study import Figure, Study


@dataclass(frozen=True)
class Report:
    """The content of the page, without date and place, so that the same results give the same bytes."""

    study: Study
    figures: list[Figure]
    panels: dict[int, list[Panel]]
    claims: list[ClaimRow]
    outcome: Outcome[JobResult]
    drawings: dict[str, Path]
    jobs: dict[str, EngineJob]
    softband_version: str
    command: str
    quick: bool
    # Of a study with `families`, and of one with `host_rules`.
    numbers: list[Compared] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


def write_report(report: Report, path: Path) -> None:
    figures = [figure_context(report, figure) for figure in report.figures]
    render(
        "report.html.jinja",
        path,
        {
            "study": report.study.head,
            "quick": report.quick,
            "figures": figures,
            "claims": [claim_context(row) for row in report.claims],
            "counts": count_verdicts(report.claims),
            "by_basis": count_by_basis(report.claims),
            "failures": list(report.outcome.failures.values()),
            "drawings": _drawing_context(report),
            "runs": _run_context(report),
            "finished": sum(not result.lacks for result in report.outcome.results.values()),
            "provenance": provenance(report),
            "families": _families_context(report.numbers),
            "host_rules": _host_rules_context(report.left_out),
        },
    )


def _families_context(numbers: list[Compared]) -> dict[str, Any]:
    """Returns the charts and tables of a study's numbers by family, or nothing without numbers."""
    if not numbers:
        return {}
    kinds, found = scatter.legend(numbers), groups(numbers)
    drawn = [(name, own, Markup(scatter.scatter(name, own, kinds))) for name, own in panels(numbers)]
    return {
        "legend": kinds,
        "panels": [(name, scatter.sentence(own), drawing) for name, own, drawing in drawn],
        "by_family": _spread_context([group for group in found if group.kind != "system"]),
        "by_system": _spread_context([group for group in found if group.kind == "system"]),
    }


def _spread_context(found: list[Group]) -> list[dict[str, Any]]:
    return [
        {"name": group.name, "basis": group.basis, "spread": group.spread, "within": group.within} for group in found
    ]


def _host_rules_context(left_out: list[LeftOut]) -> dict[str, Any]:
    if not left_out:
        return {}
    return {"spreads": spreads(left_out), "rows": left_out}


def render(template: str, path: Path, context: dict[str, Any]) -> None:
    environment = Environment(
        loader=PackageLoader("softband_lab.report"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["signed_percent"] = signed_percent
    page = environment.get_template(template).render(
        style=Markup(svg.page_rules() + read_asset("page.css")),
        script=Markup(read_asset("page.js")),
        **context,
    )
    write_whole(path, page.encode())


def read_asset(name: str) -> str:
    return files("softband_lab.report").joinpath("templates", name).read_text(encoding="utf-8")


def figure_context(report: Report, figure: Figure) -> dict[str, Any]:
    panels = report.panels[figure.number]
    claims = [row for row in report.claims if figure.number in row.rule.figures]
    return {
        "number": figure.number,
        "title": figure.title,
        "section": figure.section,
        "caption": figure.caption,
        "takeaway": takeaway(panels, claims),
        "lacking": _lacking(report, figure),
        "has_marks": any(panel.marks for panel in panels),
        "legend": [
            {
                "name": curve.name,
                "label": curve.shown,
                "kind": svg.colour_class(index),
                "fabric": Path(curve.fabric).stem,
            }
            for index, curve in enumerate(figure.curves)
        ],
        "panels": [{"title": panel.test.title, "drawing": Markup(page_panel(panel))} for panel in panels],
        "claims": [claim_context(row) for row in claims],
    }


def _lacking(report: Report, figure: Figure) -> list[str]:
    """Returns a sentence for each property or program that is missing, with the curves that need it."""
    curves: dict[str, list[str]] = {}
    for test in figure.tests:
        for curve in figure.curves:
            result = report.outcome.results.get(figure.run_of(curve, test).id)
            if result is not None and result.lacks and curve.shown not in curves.get(result.lacks, []):
                curves.setdefault(result.lacks, []).append(curve.shown)
    return [
        f"{reason[:1].upper()}{reason[1:]}, so these curves are missing: {', '.join(of)}."
        for reason, of in curves.items()
    ]


def claim_context(row: ClaimRow) -> dict[str, Any]:
    return {
        **row.fields(),
        "deviation": row.judgement.deviation_percent,
        "section": row.published.section,
        "figures": row.rule.figures,
        "quality": row.published.quality,
        "note": row.note,
    }


def _drawing_context(report: Report) -> list[dict[str, Any]]:
    return [
        {
            "name": Path(fabric).stem,
            "file": f"fabrics/{fabric}",
            "image": "data:image/svg+xml;base64," + base64.b64encode(drawn.read_bytes()).decode(),
        }
        for fabric, drawn in report.drawings.items()
    ]


def _run_context(report: Report) -> list[dict[str, Any]]:
    uses: dict[str, list[str]] = {}
    for run, figure, curve in report.study.uses():
        uses.setdefault(run.id, []).append(f"{figure.number}: {curve.name}")
    return [
        {
            "id": job_id,
            "uses": f"in figure {'; '.join(uses[job_id])}"
            if job_id in uses
            else "for the effect of the host's rate on claims",
            "commands": [job.command_of(step) for step in job.steps],
            "state": _state(report, job_id),
        }
        for job_id, job in report.jobs.items()
    ]


def _state(report: Report, job_id: str) -> str:
    if job_id in report.outcome.failures:
        return "failed"
    result = report.outcome.results.get(job_id)
    return "did not start" if result is not None and result.lacks else "finished"


def provenance(report: Report) -> list[tuple[str, str]]:
    versions = sorted({row.versions for result in report.outcome.results.values() for row in result.rows})
    virtual = sum(
        {row.command: row.virtual_seconds for row in result.rows}[command]
        for result in report.outcome.results.values()
        for command in sorted({row.command for row in result.rows})
    )
    return [
        ("Source", report.study.head.source),
        ("Command", report.command),
        ("Seed", str(report.study.head.seed)),
        ("Softband", report.softband_version),
        ("Lab", f"softband-lab {VERSION}"),
        ("Versions of the runs", "; ".join(versions) or "none"),
        ("Simulated time of all runs", f"{virtual:.3f} s"),
    ]
