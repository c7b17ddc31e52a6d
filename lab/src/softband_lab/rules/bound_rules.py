"""Rules about bounds: a curve exceeds a number, or loses where others keep their value."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from softband_lab.base.errors import LabError
from softband_lab.rules.evidence import At, Evidence, factor_of
from softband_lab.rules.judgement import (
    NUMBER_TOLERANCE_PERCENT,
    PEAK,
    Judgement,
    Known,
    Look,
    Names,
    Rule,
    looks,
    need_unit,
)
from softband_lab.spec.published import Published

_BOUND = re.compile(r">\s*(\d+(?:\.\d+)?)")


class AtLeastRule(Rule):
    """Curves exceed a bound: the published value is `>400`. A bound has no deviation."""

    kind: Literal["at-least"]
    curves: Names
    tests: Names
    at: At = PEAK

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        found = {
            f"{curve} {test}": evidence.value(curve, test, self.at) * evidence.factor(test, claim)
            for curve in self.curves
            for test in self.tests
        }
        name, least = min(found.items(), key=lambda item: item[1])
        holds = least > _bound(claim)
        return Judgement(f"{least:.4g}", "reproduced" if holds else "contradicted", note=f"least: {name}")

    def looks_at(self) -> list[Look]:
        return looks(self.curves, self.tests, self.at)

    def check(self, known: Known, claim: Published) -> None:
        _bound(claim)
        for test in self.tests:
            factor_of(known.study, test, claim)


class DropRule(Rule):
    """From one test to another some curves lose, at least to the factor, and others keep their value.

    Values are rates, or times if `better` is `less`.
    """

    kind: Literal["drop"]
    losing: Names
    keeping: Names
    before: str
    after: str
    at: At = PEAK
    better: Literal["less", "more"] = "more"
    factor: float = Field(gt=0, lt=1)

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        del claim
        kept = {curve: self._share(evidence, curve) for curve in [*self.losing, *self.keeping]}
        least = 1.0 - NUMBER_TOLERANCE_PERCENT / 100.0
        holds = all(kept[curve] <= self.factor for curve in self.losing)
        holds = holds and all(kept[curve] >= least for curve in self.keeping)
        shown = ", ".join(f"{curve} x {share:.2f}" for curve, share in kept.items())
        return Judgement(
            shown,
            "reproduced" if holds else "contradicted",
            note=f"from {self.before} to {self.after}; to lose means {self.factor:g} or less, to keep {least:g}",
        )

    def looks_at(self) -> list[Look]:
        return looks([*self.losing, *self.keeping], [self.before, self.after], self.at)

    def check(self, known: Known, claim: Published) -> None:
        del known
        need_unit(claim, None)

    def _share(self, evidence: Evidence, curve: str) -> float:
        before, after = (evidence.value(curve, test, self.at) for test in (self.before, self.after))
        return before / after if self.better == "less" else after / before


def _bound(claim: Published) -> float:
    match = _BOUND.fullmatch(claim.value)
    if match is None:
        raise LabError(claim.where, f"the value `{claim.value}` is no bound", "`>400`, or another kind in claims.toml")
    return float(match[1])
