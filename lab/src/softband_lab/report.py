"""The study's page: one file that needs nothing else, not even a network."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from softband_lab import __version__
from softband_lab.campaign import Outcome
from softband_lab.charts import Panel, colours, page_spec
from softband_lab.claims import ClaimRow, count_verdicts
from softband_lab.engine_job import EngineJob, JobResult
from softband_lab.files import write_whole
from softband_lab.study import Figure, Study


@dataclass(frozen=True)
class Report:
    """What the page shows. No date and no place: the same results give the same bytes."""

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


def write_report(report: Report, path: Path) -> None:
    figures = [_figure_context(report, figure) for figure in report.figures]
    specs = {panel["id"]: panel["spec"] for figure in figures for panel in figure["panels"]}
    render(
        "report.html.jinja",
        path,
        {
            "study": report.study.head,
            "quick": report.quick,
            "figures": figures,
            "specs": specs,
            "claims": [_claim_context(row) for row in report.claims],
            "counts": count_verdicts(report.claims),
            "failures": list(report.outcome.failures.values()),
            "drawings": _drawing_context(report),
            "cells": _cell_context(report),
            "finished": len(report.outcome.results),
            "provenance": _provenance(report),
        },
    )


def render(template: str, path: Path, context: dict[str, Any]) -> None:
    environment = Environment(
        loader=PackageLoader("softband_lab"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["script_json"] = script_json
    page = environment.get_template(template).render(
        style=Markup(read_asset("page.css")),
        script=Markup(read_asset("page.js")),
        vega=Markup(vega_bundle()),
        **context,
    )
    write_whole(path, page.encode())


def script_json(value: Any) -> Markup:
    """JSON for a <script> element: nothing in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def read_asset(name: str) -> str:
    return files("softband_lab").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def vega_bundle() -> str:
    """Vega, Vega-Lite and vega-embed as one script."""
    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    return bundle.replace("</script", "<\\/script")


def _figure_context(report: Report, figure: Figure) -> dict[str, Any]:
    names = [curve.name for curve in figure.curves]
    return {
        "number": figure.number,
        "title": figure.title,
        "section": figure.section,
        "caption": figure.caption,
        "legend": [
            {"name": name, "colour": colour, "fabric": Path(curve.fabric).stem}
            for name, colour, curve in zip(names, colours(names), figure.curves, strict=True)
        ],
        "panels": [
            {
                "id": f"chart-{figure.number}-{panel.test_name}",
                "title": panel.test.title,
                "empty": not panel.points,
                "spec": page_spec(panel),
            }
            for panel in report.panels[figure.number]
        ],
        "claims": [_claim_context(row) for row in report.claims if figure.number in row.rule.figures],
    }


def _claim_context(row: ClaimRow) -> dict[str, Any]:
    return {
        **row.cells(),
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
            "image": "data:image/svg+xml;base64," + base64.b64encode(svg.read_bytes()).decode(),
        }
        for fabric, svg in report.drawings.items()
    ]


def _cell_context(report: Report) -> list[dict[str, Any]]:
    uses: dict[str, list[str]] = {}
    for cell, figure, curve in report.study.uses():
        uses.setdefault(cell.id, []).append(f"{figure.number}: {curve.name}")
    return [
        {
            "id": job_id,
            "uses": uses[job_id],
            "commands": [job.command_of(step) for step in job.steps],
            "state": "failed" if job_id in report.outcome.failures else "finished",
        }
        for job_id, job in report.jobs.items()
    ]


def _provenance(report: Report) -> list[tuple[str, str]]:
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
        ("Lab", f"softband-lab {__version__}"),
        ("Versions of the runs", "; ".join(versions) or "none"),
        ("Simulated time of all runs", f"{virtual:.3f} s"),
    ]
