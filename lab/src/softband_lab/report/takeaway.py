"""Sentences about each figure, computed from its curves and claims. Study files contain no results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from softband_lab.report.charts import Panel, plain
from softband_lab.report.svg import bytes_name
from softband_lab.rules.judgement import NUMBER_TOLERANCE_PERCENT

if TYPE_CHECKING:
    from softband_lab.rules.claims import ClaimRow

# Best values within this share look equal in a chart.
_SAME_PERCENT = 1.0


def takeaway(panels: Sequence[Panel], claims: list[ClaimRow]) -> str:
    """Describes the spread of the curves of the first chart with results, and the deviations of the claims."""
    drawn = next((panel for panel in panels if panel.points), None)
    return " ".join(part for part in (_spread(drawn) if drawn else "", _deviations(claims)) if part)


def _spread(panel: Panel) -> str:
    curves = {name: panel.series(name) for name in panel.curves if panel.series(name)}
    if len(curves) == 1:
        return _of_one(panel, next(iter(curves.items())))
    # The best latency is the lowest.
    best = min if panel.test.is_latency else max
    values = {name: best(value for _, value in series) for name, series in curves.items()}
    order = sorted(values, key=lambda name: values[name], reverse=not panel.test.is_latency)
    first, last = order[0], order[-1]
    title, unit = panel.test.title, panel.test.unit
    apart = 100.0 * abs(values[last] - values[first]) / values[first] if values[first] else 0.0
    if apart <= _SAME_PERCENT:
        which = "both" if len(order) == 2 else f"all {len(order)}"
        return f"{title}: {which} curves have {plain(values[first])} {unit} at best, within {_SAME_PERCENT:g} %."
    more = "longer" if panel.test.is_latency else "less"
    return (
        f"{title}: {panel.label(first)} has the best value, {plain(values[first])} {unit}; "
        f"{panel.label(last)} has {plain(values[last])} {unit}, {apart:.0f} % {more}."
    )


def _of_one(panel: Panel, curve: tuple[str, list[tuple[int, float]]]) -> str:
    name, series = curve
    (small, first), (large, last) = series[0], series[-1]
    head, unit = f"{panel.test.title}: {panel.label(name)} has", panel.test.unit
    if len(series) == 1 or panel.chart == "bars":
        return f"{head} {plain(first)} {unit} at {bytes_name(small)} bytes."
    return (
        f"{head} {plain(first)} {unit} at {bytes_name(small)} bytes and {plain(last)} {unit} "
        f"at {bytes_name(large)} bytes."
    )


def _deviations(claims: list[ClaimRow]) -> str:
    """Describes the deviations without inputs, which agree by definition."""
    judged = [row for row in claims if row.basis not in ("input", "")]
    numbers = {row.published.id: row for row in judged if row.judgement.deviation_percent is not None}
    orders = [
        row
        for row in judged
        if row.judgement.verdict in ("reproduced", "contradicted") and row.published.id not in numbers
    ]
    parts = []
    if len(numbers) == 1:
        row = next(iter(numbers.values()))
        unit = f" {row.published.unit}" if row.published.unit not in ("ratio", "fraction") else ""
        parts.append(
            f"The source gives {row.published.value}{unit} for {row.published.id} ({row.rule.claim}); "
            f"the model gives {row.judgement.predicted} ({_signed(row)}, {row.basis})."
        )
    elif numbers:
        near = sum(abs(_off(row)) <= NUMBER_TOLERANCE_PERCENT for row in numbers.values())
        farthest = max(numbers.values(), key=lambda row: abs(_off(row)))
        parts.append(
            f"{near} of {len(numbers)} published numbers lie within {NUMBER_TOLERANCE_PERCENT:g} %; "
            f"{farthest.published.id} lies farthest off, {_signed(farthest)} ({farthest.basis})."
        )
    if orders:
        right = sum(row.judgement.verdict == "reproduced" for row in orders)
        if len(orders) == 1:
            parts.append(f"The published order {'holds' if right else 'does not hold'}.")
        else:
            parts.append(f"{right} of {len(orders)} published orders hold.")
    return " ".join(parts)


def _off(row: ClaimRow) -> float:
    return row.judgement.deviation_percent or 0.0


def _signed(row: ClaimRow) -> str:
    return signed_percent(_off(row))


def signed_percent(value: float) -> str:
    """Prints `+1.4 %`, `−0.5 %`, and `0.0 %` without a sign."""
    text = f"{value:+.1f}"
    return "0.0 %" if float(text) == 0 else f"{text.replace('-', '−')} %"
