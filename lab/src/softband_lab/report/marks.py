"""Marks of published numbers in figures: a level across curves, a point of a curve, a stroke at a bar."""

from __future__ import annotations

from collections.abc import Iterator

from softband_lab.base.units import column_factor
from softband_lab.campaign.engine_job import JobResult
from softband_lab.report.charts import Mark
from softband_lab.rules.claims import ClaimRow
from softband_lab.rules.curve_rules import DifferenceRule, ValueRule
from softband_lab.rules.judgement import PEAK
from softband_lab.spec.study import Figure, Study


def published_marks(
    study: Study, claims: list[ClaimRow], figure: Figure, test_name: str, results: dict[str, JobResult]
) -> list[Mark]:
    """Returns the marks of a panel. Rows with the same number for the same curve share a mark."""
    found: dict[tuple[float, str | None, int | None], list[tuple[Mark, ClaimRow]]] = {}
    for row in claims:
        rule = row.rule
        if figure.number not in rule.figures or rule.study is not None:
            continue
        if isinstance(rule, ValueRule) and test_name in rule.tests:
            marks = _of_value(study, figure, row, rule, test_name)
        elif isinstance(rule, DifferenceRule) and test_name in rule.tests and figure.chart == "curves":
            marks = _of_difference(study, figure, row, rule, test_name, results)
        else:
            continue
        for mark in marks:
            found.setdefault((mark.value, mark.curve, mark.size), []).append((mark, row))
    order = sorted(found, key=lambda key: (key[0], key[1] or "", key[2] or 0))
    return [_joined(found[key]) for key in order]


def _of_value(study: Study, figure: Figure, row: ClaimRow, rule: ValueRule, test_name: str) -> Iterator[Mark]:
    factor = column_factor(study.tests[test_name].column, row.published.unit, study.head.megabyte)
    if factor is None:
        return
    value = row.published.number / factor
    words = f"published: {_about(row)}{value:,.4g}"
    if figure.chart == "bars":
        for curve in rule.curves:
            yield Mark(value, f"published {_about(row)}{value:,.4g}", curve)
    elif rule.at == PEAK:
        yield Mark(value, words)
    else:
        shown = [curve.name for curve in figure.curves]
        for name in rule.curves:
            if name in shown:
                yield Mark(value, words, name, int(rule.at))


def _of_difference(
    study: Study, figure: Figure, row: ClaimRow, rule: DifferenceRule, test_name: str, results: dict[str, JobResult]
) -> Iterator[Mark]:
    """Yields the mark of a published loss, which lies below the predicted peak of the base curve."""
    test = study.tests[test_name]
    base = next((curve for curve in figure.curves if curve.name == rule.base), None)
    factor = column_factor(test.column, row.published.unit, study.head.megabyte)
    result = results.get(figure.run_of(base, test_name).id) if base else None
    if base is None or factor is None or result is None or rule.at != PEAK:
        return
    values = [getattr(one.measurement, test.column) for one in result.rows]
    top = max((value for value in values if value is not None), default=None)
    if top is not None:
        loss = row.published.number / factor
        yield Mark(top - loss, f"published: {_about(row)}{loss:,.4g} below {base.shown}")


def _about(row: ClaimRow) -> str:
    return "about " if row.published.quality == "about" else ""


def _joined(same: list[tuple[Mark, ClaimRow]]) -> Mark:
    """Joins marks of the same number. The source names each row once."""
    mark = same[0][0]
    rows = {row.published.id: row.published for _, row in same}
    source = "; ".join(f"{name}: {row.source}, {row.section}" for name, row in rows.items())
    return Mark(mark.value, mark.label, mark.curve, mark.size, source)
