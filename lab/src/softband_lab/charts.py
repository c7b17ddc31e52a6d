"""Figures as charts: files to print, and specifications for the page."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from softband_lab.engine_job import JobResult
from softband_lab.files import write_whole
from softband_lab.study import Figure, Study, Test

# Okabe and Ito's colours, told apart with any colour vision, and four more of the same kind.
PALETTE = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#7b3fa0",
    "#8c6d31",
    "#444444",
    "#b2182b",
)
_SIZE_LABEL = (
    "datum.value >= 1048576 ? datum.value / 1048576 + 'M' : "
    "datum.value >= 1024 ? datum.value / 1024 + 'K' : datum.value"
)
_FONT = "Inter, 'Segoe UI', 'DejaVu Sans', sans-serif"
_STATIC_WIDTH, _STATIC_HEIGHT = 380, 280


# Altair types its composed charts too loosely to be told apart.
Chart = Any


@dataclass(frozen=True)
class Mark:
    """A published number, drawn as a dashed line."""

    value: float
    label: str
    # Of bars: the one that it belongs to.
    curve: str | None = None


@dataclass(frozen=True)
class Panel:
    """One chart of a figure: a test, its curves' points, the published numbers."""

    chart: str
    test_name: str
    test: Test
    curves: list[str]
    points: list[dict[str, Any]]
    marks: list[Mark]


def make_panel(study: Study, figure: Figure, test_name: str, results: dict[str, JobResult], marks: list[Mark]) -> Panel:
    test = study.tests[test_name]
    points: list[dict[str, Any]] = []
    for curve in figure.curves:
        result = results.get(figure.cell(curve, test_name).id)
        for row in result.rows if result else []:
            value = getattr(row.measurement, test.column)
            if value is not None:
                points.append({"curve": curve.name, "size": row.measurement.size_bytes, "value": value})
    if figure.chart == "bars":
        points = _best_of_each(points)
    return Panel(figure.chart, test_name, test, [curve.name for curve in figure.curves], points, marks)


def _best_of_each(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    best: dict[str, dict[str, Any]] = {}
    for point in points:
        if point["curve"] not in best or point["value"] > best[point["curve"]]["value"]:
            best[point["curve"]] = point
    return list(best.values())


def colours(curves: list[str]) -> list[str]:
    return [PALETTE[index % len(PALETTE)] for index in range(len(curves))]


def page_spec(panel: Panel) -> dict[str, Any]:
    """A chart for the page: fills its box, and hides the curves named in its parameter `hidden`."""
    hidden = alt.param(name="hidden", value=[])
    chart = _layers(panel, legend=None, hideable=True).add_params(hidden)
    spec: dict[str, Any] = _styled(chart.properties(width="container", height=260)).to_dict()
    return spec


def static_panel(panel: Panel) -> Chart:
    legend = alt.Legend(title=None, orient="bottom", columns=2, labelLimit=320, symbolStrokeWidth=3)
    title = alt.TitleParams(panel.test.title, anchor="start")
    chart = _layers(panel, legend, hideable=False)
    return _styled(chart.properties(width=_STATIC_WIDTH, height=_STATIC_HEIGHT, title=title))


def static_figure(title: str, panels: list[Panel]) -> Chart:
    """All panels of a figure side by side, with one legend."""
    columns = 3 if len(panels[0].curves) > 4 else max(1, len(panels[0].curves))
    legend = alt.Legend(title=None, orient="bottom", columns=columns, labelLimit=320, symbolStrokeWidth=3)
    charts = [
        _layers(panel, legend, hideable=False).properties(
            width=_STATIC_WIDTH,
            height=_STATIC_HEIGHT,
            title=alt.TitleParams(panel.test.title, anchor="start"),
        )
        for panel in panels
    ]
    joined = alt.hconcat(*charts, bounds="flush", spacing=72).properties(
        title=alt.TitleParams(title, anchor="start", fontSize=16, offset=14)
    )
    return _styled(joined)


def save_chart(chart: Chart, stem: Path) -> None:
    drawing, picture = io.StringIO(), io.BytesIO()
    chart.save(drawing, format="svg")
    chart.save(picture, format="png", scale_factor=1.5)
    write_whole(stem.with_suffix(".svg"), drawing.getvalue().encode())
    write_whole(stem.with_suffix(".png"), picture.getvalue())


def _layers(panel: Panel, legend: alt.Legend | None, hideable: bool) -> Chart:
    base = alt.Chart(_frame(panel.points))
    if hideable:
        base = base.transform_filter("indexof(hidden, datum.curve) < 0")
    return _bar_layers(panel, base, legend) if panel.chart == "bars" else _curve_layers(panel, base, legend, hideable)


def _bar_layers(panel: Panel, base: alt.Chart, legend: alt.Legend | None) -> Chart:
    """A bar for each curve, with a stroke where the published number is."""
    colour = alt.Color("curve:N", legend=legend, sort=panel.curves).scale(
        domain=panel.curves, range=colours(panel.curves)
    )
    x = alt.X("curve:N", title=None, sort=panel.curves).axis(labels=False, ticks=False)
    y = alt.Y("value:Q", title=f"{panel.test.quantity} ({panel.test.unit})").scale(zero=True, nice=True)
    layers = [base.mark_bar(opacity=0.85).encode(x=x, y=y, color=colour, tooltip=_tooltip(panel.test))]
    marks = [{"curve": mark.curve, "value": mark.value, "label": mark.label} for mark in panel.marks if mark.curve]
    if marks:
        frame = pl.DataFrame(marks, schema={"curve": pl.String, "value": pl.Float64, "label": pl.String})
        strokes = alt.Chart(frame).mark_tick(color="#111", thickness=2.5, size=60)
        layers.append(strokes.encode(x=x, y=y, tooltip=[alt.Tooltip("label:N", title="published")]))
    return alt.layer(*layers)


def _curve_layers(panel: Panel, base: alt.Chart, legend: alt.Legend | None, hideable: bool) -> Chart:
    # Curves that coincide must all stay visible: the later ones are thinner and lie on top.
    widths = [6.5 - 5.0 * index / max(1, len(panel.curves) - 1) for index in range(len(panel.curves))]
    colour = alt.Color("curve:N", legend=legend, sort=panel.curves).scale(
        domain=panel.curves, range=colours(panel.curves)
    )
    x = alt.X("size:Q", title="message size (bytes)").scale(type="log", base=2, nice=False)
    x = x.axis(values=_ticks(panel.points), labelExpr=_SIZE_LABEL, grid=True)
    y = alt.Y("value:Q", title=f"{panel.test.quantity} ({panel.test.unit})").scale(zero=True, nice=True)
    lines = base.mark_line(interpolate="linear", opacity=0.9).encode(
        x=x,
        y=y,
        color=colour,
        strokeWidth=alt.StrokeWidth("curve:N", legend=None, sort=panel.curves).scale(
            type="ordinal", domain=panel.curves, range=widths
        ),
    )
    points = base.mark_point(filled=True, size=22, opacity=1).encode(
        x=x, y=y, color=colour, tooltip=_tooltip(panel.test)
    )
    # A larger, unseen target makes a point easy to hit with the mouse.
    targets = base.mark_point(filled=True, size=220, opacity=0).encode(
        x=x, y=y, color=colour, tooltip=_tooltip(panel.test)
    )
    return alt.layer(lines, points, *([targets] if hideable else []), *_mark_layers(panel))


def _mark_layers(panel: Panel) -> list[alt.Chart]:
    if not panel.marks or not panel.points:
        return []
    left = min(point["size"] for point in panel.points)
    frame = pl.DataFrame([{"value": mark.value, "label": mark.label, "size": left} for mark in panel.marks])
    base = alt.Chart(frame)
    rule = base.mark_rule(strokeDash=[5, 4], color="#666").encode(y="value:Q")
    text = base.mark_text(align="left", baseline="bottom", dx=4, dy=-3, color="#555", fontSize=11).encode(
        x=alt.X("size:Q"), y="value:Q", text="label:N"
    )
    return [rule, text]


def _tooltip(test: Test) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("curve:N", title="curve"),
        alt.Tooltip("size:Q", title="message size (bytes)", format=","),
        alt.Tooltip("value:Q", title=f"{test.quantity} ({test.unit})", format=",.2f"),
    ]


def _frame(points: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(points, schema={"curve": pl.String, "size": pl.Int64, "value": pl.Float64})


def _ticks(points: list[dict[str, Any]]) -> list[int]:
    """Every third power of two over a long axis, every one over a short axis."""
    if not points:
        return []
    first = int(math.log2(min(point["size"] for point in points)))
    last = int(math.log2(max(point["size"] for point in points)))
    return [1 << power for power in range(first, last + 1, 3 if last - first > 10 else 1)]


def _styled(chart: Chart) -> Chart:
    return (
        chart.configure(font=_FONT, background="#ffffff")
        .configure_view(stroke="#cfd6de")
        .configure_axis(
            gridColor="#e8ecf0",
            domainColor="#8a949e",
            tickColor="#8a949e",
            titleFontWeight="normal",
            titleColor="#333",
        )
    )
