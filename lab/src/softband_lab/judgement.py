"""What every rule of a claim has in common: its words, its judgement.

A number is `reproduced` within the tolerance, else `off`. An ordering is `reproduced` as stated, else `contradicted`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from softband_lab.errors import LabError
from softband_lab.evidence import Evidence, factor_of
from softband_lab.published import Published
from softband_lab.study import Strict, Study
from softband_lab.units import in_base_units, units_of

Verdict = Literal["reproduced", "off", "contradicted", "not testable"]
Basis = Literal["predicted", "calibrated"]
NUMBER_TOLERANCE_PERCENT = 5.0


@dataclass(frozen=True)
class Judgement:
    predicted: str
    verdict: Verdict
    deviation_percent: float | None = None
    note: str = ""


class Rule(Strict):
    """What every claim says beside its rule."""

    claim: str
    figures: list[int] = Field(default_factory=list)
    basis: Basis = "predicted"
    note: str = ""
    # Why the model is off by more than the tolerance: a page with such a row and without this is not finished.
    explanation: str = ""
    # Claims that together imply this one: where all of them are calibrated, this one is no prediction either.
    follows_from: list[str] = Field(default_factory=list)
    # Whose curves the rule names, where a study includes others.
    study: str | None = None

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        raise NotImplementedError

    def check(self, study: Study | None, home: Path, claim: Published) -> None:
        """Refuses a value or unit that the rule could not judge, before anything runs. `study`: the one that the rule
        names, if it is at hand."""


class InputRule(Rule):
    """What the study or the catalogue took from the paper: it is there as published, but nothing was predicted."""

    basis: Basis = "calibrated"
    note: str = "an input taken from the paper, no prediction"


def judge_number(value: float, published: float) -> Judgement:
    deviation = 100.0 * (value - published) / published
    verdict: Verdict = "reproduced" if abs(deviation) <= NUMBER_TOLERANCE_PERCENT else "off"
    return Judgement(f"{value:.4g}" if value < 1000 else f"{value:.0f}", verdict, round(deviation, 2))


def judge_worst(found: dict[str, float], published: float) -> Judgement:
    """Of several values that ought to be the published one, the farthest counts."""
    name, value = max(found.items(), key=lambda item: abs(item[1] - published))
    judged = judge_number(value, published)
    note = name if len(found) == 1 else f"farthest of {len(found)}: {name}; range {_range(list(found.values()))}"
    return Judgement(judged.predicted, judged.verdict, judged.deviation_percent, note)


def _range(values: list[float]) -> str:
    return f"{min(values):.4g} to {max(values):.4g}"


def need_unit(claim: Published, kind: str | None) -> None:
    """The claim's unit must be of this kind; None: one of no quantity, for words that a rule stands for."""
    have = in_base_units(claim.unit, 1)
    if (have[0] if have else None) != kind:
        what = f"a {kind}" if kind else "no quantity"
        raise LabError(
            f"{claim.id} of {claim.source}",
            f"`{claim.unit}` is no unit for `{claim.value}`: its rule is about {what}",
            f"one of {', '.join(units_of(kind))}; or another kind of rule in claims.toml",
        )


def need_measured(claim: Published, study: Study | None, tests: list[str]) -> None:
    """A number in a unit that each of the tests measures."""
    _ = claim.number
    for test in tests:
        if study is not None and test in study.tests:
            factor_of(study, test, claim)
