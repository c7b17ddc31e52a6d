"""The accuracy study: the deviations of several studies by generation of the HCA."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup
from rich.console import Console

from softband_lab.base.errors import LabError
from softband_lab.base.fabricfile import load_toml
from softband_lab.base.files import write_csv
from softband_lab.base.places import fabric_path
from softband_lab.base.softband import Softband
from softband_lab.base.units import DECIMAL_MEGABYTE, in_base_units
from softband_lab.report import svg
from softband_lab.report.accuracy_charts import BASES as CHART_BASES
from softband_lab.report.accuracy_charts import CLASSES as CHART_CLASSES
from softband_lab.report.accuracy_charts import KINDS, Dot, scatter_chart, scatter_sentence, strip_chart
from softband_lab.report.page import render
from softband_lab.rules.claims import BASES, ClaimRow
from softband_lab.rules.curve_rules import ValueRule
from softband_lab.rules.evidence import Evidence
from softband_lab.rules.judgement import NUMBER_TOLERANCE_PERCENT
from softband_lab.spec.study import Accuracy, Study
from softband_lab.spec.study_file import load_study
from softband_lab.study.pipeline import run_study
from softband_lab.study.plan import StudyOptions, check_study

# Format of accuracy.csv. The number rises with each change of meaning.
FORMAT = 2

NOTHING_PREDICTED = "no predicted number"
NO_HCA = "Cables, buses and settings, without an HCA"
COLUMNS = [
    "generation", "study", "id", "claim", "published", "unit", "predicted", "deviation_percent", "judged_by", "verdict",
    "basis", "source", "explanation", "format",
]  # fmt: skip


@dataclass(frozen=True)
class AccuracyRow:
    generation: str
    study: str
    claim: ClaimRow

    @property
    def is_unexplained(self) -> bool:
        return self.claim.is_off and not self.claim.rule.explanation

    def fields(self) -> dict[str, str]:
        return {
            "generation": self.generation,
            "study": self.study,
            **self.claim.fields(),
            "judged_by": self.claim.judgement.judged_by,
            "source": f"{self.claim.published.source}, {self.claim.published.section}",
            "explanation": self.claim.rule.explanation,
            "format": str(FORMAT),
        }


@dataclass(frozen=True)
class Statistics:
    """The deviations of numbers in percent, and the count of right orders, of some rows."""

    numbers: int
    median_percent: float | None
    worst_percent: float | None
    worst_id: str
    orderings: int
    orderings_right: int

    @staticmethod
    def of(rows: Iterable[AccuracyRow], basis: str) -> Statistics:
        unjudged = ("not run", "not testable")
        chosen = [row.claim for row in rows if row.claim.basis == basis and row.claim.judgement.verdict not in unjudged]
        numbers = {
            row.published.id: abs(row.judgement.deviation_percent)
            for row in chosen
            if row.judgement.deviation_percent is not None
        }
        orderings = [row for row in chosen if row.judgement.deviation_percent is None]
        worst = max(numbers, key=lambda claim: numbers[claim], default="")
        return Statistics(
            len(numbers),
            statistics.median(numbers.values()) if numbers else None,
            numbers.get(worst),
            worst,
            len(orderings),
            sum(row.judgement.verdict in ("reproduced", "as given") for row in orderings),
        )


@dataclass(frozen=True)
class Target:
    text: str
    value: str
    # None if no row can decide.
    is_met: bool | None

    @property
    def verdict(self) -> str:
        return "not run" if self.is_met is None else "met" if self.is_met else "not met"


def run_accuracy(
    study: Study, settings: Accuracy, softband: Softband, options: StudyOptions, folders: Path, console: Console
) -> int:
    """Runs an accuracy study. Returns the exit status of a study, and 1 also for an unexplained deviation.

    The included studies use `folders`/NAME, so that they reuse finished runs of their own folders.
    """
    included: dict[str, Evidence] = {}
    status, rows = 0, []
    studies = {name: load_study(options.home, name) for name in settings.includes}
    # Faults appear here, before the included studies take hours.
    for one in studies.values():
        check_study(one, [], options.home)
    check_study(study, list(studies.values()), options.home)
    for one in [*studies.values(), study]:
        generation_of(settings, options.home, frozenset(run.fabric for run in one.runs(options.quick)))
    for name, one in studies.items():
        command = shlex.join(
            ["softband", "study", name, *(["--quick"] if options.quick else []), *options.manager.options]
        )
        part = replace(options, out=folders / f"{name}{options.manager.suffix}", command=command)
        console.rule(name)
        result = run_study(one, softband, part, console)
        if result.evidence is None:
            return result.status
        included[name], status = result.evidence, max(status, result.status)
        rows += sort_out(settings, options.home, name, result.claims)
    console.rule(study.head.name)
    own = run_study(study, softband, options, console, included)
    if own.evidence is None:
        return own.status
    rows += sort_out(settings, options.home, study.head.name, own.claims)
    write_accuracy(rows, options.out / "accuracy.csv")
    targets = check_targets(settings, rows)
    write_page(study, settings, rows, targets, options)
    return max(status, own.status, _print_end(rows, targets, options, console))


def sort_out(settings: Accuracy, home: Path, study: str, claims: list[ClaimRow]) -> list[AccuracyRow]:
    """Assigns each claim to the oldest generation of the HCAs in its fabrics."""
    return [AccuracyRow(generation_of(settings, home, claim.fabrics), study, claim) for claim in claims]


def generation_of(settings: Accuracy, home: Path, fabrics: frozenset[str]) -> str:
    parts = {
        (fabric, hca.get("part"))
        for fabric in sorted(fabrics)
        for host in load_toml(fabric_path(home, fabric)).get("hosts", {}).values()
        for hca in host.get("hcas", [])
    }
    known = {part for generation in settings.generations for part in generation.hcas}
    for fabric, part in sorted(parts, key=str):
        if part not in known:
            raise LabError(
                f"fabrics/{fabric}: part `{part}`",
                "is an HCA of no generation of the accuracy study",
                "add the part to one of [[accuracy.generations]]",
            )
    found = {part for _, part in parts}
    return next((item.title for item in settings.generations if found & set(item.hcas)), NO_HCA)


def check_targets(settings: Accuracy, rows: list[AccuracyRow]) -> list[Target]:
    """Checks the targets for the named studies, and for all studies if others exist."""
    aimed_at = settings.targets.studies
    aimed = [row for row in rows if row.study in aimed_at]
    if not aimed_at or len(aimed) == len(rows):
        return _check(settings, rows, "the predicted rows")
    names = f"{', '.join(aimed_at[:-1])} and {aimed_at[-1]}" if len(aimed_at) > 1 else aimed_at[0]
    return [
        *_check(settings, aimed, f"the predicted rows of {names}"),
        *_check(settings, rows, "all predicted rows"),
    ]


def _check(settings: Accuracy, rows: list[AccuracyRow], which: str) -> list[Target]:
    predicted = Statistics.of(rows, "predicted")
    median, worst = predicted.median_percent, predicted.worst_percent
    limits = settings.targets
    return [
        Target(
            f"median of {which} under {limits.median_percent:g} %",
            NOTHING_PREDICTED if median is None else f"{median:.2f} %",
            None if median is None else median < limits.median_percent,
        ),
        Target(
            f"worst of {which} under {limits.worst_percent:g} %",
            NOTHING_PREDICTED if worst is None else f"{worst:.2f} % ({predicted.worst_id})",
            None if worst is None else worst < limits.worst_percent,
        ),
        Target(
            f"all orders among {which} right",
            f"{predicted.orderings_right} of {predicted.orderings}" if predicted.orderings else NOTHING_PREDICTED,
            predicted.orderings == predicted.orderings_right if predicted.orderings else None,
        ),
    ]


def write_accuracy(rows: list[AccuracyRow], path: Path) -> None:
    write_csv(path, COLUMNS, (row.fields() for row in rows))


def write_page(
    study: Study, settings: Accuracy, rows: list[AccuracyRow], targets: list[Target], options: StudyOptions
) -> None:
    titles = [*(generation.title for generation in settings.generations), NO_HCA]
    tables = [(title, [row for row in rows if row.generation == title]) for title in titles]
    render(
        "accuracy.html.jinja",
        options.out / "accuracy.html",
        {
            "study": study.head,
            "command": options.command,
            "quick": options.quick,
            "targets": targets,
            "tolerance": NUMBER_TOLERANCE_PERCENT,
            "overall": _statistics(rows),
            "tables": [
                {"title": title, "statistics": _statistics(found), "rows": [_row_context(row) for row in found]}
                for title, found in tables
                if found
            ],
            "off": [_row_context(row) for row in rows if row.claim.is_off],
            "charts": _charts(rows, titles),
        },
    )


def _charts(rows: list[AccuracyRow], titles: list[str]) -> dict[str, object]:
    """Returns the charts of the page, or nothing if no row has a number."""
    dots = [dot for row in rows if (dot := _dot(row)) is not None]
    if not dots:
        return {}
    shown = [title for title in titles if any(dot.generation == title for dot in dots)]
    kinds = [kind for kind in KINDS if any(dot.values and dot.values[0] == kind for dot in dots)]
    return {
        "strips": [Markup(strip_chart(dots, shown, NUMBER_TOLERANCE_PERCENT, width)) for width in (1100, 400)],
        "bases": [(basis, CHART_CLASSES[basis]) for basis in CHART_BASES if any(dot.basis == basis for dot in dots)],
        "generations": [(title, svg.colour_class(index)) for index, title in enumerate(shown)],
        "takeaway": _takeaway(rows),
        "scatters": [
            {
                "title": KINDS[kind][0],
                "sentence": scatter_sentence(dots, kind),
                "drawing": Markup(scatter_chart(dots, kind, shown)),
            }
            for kind in kinds
        ],
    }


def _dot(row: AccuracyRow) -> Dot | None:
    claim, deviation = row.claim, row.claim.judgement.deviation_percent
    if claim.basis not in CHART_BASES or deviation is None:
        return None
    published = claim.published
    have = in_base_units(published.unit, DECIMAL_MEGABYTE)
    values = None
    if isinstance(claim.rule, ValueRule) and have is not None and have[0] in KINDS:
        base = published.number * have[1]
        values = (have[0], base, base * (1.0 + deviation / 100.0))
    return Dot(
        published.id,
        claim.rule.claim,
        row.generation,
        claim.basis,
        deviation,
        f"{published.value} {published.unit}",
        claim.judgement.predicted,
        f"{published.source}, {published.section}",
        values,
    )


def _takeaway(rows: list[AccuracyRow]) -> str:
    """Describes the median deviation of predicted numbers by generation."""
    parts = []
    for title in dict.fromkeys(row.generation for row in rows):
        found = Statistics.of([row for row in rows if row.generation == title], "predicted")
        if found.numbers:
            parts.append(f"{title.split(' (')[0]} {found.median_percent:.1f} % ({found.numbers})")
    return f"Median deviation of the predicted numbers: {', '.join(parts)}." if parts else ""


def _statistics(rows: list[AccuracyRow]) -> dict[str, Statistics]:
    found = {basis: Statistics.of(rows, basis) for basis in BASES if basis}
    return {basis: item for basis, item in found.items() if basis == "predicted" or item.numbers or item.orderings}


def _row_context(row: AccuracyRow) -> dict[str, object]:
    return {
        **row.fields(),
        "deviation": row.claim.judgement.deviation_percent,
        "is_off": row.claim.is_off,
        "is_unexplained": row.is_unexplained,
        "note": row.claim.note,
    }


def _print_end(rows: list[AccuracyRow], targets: list[Target], options: StudyOptions, console: Console) -> int:
    for basis, found in _statistics(rows).items():
        if found.numbers:
            console.print(
                f"{basis}: {found.numbers} numbers, median {found.median_percent:.2f} % off, "
                f"worst {found.worst_percent:.2f} % ({found.worst_id}); "
                f"{found.orderings_right} of {found.orderings} orders right"
            )
    for target in targets:
        color = {None: "yellow", True: "green", False: "red"}[target.is_met]
        console.print(f"[{color}]{target.verdict}[/]: {target.text}: {target.value}")
    unexplained = [row.claim.published.id for row in rows if row.is_unexplained]
    if unexplained:
        console.print(f"[bold red]off without an explanation:[/] {', '.join(unexplained)}")
        console.print("add `explanation` to their rules in claims.toml")
    console.print(f"[bold]the table:[/] {options.out / 'accuracy.html'}", soft_wrap=True)
    return 1 if unexplained else 0
