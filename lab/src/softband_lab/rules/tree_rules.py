"""Rules about the tree itself: fabric files, parts, and the answers of the engine about them."""

from __future__ import annotations

import re
from typing import Any, Literal

from softband_lab.base.errors import LabError, MissingEvidence
from softband_lab.base.fabricfile import LINK_RATES, load_toml, read_field
from softband_lab.base.spelling import suggest
from softband_lab.base.units import DECIMAL_MEGABYTE, in_base_units, units_of
from softband_lab.rules.evidence import Evidence
from softband_lab.rules.judgement import (
    InputRule,
    Judgement,
    Known,
    Rule,
    judge_number,
    need_fabric,
    need_ratio,
    need_unit,
)
from softband_lab.spec.published import Published


class LongestAcceptedRule(InputRule):
    """The longest cable of a part that `fabric check` accepts, found by asking, to the metre."""

    kind: Literal["longest-accepted"]
    fabric: str
    part: str
    rate: str
    link: str
    search_to_m: int = 64

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
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
        judged = judge_number(float(good), claim.number)
        note = f"refused at {bad} m: {refusal}" if refusal else f"accepted up to {self.search_to_m} m"
        return Judgement(judged.predicted, judged.verdict, judged.deviation_percent, note)

    def check(self, known: Known, claim: Published) -> None:
        need_fabric(known, self.fabric)
        if self.rate.upper() not in LINK_RATES:
            raise LabError(f"{known.where}.rate", f"`{self.rate}` is not a link rate", suggest(self.rate, LINK_RATES))
        # The rule searches the answer of the engine for this text. A wrong text makes the claim not testable.
        width, _, rate = self.link.partition(" ")
        if not re.fullmatch(r"[1-9][0-9]*X", width) or rate not in LINK_RATES:
            raise LabError(f"{known.where}.link", f"`{self.link}` is not a link", "its width and rate, as in `4X SDR`")
        _ = claim.number
        need_unit(claim, "length")


class FieldRule(InputRule):
    """Fields of the tree's TOML files (fabrics, parts) that must hold a value, as the paper configured it."""

    kind: Literal["field"]
    files: list[str]
    field: str

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        found = {file: read_field(evidence.document(file), self.field) for file in self.files}
        # A length in a fabric file includes its unit.
        right = (claim.value, f"{claim.value} {claim.unit}")
        wrong = {file: value for file, value in found.items() if str(value) not in right}
        if wrong:
            file, value = next(iter(wrong.items()))
            return Judgement(str(value), "off", note=f"{file}: {self.field} = {value}")
        return Judgement(claim.value, "reproduced", 0.0, f"{self.field} in {', '.join(self.files)}")

    def check(self, known: Known, claim: Published) -> None:
        for file in self.files:
            _need_field(known, file, self.field)
            unit = _unit_of_field(load_toml(known.home / file), self.field)
            if unit is None:
                continue
            _ = claim.number
            have = in_base_units(unit, DECIMAL_MEGABYTE)
            need_unit(claim, have[0] if have else None)
            if have != in_base_units(claim.unit, DECIMAL_MEGABYTE):
                raise LabError(
                    claim.where,
                    f"is in `{claim.unit}`, {self.field} of {file} in `{unit}`, and the two are compared as they stand",
                    f"the value in `{unit}`; or the kind `part-value`, which converts",
                )


class PartValueRule(InputRule):
    """A value of a part in catalog/, converted into the unit of the claim, times a factor.

    `reads_as` names the unit if the unit of the part has another kind: MHz of a bus of 8 bytes, times 8, are MB/s.
    """

    kind: Literal["part-value"]
    file: str
    field: str
    times: float = 1.0
    reads_as: str | None = None

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        document = evidence.document(self.file)
        value, unit = (read_field(document, f"{self.field}.{name}") for name in ("value", "unit"))
        if value is None:
            raise MissingEvidence(f"{self.file} has no {self.field}")
        judged = judge_number(float(value) * self.times * self._factor(str(unit), claim), claim.number)
        times = f"{self.times:g} x " if self.times != 1.0 else ""
        return Judgement(
            judged.predicted,
            judged.verdict,
            judged.deviation_percent,
            f"{times}{self.field} of {self.file}: {value} {unit}",
        )

    def check(self, known: Known, claim: Published) -> None:
        _ = claim.number
        _need_field(known, self.file, f"{self.field}.value")
        _need_field(known, self.file, f"{self.field}.unit")
        self._factor(str(read_field(load_toml(known.home / self.file), f"{self.field}.unit")), claim)

    def _factor(self, unit: str, claim: Published) -> float:
        """Returns the factor from the value of the part to the unit of the claim."""
        have = in_base_units(self.reads_as or unit, DECIMAL_MEGABYTE)
        want = in_base_units(claim.unit, DECIMAL_MEGABYTE)
        if have is None or want is None or have[0] != want[0]:
            own = self.reads_as or unit
            fitting = f"one of {', '.join(units_of(have[0]))}; or " if have else ""
            raise LabError(
                claim.where,
                f"is in `{claim.unit}`, which `{own}` of {self.field} in {self.file} does not convert into"
                if claim.unit
                else f"`{claim.value}` has no unit, and its rule compares with `{own}` of {self.field} in {self.file}",
                f"{fitting}in claims.toml another field, or `reads_as` with a unit that converts",
            )
        return have[1] / want[1]


class ShownRule(Rule):
    """A number that `softband fabric show` prints for a fabric, relative to that of a base fabric if one is named."""

    kind: Literal["shown"]
    fabric: str
    pattern: str
    base_fabric: str | None = None

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        value = self._read(evidence, self.fabric)
        if self.base_fabric is not None:
            value /= self._read(evidence, self.base_fabric)
        return judge_number(value, claim.number)

    def check(self, known: Known, claim: Published) -> None:
        _ = claim.number
        need_fabric(known, self.fabric)
        if self.base_fabric is not None:
            need_fabric(known, self.base_fabric)
            need_ratio(claim)
        try:
            groups = re.compile(self.pattern).groups
        except re.error as error:
            raise LabError(f"{known.where}.pattern", f"is not a regular expression: {error}", "correct it") from None
        if groups < 1:
            raise LabError(
                f"{known.where}.pattern", "has no group", "the number in parentheses, as in `rate ([0-9.]+)`"
            )

    def _read(self, evidence: Evidence, fabric: str) -> float:
        answer = evidence.shown(fabric)
        match = re.search(self.pattern, answer.stdout, re.MULTILINE)
        if match is None:
            raise MissingEvidence(f"`softband fabric show {fabric}` prints nothing that matches `{self.pattern}`")
        return float(match[1])


class FabricsRule(InputRule):
    """Fabrics that exist and that the engine accepts."""

    kind: Literal["fabrics"]
    fabrics: dict[str, str]

    def judge(self, evidence: Evidence, claim: Published) -> Judgement:
        del claim
        for name, fabric in self.fabrics.items():
            answer = evidence.check(fabric)
            if answer.exit_status != 0:
                return Judgement(f"{name} refused", "off", note=f"{fabric}: {_first_line(answer.stderr)}")
        return Judgement("; ".join(self.fabrics), "reproduced", note="each file passes `softband fabric check`")


def _need_field(known: Known, file: str, field: str) -> None:
    """Fails if a file lacks a field. A misspelt name would make the claim off, hours later."""
    path = known.home / file
    if not path.is_file():
        raise LabError(f"{known.where}: file `{file}`", f"there is no {path}", "a file of the tree, named from its top")
    document, name, above = load_toml(path), "", ""
    for step in field.split("."):
        name = f"{above}.{step}" if above else step
        if read_field(document, name) is None:
            there = read_field(document, above) if above else document
            names = list(there) if isinstance(there, dict) else []
            remedy = suggest(step, names) if names else "a field that the file has"
            raise LabError(f"{known.where}.field", f"{file} has no `{name}`", remedy)
        above = name


def _unit_of_field(document: Any, field: str) -> str | None:
    """Returns the unit of a value: `unit` of a part (`length.value`), or the text behind the number (`1 m`)."""
    value = read_field(document, field)
    if isinstance(value, str):
        match = re.fullmatch(r"[\d.]+\s*([^\d\s]\S*)", value)
        return match[1] if match else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return str(read_field(document, f"{field.removesuffix('.value')}.unit")) if field.endswith(".value") else ""


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "no message"
