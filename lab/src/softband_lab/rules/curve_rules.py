"""Rules about curves: measurements against a number or against another curve."""

from __future__ import annotations

import re
from itertools import chain
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from softband_lab.base.errors import LabError, MissingEvidence
from softband_lab.base.fabricfile import load_toml
from softband_lab.base.places import fabric_path
from softband_lab.rules.evidence import At, Evidence
from softband_lab.rules.judgement import (
    NUMBER_TOLERANCE_PERCENT,
    PEAK,
    InputRule,
    Judgement,
    Known,
    Look,
    Names,
    Rule,
    judge_number,
    judge_worst,
    looks,
    need_measured,
    need_percent,
    need_ratio,
    need_unit,
)
from softband_lab.spec.published import Published
from softband_lab.spec.study_file import describe_hosts, has_host


class ValueRule(Rule):
    """A curve reaches a number. Of several curves, the farthest one counts."""

    kind: Literal["value"]
    curves: Names
    tests: Names
    at: At = PEAK

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        found = {
            f"{curve} {test}": evidence.value(curve, test, self.at) * evidence.factor(test, claim)
            for curve in self.curves
            for test in self.tests
        }
        return judge_worst(found, claim.number)

    def looks_at(self) -> list[Look]:
        return looks(self.curves, self.tests, self.at)

    def check(self, known: Known, claim: Published) -> None:
        need_measured(claim, known.study, self.tests)


class AgainstBaseRule(Rule):
    """Curves against a base curve. Of several curves, the one farthest from the published value counts."""

    curves: Names
    base: str
    tests: Names
    at: At = PEAK

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        found = {
            self.name(curve, test): self.compare(
                evidence.value(curve, test, self.at),
                evidence.value(self.base, test, self.at),
                evidence.factor(test, claim) if self.has_unit else 1.0,
            )
            for curve in self.curves
            for test in self.tests
        }
        return judge_worst(found, claim.number)

    def looks_at(self) -> list[Look]:
        return looks([*self.curves, self.base], self.tests, self.at)

    def check(self, known: Known, claim: Published) -> None:
        if self.has_unit:
            need_measured(claim, known.study, self.tests)
        else:
            need_ratio(claim)

    # Whether the result is in the unit of the test. It is then converted into the unit of the claim.
    has_unit: ClassVar[bool]

    def name(self, curve: str, test: str) -> str:
        raise NotImplementedError

    def compare(self, value: float, base: float, factor: float) -> float:
        raise NotImplementedError


class RatioRule(AgainstBaseRule):
    """The ratio of curves to a base curve."""

    kind: Literal["ratio"]
    has_unit: ClassVar[bool] = False

    def name(self, curve: str, test: str) -> str:
        return f"{curve} over {self.base}, {test}"

    def compare(self, value: float, base: float, factor: float) -> float:
        return factor * value / base


class DifferenceRule(AgainstBaseRule):
    """The difference by which curves stay below a base curve."""

    kind: Literal["difference"]
    has_unit: ClassVar[bool] = True

    def name(self, curve: str, test: str) -> str:
        return f"{self.base} less {curve}, {test}"

    def compare(self, value: float, base: float, factor: float) -> float:
        return factor * (base - value)


class BelowRule(Rule):
    """Curves lie below others in every test, at least by the factor."""

    kind: Literal["below"]
    lower: Names
    upper: Names
    tests: Names
    at: At = PEAK
    factor: float = Field(gt=0, lt=1)

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        del claim  # An ordering: the rule itself states the claim of the paper.
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

    def looks_at(self) -> list[Look]:
        return looks([*self.lower, *self.upper], self.tests, self.at)

    def check(self, known: Known, claim: Published) -> None:
        del known
        need_unit(claim, None)


EVERYWHERE = "all"


class EqualRule(Rule):
    """The curves of a group coincide within a tolerance, over all sizes or at one size.

    The spread at a size is relative to the largest value at that size, so that no size hides behind the peak.
    """

    kind: Literal["equal"]
    groups: Annotated[list[Names], Field(min_length=1)]
    tests: Names
    at: At = EVERYWHERE
    tolerance_percent: float = Field(default=NUMBER_TOLERANCE_PERCENT, gt=0, allow_inf_nan=False)
    tolerance_absolute: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        del claim
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

    def looks_at(self) -> list[Look]:
        return looks(chain.from_iterable(self.groups), self.tests, None if self.at == EVERYWHERE else self.at)

    def check(self, known: Known, claim: Published) -> None:
        del known
        need_unit(claim, None)

    def _places(self, evidence: Evidence, group: list[str], test: str) -> list[tuple[str, dict[str, float]]]:
        if self.at != EVERYWHERE:
            return [(str(self.at), {curve: evidence.value(curve, test, self.at) for curve in group})]
        series = {curve: evidence.series(curve, test) for curve in group}
        common = sorted(set.intersection(*(set(values) for values in series.values())))
        if not common:
            raise MissingEvidence(f"{', '.join(group)} have no size in common with the test {test}")
        return [(f"{size} B", {curve: series[curve][size] for curve in group}) for size in common]

    def _absolute_share(self, difference: float) -> float:
        return difference / self.tolerance_absolute if self.tolerance_absolute else float("inf")

    def _tolerance(self) -> str:
        absolute = f" or {self.tolerance_absolute:g} in the test's unit" if self.tolerance_absolute else ""
        return f"{self.tolerance_percent:g} %{absolute}"


class ImprovementRule(Rule):
    """A curve is better than a base by a percentage: a lower latency, or a higher bandwidth.

    The rule compares the ratios, not the percentages: 24 % less and 26 % less are 0.76 and 0.74, some 3 % apart.
    If the paper also gives both numbers (`table`) and they contradict its percentage, the numbers count.
    """

    kind: Literal["improvement"]
    curve: str
    base: str
    test: str
    at: At = PEAK
    better: Literal["less", "more"]
    table: list[str] = Field(default_factory=list)

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        base = evidence.value(self.base, self.test, self.at)
        ratio = evidence.value(self.curve, self.test, self.at) / base
        stated = self._ratio(claim.number)
        note, judged_by = f"ratio {ratio:.3f}, stated {stated:.2f}", "the statement"
        against = stated
        if self.table:
            first, second = (evidence.published[row].number for row in self.table)
            tabled, rows = second / first, " and ".join(self.table)
            if abs(100.0 * (tabled / stated - 1.0)) > NUMBER_TOLERANCE_PERCENT:
                against, judged_by = tabled, f"the paper's own {rows}"
                note += (
                    f"; the statement contradicts the paper's own numbers ({rows}), which make "
                    f"{self._percent(tabled):.1f} %: judged by those it is {_off(ratio, tabled):+.1f} % off, by the "
                    f"statement {_off(ratio, stated):+.1f} %"
                )
        deviation = _off(ratio, against)
        judged_by = f"{self._percent(against):.1f} % by {judged_by}: ratio {against:.3f}, predicted {ratio:.3f}"
        verdict = judge_number(100.0 + deviation, 100.0).verdict
        return Judgement(f"{self._percent(ratio):.1f}", verdict, round(deviation, 2), note, judged_by)

    def looks_at(self) -> list[Look]:
        return looks([self.curve, self.base], [self.test], self.at)

    def check(self, known: Known, claim: Published) -> None:
        need_percent(claim)
        if self._ratio(claim.number) <= 0:
            raise LabError(
                claim.where,
                f"`{claim.value}` % {self.better} leaves nothing",
                "less than 100" if self.better == "less" else "more than -100",
            )
        if len(self.table) not in (0, 2):
            raise LabError(f"{known.where}.table", f"has the length {len(self.table)}", "two ids, base first, or none")
        for row in self.table:
            if row not in known.published:
                raise LabError(
                    f"{known.where}.table",
                    f"`{row}` is not a claim of the study `{known.study.head.name}`",
                    "ids of two",
                )
            _ = known.published[row].number

    def _ratio(self, percent: float) -> float:
        return 1.0 - percent / 100.0 if self.better == "less" else 1.0 + percent / 100.0

    def _percent(self, ratio: float) -> float:
        return 100.0 * (1.0 - ratio) if self.better == "less" else 100.0 * (ratio - 1.0)


class PortsUsedRule(Rule):
    """The number of ports of a host that carry data in each test, by the counters of the ports."""

    kind: Literal["ports-used"]
    curve: str
    host: str
    ports: Annotated[dict[str, int], Field(min_length=1)]
    # Below this share of the busiest port, a port carries acknowledgements only.
    least_share: float = Field(default=0.1, gt=0, lt=1)

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        del claim
        found = {test: self._used(evidence.port_words(self.curve, test, self.host)) for test in self.ports}
        wrong = {test: count for test, count in found.items() if count != self.ports[test]}
        shown = ", ".join(f"{test}: {count}" for test, count in found.items())
        return Judgement(
            f"{min(found.values())} to {max(found.values())} ports",
            "contradicted" if wrong else "reproduced",
            note=f"ports of {self.host} that carry data: {shown}",
        )

    def looks_at(self) -> list[Look]:
        return looks([self.curve], self.ports)

    def check(self, known: Known, claim: Published) -> None:
        need_unit(claim, None)
        for look in self.looks_at():
            run = known.study.run_of(look.curve, look.test)
            fabric = load_toml(fabric_path(known.home, run.fabric)) if run else {}
            if not has_host(fabric, self.host):
                raise LabError(
                    f"{known.where}.host",
                    f"`{self.host}` is not a host of the fabric of `{self.curve}`",
                    f"one of {describe_hosts(fabric)}",
                )

    def _used(self, words: list[int]) -> int:
        return sum(count >= self.least_share * max(words) > 0 for count in words)


class SizesRule(InputRule):
    """A test used exactly the powers of two that the paper names."""

    kind: Literal["sizes"]
    curves: Names
    tests: Names
    smallest: int
    largest: int

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        del claim
        wanted = [1 << power for power in range(self.smallest.bit_length() - 1, self.largest.bit_length())]
        for curve in self.curves:
            for test in self.tests:
                got = sorted(evidence.series(curve, test))
                if got != wanted:
                    return Judgement(f"{got[0]}..{got[-1]}", "off", note=f"{curve}, {test}: {got}")
        return Judgement(f"{wanted[0]}..{wanted[-1]}", "reproduced", note=f"{len(wanted)} sizes, powers of two")

    def looks_at(self) -> list[Look]:
        return looks(self.curves, self.tests)

    def check(self, known: Known, claim: Published) -> None:
        del known
        need_unit(claim, "size")
        if not re.fullmatch(r"\d+(\^\d+)?(\.\.\d+(\^\d+)?)?", claim.value):
            raise LabError(claim.where, f"`{claim.value}` is not a range of sizes", "`2..2^23`, or one size")


def _off(value: float, wanted: float) -> float:
    return 100.0 * (value / wanted - 1.0)


def _extremes(values: dict[str, float]) -> str:
    low = min(values, key=lambda name: values[name])
    high = max(values, key=lambda name: values[name])
    return f"{low} {values[low]:.4g}, {high} {values[high]:.4g}"
