"""Charts of a what-if question: lines over the length, and a map of all points."""

from __future__ import annotations

from dataclasses import dataclass

from softband_lab.base.fabricfile import plain
from softband_lab.report import svg
from softband_lab.report.overlap import draw_lines
from softband_lab.report.svg import Box, Scale

# Dark to bright and told apart without colour: low to full bandwidth (a part of viridis).
_HEAT = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))

_UNIT = "bandwidth (MB/s of 2^20 B)"
_LENGTH = "length of each varied cable (m)"
_NARROW_COLUMNS = 8


@dataclass(frozen=True)
class Spot:
    """A measured point. `row`: its lanes and rate in words."""

    row: str
    length_m: float
    mib_s: float
    limit: str = ""

    @property
    def words(self) -> str:
        by = f"; limited by {self.limit}" if self.limit else ""
        return f"{self.row}, {plain(self.length_m)} m: {self.mib_s:,.1f} MB/s{by}"


def lines_chart(spots: list[Spot], width: float) -> str:
    """Draws a line for each number of lanes and rate."""
    rows = list(dict.fromkeys(spot.row for spot in spots))
    box = Box(56, 30, width - 14, 280)
    lengths = [spot.length_m for spot in spots]
    low, high = min(lengths), max(lengths)
    log = low > 0 and high / low > 8
    x = (
        Scale(low, high, box.left + 6, box.right - 6, log=log)
        if high > low
        else Scale(low - 1, high + 1, box.left, box.right)
    )
    y = svg.from_zero((spot.mib_s for spot in spots), box.bottom, box.top)
    parts = svg.y_axis(box, y, _UNIT)
    parts += svg.x_axis(box, x, x.ticks(6 if width > 500 else 4), _LENGTH, svg.short)
    own = {row: sorted((spot for spot in spots if spot.row == row), key=lambda spot: spot.length_m) for row in rows}
    places = {row: [(x.at(spot.length_m), y.at(spot.mib_s)) for spot in own[row]] for row in rows}
    lines = draw_lines(places)
    for index, row in enumerate(rows):
        parts.append(_line(index, row, own[row], places[row], lines[row]))
    return svg.drawing(width, 322, describe(spots), parts)


def _line(index: int, row: str, own: list[Spot], places: list[tuple[float, float]], lines: str) -> str:
    dots = "".join(
        f'<circle cx="{svg.number(a)}" cy="{svg.number(b)}" r="3" class="dot"/>'
        f'<circle cx="{svg.number(a)}" cy="{svg.number(b)}" r="9" class="hit"{svg.tip(spot.words)}/>'
        for (a, b), spot in zip(places, own, strict=True)
    )
    return f'<g class="{svg.colour_class(index)}" data-curve="{svg.attribute(row)}">{lines}{dots}</g>'


def heat_chart(spots: list[Spot]) -> str:
    """Draws a field with the bandwidth of each point, and a row for each number of lanes and rate."""
    rows = list(dict.fromkeys(spot.row for spot in spots))
    lengths = sorted({spot.length_m for spot in spots})
    left = 14 + 6.6 * max(len(row) for row in rows)
    wide, high, top = max(46.0, (1060 - left) / len(lengths)), 34.0, 24.0
    most = _most(spots)
    parts = [
        svg.text(left - 8, top + high * index + 21, row, anchor="end") for index, row in enumerate(rows)
    ]  # fmt: skip
    for spot in spots:
        x, y = left + wide * lengths.index(spot.length_m), top + high * rows.index(spot.row)
        parts += _field(spot, most, x, y, wide, high)
    bottom = top + high * len(rows)
    for column, length in enumerate(lengths):
        parts.append(svg.text(left + wide * (column + 0.5), bottom + 17, plain(length), anchor="middle"))
    width = left + wide * len(lengths) + 6
    parts.append(svg.text(left, 15, _UNIT))
    parts.append(svg.text(left + wide * len(lengths) / 2, bottom + 36, _LENGTH, anchor="middle"))
    return svg.drawing(width, bottom + 44, describe(spots), parts)


def narrow_heat_charts(spots: list[Spot]) -> list[str]:
    """Draws the map for narrow pages: a row for each length, and several maps for many columns."""
    columns = list(dict.fromkeys(spot.row for spot in spots))
    blocks = [columns[start : start + _NARROW_COLUMNS] for start in range(0, len(columns), _NARROW_COLUMNS)]
    return [_narrow_heat([spot for spot in spots if spot.row in block], block, _most(spots)) for block in blocks]


def _narrow_heat(spots: list[Spot], columns: list[str], most: float) -> str:
    lengths = sorted({spot.length_m for spot in spots})
    left, high, width = 52.0, 26.0, 380.0
    top = 46 + 6.4 * max(len(column) for column in columns)
    wide = (width - left - 4) / len(columns)
    parts = [svg.text(4, 14, _UNIT), svg.text(4, top - 6, "m")]
    for index, column in enumerate(columns):
        parts.append(svg.text(left + wide * (index + 0.5) + 4, top - 6, column, turned=True))
    for index, length in enumerate(lengths):
        parts.append(svg.text(left - 8, top + high * index + 17, plain(length), anchor="end"))
    for spot in spots:
        x, y = left + wide * columns.index(spot.row), top + high * lengths.index(spot.length_m)
        parts += _field(spot, most, x, y, wide, high)
    return svg.drawing(width, top + high * len(lengths) + 6, describe(spots), parts)


def _most(spots: list[Spot]) -> float:
    return max(spot.mib_s for spot in spots) or 1.0


def _field(spot: Spot, most: float, x: float, y: float, wide: float, high: float) -> list[str]:
    red, green, blue = _heat(spot.mib_s / most)
    place = f'x="{svg.number(x)}" y="{svg.number(y)}" width="{svg.number(wide)}" height="{svg.number(high)}"'
    ink = "#000" if 0.3 * red + 0.59 * green + 0.11 * blue > 120 else "#fff"
    middle = f'x="{svg.number(x + wide / 2)}" y="{svg.number(y + high / 2 + 4)}"'
    return [
        f'<rect {place} fill="rgb({red},{green},{blue})" class="cell"{svg.tip(spot.words)}/>',
        f'<text {middle} text-anchor="middle" style="fill:{ink};font-size:11px" class="over">{spot.mib_s:,.0f}</text>',
    ]


def _heat(share: float) -> tuple[int, int, int]:
    spot = max(0.0, min(1.0, share)) * (len(_HEAT) - 1)
    index = min(int(spot), len(_HEAT) - 2)
    part = spot - index
    one, other = _HEAT[index], _HEAT[index + 1]
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(one, other, strict=True))
    return red, green, blue


def describe(spots: list[Spot]) -> str:
    """Describes the surface: the bandwidth of each row with the shortest and the longest cable."""
    words = ["Bandwidth in MB/s over cable length."]
    for row in dict.fromkeys(spot.row for spot in spots):
        own = sorted((spot for spot in spots if spot.row == row), key=lambda spot: spot.length_m)
        first, last = own[0], own[-1]
        words.append(
            f"{row}: {first.mib_s:,.0f} at {plain(first.length_m)} m, {last.mib_s:,.0f} at {plain(last.length_m)} m."
        )
    return " ".join(words)
