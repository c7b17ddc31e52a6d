"""A study from start to end: runs, tables, claims, figures, page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from softband_lab.base.places import fabric_path
from softband_lab.base.softband import Softband
from softband_lab.base.table_files import write_table
from softband_lab.campaign.cluster import Cluster
from softband_lab.campaign.engine_job import EngineJob, JobResult, Step
from softband_lab.campaign.runner import Outcome, exclusive, run_jobs
from softband_lab.report.charts import Panel, make_panel, save_chart, static_figure, static_panel
from softband_lab.report.marks import published_marks
from softband_lab.report.page import Report, write_report
from softband_lab.report.results import results_table
from softband_lab.rules.claims import (
    ClaimRow,
    check_calibrated,
    check_claims,
    describe_counts,
    judge_all,
    load_rules,
    write_claims,
)
from softband_lab.rules.evaluators import AnyRule
from softband_lab.rules.evidence import Evidence
from softband_lab.spec.published import Published, load_published
from softband_lab.spec.study import Figure, Run, Study
from softband_lab.spec.study_file import check_fabrics
from softband_lab.sweep.whatif import ClaimProber


@dataclass(frozen=True)
class StudyOptions:
    home: Path
    out: Path
    quick: bool
    cluster: Cluster
    command: str


@dataclass(frozen=True)
class StudyResult:
    """What a study has come to: its claims, and what they were judged by."""

    # 0 all well, 1 some runs failed, 130 interrupted.
    status: int
    claims: list[ClaimRow]
    evidence: Evidence | None


def run_study(
    study: Study,
    softband: Softband,
    options: StudyOptions,
    console: Console,
    included: dict[str, Evidence] | None = None,
) -> StudyResult:
    """Every run, then tables, claims, figures and page. `included`: evidence of the studies that rules may name."""
    published, rules = check_study(study, [other.study for other in (included or {}).values()], options.home)
    jobs = [make_job(study, run, options.home) for run in study.runs(options.quick)]
    with exclusive(options.out):
        outcome = run_jobs(jobs, softband, options.out, options.cluster, console)
        if outcome.interrupted:
            console.print(f"interrupted: {len(outcome.results)} of {len(jobs)} runs are kept in {options.out}")
            console.print("the same command goes on from there")
            return StudyResult(130, [], None)
        write_table(results_table(study, outcome.results), options.out, "results")
        evidence = Evidence(
            study,
            options.home,
            softband,
            outcome.results,
            set(outcome.failures),
            options.quick,
            options.out / "runs",
            {claim.id: claim for claim in published},
            ClaimProber(options.home, softband, options.out / "claims", options.cluster),
        )
        with console.status("judging the claims"):
            by_study: dict[str | None, Evidence] = {None: evidence}
            by_study.update(included or {})
            claims = judge_all(published, rules, by_study)
        with console.status("drawing the figures and the page"):
            _write_all(study, softband, options, outcome, claims)
    _print_end(options, outcome, claims, console)
    return StudyResult(1 if outcome.failures else 0, claims, evidence)


def check_study(study: Study, included: list[Study], home: Path) -> tuple[list[Published], dict[str, AnyRule]]:
    """Its claims and rules. Prints what cannot run or be judged."""
    check_fabrics(study, home)
    reference = study.claims_path(home)
    published = load_published(reference)
    rules = load_rules(study, published, reference)
    check_claims(study, published, rules, included, home)
    check_calibrated(home)
    return published, rules


def make_job(study: Study, run: Run, home: Path) -> EngineJob:
    path = fabric_path(home, run.fabric)
    test = study.tests[run.test]
    sizes = test.expected_sizes(run.transport)
    steps = [
        Step(test.programs(run.transport, size, run.client_host)) for size in (sizes if test.run_per_size else [None])
    ]
    head, text = study.head, path.read_text(encoding="utf-8")
    return EngineJob(run.id, f"fabrics/{run.fabric}", text, steps, head.seed, head.timeout_seconds, sizes)


def _write_all(
    study: Study, softband: Softband, options: StudyOptions, outcome: Outcome[JobResult], claims: list[ClaimRow]
) -> None:
    write_claims(claims, options.out)
    figures = study.chosen_figures(options.quick)
    panels = {
        figure.number: [
            make_panel(
                study, figure, test, outcome.results, published_marks(study, claims, figure, test, outcome.results)
            )
            for test in figure.tests
        ]
        for figure in figures
    }
    drawings = draw_fabrics(study, softband, options)
    _save_figures(figures, panels, options.out / "figures")
    jobs = {run.id: make_job(study, run, options.home) for run in study.runs(options.quick)}
    write_report(
        Report(
            study,
            figures,
            panels,
            claims,
            outcome,
            drawings,
            jobs,
            softband.version,
            options.command,
            options.quick,
        ),
        options.out / "report.html",
    )


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


def draw_fabrics(study: Study, softband: Softband, options: StudyOptions) -> dict[str, Path]:
    """A drawing of each fabric that a chosen figure uses; one that cannot be drawn is left out."""
    drawings: dict[str, Path] = {}
    for figure in study.chosen_figures(options.quick):
        for curve in figure.curves:
            svg = options.out / "drawings" / f"{Path(curve.fabric).stem}.svg"
            if curve.fabric not in drawings and softband.draw(fabric_path(options.home, curve.fabric), svg):
                drawings[curve.fabric] = svg
    return drawings


def _print_end(options: StudyOptions, outcome: Outcome[JobResult], claims: list[ClaimRow], console: Console) -> None:
    console.print(f"runs: {len(outcome.results)} finished, {outcome.reused} of them kept from before")
    console.print("claims by how the model came to them:")
    for line in describe_counts(claims):
        console.print(f"  {line}")
    if outcome.failures:
        console.print(f"[bold red]{len(outcome.failures)} runs failed:[/] {', '.join(outcome.failures)}")
        console.print(f"what their programs printed: {options.out / 'runs' / 'failed'}", soft_wrap=True)
    console.print(f"[bold]the page with the charts:[/] {options.out / 'report.html'}", soft_wrap=True)
