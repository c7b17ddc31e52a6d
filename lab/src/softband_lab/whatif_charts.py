"""The surface of a what-if question as drawings: lines over the length, and a map of all points."""

from __future__ import annotations

from dataclasses import dataclass

from softband_lab import svg
from softband_lab.fabricfile import plain
from softband_lab.svg import Box, Scale

# Dark to bright and told apart without colour: low to full bandwidth (a part of viridis).
_HEAT = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))


@dataclass(frozen=True)
class Spot:
    """One measured point: `row` is its lanes and rate in words."""

    row: str
    length_m: float
    mib_s: float
    limit: str = ""

    @property
    def words(self) -> str:
        by = f"; limited by {self.limit}" if self.limit else ""
        return f"{self.row}, {plain(self.length_m)} m: {self.mib_s:,.1f} MB/s{by}"


def lines_chart(spots: list[Spot], width: float) -> str:
    """A line for each number of lanes and rate."""
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
    parts = svg.y_axis(box, y, "bandwidth (MB/s of 2^20 B)")
    parts += svg.x_axis(box, x, x.ticks(6 if width > 500 else 4), "length of each varied cable (m)", svg.short)
    for index, row in enumerate(rows):
        own = sorted((spot for spot in spots if spot.row == row), key=lambda spot: spot.length_m)
        parts.append(_line(index, row, own, x, y))
    return svg.drawing(width, 322, describe(spots), parts)


def _line(index: int, row: str, own: list[Spot], x: Scale, y: Scale) -> str:
    places = [(x.at(spot.length_m), y.at(spot.mib_s)) for spot in own]
    path = "M" + "L".join(f"{svg.number(a)} {svg.number(b)}" for a, b in places)
    dots = "".join(
        f'<circle cx="{svg.number(a)}" cy="{svg.number(b)}" r="3" class="dot"/>'
        f'<circle cx="{svg.number(a)}" cy="{svg.number(b)}" r="9" class="hit"{svg.tip(spot.words)}/>'
        for (a, b), spot in zip(places, own, strict=True)
    )
    group = f'<g class="{svg.colour_class(index)}" data-curve="{svg.attribute(row)}">'
    return f'{group}<path class="line" d="{path}"/>{dots}</g>'


def heat_chart(spots: list[Spot]) -> str:
    """A field for each point, with its bandwidth in it."""
    rows = list(dict.fromkeys(spot.row for spot in spots))
    lengths = sorted({spot.length_m for spot in spots})
    left = 14 + 6.6 * max(len(row) for row in rows)
    wide, high = max(46.0, (1060 - left) / len(lengths)), 34.0
    top = max(spot.mib_s for spot in spots) or 1.0
    parts = []
    for index, row in enumerate(rows):
        parts.append(svg.text(left - 8, 24 + high * index + 21, row, anchor="end"))
    for spot in spots:
        column, index = lengths.index(spot.length_m), rows.index(spot.row)
        place = f'x="{svg.number(left + wide * column)}" y="{svg.number(24 + high * index)}"'
        red, green, blue = _heat(spot.mib_s / top)
        fill = f'fill="rgb({red},{green},{blue})"'
        size = f'width="{svg.number(wide)}" height="{svg.number(high)}"'
        parts.append(f'<rect {place} {size} {fill} class="cell"{svg.tip(spot.words)}/>')
        ink = "#000" if 0.3 * red + 0.59 * green + 0.11 * blue > 120 else "#fff"
        middle = f'x="{svg.number(left + wide * (column + 0.5))}" y="{svg.number(24 + high * index + 21)}"'
        parts.append(f'<text {middle} text-anchor="middle" style="fill:{ink};font-size:11px">{spot.mib_s:,.0f}</text>')
    bottom = 24 + high * len(rows)
    for column, length in enumerate(lengths):
        parts.append(svg.text(left + wide * (column + 0.5), bottom + 17, plain(length), anchor="middle"))
    width = left + wide * len(lengths) + 6
    parts.append(svg.text(left, 15, "bandwidth (MB/s of 2^20 B)"))
    parts.append(
        svg.text(left + wide * len(lengths) / 2, bottom + 36, "length of each varied cable (m)", anchor="middle")
    )
    return svg.drawing(width, bottom + 44, describe(spots), parts)


def _heat(share: float) -> tuple[int, int, int]:
    spot = max(0.0, min(1.0, share)) * (len(_HEAT) - 1)
    index = min(int(spot), len(_HEAT) - 2)
    part = spot - index
    one, other = _HEAT[index], _HEAT[index + 1]
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(one, other, strict=True))
    return red, green, blue


def describe(spots: list[Spot]) -> str:
    """The surface in words: each row's bandwidth with the shortest and the longest cable."""
    words = ["Bandwidth in MB/s over cable length."]
    for row in dict.fromkeys(spot.row for spot in spots):
        own = sorted((spot for spot in spots if spot.row == row), key=lambda spot: spot.length_m)
        first, last = own[0], own[-1]
        words.append(
            f"{row}: {first.mib_s:,.0f} at {plain(first.length_m)} m, {last.mib_s:,.0f} at {plain(last.length_m)} m."
        )
    return " ".join(words)
