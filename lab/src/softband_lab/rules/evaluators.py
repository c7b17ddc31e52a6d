"""The kinds of rules in claims.toml. `AnyRule` is their union."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from softband_lab.base.errors import LabError
from softband_lab.base.fabricfile import cables, load_toml
from softband_lab.base.places import fabric_path
from softband_lab.rules.bound_rules import AtLeastRule, DropRule
from softband_lab.rules.curve_rules import (
    BelowRule,
    DifferenceRule,
    EqualRule,
    ImprovementRule,
    PortsUsedRule,
    RatioRule,
    SizesRule,
    ValueRule,
)
from softband_lab.rules.evidence import Evidence
from softband_lab.rules.judgement import Judgement, Known, Rule, judge_number, need_fabric, need_unit
from softband_lab.rules.tree_rules import FabricsRule, FieldRule, LongestAcceptedRule, PartValueRule, ShownRule
from softband_lab.spec.published import Published


def _need_cables(known: Known, name: str, numbers: list[int]) -> None:
    """Fails if the fabric lacks cables with these numbers."""
    need_fabric(known, name)
    path = fabric_path(known.home, name)
    count = len(cables(load_toml(path), path))
    wrong = [number for number in numbers if not 0 <= number < count]
    if wrong or not numbers:
        what = f"there is no cable {wrong[0]} in {path}" if wrong else "no cable is named"
        raise LabError(f"{known.where}: cables", what, f"some of 0 to {count - 1}, in the order of the file")


class LongestFullRule(Rule):
    """The longest cable at full bandwidth lies between two lengths."""

    kind: Literal["longest-full"]
    fabric: str
    cables: list[int]
    above_m: float
    below_m: float

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        del claim
        longest = evidence.probe(self.fabric).longest_m(self.fabric, self.cables, self.above_m, self.below_m)
        holds = self.above_m < longest < self.below_m
        return Judgement(
            f"{longest:g}",
            "reproduced" if holds else "contradicted",
            note="found by bisection to the metre; full bandwidth: 99 % of that of the shortest cable or more",
        )

    def check(self, known: Known, claim: Published) -> None:
        _need_cables(known, self.fabric, self.cables)
        need_unit(claim, "length")


class LaneShareRule(Rule):
    """If credits alone limit a link, each of N lanes carries 1/N of the bandwidth of a single lane."""

    kind: Literal["lane-share"]
    fabric: str
    cables: list[int]
    length_m: float
    lanes: int = Field(gt=0)
    options: str

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        del claim
        one, many = (
            evidence.probe(self.fabric).bandwidth(self.fabric, self.cables, self.length_m, vls, self.options)
            for vls in (1, self.lanes)
        )
        judged = judge_number(self.lanes * many / one, 1.0)
        note = f"{many:.4g} with {self.lanes} lanes, {one:.4g} with one, over {self.length_m:g} m"
        return Judgement(
            f"1/{one / many:.3g}", judged.verdict, judged.deviation_percent, note, f"1/{self.lanes} of a lane alone"
        )

    def check(self, known: Known, claim: Published) -> None:
        _need_cables(known, self.fabric, self.cables)
        need_unit(claim, "share")


class NotTestableRule(Rule):
    kind: Literal["not-testable"]
    reason: str

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        del evidence, claim
        return Judgement("", "not testable", note=self.reason)


AnyRule = Annotated[
    ValueRule
    | RatioRule
    | DifferenceRule
    | ImprovementRule
    | BelowRule
    | AtLeastRule
    | DropRule
    | EqualRule
    | PortsUsedRule
    | LongestAcceptedRule
    | FieldRule
    | PartValueRule
    | ShownRule
    | SizesRule
    | FabricsRule
    | LongestFullRule
    | LaneShareRule
    | NotTestableRule,
    Field(discriminator="kind"),
]

_RULES: tuple[type[Rule], ...] = get_args(get_args(AnyRule)[0])
KINDS = [kind for rule in _RULES for kind in get_args(rule.model_fields["kind"].annotation)]
# The keys of rules of all kinds.
KEYS = {key for rule in _RULES for key in rule.model_fields}
