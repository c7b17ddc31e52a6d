"""Evaluate: each published claim beside the value of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from softband_lab.base.softband import Softband
from softband_lab.rules.claims import ClaimRow, judge_all
from softband_lab.rules.evidence import Evidence
from softband_lab.study.plan import StudyOptions
from softband_lab.study.run import Measured
from softband_lab.sweep.whatif import ClaimProber


@dataclass(frozen=True)
class Evaluated:
    """The measurements of a study with its judged claims. `evidence`: the source of each judgement."""

    measured: Measured
    claims: list[ClaimRow]
    evidence: Evidence


def evaluate(
    measured: Measured, softband: Softband, options: StudyOptions, included: Mapping[str, Evidence]
) -> Evaluated:
    """Judges each claim. A rule may need further runs on changed fabrics: they go to `claims/` of the results."""
    plan, outcome = measured.plan, measured.outcome
    evidence = Evidence(
        plan.study,
        options.home,
        softband,
        outcome.results,
        set(outcome.failures),
        options.quick,
        options.out / "runs",
        {claim.id: claim for claim in plan.published},
        ClaimProber(options.home, softband, options.out / "claims", options.cluster, options.manager),
        other_hosts=measured.other_hosts(),
    )
    by_study: dict[str | None, Evidence] = {None: evidence}
    by_study.update(included)
    claims = judge_all(plan.published, plan.rules, by_study)
    return Evaluated(measured, claims, evidence)
