"""A cell of a sweep: one run of `softband model`, and its tables."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from softband_lab.jobs import Tables
from softband_lab.softband import LOG_NAME, RunFailed, Softband
from softband_lab.warned import paragraphs

Value = str | int | float | bool

# Links have no more; all cells have the same columns, whatever lanes and link layers their fabric uses.
_LANES = 15
_PORT_COLUMNS: dict[str, Any] = {
    "port": pl.String,
    "peer": pl.String,
    "rate": pl.String,
    "link_bytes_per_second": pl.Float64,
    "xmit_utilisation": pl.Float64,
    "rcv_utilisation": pl.Float64,
    **dict.fromkeys(("port_xmit_data", "port_rcv_data", "port_xmit_pkts", "port_rcv_pkts"), pl.Int64),
    **dict.fromkeys(("port_xmit_discards", "port_xmit_wait"), pl.Int64),
    **dict.fromkeys((f"credit_stall_vl{lane}_ps" for lane in range(_LANES)), pl.Int64),
    **dict.fromkeys(("pause_frames_sent", "pause_frames_received", "buffer_discards"), pl.Int64),
}
_HOT_COLUMNS: dict[str, Any] = {
    "tree": pl.Int64,
    "depth": pl.Int64,
    "port": pl.String,
    "feeds": pl.String,
    "utilisation": pl.Float64,
    "stalled": pl.Float64,
}
_WARNING_COLUMNS: dict[str, Any] = {"warning": pl.String}
_CELL_COLUMNS: dict[str, Any] = {
    "fabric": pl.String,
    "workload": pl.String,
    "seed": pl.UInt64,
    "completion_ps": pl.Int64,
    "packet_hops": pl.Int64,
    "connections": pl.Int64,
    "flows": pl.Int64,
    **{f"flow_{what}_bytes_per_second": pl.Float64 for what in ("min", "median", "max", "mean")},
    "credit_stall_ps": pl.Int64,
    "port_xmit_wait": pl.Int64,
    "port_xmit_discards": pl.Int64,
    "buffer_discards": pl.Int64,
    "hot_ports": pl.Int64,
    "hottest_port": pl.String,
    "warnings": pl.Int64,
    "softband": pl.String,
    "command": pl.String,
}


@dataclass(frozen=True)
class ModelJob:
    """Parameters are what the sweep varies, by column; options have all that the workload is given."""

    id: str
    parameters: tuple[tuple[str, Value], ...]
    fabric_label: str
    fabric_text: str
    workload: str
    workload_text: str | None
    options: tuple[str, ...]
    # Results do not depend on them.
    threads: str

    tables: ClassVar[tuple[str, ...]] = ("flows", "ports", "hot_ports", "warnings", "cells")
    head_columns: ClassVar[dict[str, Any]] = _CELL_COLUMNS
    keeps_files: ClassVar[bool] = False

    def inputs(self) -> Any:
        return [self.fabric_text, self.workload, self.workload_text, self.options, self.parameters]

    def command(self) -> str:
        return shlex.join(["softband", "model", self.fabric_label, self.workload, *self.options])

    def place(self, folder: Path) -> list[str]:
        """Lays the inputs into a folder; what is to be said after `softband model`."""
        fabric = folder / f"{Path(self.fabric_label).stem}.toml"
        fabric.write_text(self.fabric_text, encoding="utf-8")
        workload = self.workload
        if self.workload_text is not None:
            path = folder / "workload" / Path(self.workload).name
            path.parent.mkdir(exist_ok=True)
            path.write_text(self.workload_text, encoding="utf-8")
            workload = str(path)
        return [str(fabric), workload, *self.options]

    def in_own_words(self, words: list[str], text: str) -> str:
        """What was said of the laid out inputs, with the names that the user gave them."""
        text = text.replace(words[0], self.fabric_label)
        return text if self.workload_text is None else text.replace(words[1], self.workload)

    def run(self, softband: Softband, folder: Path) -> Tables:
        words, out = self.place(folder), folder / "results"
        try:
            summary = softband.model([*words, "--threads", self.threads], out, None)
            said = (out / LOG_NAME).read_text(encoding="utf-8", errors="replace")
            return self._tables(summary, paragraphs(self.in_own_words(words, said)), out)
        except RunFailed as failed:
            # As a person would type it, not with the folders of where it ran.
            lines = [self.in_own_words(words, line) for line in failed.last_lines]
            raise RunFailed(self.command(), failed.reason, lines) from None
        except (KeyError, pl.exceptions.PolarsError) as error:
            raise RunFailed(self.command(), f"left other results than expected: {error!r}", []) from None

    def read(self, key: str, head: pl.DataFrame) -> pl.DataFrame:
        del key
        return head

    def _tables(self, summary: dict[str, Any], warnings: list[str], out: Path) -> Tables:
        ports = _ports(pl.read_parquet(out / "ports.parquet"))
        stalls = ports.select(pl.sum_horizontal(pl.col("^credit_stall_vl.*_ps$")).alias("stall"))["stall"]
        hot = summary["hot_ports"]
        rates = summary["flow_bytes_per_second"]
        cell = {
            **dict(self.parameters),
            "fabric": self.fabric_label,
            "workload": summary["workload"],
            "seed": summary["seed"],
            "completion_ps": summary["completion_picos"],
            **{name: summary[name] for name in ("packet_hops", "connections")},
            "flows": len(summary["flows"]),
            **{f"flow_{what}_bytes_per_second": rates[what] for what in ("min", "median", "max", "mean")},
            "credit_stall_ps": int(stalls.sum()),
            "port_xmit_wait": int(ports["port_xmit_wait"].sum()),
            "port_xmit_discards": int(ports["port_xmit_discards"].sum()),
            "buffer_discards": int(ports["buffer_discards"].sum()),
            "hot_ports": len(hot),
            "hottest_port": hot[0]["port"] if hot else None,
            "warnings": len(warnings),
            "softband": summary["softband_version"],
            "command": self.command(),
        }
        schema = {**{name: _type_of(value) for name, value in self.parameters}, **_CELL_COLUMNS}
        return {
            "flows": pl.read_parquet(out / "flows.parquet"),
            "ports": ports,
            "hot_ports": pl.DataFrame(_trees(hot), schema=_HOT_COLUMNS),
            "warnings": pl.DataFrame({"warning": warnings}, schema=_WARNING_COLUMNS),
            "cells": pl.DataFrame([cell], schema=schema),
        }


def name_of(parameters: tuple[tuple[str, Value], ...]) -> str:
    """A file's name for a cell: short, and another one for other parameters."""
    exact = "_".join(f"{name}-{value}" for name, value in parameters)
    plain = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in exact)
    if plain == exact and len(plain) <= 120:
        return plain
    return f"{plain[:100]}-{hashlib.sha256(repr(parameters).encode()).hexdigest()[:12]}"


def _type_of(value: Value) -> Any:
    if isinstance(value, bool):
        return pl.Boolean
    return {int: pl.Int64, float: pl.Float64}.get(type(value), pl.String)


def _ports(table: pl.DataFrame) -> pl.DataFrame:
    """With a column for whatever a port may have."""
    missing = [pl.lit(None, dtype).alias(name) for name, dtype in _PORT_COLUMNS.items() if name not in table.columns]
    return table.with_columns(*missing).select(*_PORT_COLUMNS)


def _trees(hot_ports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The congestion trees, each hot port before those that wait for its switch, and these before theirs."""
    rows: list[dict[str, Any]] = []

    def add(tree: int, depth: int, node: dict[str, Any], feeds: str) -> None:
        shares = {name: node[name] for name in ("utilisation", "stalled")}
        rows.append({"tree": tree, "depth": depth, "port": node["port"], "feeds": feeds, **shares})
        for feeder in node["feeders"]:
            add(tree, depth + 1, feeder, node["port"])

    for tree, hot in enumerate(hot_ports):
        add(tree, 0, hot, hot["to"])
    return rows
