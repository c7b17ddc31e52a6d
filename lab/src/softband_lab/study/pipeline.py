"""A study from its definition to its page: plan, run, evaluate, render."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console

from softband_lab.base.softband import Softband
from softband_lab.campaign.runner import exclusive
from softband_lab.report.page import Report
from softband_lab.rules.claims import ClaimRow
from softband_lab.rules.evidence import Evidence
from softband_lab.spec.study import Study
from softband_lab.study.evaluate import evaluate
from softband_lab.study.plan import StudyOptions, plan
from softband_lab.study.render import print_end, render
from softband_lab.study.run import run


@dataclass(frozen=True)
class StudyResult:
    """The end of a study. `status`: 0 success, 1 a run failed, 130 interrupted, without claims and evidence."""

    status: int
    claims: list[ClaimRow]
    evidence: Evidence | None
    # The content of the page.
    report: Report | None = None


def run_study(
    study: Study,
    softband: Softband,
    options: StudyOptions,
    console: Console,
    included: Mapping[str, Evidence] | None = None,
) -> StudyResult:
    """Takes a study through all four stages. `included`: evidence of the studies that its rules may name."""
    others = included or {}
    planned = plan(study, [other.study for other in others.values()], options)
    with exclusive(options.out):
        measured = run(planned, softband, options, console)
        outcome = measured.outcome
        if outcome.interrupted:
            console.print(
                f"interrupted: {len(outcome.results)} of {len(planned.all_jobs())} runs are kept in {options.out}"
            )
            console.print("the same command goes on from there")
            return StudyResult(130, [], None)
        with console.status("judging the claims"):
            evaluated = evaluate(measured, softband, options, others)
        with console.status("drawing the figures and the page"):
            report = render(evaluated, softband, options)
    print_end(evaluated, report, options, console)
    return StudyResult(1 if outcome.failures else 0, evaluated.claims, evaluated.evidence, report)
