"""What every rule of a claim has in common: its words, its judgement.

A number is `reproduced` within the tolerance, else `off`. An ordering is `reproduced` as stated, else `contradicted`.
An input that the tree holds as published is `as given`: nothing was reproduced. A claim whose runs are missing is
`not run`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from softband_lab.base.errors import LabError
from softband_lab.base.places import fabric_path
from softband_lab.base.strict import Strict
from softband_lab.base.units import in_base_units, units_of
from softband_lab.rules.evidence import At, Evidence, factor_of
from softband_lab.spec.published import Published
from softband_lab.spec.study import Study

Verdict = Literal["reproduced", "as given", "off", "contradicted", "not run", "not testable"]
# How the model came to the value. `predicted`: by itself. `calibrated`: a part was fitted to the claim, or to one that
# it follows from. `input`: the study, the catalogue or a definition holds it. `derived`: it repeats predicted claims.
# Empty: nobody judges the claim.
Basis = Literal["predicted", "calibrated", "input", "derived", ""]
# What a rule may say of itself: the rest follows from other claims and from the catalogue.
StatedBasis = Literal["predicted", "calibrated", "input"]
NUMBER_TOLERANCE_PERCENT = 5.0


@dataclass(frozen=True)
class Judgement:
    predicted: str
    verdict: Verdict
    deviation_percent: float | None = None
    note: str = ""
    # What the deviation is one of, where that is not the predicted value from the published one as they stand.
    judged_by: str = ""


Names = Annotated[list[str], Field(min_length=1)]
PEAK = "peak"


class Look(NamedTuple):
    """A measured curve that a rule needs; `at`: where, if it is one place."""

    curve: str
    test: str
    at: At | None


def looks(curves: Iterable[str], tests: Iterable[str], at: At | None = None) -> list[Look]:
    return [Look(curve, test, at) for curve in curves for test in tests]


@dataclass(frozen=True)
class Known:
    """What a rule may name, before anything runs."""

    # The rule's own place.
    where: str
    # The study whose curves the rule names, with that study's claims.
    study: Study
    published: Mapping[str, Published]
    home: Path


class Rule(Strict):
    """What every claim says beside its rule."""

    claim: str
    figures: list[int] = Field(default_factory=list)
    basis: StatedBasis = "predicted"
    note: str = ""
    # Why the model is off by more than the tolerance: a page with such a row and without this is not finished.
    explanation: str = ""
    # Claims that together imply this one. It is calibrated where one of them is, else no prediction of its own.
    follows_from: list[str] = Field(default_factory=list)
    # Whose curves the rule names, where a study includes others.
    study: str | None = None

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        raise NotImplementedError

    def looks_at(self) -> list[Look]:
        """The curves that it needs."""
        return []

    def check(self, known: Known, claim: Published) -> None:
        """Refuses a value or unit that the rule could not judge, before anything runs. Its curves are there."""


class InputRule(Rule):
    """What the study or the catalogue took from the paper: it is there as published, but nothing was predicted."""

    basis: StatedBasis = "input"
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
            claim.where,
            f"`{claim.unit}` is no unit for `{claim.value}`: its rule is about {what}"
            if claim.unit
            else f"`{claim.value}` has no unit: its rule is about {what}",
            f"one of {', '.join(units_of(kind))}; or another kind of rule in claims.toml",
        )


def need_ratio(claim: Published) -> None:
    """A number that says how many times the base: a percentage could mean that, or what is on top of it."""
    number = claim.number
    need_unit(claim, "share")
    if in_base_units(claim.unit, 1) != ("share", 1.0):
        raise LabError(
            claim.where,
            f"`{claim.value}` in `{claim.unit}` may be so much of the base, or so much more than it",
            f"`{number / 100:g}` in `ratio` if it is {claim.value} % of the base, `{1 + number / 100:g}` if it is "
            f"{claim.value} % more; or the kind `improvement` in claims.toml for so many percent better",
        )


def need_percent(claim: Published) -> None:
    """A number that says how much better, in percent of the base: a ratio could mean all of it."""
    number = claim.number
    need_unit(claim, "share")
    if in_base_units(claim.unit, 1) != ("share", 0.01):
        raise LabError(
            claim.where,
            f"`{claim.value}` in `{claim.unit}` may be so many times the base, or so much better than it",
            f"`{100 * number:g}` in `%` if it is better by {claim.value} times the base; or the kind `ratio` in "
            "claims.toml for so many times the base",
        )


def need_measured(claim: Published, study: Study, tests: list[str]) -> None:
    """A number in a unit that each of the tests measures."""
    _ = claim.number
    for test in tests:
        factor_of(study, test, claim)


def need_fabric(known: Known, name: str) -> None:
    path = fabric_path(known.home, name)
    if not path.is_file():
        raise LabError(
            f"{known.where}: fabric `{name}`", f"there is no {path}", "a file below fabrics/, named from there"
        )


def need_curves(rule: Rule, known: Known) -> None:
    """Some figure shows each of the rule's curves, with the size at which it is looked at."""
    for curve, test, at in rule.looks_at():
        run = known.study.run_of(curve, test)
        if run is None:
            of_test = sorted({other.name for one, _, other in known.study.uses() if one.test == test})
            raise LabError(
                known.where,
                f"no figure of the study `{known.study.head.name}` has a curve `{curve}` with the test `{test}`",
                f"of this test one of {', '.join(of_test)}"
                if of_test
                else f"one of the tests {list(known.study.tests)}",
            )
        sizes = known.study.tests[test].expected_sizes(run.transport)
        if at not in (PEAK, None) and str(at) not in [str(size) for size in sizes]:
            raise LabError(known.where, f"`{curve}` has no value at `{at}`", f'"peak" or one of the sizes {sizes}')
