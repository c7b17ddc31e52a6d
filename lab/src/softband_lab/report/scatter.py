"""Charts of predicted against published values, with the diagonal and a line on either side of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from softband_lab.report import svg
from softband_lab.report.svg import Box, Scale
from softband_lab.rules.families import WITHIN_PERCENT, Compared

_WIDTH, _HEIGHT = 400.0, 344.0
_BOX = Box(60, 30, 386, 300)
# Room beyond the smallest and the largest value, and the least ratio of the ends of an axis.
_ROOM, _LEAST_RATIO = 1.3, 10.0


@dataclass(frozen=True)
class Legend:
    """An HCA with the class of its colour."""

    name: str
    kind: str


def legend(numbers: list[Compared]) -> list[Legend]:
    """Returns the HCAs in the order of their names, which is that of their generations."""
    names = sorted({one.hca for one in numbers})
    return [Legend(name, svg.colour_class(index)) for index, name in enumerate(names)]


def sentence(numbers: list[Compared]) -> str:
    """Describes a chart's numbers: `12 of 14 lie within 25 %, and one of 3 that rest on a calibration`."""
    predicted = [one for one in numbers if one.row.basis != "calibrated"]
    fitted = [one for one in numbers if one.row.basis == "calibrated"]
    parts = [f"{_near(own)} of {len(own)} {words}" for own, words in _named(predicted, fitted)]
    return f"Within {WITHIN_PERCENT:g} %: {', '.join(parts)}."


def _named(predicted: list[Compared], fitted: list[Compared]) -> list[tuple[list[Compared], str]]:
    both = [(predicted, "predicted"), (fitted, "that rest on a calibration")]
    return [(own, words) for own, words in both if own]


def _near(numbers: list[Compared]) -> int:
    return sum(abs(one.deviation_percent) <= WITHIN_PERCENT for one in numbers)


def scatter(title: str, numbers: list[Compared], kinds: list[Legend]) -> str:
    """Draws a chart. A ring is a number that rests on a calibration."""
    quantity = numbers[0].quantity
    values = [value for one in numbers for value in (one.published, one.predicted)]
    low, high = _range(min(values) / _ROOM, max(values) * _ROOM)
    x = Scale(low, high, _BOX.left, _BOX.right, log=True)
    y = Scale(low, high, _BOX.bottom, _BOX.top, log=True)
    parts = svg.y_axis(_BOX, y, f"model ({quantity.unit})")
    parts += svg.x_axis(_BOX, x, x.ticks(), f"published ({quantity.unit})", svg.short)
    parts += [_diagonal(factor, x, y, kind) for factor, kind in _lines()]
    colours = {one.name: one.kind for one in kinds}
    parts += [_dot(one, x, y, colours[one.hca]) for one in numbers]
    words = (
        f"{title}: the model's values against {len(numbers)} published ones from {min(values):.3g} to "
        f"{max(values):,.4g} {quantity.unit}. {sentence(numbers)}"
    )
    return svg.drawing(_WIDTH, _HEIGHT, words, parts)


def _range(low: float, high: float) -> tuple[float, float]:
    """Widens a short range, which would have one tick or none."""
    more = math.sqrt(max(1.0, _LEAST_RATIO / (high / low)))
    return low / more, high * more


def _lines() -> list[tuple[float, str]]:
    share = WITHIN_PERCENT / 100.0
    return [(1.0, "axis"), (1.0 + share, "edge"), (1.0 - share, "edge")]


def _diagonal(factor: float, x: Scale, y: Scale, kind: str) -> str:
    """Draws the line on which the model's value is `factor` times the published one."""
    start, end = max(x.low, x.low / factor), min(x.high, x.high / factor)
    return svg.line(x.at(start), y.at(start * factor), x.at(end), y.at(end * factor), kind)


def _dot(one: Compared, x: Scale, y: Scale, kind: str) -> str:
    row = one.row
    words = (
        f"{row.published.id}, {row.rule.claim}: published {row.published.value} {row.published.unit}, "
        f"here {row.judgement.predicted} ({one.deviation_percent:+.1f} %, {row.basis}). {row.published.source}"
    )
    place = f'cx="{svg.number(x.at(one.published))}" cy="{svg.number(y.at(one.predicted))}"'
    shape = "ring" if row.basis == "calibrated" else "dot"
    circle = f'<circle {place} r="4.2" class="{shape}"{svg.tip(words)}/>'
    return f'<g class="{kind}" data-curve="{svg.attribute(one.hca)}">{circle}</g>'
