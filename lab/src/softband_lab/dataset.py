"""Finished cells on disk: a Parquet data set for each table, one file a cell.

`data/TABLE/CELL.parquet` appears by a rename, whole; what was being written when a campaign ended is called `.part`,
which nobody reads. A cell is finished when the head, the table written last, is there and has the content key.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from softband_lab.files import cannot_write, write_whole
from softband_lab.jobs import Failure, Finished, Job

_KEY = "key"


class Store:
    def __init__(self, out: Path) -> None:
        self.data = out / "data"
        self.cells = out / "cells"

    def remove_leftovers(self) -> None:
        for path in [*self.cells.glob(".writing-*"), *self.cells.glob(".failed-*")]:
            shutil.rmtree(path, ignore_errors=True)
        for path in self.data.glob("*/.*.part"):
            path.unlink(missing_ok=True)

    def load(self, job: Job[Any], key: str) -> pl.DataFrame | None:
        """The head of the cell, if the cell is finished. One that is not as it was written runs again."""
        paths = [self._path(table, job.id) for table in job.tables]
        if not all(path.is_file() for path in paths):
            return None
        try:
            # What was damaged since it was written has lost its end, where the schema stands.
            for path in paths[:-1]:
                pl.read_parquet_schema(path)
            head = pl.read_parquet(paths[-1])
            if head[_KEY].unique().to_list() != [key]:
                return None
        except (OSError, pl.exceptions.PolarsError):
            return None  # unreadable: the cell runs again
        wrong = [name for name, kind in job.head_columns.items() if head.schema.get(name) != kind]
        if wrong:
            print(f"{paths[-1]}: has no column `{wrong[0]}` as cells have it: the cell runs again", file=sys.stderr)
        return None if wrong else head

    def write(self, job: Job[Any], key: str, finished: Finished) -> pl.DataFrame:
        """Every table, the head last; first what the runs left."""
        if job.keeps_files:
            self._keep_files(job.id, finished.files)
        for name in job.tables:
            named = finished.tables[name].with_columns(pl.lit(job.id).alias("cell"), pl.lit(key).alias(_KEY))
            head = named.select("cell", _KEY, pl.exclude("cell", _KEY))
            write_whole(self._path(name, job.id), parquet_bytes(head))
        return head

    def keep_failure(self, failure: Failure) -> None:
        """To be looked at until the next time."""
        if failure.files:
            _write_files(self.cells / f".failed-{failure.id}", failure.files)

    def clear(self, tables: tuple[str, ...], wanted: Iterable[tuple[Job[Any], str]]) -> int:
        """Removes all cells but finished ones that are wanted, each with its key; how many went."""
        kept = {job.id for job, key in wanted if self.load(job, key) is not None}
        gone = [path for path in (self.data / tables[-1]).glob("*.parquet") if path.stem not in kept]
        for table in reversed(tables):
            for path in (self.data / table).glob("*.parquet"):
                if path.stem not in kept:
                    path.unlink(missing_ok=True)
        return len(gone)

    def _path(self, table: str, job_id: str) -> Path:
        return self.data / table / f"{job_id}.parquet"

    def _keep_files(self, job_id: str, files: dict[str, bytes]) -> None:
        partial, final = self.cells / f".writing-{job_id}", self.cells / job_id
        _write_files(partial, files)
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)


def parquet_bytes(table: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()


def _write_files(folder: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    path = folder
    try:
        folder.mkdir(parents=True)
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise cannot_write(path, error) from None
