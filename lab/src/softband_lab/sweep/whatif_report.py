"""The answer to a what-if question: terminal table, and a page with a map and lines."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup
from rich.console import Console
from rich.table import Table

from softband_lab.base.fabricfile import plain
from softband_lab.report import svg
from softband_lab.report.page import render
from softband_lab.sweep.bottleneck import Bottleneck
from softband_lab.sweep.whatif import FULL_SHARE, Limit, Point, Question
from softband_lab.sweep.whatif_charts import Spot, heat_chart, lines_chart, narrow_heat_charts

_OWN = "as in the file"


def lanes_name(vls: int | None) -> str:
    if vls is None:
        return f"lanes {_OWN}"
    return "1 data lane" if vls == 1 else f"{vls} data lanes"


def describe_limit(limit: Limit) -> str:
    """Returns a sentence about the length from which a cable costs bandwidth."""
    rate = f" at {limit.rate}" if limit.rate else ""
    full = f"{lanes_name(limit.vls)}{rate}: full bandwidth ({limit.full_mib_s:.0f} MB/s)"
    if limit.first_short_m is None:
        return f"{full} up to {plain(limit.longest_m)} m, the longest tested{_by(limit.full_by)}"
    return (
        f"{full} up to {plain(limit.longest_m)} m{_by(limit.full_by)}; "
        f"{plain(limit.first_short_m)} m falls short{_by(limit.short_by)}"
    )


def _by(bottleneck: Bottleneck | None) -> str:
    if bottleneck is None:
        return ""
    if bottleneck.kind == "credits":
        return f" (limited by {bottleneck.words} {_percent(bottleneck.share)} of the time)"
    busy = "" if bottleneck.kind == "program" else f", at work {_percent(bottleneck.share)} of the time"
    return f" (limited by {bottleneck.words}{busy})"


def _percent(share: float) -> str:
    return f"{100 * min(share, 1.0):.0f} %"


def print_surface(question: Question, limits: list[Limit], lengths: list[float], console: Console) -> None:
    points = _sorted(question)
    for rate in dict.fromkeys(point.rate for point in points):
        part = [point for point in points if point.rate == rate and point.length_m in lengths]
        lanes = list(dict.fromkeys(point.vls for point in sorted(part, key=lambda one: one.vls or 0)))
        table = Table(title=f"bandwidth in MB/s (2^20 B), link rate {rate or _OWN}")
        table.add_column("length", justify="right")
        for vls in lanes:
            table.add_column(lanes_name(vls), justify="right")
        for length in dict.fromkeys(point.length_m for point in part):
            row = [Point(vls, rate, length) for vls in lanes]
            table.add_row(
                f"{plain(length)} m", *(f"{question.known[one]:.1f}" if one in question.known else "" for one in row)
            )
        console.print(table)
    console.print(f"Measured with `{question.command}`.", highlight=False)
    console.print("[bold]Longest cable at full bandwidth[/]")
    for limit in limits:
        console.print(f"  {describe_limit(limit)}", highlight=False, soft_wrap=True)


def write_page(question: Question, limits: list[Limit], lengths: list[float], command: str, path: Path) -> None:
    points = _sorted(question)
    several = len({point.rate for point in points}) > 1
    spots = {point: _spot(question, point, several) for point in points}
    asked = [spot for point, spot in spots.items() if point.length_m in lengths]
    rows = [
        {
            "length_m": point.length_m,
            "lanes": lanes_name(point.vls),
            "rate": point.rate or _OWN,
            "bandwidth": question.known[point],
            "limit": spots[point].limit,
            "command": question.commands[point],
        }
        for point in points
    ]
    every = list(spots.values())
    render(
        "whatif.html.jinja",
        path,
        {
            "fabric": question.fabric.name,
            "command_run": question.command,
            "full_percent": f"{100 * FULL_SHARE:g}",
            "limits": [describe_limit(limit) for limit in limits],
            "legend": [
                (svg.colour_class(index), row) for index, row in enumerate(dict.fromkeys(one.row for one in every))
            ],
            "lines": [Markup(lines_chart(every, width)) for width in (1000, 400)] if every else [],
            "heat": Markup(heat_chart(asked)) if asked else "",
            "narrow_heat": [Markup(drawing) for drawing in narrow_heat_charts(asked)],
            "rows": rows,
            "provenance": [
                ("Command", command),
                ("Softband", question.softband.version),
                ("Seed", str(question.defaults.seed)),
                (
                    "Cables varied",
                    ", ".join(str(index) for index in question.varied) + " (counted from 0 in the file)",
                ),
                ("Their part", question.part),
            ],
        },
    )


def _sorted(question: Question) -> list[Point]:
    return sorted(question.known, key=lambda point: (point.rate or "", point.length_m, point.vls or 0))


def _spot(question: Question, point: Point, several: bool) -> Spot:
    rate = f", {point.rate or _OWN}" if several else ""
    found = question.bottlenecks.get(point)
    return Spot(
        f"{lanes_name(point.vls)}{rate}", point.length_m, question.known[point], found[0].words if found else ""
    )
