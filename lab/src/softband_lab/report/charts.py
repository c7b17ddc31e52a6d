"""The figures of a study: predicted values beside the published numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softband_lab.base.files import write_whole
from softband_lab.campaign.engine_job import JobResult
from softband_lab.report import svg
from softband_lab.report.overlap import draw_lines
from softband_lab.report.svg import Box, Scale
from softband_lab.spec.study import Figure, Study, Test

WIDTH, HEIGHT = 400.0, 300.0
_BOX = Box(56, 30, 388, 250)


@dataclass(frozen=True)
class Mark:
    """A published number: across the panel, at a message size, or at a bar."""

    value: float
    label: str
    # The curve of a bar, or of a number that belongs to a single curve.
    curve: str | None = None
    size: int | None = None
    # The place of publication, for the tooltip.
    source: str = ""


@dataclass(frozen=True)
class Panel:
    """One chart of a figure: a test, its curves' points, the published numbers."""

    chart: str
    test_name: str
    test: Test
    curves: list[str]
    points: list[dict[str, Any]]
    marks: list[Mark]
    # Names of the curves in legends and descriptions.
    labels: dict[str, str]

    def label(self, curve: str) -> str:
        return self.labels.get(curve, curve)

    def series(self, curve: str) -> list[tuple[int, float]]:
        return sorted((point["size"], point["value"]) for point in self.points if point["curve"] == curve)


def make_panel(study: Study, figure: Figure, test_name: str, results: dict[str, JobResult], marks: list[Mark]) -> Panel:
    test = study.tests[test_name]
    points: list[dict[str, Any]] = []
    for curve in figure.curves:
        result = results.get(figure.run_of(curve, test_name).id)
        for row in result.rows if result else []:
            value = getattr(row.measurement, test.column)
            if value is not None:
                points.append({"curve": curve.name, "size": row.measurement.size_bytes, "value": value})
    if figure.chart == "bars":
        points = _best_of_each(points)
    names = [curve.name for curve in figure.curves]
    labels = {curve.name: curve.shown for curve in figure.curves}
    return Panel(figure.chart, test_name, test, names, points, marks, labels)


def _best_of_each(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    best: dict[str, dict[str, Any]] = {}
    for point in points:
        if point["curve"] not in best or point["value"] > best[point["curve"]]["value"]:
            best[point["curve"]] = point
    return list(best.values())


def page_panel(panel: Panel) -> str:
    """Draws a panel for the page. The page has the legend."""
    return svg.drawing(WIDTH, HEIGHT, describe(panel), _content(panel))


def static_panel(panel: Panel) -> str:
    return static_figure("", [panel])


def static_figure(title: str, panels: list[Panel]) -> str:
    """Draws all panels of a figure side by side, with a common legend."""
    head = 34.0 if title else 0.0
    width = WIDTH * len(panels)
    parts = [svg.text(4, 23, title, kind="title")] if title else []
    for index, panel in enumerate(panels):
        inner = [
            svg.text(4, 14, panel.test.title, kind="title"),
            '<g transform="translate(0 14)">',
            *_content(panel),
            "</g>",
        ]
        parts.append(f'<g transform="translate({svg.number(index * WIDTH)} {svg.number(head)})">{"".join(inner)}</g>')
    top = head + 14 + HEIGHT + 6
    legend, bottom = _legend(panels, width, top)
    words = " ".join([f"{title}." if title else "", *(f"{panel.test.title}: {describe(panel)}" for panel in panels)])
    return svg.drawing(width, bottom + 10, words.strip(), [*parts, *legend], standalone=True)


def _legend(panels: list[Panel], width: float, top: float) -> tuple[list[str], float]:
    parts, x, y = [], 16.0, top
    entries = [(svg.colour_class(index), panels[0].label(name)) for index, name in enumerate(panels[0].curves)]
    if any(panel.marks for panel in panels):
        entries.append(("", "published"))
    for kind, words in entries:
        wide = 34 + 6.7 * len(words)
        if x + wide > width and x > 16:
            x, y = 16.0, y + 19
        if kind:
            parts.append(f'<g class="{kind}">{svg.line(x, y, x + 20, y, "line")}</g>')
        else:
            parts.append(svg.line(x, y, x + 20, y, "published"))
        parts.append(svg.text(x + 26, y + 4, words, kind="label"))
        x += wide + 10
    return parts, y + 6


def save_chart(drawing: str, stem: Path) -> None:
    write_whole(stem.with_suffix(".svg"), drawing.encode())


def _content(panel: Panel) -> list[str]:
    if not panel.points:
        return [svg.text(WIDTH / 2, HEIGHT / 2, "no results", anchor="middle")]
    return _bars(panel) if panel.chart == "bars" else _curves(panel)


def _title(test: Test) -> str:
    return f"{test.quantity} ({test.unit})"


def _y_scale(panel: Panel) -> Scale:
    values = [*(point["value"] for point in panel.points), *(mark.value for mark in panel.marks)]
    return svg.from_zero(values, _BOX.bottom, _BOX.top)


def _curves(panel: Panel) -> list[str]:
    sizes = [point["size"] for point in panel.points]
    low, high = min(sizes), max(sizes)
    x = Scale(low / 2, high * 2, _BOX.left, _BOX.right, log=True)
    if high > low:
        x = Scale(low, high, _BOX.left + 6, _BOX.right - 6, log=True)
    y = _y_scale(panel)
    parts = svg.y_axis(_BOX, y, _title(panel.test))
    parts += svg.x_axis(_BOX, x, _size_ticks(low, high), "message size (bytes)", svg.bytes_name)
    places = {
        name: [(x.at(size), y.at(value)) for size, value in panel.series(name)]
        for name in panel.curves
        if panel.series(name)
    }
    lines = draw_lines(places)
    for index, name in enumerate(panel.curves):
        if name in places:
            parts.append(_curve(panel, index, name, places[name], lines[name]))
    across = [mark for mark in panel.marks if mark.size is None]
    parts += _lines_across(across, y)
    for mark in panel.marks:
        if mark.size is not None and low <= mark.size <= high:
            parts.append(_point_mark(panel, mark, x.at(mark.size), y.at(mark.value)))
    return parts


def _curve(panel: Panel, index: int, name: str, places: list[tuple[float, float]], lines: str) -> str:
    series = panel.series(name)
    radius = 4.2 if len(series) == 1 else 2.2
    dots = "".join(
        f'<circle cx="{svg.number(x)}" cy="{svg.number(y)}" r="{radius}" class="dot"/>'
        f'<circle cx="{svg.number(x)}" cy="{svg.number(y)}" r="8" class="hit"'
        f"{svg.tip(_tip(panel, name, size, value))}/>"
        for (x, y), (size, value) in zip(places, series, strict=True)
    )
    return f'<g class="{svg.colour_class(index)}" data-curve="{svg.attribute(name)}">{lines}{dots}</g>'


def _tip(panel: Panel, curve: str, size: int, value: float) -> str:
    return f"{panel.label(curve)}: {value:,.2f} {panel.test.unit} at {size:,} bytes (predicted)"


def _lines_across(marks: list[Mark], y: Scale) -> list[str]:
    """Draws a dashed line for each published level. Its label stands above, or below if it would hit another."""
    parts: list[str] = []
    taken: list[float] = []
    for mark in sorted(marks, key=lambda one: -one.value):
        level = y.at(mark.value)
        words = mark.label
        parts.append(svg.line(_BOX.left, level, _BOX.right, level, "published"))
        parts.append(svg.line(_BOX.left, level, _BOX.right, level, "hit", _thick(_mark_tip(mark))))
        place = next(
            (spot for spot in (level - 5, level + 14, level + 27) if all(abs(spot - other) >= 12 for other in taken)),
            level - 5,
        )
        taken.append(place)
        parts.append(svg.text(_BOX.left + 5, place, words, kind="label halo"))
    return parts


def _thick(words: str) -> str:
    return f' stroke="transparent" stroke-width="9"{svg.tip(words)}'


def _mark_tip(mark: Mark) -> str:
    return f"{mark.label}. {mark.source}" if mark.source else mark.label


def _point_mark(panel: Panel, mark: Mark, x: float, y: float) -> str:
    index = panel.curves.index(mark.curve) if mark.curve in panel.curves else 0
    name = f' data-curve="{svg.attribute(mark.curve)}"' if mark.curve else ""
    return f'<g class="{svg.colour_class(index)}"{name}>{svg.diamond(x, y, more=svg.tip(_mark_tip(mark)))}</g>'


def _bars(panel: Panel) -> list[str]:
    """Draws a bar for each curve, with a stroke at the published number."""
    y = _y_scale(panel)
    best = {point["curve"]: point for point in panel.points}
    parts = svg.y_axis(_BOX, y, _title(panel.test))
    parts.append(svg.line(_BOX.left, _BOX.bottom, _BOX.right, _BOX.bottom, "axis"))
    slot = (_BOX.right - _BOX.left) / len(panel.curves)
    wide = min(slot * 0.62, 90.0)
    for index, name in enumerate(panel.curves):
        middle = _BOX.left + slot * (index + 0.5)
        own = [mark for mark in panel.marks if mark.curve == name]
        levels = [y.at(mark.value) for mark in own]
        inner = _bar(panel, name, best[name], middle, wide, y, levels) if name in best else []
        inner += [_bar_mark(mark, middle, wide, y) for mark in own]
        parts.append(f'<g class="{svg.colour_class(index)}" data-curve="{svg.attribute(name)}">{"".join(inner)}</g>')
        parts.append(svg.text(middle, _BOX.bottom + 18, _fitting(panel.label(name), slot), anchor="middle"))
    return parts


def _bar(
    panel: Panel, name: str, point: dict[str, Any], middle: float, wide: float, y: Scale, marks: list[float]
) -> list[str]:
    """Draws a bar with its value. The value stands at the foot of the bar if marks with their labels lie at its top."""
    level = y.at(point["value"])
    place = f'x="{svg.number(middle - wide / 2)}" y="{svg.number(level)}"'
    size = f'width="{svg.number(wide)}" height="{svg.number(_BOX.bottom - level)}"'
    words = svg.tip(_tip(panel, name, point["size"], point["value"]))
    inside = _BOX.bottom - level >= 22
    place_of_value = level + 16 if inside else min(level + 16, _BOX.bottom - 5)
    if inside and any(level - 6 <= mark <= level + 34 for mark in marks):
        place_of_value = _BOX.bottom - 8
    kind = "label inside" if inside else "label halo"
    value = svg.text(middle, place_of_value, plain(point["value"]), anchor="middle", kind=kind)
    return [f'<rect {place} {size} class="bar"{words}/>', value]


def _bar_mark(mark: Mark, middle: float, wide: float, y: Scale) -> str:
    level = y.at(mark.value)
    half = wide / 2 + 8
    words = svg.text(middle, level - 6, mark.label, anchor="middle", kind="label halo")
    return svg.line(middle - half, level, middle + half, level, "tick", svg.tip(_mark_tip(mark))) + words


def _fitting(words: str, room: float) -> str:
    most = int(room / 6.2)
    return words if len(words) <= most else words[: max(1, most - 1)] + "…"


def plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _size_ticks(low: int, high: int) -> list[float]:
    """Returns every third power of two on a long axis, and all on a short axis."""
    first, last = int(math.log2(low)), int(math.log2(high))
    return [float(1 << power) for power in range(first, last + 1, 4 if last - first > 10 else 1)]


def describe(panel: Panel) -> str:
    """Describes the chart: axes, first and last value of each curve, published numbers."""
    unit = panel.test.unit
    if not panel.points:
        return f"No results of {panel.test.title.lower()}."
    if panel.chart == "bars":
        bars = [f"{panel.label(point['curve'])} {plain(point['value'])}" for point in panel.points]
        text = f"Bars of {panel.test.quantity} in {unit}: {'; '.join(bars)}."
    else:
        sizes = [point["size"] for point in panel.points]
        text = f"{panel.test.quantity[:1].upper()}{panel.test.quantity[1:]} in {unit} over message sizes"
        text += f" from {svg.bytes_name(min(sizes))} to {svg.bytes_name(max(sizes))} bytes. "
        text += " ".join(_words_of(panel, name) for name in panel.curves if panel.series(name))
    published = sorted({f"{mark.label}{_at(mark)}" for mark in panel.marks})
    return text + (f" {'; '.join(published).capitalize()}." if published else "")


def _at(mark: Mark) -> str:
    return f" at {svg.bytes_name(mark.size)} bytes" if mark.size is not None else ""


def _words_of(panel: Panel, name: str) -> str:
    series = panel.series(name)
    (_, first), (_, last) = series[0], series[-1]
    if len(series) == 1:
        return f"{panel.label(name)}: {plain(first)}."
    return f"{panel.label(name)}: from {plain(first)} to {plain(last)}."
