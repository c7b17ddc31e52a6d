"""The results of a study as one table: a row for each cell and message size."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from softband_lab.dataset import parquet_bytes
from softband_lab.engine_job import JobResult
from softband_lab.files import write_whole
from softband_lab.study import Cell, Study

# Of results.csv; it goes up with every change after which a file means something else.
FORMAT = 2

SCHEMA: dict[str, Any] = {
    "cell": pl.String,
    "figures": pl.String,
    "curve": pl.String,
    "fabric": pl.String,
    "transport": pl.String,
    "test": pl.String,
    "direction": pl.String,
    "size_bytes": pl.Int64,
    "iterations": pl.Int64,
    "bw_peak_mib_s": pl.Float64,
    "bw_average_mib_s": pl.Float64,
    "bw_peak_mb_s": pl.Float64,
    "bw_average_mb_s": pl.Float64,
    "message_rate_mpps": pl.Float64,
    "latency_min_us": pl.Float64,
    "latency_typical_us": pl.Float64,
    "latency_avg_us": pl.Float64,
    "latency_max_us": pl.Float64,
    "virtual_seconds": pl.Float64,
    "wall_seconds": pl.Float64,
    "command": pl.String,
    "versions": pl.String,
    "seed": pl.Int64,
    "format": pl.Int64,
}


def results_table(study: Study, results: dict[str, JobResult]) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for cell in study.cells():
        result = results.get(cell.id)
        if result is not None:
            rows += _cell_rows(study, cell, result)
    return pl.DataFrame(rows, schema=SCHEMA)


def _cell_rows(study: Study, cell: Cell, result: JobResult) -> list[dict[str, Any]]:
    uses = [(figure.number, curve.name) for other, figure, curve in study.uses() if other == cell]
    figures = " ".join(str(number) for number in sorted({number for number, _ in uses}))
    return [
        {
            "cell": cell.id,
            "figures": figures,
            "curve": uses[0][1],
            "fabric": cell.fabric,
            "transport": cell.transport,
            "test": cell.test,
            "direction": study.tests[cell.test].direction,
            **asdict(row.measurement),
            "virtual_seconds": row.virtual_seconds,
            "wall_seconds": row.wall_seconds,
            "command": row.command,
            "versions": row.versions,
            "seed": study.head.seed,
            "format": FORMAT,
        }
        for row in result.rows
    ]


def write_table(table: pl.DataFrame, out: Path, stem: str) -> None:
    write_whole(out / f"{stem}.csv", table.write_csv().encode())
    write_whole(out / f"{stem}.parquet", parquet_bytes(table))
