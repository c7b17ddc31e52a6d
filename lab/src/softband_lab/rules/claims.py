"""The claims of a paper beside the values of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from pydantic import RootModel

from softband_lab.base.errors import LabError, MissingEvidence, NotRun
from softband_lab.base.fabricfile import load_toml
from softband_lab.base.files import write_csv
from softband_lab.base.spelling import nearest, suggest
from softband_lab.base.strict import parse_model
from softband_lab.base.toml_lines import place
from softband_lab.rules.evaluators import KEYS, KINDS, AnyRule, NotTestableRule
from softband_lab.rules.evidence import Evidence
from softband_lab.rules.judgement import NUMBER_TOLERANCE_PERCENT, Basis, Judgement, Known, Rule, Verdict, need_curves
from softband_lab.spec.published import Published, load_published, published_ids
from softband_lab.spec.study import HOST_RATES, Study

# Format of claims.csv. claims_notes.csv holds the number, because the columns of claims.csv are fixed. The number rises
# with each change of meaning.
FORMAT = 2

COLUMNS = ["id", "claim", "published", "unit", "predicted", "deviation_percent", "verdict", "basis"]
NOTE_COLUMNS = ["id", "section", "quality", "figures", "note", "format"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
BASES: tuple[Basis, ...] = get_args(Basis)


class Rules(RootModel[dict[str, AnyRule]]):
    """The content of claims.toml: a rule for each id."""


@dataclass(frozen=True)
class ClaimRow:
    published: Published
    rule: AnyRule
    judgement: Judgement
    basis: Basis
    # Parameters of parts that were calibrated on this claim.
    calibrated_parts: list[str]
    # The fabrics whose measurements the judgement used.
    fabrics: frozenset[str] = frozenset()
    # The values on a host that computes at another rate, by its word.
    other_hosts: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_off(self) -> bool:
        """Whether the value is off by more than the tolerance, or contradicts the paper."""
        deviation = self.judgement.deviation_percent
        too_far = deviation is not None and abs(deviation) > NUMBER_TOLERANCE_PERCENT
        return too_far or self.judgement.verdict in ("off", "contradicted")

    @property
    def host_effect(self) -> str:
        """The values if the host computes slower or faster: `9.8 % if the host computes 20 % slower, ...`."""
        unit = "" if self.published.unit in ("", "ratio", "fraction", "ordering") else f" {self.published.unit}"
        parts = [
            f"{value}{unit} if the host computes {abs(100 * (HOST_RATES[word] - 1)):.0f} % {word}"
            for word, value in self.other_hosts.items()
        ]
        return ", ".join(parts)

    @property
    def note(self) -> str:
        calibrated = f"calibrated on this: {', '.join(self.calibrated_parts)}" if self.calibrated_parts else ""
        origins = f"follows from {', '.join(self.rule.follows_from)}" if self.rule.follows_from else ""
        parts = (
            self.judgement.note,
            self.host_effect,
            calibrated,
            origins,
            self.rule.explanation,
            self.rule.note,
            self.published.note,
        )
        return " | ".join(part for part in parts if part)

    def fields(self) -> dict[str, str]:
        deviation = self.judgement.deviation_percent
        return {
            "id": self.published.id,
            "claim": self.rule.claim,
            "published": self.published.value,
            "unit": self.published.unit,
            "predicted": self.judgement.predicted,
            "deviation_percent": "" if deviation is None else f"{deviation:.2f}",
            "verdict": self.judgement.verdict,
            "basis": self.basis,
        }


def load_rules(study: Study, published: list[Published], reference: Path) -> dict[str, AnyRule]:
    """Reads the rules of a study. Fails if a published claim has no rule, or a rule no claim."""
    path = study.folder / "claims.toml"
    document = load_toml(path)
    _check_kinds(document, path)
    rules = parse_model(Rules, document, path).root
    known = [claim.id for claim in published]
    for claim_id in known:
        if claim_id not in rules:
            raise LabError(
                f"{path}: {claim_id}", f"is missing, but {reference} has it", f"add [{claim_id}] with a kind"
            )
    for claim_id in rules:
        if claim_id not in known:
            raise LabError(place(path, [claim_id]), f"is not in {reference}", "add the claim there, or remove the rule")
    return rules


def _check_kinds(document: dict[str, Any], path: Path) -> None:
    """Checks the kinds first, also under a misspelt name: the kind decides the other keys of a rule."""
    kinds = ", ".join(KINDS)
    for claim_id, rule in document.items():
        if not isinstance(rule, dict):
            raise LabError(place(path, [claim_id]), "is not a table", f"`[{claim_id}]` with a kind, one of {kinds}")
        if "kind" not in rule:
            # A key that any kind of rule has is not misspelt.
            near = nearest("kind", [key for key in rule if key not in KEYS])
            raise LabError(
                place(path, [claim_id, near] if near else [claim_id]),
                "is not a key of a rule" if near else "has no kind",
                f"{'rename it to `kind`' if near else 'add `kind = ...`'}, which is one of {kinds}",
            )
        if rule["kind"] not in KINDS:
            raise LabError(
                place(path, [claim_id, "kind"]),
                f"`{rule['kind']}` is not a kind of rule",
                suggest(str(rule["kind"]), KINDS),
            )


def check_claims(
    study: Study, published: list[Published], rules: Mapping[str, AnyRule], included: list[Study], home: Path
) -> None:
    """Fails if a rule names something unknown or cannot judge its claim: before hours of runs, not after."""
    others = {other.head.name: other for other in included}
    all_ids = published_ids(home / "references") | set(rules)
    _check_circles(rules, study)
    of_study = {
        name: {row.id: row for row in load_published(other.claims_path(home))} for name, other in others.items()
    }
    for claim in published:
        rule, where = rules[claim.id], place(study.folder / "claims.toml", [claim.id])
        if rule.study is not None and rule.study not in others:
            raise LabError(
                f"{where}.study",
                f"this study does not include `{rule.study}`",
                f"one of {sorted(others)}, or nothing for the study itself",
            )
        _check_references(rule, where, study, all_ids)
        if rule.study is None:
            known = Known(where, study, {row.id: row for row in published}, home)
        else:
            known = Known(where, others[rule.study], of_study[rule.study], home)
        need_curves(rule, known)
        rule.check(known, claim)


def _check_references(rule: AnyRule, where: str, study: Study, ids: set[str]) -> None:
    """Checks the figures and claims that a rule names. Figures belong to its own study, whose page shows the claim."""
    numbers = [figure.number for figure in study.figures]
    for number in rule.figures:
        if number not in numbers:
            raise LabError(f"{where}.figures", f"there is no figure {number} in study.toml", f"some of {numbers}")
    for other in rule.follows_from:
        if other not in ids:
            raise LabError(f"{where}.follows_from", f"no claims file has `{other}`", "ids of other claims")


def _check_circles(rules: Mapping[str, Rule], study: Study) -> None:
    """Fails if claims follow from each other: they would have no origin."""
    for claim in rules:
        ways = [[claim]]
        seen: set[str] = set()
        while ways:
            way = ways.pop()
            for other in rules[way[-1]].follows_from if way[-1] in rules else []:
                if other == claim:
                    by = f", by {' and '.join(way[1:])}" if way[1:] else ""
                    where = place(study.folder / "claims.toml", [claim])
                    raise LabError(
                        f"{where}.follows_from", f"`{claim}` follows from itself{by}", "claims that stand without it"
                    )
                if other not in seen:
                    seen.add(other)
                    ways.append([*way, other])


def judge_all(
    published: list[Published], rules: dict[str, AnyRule], evidence: dict[str | None, Evidence]
) -> list[ClaimRow]:
    """Judges each claim by the evidence of the study that its rule names. `None` is the key of the own study."""
    home = next(iter(evidence.values())).home
    calibrated = calibrated_parameters(home / "catalog")
    others: dict[str, AnyRule] = {}
    for included in {id(one): one for name, one in evidence.items() if name is not None}.values():
        others |= load_rules(included.study, list(included.published.values()), included.study.claims_path(home))
    bases = bases_of(rules, calibrated, others)
    return [
        _judge(claim, rules[claim.id], evidence, bases[claim.id], calibrated.get(claim.id, [])) for claim in published
    ]


def bases_of(
    rules: Mapping[str, Rule], calibrated: Mapping[str, list[str]], others: Mapping[str, Rule] | None = None
) -> dict[str, Basis]:
    """Returns the basis of each claim. `calibrated`: parameters by claim; `others`: rules of the included studies.

    A part that was fitted to the claim decides first, then the basis in the rule, then the origins of the claim.
    """
    known = {**(others or {}), **rules}

    def basis_of(claim: str) -> Basis:
        rule = known.get(claim)
        if claim in calibrated:
            return "calibrated"
        if rule is None:
            return "predicted"
        if isinstance(rule, NotTestableRule):
            return ""
        if rule.basis != "predicted" or not rule.follows_from:
            return rule.basis
        origins = {basis_of(other) for other in rule.follows_from}
        if "calibrated" in origins:
            return "calibrated"
        return "input" if origins == {"input"} else "derived"

    return {claim: basis_of(claim) for claim in rules}


def calibrated_parameters(catalog: Path) -> dict[str, list[str]]:
    """Returns the claims that parameters of the catalogue were calibrated on (`on`), with these parameters."""
    found: dict[str, list[str]] = {}
    for path in sorted(catalog.rglob("*.toml")):
        for name, value in load_toml(path).items():
            for claim_id in value.get("on", []) if isinstance(value, dict) else []:
                found.setdefault(claim_id, []).append(f"{path.relative_to(catalog).with_suffix('')} {name}")
    return found


def check_calibrated(home: Path) -> None:
    """Fails if a parameter was calibrated on a claim that no reference file has."""
    known = published_ids(home / "references")
    for claim_id, parameters in calibrated_parameters(home / "catalog").items():
        if claim_id not in known:
            raise LabError(
                f"{home / 'catalog'}: {parameters[0]}",
                f"is calibrated on `{claim_id}`, which no file of references/ has",
                "the id of a row there in `on`, or another `status`",
            )


def _judge(
    claim: Published,
    rule: AnyRule,
    evidence: dict[str | None, Evidence],
    basis: Basis,
    calibrated_parts: list[str],
) -> ClaimRow:
    looked_at = evidence[rule.study]
    looked_at.touched.clear()
    others: dict[str, str] = {}
    try:
        judgement = rule.judge(looked_at, claim)
        others = _on_other_hosts(claim, rule, looked_at)
    except MissingEvidence as reason:
        verdict: Verdict = "not run" if isinstance(reason, NotRun) else "not testable"
        judgement = Judgement("", verdict, note=str(reason))
    if basis == "input" and judgement.verdict == "reproduced":
        judgement = replace(judgement, verdict="as given")
    return ClaimRow(claim, rule, judgement, basis, calibrated_parts, frozenset(looked_at.touched), others)


def _on_other_hosts(claim: Published, rule: AnyRule, evidence: Evidence) -> dict[str, str]:
    """Returns the values of a claim if the host computes slower and faster. Nothing if no computation matters."""
    curves = [(look.curve, look.test) for look in rule.looks_at()]
    found = {word: evidence.on_other_host(word, curves) for word in HOST_RATES}
    return {word: rule.judge(other, claim).predicted for word, other in found.items() if other is not None}


def count_verdicts(rows: list[ClaimRow]) -> dict[str, int]:
    counted = Counter(row.judgement.verdict for row in rows)
    return {verdict: counted[verdict] for verdict in VERDICTS}


def count_by_basis(rows: list[ClaimRow]) -> dict[Basis, dict[str, int]]:
    """Counts the verdicts of each basis that has claims."""
    found = {basis: [row for row in rows if row.basis == basis] for basis in BASES}
    return {basis: count_verdicts(rows) for basis, rows in found.items() if rows}


def describe_counts(rows: list[ClaimRow]) -> list[str]:
    """Returns a line for each basis: `predicted: 8 claims, 7 reproduced, 1 off`."""
    lines = []
    for basis, counts in count_by_basis(rows).items():
        total = sum(counts.values())
        verdicts = [f"{count} {verdict}" for verdict, count in counts.items() if count]
        claims = f"{total} claim{'' if total == 1 else 's'}"
        lines.append(f"{basis or 'without a basis'}: {', '.join([claims, *verdicts])}")
    return lines


def write_claims(rows: list[ClaimRow], out: Path) -> None:
    """Writes claims.csv, whose columns are fixed, and claims_notes.csv with the notes of each row."""
    write_csv(out / "claims.csv", COLUMNS, [row.fields() for row in rows])
    notes = [
        {
            "id": row.published.id,
            "section": row.published.section,
            "quality": row.published.quality,
            "figures": " ".join(str(number) for number in row.rule.figures),
            "note": row.note,
            "format": str(FORMAT),
        }
        for row in rows
    ]
    write_csv(out / "claims_notes.csv", NOTE_COLUMNS, notes)
