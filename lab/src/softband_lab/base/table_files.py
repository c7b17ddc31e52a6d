"""A table as files: CSV for readers, Parquet for programs."""

from __future__ import annotations

from pathlib import Path

from softband_lab.base.files import write_whole
from softband_lab.base.parquet import parquet_bytes
from softband_lab.base.tables import Table


def write_table(table: Table, out: Path, stem: str) -> None:
    """Writes `STEM.csv` and `STEM.parquet` into a folder. Fails with a `LabError` if the disk is full."""
    write_whole(out / f"{stem}.csv", table.csv_bytes())
    write_whole(out / f"{stem}.parquet", parquet_bytes(table))
