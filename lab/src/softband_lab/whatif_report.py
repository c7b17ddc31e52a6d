"""The answer to a what-if question: terminal table, and a page with a heat map and lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
from rich.console import Console
from rich.table import Table

from softband_lab.bottleneck import Bottleneck
from softband_lab.fabricfile import plain
from softband_lab.report import render
from softband_lab.whatif import FULL_SHARE, Limit, Question

_OWN = "as in the file"


def lanes_name(vls: int | None) -> str:
    if vls is None:
        return f"lanes {_OWN}"
    return "1 data lane" if vls == 1 else f"{vls} data lanes"


def describe_limit(limit: Limit) -> str:
    """One sentence: where a cable starts to cost bandwidth."""
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
    frame = _asked(_frame(question.table()), lengths)
    for rate in frame["rate"].unique(maintain_order=True):
        part = frame.filter(pl.col("rate") == rate)
        lanes = part["lanes"].unique(maintain_order=True).to_list()
        table = Table(title=f"bandwidth in MB/s (2^20 B), link rate {rate}")
        table.add_column("length", justify="right")
        for name in lanes:
            table.add_column(name, justify="right")
        for (length,), rows in part.group_by("length_m", maintain_order=True):
            by_lane = dict(zip(rows["lanes"], rows["bw_average_mib_s"], strict=True))
            table.add_row(f"{plain(length)} m", *(f"{by_lane[name]:.1f}" if name in by_lane else "" for name in lanes))
        console.print(table)
    console.print(f"Measured with `{question.command}`.", highlight=False)
    console.print("[bold]Longest cable at full bandwidth[/]")
    for limit in limits:
        console.print(f"  {describe_limit(limit)}", highlight=False, soft_wrap=True)


def write_page(question: Question, limits: list[Limit], lengths: list[float], command: str, path: Path) -> None:
    frame = _frame(question.table())
    specs = {"chart-lines": _lines(frame), "chart-heat": _heat(_asked(frame, lengths))}
    render(
        "whatif.html.jinja",
        path,
        {
            "fabric": question.fabric.name,
            "command_run": question.command,
            "full_percent": f"{100 * FULL_SHARE:g}",
            "limits": [describe_limit(limit) for limit in limits],
            "specs": specs,
            "rows": frame.to_dicts(),
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


def _frame(table: pl.DataFrame) -> pl.DataFrame:
    lanes = pl.col("data_vls").map_elements(lanes_name, return_dtype=pl.String, skip_nulls=False)
    return table.with_columns(lanes.alias("lanes"), pl.col("rate").fill_null(_OWN)).sort("rate", "length_m", "data_vls")


def _asked(frame: pl.DataFrame, lengths: list[float]) -> pl.DataFrame:
    """Without the lengths that only a bisection visited: they exist for one number of lanes each."""
    return frame.filter(pl.col("length_m").is_in(lengths))


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("length_m:Q", title="cable length (m)"),
        alt.Tooltip("lanes:N", title="lanes"),
        alt.Tooltip("rate:N", title="link rate"),
        alt.Tooltip("bw_average_mib_s:Q", title="bandwidth (MB/s)", format=",.1f"),
    ]


def _lines(frame: pl.DataFrame) -> dict[str, Any]:
    chart = alt.Chart(_slim(frame)).mark_line(point=alt.OverlayMarkDef(size=45), strokeWidth=2.5)
    several = frame["rate"].n_unique() > 1
    dash = {"strokeDash": alt.StrokeDash("rate:N", title="link rate")} if several else {}
    chart = chart.encode(
        x=alt.X("length_m:Q", title="cable length (m)").scale(type="log", nice=False),
        y=alt.Y("bw_average_mib_s:Q", title="bandwidth (MB/s)").scale(zero=True),
        color=alt.Color("lanes:N", title="operational lanes"),
        tooltip=_tooltip(),
        **dash,
    )
    spec: dict[str, Any] = chart.properties(width="container", height=340).to_dict()
    return spec


def _heat(frame: pl.DataFrame) -> dict[str, Any]:
    # Rows are (lanes, rate): with a width that follows its box, Vega-Lite has no facets.
    named = frame.with_columns((pl.col("lanes") + ", " + pl.col("rate")).alias("row"))
    if frame["rate"].n_unique() == 1:
        named = named.with_columns(pl.col("lanes").alias("row"))
    order = named.sort("rate", "data_vls")["row"].unique(maintain_order=True).to_list()
    chart = (
        alt.Chart(_slim(named))
        .mark_rect(stroke="#ffffff")
        .encode(
            x=alt.X("length_m:O", title="cable length (m)", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("row:N", title=None, sort=order, axis=alt.Axis(labelLimit=260)),
            color=alt.Color("bw_average_mib_s:Q", title="MB/s").scale(scheme="viridis", zero=True),
            tooltip=_tooltip(),
        )
    )
    spec: dict[str, Any] = chart.properties(width="container", height=44 * len(order)).to_dict()
    return spec


def _slim(frame: pl.DataFrame) -> pl.DataFrame:
    wanted = ("length_m", "lanes", "rate", "bw_average_mib_s", "row")
    return frame.select([name for name in wanted if name in frame.columns])
