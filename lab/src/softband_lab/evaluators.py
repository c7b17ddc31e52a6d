"""The kinds of claim. Each is a rule written as data in a study's claims.toml and judged here.

A number is `reproduced` within the tolerance, else `off`. An ordering is `reproduced` as stated, else `contradicted`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from softband_lab.errors import MissingEvidence
from softband_lab.evidence import At, Evidence
from softband_lab.fabricfile import read_field
from softband_lab.study import Strict

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

    def judge(self, evidence: Evidence, published: str) -> Judgement:
        raise NotImplementedError


class InputRule(Rule):
    """What the study or the catalogue took from the paper: it is there as published, but nothing was predicted."""

    basis: Basis = "calibrated"
    note: str = "an input taken from the paper, no prediction"


class ValueRule(Rule):
    """A curve reaches a number; of several curves the one farthest from it counts."""

    kind: Literal["value"]
    curves: list[str]
    tests: list[str]
    at: At = "peak"

    def judge(self, evidence: Evidence, published: str) -> Judgement:
        found = {
            f"{curve} {test}": evidence.value(curve, test, self.at) for curve in self.curves for test in self.tests
        }
        return judge_worst(found, float(published))


class RatioRule(Rule):
    """Curves over a base curve; of several the one farthest from the published ratio counts."""

    kind: Literal["ratio"]
    curves: list[str]
    base: str
    tests: list[str]
    at: At = "peak"

    def judge(self, evidence: Evidence, published: str) -> Judgement:
        found = {
            f"{curve} over {self.base}, {test}": evidence.value(curve, test, self.at)
            / evidence.value(self.base, test, self.at)
            for curve in self.curves
            for test in self.tests
        }
        return judge_worst(found, float(published))


class DifferenceRule(Rule):
    """How far curves stay below a base curve; of several the one farthest from the published difference counts."""

    kind: Literal["difference"]
    curves: list[str]
    base: str
    tests: list[str]
    at: At = "peak"

    def judge(self, evidence: Evidence, published: str) -> Judgement:
        found = {
            f"{self.base} less {curve}, {test}": evidence.value(self.base, test, self.at)
            - evidence.value(curve, test, self.at)
            for curve in self.curves
            for test in self.tests
        }
        return judge_worst(found, float(published))


class BelowRule(Rule):
    """Curves lie clearly below others: by the factor at least, in every test."""

    kind: Literal["below"]
    lower: list[str]
    upper: list[str]
    tests: list[str]
    at: At = "peak"
    factor: float = Field(gt=0, lt=1)

    def judge(self, evidence: Evidence, published: str) -> Judgement:
        del published  # an ordering: the rule itself is what the paper says
        ratios = {
            f"{low} over {high}, {test}": evidence.value(low, test, self.at) / evidence.value(high, test, self.at)
            for low in self.lower
            for high in self.upper
            for test in self.tests
        }
        name, ratio = max(ratios.items(), key=lambda item: item[1])
        holds = ratio <= self.factor
        return Judgement(
            f"x {min(ratios.values()):.2f} to {ratio:.2f}",
            "reproduced" if holds else "contradicted",
            note=f"closest: {name} = {ratio:.3f}; clearly below means {self.factor:g} or less",
        )


class EqualRule(Rule):
    """The curves of a group coincide within a tolerance, over all sizes or at one place.

    Over all sizes, the spread at a size is taken against that size's largest value: no size hides behind the peak.
    """

    kind: Literal["equal"]
    groups: list[list[str]]
    tests: list[str]
    at: At = "all"
    tolerance_percent: float = NUMBER_TOLERANCE_PERCENT
    tolerance_absolute: float = 0.0

    def judge(self, evidence: Evidence, published: str) -> Judgement:
        del published
        worst_share, worst_text, widest = -1.0, "", 0.0
        for group in self.groups:
            for test in self.tests:
                for place, values in self._places(evidence, group, test):
                    high, low = max(values.values()), min(values.values())
                    spread = 100.0 * (high - low) / high if high else 0.0
                    widest = max(widest, spread)
                    share = min(spread / self.tolerance_percent, self._absolute_share(high - low))
                    if share > worst_share:
                        worst_share = share
                        worst_text = f"{test} at {place}: {_extremes(values)}"
        return Judgement(
            f"spread {widest:.1f} %",
            "reproduced" if worst_share <= 1.0 else "contradicted",
            note=f"widest: {worst_text}; equal means within {self._tolerance()}",
        )

    def _places(self, evidence: Evidence, group: list[str], test: str) -> list[tuple[str, dict[str, float]]]:
        if self.at != "all":
            return [(str(self.at), {curve: evidence.value(curve, test, self.at) for curve in group})]
        series = {curve: evidence.series(curve, test) for curve in group}
        common = sorted(set.intersection(*(set(values) for values in series.values())))
        return [(f"{size} B", {curve: series[curve][size] for curve in group}) for size in common]

    def _absolute_share(self, difference: float) -> float:
        return difference / self.tolerance_absolute if self.tolerance_absolute else float("inf")

    def _tolerance(self) -> str:
        absolute = f" or {self.tolerance_absolute:g} in the test's unit" if self.tolerance_absolute else ""
        return f"{self.tolerance_percent:g} %{absolute}"


class LongestAcceptedRule(InputRule):
    """The longest cable of a part that `fabric check` accepts, to the metre: found by asking, not by reading."""

    kind: Literal["longest-accepted"]
    fabric: str
    part: str
    rate: str
    link: str
    search_to_m: int = 64

    def judge(self, evidence: Evidence, published: str) -> Judgement:
        shortest = evidence.check_with_cable(self.fabric, self.part, self.rate, 1)
        if shortest.exit_status != 0:
            return Judgement("none accepted", "off", note=f"refused at 1 m: {_first_line(shortest.stderr)}")
        if self.link not in evidence.show_with_cable(self.fabric, self.part, self.rate, 1).stdout:
            raise MissingEvidence(f"no part at hand makes the link come up at {self.link} with the cable {self.part}")
        good, bad = 1, self.search_to_m + 1
        refusal = ""
        while bad - good > 1:
            middle = (good + bad) // 2
            answer = evidence.check_with_cable(self.fabric, self.part, self.rate, middle)
            if answer.exit_status == 0:
                good = middle
            else:
                bad, refusal = middle, _first_line(answer.stderr)
        judged = judge_number(float(good), float(published))
        note = f"refused at {bad} m: {refusal}" if refusal else f"accepted up to {self.search_to_m} m"
        return Judgement(judged.predicted, judged.verdict, judged.deviation_percent, note)


class FieldRule(InputRule):
    """Fields of the tree's TOML files (fabrics, parts) that must hold a value, as the paper configured it."""

    kind: Literal["field"]
    files: list[str]
    field: str

    def judge(self, evidence: Evidence, published: str) -> Judgement:
        found = {file: read_field(evidence.document(file), self.field) for file in self.files}
        wrong = {file: value for file, value in found.items() if str(value) != published}
        if wrong:
            file, value = next(iter(wrong.items()))
            return Judgement(str(value), "off", note=f"{file}: {self.field} = {value}")
        return Judgement(published, "reproduced", 0.0, f"{self.field} in {', '.join(self.files)}")


class ShownRule(Rule):
    """A number that `softband fabric show` prints for a fabric, over another fabric's where a base is named."""

    kind: Literal["shown"]
    fabric: str
    pattern: str
    base_fabric: str | None = None

    def judge(self, evidence: Evidence, published: str) -> Judgement:
        value = self._read(evidence, self.fabric)
        if self.base_fabric is not None:
            value /= self._read(evidence, self.base_fabric)
        return judge_number(value, _number(published))

    def _read(self, evidence: Evidence, fabric: str) -> float:
        answer = evidence.shown(fabric)
        match = re.search(self.pattern, answer.stdout, re.MULTILINE)
        if match is None:
            raise MissingEvidence(f"`softband fabric show {fabric}` prints nothing that matches `{self.pattern}`")
        return float(match[1])


class SizesRule(InputRule):
    """A test went over exactly the powers of two that the paper names."""

    kind: Literal["sizes"]
    curves: list[str]
    tests: list[str]
    smallest: int
    largest: int

    def judge(self, evidence: Evidence, published: str) -> Judgement:
        del published
        wanted = [1 << power for power in range(self.smallest.bit_length() - 1, self.largest.bit_length())]
        for curve in self.curves:
            for test in self.tests:
                got = sorted(evidence.series(curve, test))
                if got != wanted:
                    return Judgement(f"{got[0]}..{got[-1]}", "off", note=f"{curve}, {test}: {got}")
        return Judgement(f"{wanted[0]}..{wanted[-1]}", "reproduced", note=f"{len(wanted)} sizes, powers of two")


class FabricsRule(InputRule):
    """Fabrics that exist and that the engine accepts."""

    kind: Literal["fabrics"]
    fabrics: dict[str, str]

    def judge(self, evidence: Evidence, published: str) -> Judgement:
        del published
        for name, fabric in self.fabrics.items():
            answer = evidence.check(fabric)
            if answer.exit_status != 0:
                return Judgement(f"{name} refused", "off", note=f"{fabric}: {_first_line(answer.stderr)}")
        return Judgement("; ".join(self.fabrics), "reproduced", note="each file passes `softband fabric check`")


class LongestFullRule(Rule):
    """The longest cable at full bandwidth lies between two lengths."""

    kind: Literal["longest-full"]
    fabric: str
    cables: list[int]
    above_m: float
    below_m: float

    def judge(self, evidence: Evidence, published: str) -> Judgement:
        del published
        longest = evidence.probe().longest_m(self.fabric, self.cables, self.above_m, self.below_m)
        holds = self.above_m < longest < self.below_m
        return Judgement(
            f"{longest:g}",
            "reproduced" if holds else "contradicted",
            note="found by bisection to the metre; full bandwidth: 99 % of that of the shortest cable or more",
        )


class LaneShareRule(Rule):
    """On a link whose rate only credits decide, one of N lanes carries 1/N of what a single lane carries."""

    kind: Literal["lane-share"]
    fabric: str
    cables: list[int]
    length_m: float
    lanes: int
    options: str

    def judge(self, evidence: Evidence, published: str) -> Judgement:
        del published
        one, many = (
            evidence.probe().bandwidth(self.fabric, self.cables, self.length_m, vls, self.options)
            for vls in (1, self.lanes)
        )
        judged = judge_number(self.lanes * many / one, 1.0)
        note = f"{many:.4g} with {self.lanes} lanes, {one:.4g} with one, over {self.length_m:g} m"
        return Judgement(f"1/{one / many:.3g}", judged.verdict, judged.deviation_percent, note)


class NotTestableRule(Rule):
    kind: Literal["not-testable"]
    reason: str

    def judge(self, evidence: Evidence, published: str) -> Judgement:
        del evidence, published
        return Judgement("", "not testable", note=self.reason)


AnyRule = Annotated[
    ValueRule
    | RatioRule
    | DifferenceRule
    | BelowRule
    | EqualRule
    | LongestAcceptedRule
    | FieldRule
    | ShownRule
    | SizesRule
    | FabricsRule
    | LongestFullRule
    | LaneShareRule
    | NotTestableRule,
    Field(discriminator="kind"),
]


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


def _extremes(values: dict[str, float]) -> str:
    low = min(values, key=lambda name: values[name])
    high = max(values, key=lambda name: values[name])
    return f"{low} {values[low]:.4g}, {high} {values[high]:.4g}"


def _number(text: str) -> float:
    if "/" in text:
        above, below = text.split("/", 1)
        return float(above) / float(below)
    return float(text)


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "no message"
