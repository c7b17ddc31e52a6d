"""Charts of the deviations of all numbers by generation, and of predicted against published values."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from softband_lab.report import svg
from softband_lab.report.svg import Box, Scale

BASES = ("predicted", "derived", "calibrated")
CLASSES = {"predicted": "s0", "derived": "s2", "calibrated": "s4"}
# The axis is wider near zero, because most deviations are small.
_NEAR = 2.0
_TICKS = (0, 1, 5, 10, 25, 50, 75, 100)
_NAME_WIDTH = 44.0
_ROW = 46.0
# Width of the band beside the diagonal.
_BAND_PERCENT = 10.0


@dataclass(frozen=True)
class Dot:
    """A published number: its deviation in percent, and for single values both values in base units."""

    claim_id: str
    claim: str
    generation: str
    basis: str
    deviation_percent: float
    published: str
    predicted: str
    source: str
    # Kind of quantity, published and predicted value in its base unit.
    values: tuple[str, float, float] | None = None

    @property
    def words(self) -> str:
        return (
            f"{self.claim_id}, {self.claim}: published {self.published}, here {self.predicted} "
            f"({self.deviation_percent:+.1f} %, {self.basis}). {self.source}"
        )


def strip_chart(dots: list[Dot], generations: list[str], tolerance: float, width: float) -> str:
    """Draws a row for each generation, and a dot at the deviation of each number."""
    shown = [title for title in generations if any(dot.generation == title for dot in dots)]
    wide = width > 600
    left = 250.0 if wide else 12.0
    box = Box(left, 26, width - 14, 26 + _ROW * len(shown))
    most = max(abs(dot.deviation_percent) for dot in dots)
    x = Scale(-_even(most * 1.08), _even(most * 1.08), box.left, box.right)
    parts = [_band(x, tolerance, box)]
    named = 0.0
    for tick in (tick for tick in _TICKS if tick <= most * 1.08):
        has_name = not tick or x.at(_even(tick)) - x.at(named) >= _NAME_WIDTH
        named = _even(tick) if has_name else named
        for side in dict.fromkeys((-tick, tick)):
            at = x.at(_even(side))
            parts.append(svg.line(at, box.top, at, box.bottom, "grid" if side else "axis"))
            if has_name:
                words = f"{side:+d} %".replace("-", "−") if side else "0"
                parts.append(svg.text(at, box.bottom + 17, words, anchor="middle"))
    for index, title in enumerate(shown):
        middle = box.top + _ROW * (index + (0.5 if wide else 0.66))
        parts.append(svg.line(box.left, box.top + _ROW * index, box.right, box.top + _ROW * index, "grid"))
        place = (left - 12, middle + 4, "end") if wide else (left, box.top + _ROW * index + 13, "start")
        parts.append(svg.text(place[0], place[1], title, anchor=place[2], kind="label halo"))
        parts += _row_of([dot for dot in dots if dot.generation == title], middle, x)
    middle = (box.left + box.right) / 2
    parts.append(svg.text(middle, box.bottom + 36, "deviation of the model from the published number", anchor="middle"))
    return svg.drawing(width, box.bottom + 44, describe(dots, shown), parts)


def _band(x: Scale, tolerance: float, box: Box) -> str:
    start, end = x.at(-_even(tolerance)), x.at(_even(tolerance))
    size = f'width="{svg.number(end - start)}" height="{svg.number(box.bottom - box.top)}"'
    return f'<rect x="{svg.number(start)}" y="{svg.number(box.top)}" {size} class="band"/>'


def _row_of(dots: list[Dot], middle: float, x: Scale) -> list[str]:
    """Places dots that would overlap above and below the middle of the row in turn."""
    parts: list[str] = []
    taken: list[tuple[float, float]] = []
    for dot in sorted(dots, key=lambda one: (abs(one.deviation_percent), one.claim_id)):
        at = x.at(_even(dot.deviation_percent))
        level = next(
            (
                middle + shift
                for shift in (0, -8, 8, -15, 15, -4, 4, -12, 12)
                if all(math.hypot(at - a, middle + shift - b) >= 7.5 for a, b in taken)
            ),
            middle,
        )
        taken.append((at, level))
        parts.append(_dot(CLASSES[dot.basis], at, level, dot))
    return parts


def _dot(kind: str, x: float, y: float, dot: Dot) -> str:
    place = f'cx="{svg.number(x)}" cy="{svg.number(y)}"'
    group = f'<g class="{kind}" data-curve="{svg.attribute(dot.basis if kind in CLASSES.values() else "")}">'
    return f'{group}<circle {place} r="4" class="dot"{svg.tip(dot.words)}/></g>'


def _even(percent: float) -> float:
    return math.copysign(math.log1p(abs(percent) / _NEAR), percent)


KINDS = {
    "time": ("Latency", "us", 1e-6),
    "rate": ("Bandwidth", "MB/s", 1e6),
    "message rate": ("Message rate", "million/s", 1e6),
}


def scatter_chart(dots: list[Dot], kind: str, generations: list[str]) -> str:
    """Draws predicted against published values of a kind of quantity. Equal values lie on the diagonal."""
    title, unit, factor = KINDS[kind]
    own = [
        (dot, dot.values[1] / factor, dot.values[2] / factor) for dot in dots if dot.values and dot.values[0] == kind
    ]
    values = [value for _, published, predicted in own for value in (published, predicted)]
    low, high = min(values) / 1.25, max(values) * 1.25
    box = Box(60, 30, 386, 300)
    x = Scale(low, high, box.left, box.right, log=True)
    y = Scale(low, high, box.bottom, box.top, log=True)
    parts = svg.y_axis(box, y, f"predicted ({unit})")
    parts += svg.x_axis(box, x, x.ticks(), f"published ({unit})", svg.short)
    wide = 1.0 + _BAND_PERCENT / 100.0
    edges = [(low * wide, low), (high, high / wide), (high, high), (high / wide, high), (low, low * wide), (low, low)]
    band = " ".join(f"{svg.number(x.at(min(a, high)))},{svg.number(y.at(min(b, high)))}" for a, b in edges)
    parts.append(f'<polygon points="{band}" class="band"/>')
    parts.append(svg.line(x.at(low), y.at(low), x.at(high), y.at(high), "axis"))
    for dot, published, predicted in own:
        kind_class = svg.colour_class(generations.index(dot.generation))
        place = f'cx="{svg.number(x.at(published))}" cy="{svg.number(y.at(predicted))}"'
        parts.append(
            f'<g class="{kind_class}" data-curve="{svg.attribute(dot.generation)}">'
            f'<circle {place} r="4.2" class="dot"{svg.tip(dot.words)}/></g>'
        )
    words = (
        f"{title}: predicted against published, {len(own)} numbers from {min(values):.3g} to "
        f"{max(values):,.4g} {unit}. {scatter_sentence(dots, kind)}"
    )
    return svg.drawing(400, 344, words, parts)


def scatter_sentence(dots: list[Dot], kind: str) -> str:
    own = [dot for dot in dots if dot.values and dot.values[0] == kind]
    near = sum(abs(dot.deviation_percent) <= _BAND_PERCENT for dot in own)
    return f"{near} of {len(own)} lie within {_BAND_PERCENT:g} %, the grey band."


def describe(dots: list[Dot], generations: Iterable[str]) -> str:
    """Describes the strip: the count of numbers and the median deviation of each generation."""
    words = ["Deviation of the model from each published number, by generation of the HCA."]
    for title in generations:
        own = sorted(abs(dot.deviation_percent) for dot in dots if dot.generation == title)
        if own:
            words.append(
                f"{title}: {len(own)} numbers, median {statistics.median(own):.1f} % off, worst {own[-1]:.1f} %."
            )
    return " ".join(words)
