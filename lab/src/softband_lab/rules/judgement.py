"""The base of all rules: their common keys, verdicts and judgements.

A number is `reproduced` within the tolerance, else `off`. An ordering is `reproduced` as stated, else `contradicted`.
An input that the tree holds as published is `as given`. A claim whose runs are missing is `not run`.
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
# The origin of the model's value. `predicted`: the model alone. `calibrated`: a part was fitted to the claim, or to its
# origin. `input`: the study, the catalogue or a definition holds it. `derived`: it repeats predicted claims. Empty: no
# rule judges the claim.
Basis = Literal["predicted", "calibrated", "input", "derived", ""]
# The bases that a rule can state. The others follow from other claims and from the catalogue.
StatedBasis = Literal["predicted", "calibrated", "input"]
NUMBER_TOLERANCE_PERCENT = 5.0


@dataclass(frozen=True)
class Judgement:
    predicted: str
    verdict: Verdict
    deviation_percent: float | None = None
    note: str = ""
    # The subject of the deviation, if it is not that of the predicted value from the published one.
    judged_by: str = ""


Names = Annotated[list[str], Field(min_length=1)]
PEAK = "peak"


class Look(NamedTuple):
    """A measured curve that a rule needs. `at`: the size, if the rule needs a single one."""

    curve: str
    test: str
    at: At | None


def looks(curves: Iterable[str], tests: Iterable[str], at: At | None = None) -> list[Look]:
    return [Look(curve, test, at) for curve in curves for test in tests]


@dataclass(frozen=True)
class Known:
    """The names that a rule may use, known before the first run."""

    # The file and line of the rule.
    where: str
    # The study of the curves that the rule names, and its claims.
    study: Study
    published: Mapping[str, Published]
    home: Path


class Rule(Strict):
    """The keys that every rule has."""

    claim: str
    figures: list[int] = Field(default_factory=list)
    basis: StatedBasis = "predicted"
    note: str = ""
    # The reason of a deviation above the tolerance. The accuracy study fails without it.
    explanation: str = ""
    # Claims that together imply this one. It is calibrated if any of them is, else derived.
    follows_from: list[str] = Field(default_factory=list)
    # The included study whose curves the rule names.
    study: str | None = None

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        raise NotImplementedError

    def looks_at(self) -> list[Look]:
        """Returns the curves that the rule needs."""
        return []

    def check(self, known: Known, claim: Published) -> None:
        """Fails if the rule cannot judge the value or unit of the claim. Its curves have been checked."""


class InputRule(Rule):
    """A value that the study or the catalogue took from the paper, so the model predicts nothing."""

    basis: StatedBasis = "input"
    note: str = "an input taken from the paper, no prediction"


def judge_number(value: float, published: float) -> Judgement:
    deviation = 100.0 * (value - published) / published
    verdict: Verdict = "reproduced" if abs(deviation) <= NUMBER_TOLERANCE_PERCENT else "off"
    return Judgement(f"{value:.4g}" if value < 1000 else f"{value:.0f}", verdict, round(deviation, 2))


def judge_worst(found: dict[str, float], published: float) -> Judgement:
    """Judges the value that is farthest from the published one."""
    name, value = max(found.items(), key=lambda item: abs(item[1] - published))
    judged = judge_number(value, published)
    note = name if len(found) == 1 else f"farthest of {len(found)}: {name}; range {_range(list(found.values()))}"
    return Judgement(judged.predicted, judged.verdict, judged.deviation_percent, note)


def _range(values: list[float]) -> str:
    return f"{min(values):.4g} to {max(values):.4g}"


def need_unit(claim: Published, kind: str | None) -> None:
    """Fails if the unit of the claim is not of this kind. None stands for words that are no quantity."""
    have = in_base_units(claim.unit, 1)
    if (have[0] if have else None) != kind:
        what = f"a {kind}" if kind else "no quantity"
        raise LabError(
            claim.where,
            f"`{claim.unit}` is not a unit for `{claim.value}`: its rule is about {what}"
            if claim.unit
            else f"`{claim.value}` has no unit: its rule is about {what}",
            f"one of {', '.join(units_of(kind))}; or another kind of rule in claims.toml",
        )


def need_ratio(claim: Published) -> None:
    """Fails if the claim is not a multiple of the base. A percentage could mean the multiple or the increase."""
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
    """Fails if the claim is not an improvement in percent of the base. A ratio could mean the multiple."""
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
    """Fails if the claim is not a number in a unit that each of the tests measures."""
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
    """Fails if no figure shows a curve of the rule, or the curve lacks the size that the rule names."""
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
