"""The papers: all their studies over common runs, and one page."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from softband_lab.base.errors import LabError
from softband_lab.base.files import write_csv
from softband_lab.base.softband import Softband
from softband_lab.campaign.jobs import content_key
from softband_lab.campaign.runner import exclusive
from softband_lab.campaign.shared import Shared
from softband_lab.report.errors import Errors
from softband_lab.report.page import Report
from softband_lab.report.papers_page import PaperRow, PapersReport, count_rows, write_papers_page
from softband_lab.rules.claims import ClaimRow
from softband_lab.rules.judgement import Basis
from softband_lab.spec.papers import SECONDS, SECONDS_COLUMNS, Papers, load_seconds
from softband_lab.study.accuracy import generation_of
from softband_lab.study.pipeline import StudyResult, run_study
from softband_lab.study.plan import Plan, StudyOptions, plan

# Format of papers.csv. The number rises with each change of meaning.
FORMAT = 1
RUNS = "runs"
OTHER_HCAS = "other HCAs"
WITHOUT_RUNS = "Rows without a run"
COLUMNS = [
    "id", "paper", "study", "system", "claim", "published", "unit", "quality", "predicted", "deviation_percent",
    "verdict", "basis", "host_effect", "note", "format",
]  # fmt: skip


@dataclass(frozen=True)
class _Planned:
    plan: Plan
    options: StudyOptions


def run_papers(papers: Papers, softband: Softband, options: StudyOptions, console: Console) -> int:
    """Runs the studies of all papers and writes the page. Returns the exit status of a study.

    `options.out` receives a folder for each study, and `runs/` with the runs that they share.
    """
    shared = Shared(options.out / RUNS, softband)
    # Faults appear here, before the first run.
    planned = {study.head.name: _plan(study.head.name, papers, options, shared) for study in papers.studies()}
    expected = load_seconds(options.home, options.out)
    with exclusive(options.out):
        if not _gather(planned, expected, shared, options, console):
            return 130
        results: dict[str, StudyResult] = {}
        for study in papers.studies():
            name = study.head.name
            with console.status(f"judging and drawing {name}"):
                results[name] = run_study(study, softband, planned[name].options, Console(quiet=True))
            if results[name].evidence is None:
                _print_interrupted(options, console)
                return 130
        rows = all_rows(papers, options.home, {name: result.claims for name, result in results.items()})
        write_rows(rows, options.out / "papers.csv")
        reports = {name: result.report for name, result in results.items() if result.report is not None}
        _write_seconds(planned, reports, expected, options.out / SECONDS)
        page = options.out / "report.html"
        write_papers_page(PapersReport(papers, rows, reports, options.command, options.quick), page)
    _print_end(rows, reports, options, console)
    return max((result.status for result in results.values()), default=0)


def all_rows(papers: Papers, home: Path, claims: dict[str, list[ClaimRow]]) -> list[PaperRow]:
    """Returns each published row once, in the order of the papers. Fails if a row has no judgement and no reason."""
    found: dict[str, PaperRow] = {}
    for chapter in papers.chapters:
        for study in chapter.studies:
            for claim in claims.get(study.head.name, []):
                row = PaperRow(chapter, study.head.name, claim, None, _generation(papers, home, claim))
                found[claim.published.id] = row
        for unanswered in chapter.unanswered:
            found[unanswered.published.id] = PaperRow(chapter, "", None, unanswered)
    wanted = [row for chapter in papers.chapters for row in chapter.paper.ids()]
    lost = [row for row in wanted if row not in found]
    if lost:
        raise LabError(papers.path, f"no study judged the rows {', '.join(lost)}", "the same command again")
    return [found[row] for row in wanted]


def write_rows(rows: list[PaperRow], path: Path) -> None:
    contexts = [{**row.context(), "format": FORMAT} for row in rows]
    write_csv(path, COLUMNS, [{name: str(context[name]) for name in COLUMNS} for context in contexts])


def _plan(name: str, papers: Papers, options: StudyOptions, shared: Shared) -> _Planned:
    study = next(one for one in papers.studies() if one.head.name == name)
    command = shlex.join(["softband", "study", name, *(["--quick"] if options.quick else []), *options.manager.options])
    own = replace(options, out=options.out / name, command=command, pool=shared)
    return _Planned(plan(study, [], own), own)


def _gather(
    planned: dict[str, _Planned],
    expected: dict[tuple[str, str], float],
    shared: Shared,
    options: StudyOptions,
    console: Console,
) -> bool:
    """Executes the runs of all studies in one campaign. Returns whether it came to its end."""
    jobs, seconds = [], {}
    for name, one in planned.items():
        for job in one.plan.all_jobs():
            # Studies may use the same name for different runs.
            named = replace(job, id=f"{name}/{job.id}")
            jobs.append(named)
            if (name, job.id) in expected:
                seconds[named.id] = expected[name, job.id]
    different = len({content_key(job, shared.softband) for job in jobs})
    console.print(f"{len(jobs)} runs of {len(planned)} studies, {different} of them different")
    outcome = shared.gather(jobs, options.cluster, console, seconds)
    if outcome.interrupted:
        console.print(f"{len(outcome.results)} of {different} runs are finished")
        _print_interrupted(options, console)
        return False
    console.print(f"runs: {len(outcome.results)} finished, {outcome.reused} of them kept from before")
    return True


def _print_interrupted(options: StudyOptions, console: Console) -> None:
    console.print(f"interrupted: the finished runs are kept in {options.out}", soft_wrap=True)
    console.print("the same command goes on from there")


def _generation(papers: Papers, home: Path, claim: ClaimRow) -> str:
    settings = papers.generations.accuracy
    assert settings is not None
    if not claim.fabrics and claim.judgement.verdict in ("not testable", "not run"):
        return WITHOUT_RUNS
    try:
        return generation_of(settings, home, claim.fabrics)
    except LabError:
        return OTHER_HCAS


def _write_seconds(
    planned: dict[str, _Planned],
    reports: dict[str, Report],
    expected: dict[tuple[str, str], float],
    path: Path,
) -> None:
    """Writes the duration of each run for the estimate of the next campaign. Keeps those of other runs."""
    seconds = dict(expected)
    for name, report in reports.items():
        for job in planned[name].plan.all_jobs():
            result = report.outcome.results.get(job.id)
            if result is not None and result.rows:
                seconds[name, job.id] = sum({row.command: row.wall_seconds for row in result.rows}.values())
    rows = [{"study": name, "run": run, "seconds": f"{found:.1f}"} for (name, run), found in seconds.items()]
    write_csv(path, list(SECONDS_COLUMNS), rows)


def _print_end(rows: list[PaperRow], reports: dict[str, Report], options: StudyOptions, console: Console) -> None:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in count_rows(rows).items())
    console.print(f"{len(rows)} published rows: {counts}")
    judged = [row.claim for row in rows if row.claim is not None]
    counted: tuple[Basis, ...] = ("predicted", "calibrated")
    for basis in counted:
        found = Errors.of(judged, basis)
        if found.numbers:
            console.print(
                f"{basis}: {found.numbers} numbers, median {found.median:.1f} % off, "
                f"90th percentile {found.p90:.1f} %, worst {found.worst:.1f} % ({found.worst_id})"
            )
    failed = [f"{name} {run}" for name, report in reports.items() for run in report.outcome.failures]
    if failed:
        console.print(f"[bold red]{len(failed)} runs failed:[/] {', '.join(failed)}")
        console.print(f"what their programs printed: {options.out / RUNS / 'runs' / 'failed'}", soft_wrap=True)
    console.print(f"[bold]the page:[/] {options.out / 'report.html'}", soft_wrap=True)
