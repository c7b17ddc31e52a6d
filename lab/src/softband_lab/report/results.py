"""The results of a study as one table: a row for each run and message size."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from softband_lab.base.tables import Kind, Table
from softband_lab.campaign.engine_job import JobResult
from softband_lab.spec.study import Run, Study

# Format of results.csv. The number rises with each change of meaning.
FORMAT = 3

SCHEMA: dict[str, Kind] = {
    "run": Kind.STRING,
    "figures": Kind.STRING,
    "curve": Kind.STRING,
    "fabric": Kind.STRING,
    "transport": Kind.STRING,
    "test": Kind.STRING,
    "direction": Kind.STRING,
    "size_bytes": Kind.INT,
    "iterations": Kind.INT,
    "bw_peak_mib_s": Kind.FLOAT,
    "bw_average_mib_s": Kind.FLOAT,
    "bw_peak_mb_s": Kind.FLOAT,
    "bw_average_mb_s": Kind.FLOAT,
    "bw_average_gbit_s": Kind.FLOAT,
    "message_rate_mpps": Kind.FLOAT,
    "latency_min_us": Kind.FLOAT,
    "latency_typical_us": Kind.FLOAT,
    "latency_avg_us": Kind.FLOAT,
    "latency_max_us": Kind.FLOAT,
    "virtual_seconds": Kind.FLOAT,
    "wall_seconds": Kind.FLOAT,
    "command": Kind.STRING,
    "versions": Kind.STRING,
    "seed": Kind.INT,
    "format": Kind.INT,
}


def results_table(study: Study, results: dict[str, JobResult]) -> Table:
    rows: list[dict[str, Any]] = []
    for run in study.runs():
        result = results.get(run.id)
        if result is not None:
            rows += _run_rows(study, run, result)
    return Table.of(rows, SCHEMA)


def _run_rows(study: Study, run: Run, result: JobResult) -> list[dict[str, Any]]:
    uses = [(figure.number, curve.name) for other, figure, curve in study.uses() if other == run]
    figures = " ".join(str(number) for number in sorted({number for number, _ in uses}))
    return [
        {
            "run": run.id,
            "figures": figures,
            "curve": uses[0][1],
            "fabric": run.fabric,
            "transport": run.transport,
            "test": run.test,
            "direction": study.tests[run.test].direction,
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
