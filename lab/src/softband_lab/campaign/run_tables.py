"""The tables of one `softband run`: its programs, their measurements, counters and bottlenecks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from softband_lab.base.softband import Program
from softband_lab.base.tables import Kind, Schema, Table
from softband_lab.campaign.engine_job import MEASURED
from softband_lab.campaign.jobs import Tables
from softband_lab.campaign.printed import has_table, parse_table

_PROGRAMS: Schema = {
    "program": Kind.STRING,
    "host": Kind.STRING,
    "command": Kind.STRING,
    "exit_status": Kind.INT,
    "ended_at_seconds": Kind.FLOAT,
    "output": Kind.STRING,
    "errors": Kind.STRING,
}
_MEASUREMENTS: Schema = {"program": Kind.STRING, "host": Kind.STRING, **MEASURED}
_BOTTLENECKS: Schema = {
    "kind": Kind.STRING,
    "part": Kind.STRING,
    "share_percent": Kind.INT,
    "text": Kind.STRING,
}


def output_names(programs: Iterable[Program]) -> list[str]:
    """Returns the name of each program's output files, `HOST-N`: N counts the programs of a host from 0."""
    counts: Counter[str] = Counter()
    names = []
    for program in programs:
        names.append(f"{program.host}-{counts[program.host]}")
        counts[program.host] += 1
    return names


def run_tables(summary: Mapping[str, Any], out: Path) -> Tables:
    """Returns the tables of a finished run: `summary` is its `run.json`, `out` its folder."""
    ran = [Program(item["host"], item["command"]) for item in summary["programs"]]
    rows = [
        {"program": name, **item, "output": _text(out / f"{name}.out"), "errors": _text(out / f"{name}.err")}
        for name, item in zip(output_names(ran), summary["programs"], strict=True)
    ]
    measured = [
        {"program": row["program"], "host": row["host"], **asdict(measurement)}
        for row in rows
        if has_table(row["output"])
        for measurement in parse_table(row["output"], out / f"{row['program']}.out")
    ]
    limits = [{**item, "share_percent": item["share"]} for item in summary.get("bottlenecks", [])]
    counters = json.loads((out / "counters.json").read_text(encoding="utf-8"))
    return {
        "programs": Table.of(rows, _PROGRAMS),
        "measurements": Table.of(measured, _MEASUREMENTS),
        "bottlenecks": Table.of(limits, _BOTTLENECKS),
        "ports": _counters(counters["ports"], "port"),
        "hcas": _counters(counters.get("hcas", []), "hca"),
    }


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _counters(found: Iterable[Mapping[str, Any]], name: str) -> Table:
    """Returns a row for each port or HCA, with a column for each counter and, if it has some, for each lane."""
    rows = []
    for item in found:
        row: dict[str, Any] = {name: f"{item['node']}/{item['port']}" if "port" in item else item["node"]}
        for counter, value in item.items():
            if counter in ("node", "port"):
                continue
            if isinstance(value, list):
                stem, _, unit = counter.rpartition("_")
                row.update({f"{stem}_vl{lane}_{unit}": each for lane, each in enumerate(value)})
            else:
                row[counter] = value
        rows.append(row)
    columns = dict.fromkeys(column for row in rows for column in row if column != name)
    schema = {name: Kind.STRING, **dict.fromkeys(columns, Kind.INT)}
    return Table.of([{**dict.fromkeys(columns), **row} for row in rows], schema)
