"""Render: the claims as tables, the figures, the drawings of the fabrics, and the page."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rich.console import Console

from softband_lab.base.places import fabric_path
from softband_lab.base.softband import Softband
from softband_lab.report.charts import Panel, make_panel, save_chart, static_figure, static_panel
from softband_lab.report.marks import published_marks
from softband_lab.report.page import Report, write_report
from softband_lab.rules.claims import describe_counts, write_claims
from softband_lab.rules.families import Compared, compare, groups, write_families
from softband_lab.rules.host_rules import LeftOut, leave_one_out, spreads, write_host_rules
from softband_lab.spec.host_rules import load_host_logs
from softband_lab.spec.study import Figure
from softband_lab.study.evaluate import Evaluated
from softband_lab.study.plan import Plan, StudyOptions


def render(evaluated: Evaluated, softband: Softband, options: StudyOptions) -> Report:
    """Writes `claims.csv`, `claims_notes.csv`, `figures/`, `drawings/` and `report.html` into the results folder.

    A study with these settings also gets `families.csv` and `host_rules.csv`. Returns the content of the page.
    """
    write_claims(evaluated.claims, options.out)
    plan, outcome = evaluated.measured.plan, evaluated.measured.outcome
    panels = {figure.number: _panels(evaluated, figure) for figure in plan.figures}
    drawings = _draw_fabrics(plan, softband, options)
    _save_figures(plan.figures, panels, options.out / "figures")
    report = Report(
        plan.study,
        plan.figures,
        panels,
        evaluated.claims,
        outcome,
        drawings,
        {job.id: job for job in plan.all_jobs()},
        softband.version,
        options.command,
        options.quick,
        _compare(evaluated, options),
        _leave_out(plan, options),
    )
    write_report(report, options.out / "report.html")
    return report


def _compare(evaluated: Evaluated, options: StudyOptions) -> list[Compared]:
    """Writes `families.csv` of a study with `families`. Returns its numbers."""
    if not evaluated.measured.plan.study.head.families:
        return []
    numbers = compare(evaluated.claims, options.home)
    write_families(groups(numbers), options.out / "families.csv")
    return numbers


def _leave_out(plan: Plan, options: StudyOptions) -> list[LeftOut]:
    """Writes `host_rules.csv` of a study with a table of logs. Returns each system with the rule of the others."""
    name = plan.study.head.host_rules
    if not name:
        return []
    found = leave_one_out(load_host_logs(options.home / "references" / name))
    write_host_rules(found, options.out / "host_rules.csv")
    return found


def print_end(evaluated: Evaluated, report: Report, options: StudyOptions, console: Console) -> None:
    """Prints the numbers of runs and claims, the failed runs, and the place of the page."""
    outcome = evaluated.measured.outcome
    lacking = Counter(result.lacks for result in outcome.results.values() if result.lacks)
    console.print(f"runs: {len(outcome.results)} finished, {outcome.reused} of them kept from before")
    for reason, count in lacking.items():
        console.print(f"[yellow]{count} of them did not start:[/] {reason}", soft_wrap=True)
    console.print("claims by how the model came to them:")
    for line in describe_counts(evaluated.claims):
        console.print(f"  {line}")
    for group in (group for group in groups(report.numbers) if group.kind != "system"):
        console.print(
            f"  {group.name}, {group.basis}: {group.spread.numbers}, median {group.spread.median:.1f} %, "
            f"90 % of them below {group.spread.ninth:.1f} %"
        )
    for words, spread in spreads(report.left_out):
        console.print(
            f"small messages of a left-out system, {words}: {spread.numbers}, median {spread.median:.0f} %, "
            f"90 % of them below {spread.ninth:.0f} %"
        )
    if outcome.failures:
        console.print(f"[bold red]{len(outcome.failures)} runs failed:[/] {', '.join(outcome.failures)}")
        console.print(f"what their programs printed: {options.out / 'runs' / 'failed'}", soft_wrap=True)
    console.print(f"[bold]the page with the charts:[/] {options.out / 'report.html'}", soft_wrap=True)


def _panels(evaluated: Evaluated, figure: Figure) -> list[Panel]:
    study, results = evaluated.measured.plan.study, evaluated.measured.outcome.results
    return [
        make_panel(study, figure, test, results, published_marks(study, evaluated.claims, figure, test, results))
        for test in figure.tests
    ]


def _save_figures(figures: list[Figure], panels: dict[int, list[Panel]], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        drawn = [panel for panel in panels[figure.number] if panel.points]
        stem = f"figure-{figure.number:02}"
        for panel in drawn:
            save_chart(static_panel(panel), folder / f"{stem}-{panel.test_name}")
        if drawn:
            title = f"Figure {figure.number}: {figure.title}"
            save_chart(static_figure(title, drawn), folder / stem)


def _draw_fabrics(plan: Plan, softband: Softband, options: StudyOptions) -> dict[str, Path]:
    """Draws each fabric that a chosen figure uses. Leaves out a fabric that `softband` cannot draw."""
    drawings: dict[str, Path] = {}
    for figure in plan.figures:
        for curve in figure.curves:
            svg = options.out / "drawings" / f"{Path(curve.fabric).stem}.svg"
            if curve.fabric not in drawings and softband.draw(fabric_path(options.home, curve.fabric), svg):
                drawings[curve.fabric] = svg
    return drawings
