"""Finished runs on disk: a Parquet data set for each table, with a file for each run.

`data/TABLE/RUN.parquet` appears whole, by a rename. Readers ignore the `.part` files of an ended campaign. A run is
finished if its head, the table written last, has the content key, and all files match `checksums/RUN.json`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from softband_lab.base.files import cannot_write, write_whole
from softband_lab.base.parquet import NotOurs, parquet_bytes, read_parquet
from softband_lab.base.tables import Table
from softband_lab.campaign.jobs import Failure, Finished, Job

_KEY = "key"
# A failing disk damages many runs. Messages name the first ones.
_MOST_NAMED = 8
# The names that earlier versions gave to folders and tables, and the present ones.
_EARLIER_NAMES = {"cells": "runs", "data/cells": "data/runs", "cells.csv": "runs.csv", "cells.parquet": "runs.parquet"}


class Store:
    def __init__(self, out: Path) -> None:
        self.out = out
        self.data = out / "data"
        self.runs = out / "runs"
        self.failed = self.runs / "failed"
        self.checksums = out / "checksums"
        self._damaged: list[str] = []
        self._unproven = 0
        self._of_others = 0

    def take_over(self) -> None:
        """Gives the files of earlier versions their present names, because their runs start again and replace them.

        Renames nothing in a folder without the tables of a campaign: its files belong to somebody else.
        """
        if not self.data.is_dir():
            return
        for earlier, present in _EARLIER_NAMES.items():
            if (self.out / earlier).exists() and not (self.out / present).exists():
                (self.out / earlier).rename(self.out / present)

    def remove_leftovers(self) -> None:
        self.take_over()
        # Earlier versions kept failed runs in `.failed-RUN`.
        for path in [*self.runs.glob(".writing-*"), *self.runs.glob(".failed-*"), self.failed]:
            shutil.rmtree(path, ignore_errors=True)
        for path in [*self.data.glob("*/.*.part"), *self.checksums.glob(".*.part")]:
            path.unlink(missing_ok=True)

    def load(self, job: Job[Any], key: str) -> Table | None:
        """Returns the head of a finished run, or None. A run with a damaged file starts again."""
        path = self._path(job.tables[-1], job.id)
        if not path.is_file():
            return None
        digests = self._digests(job.id)
        if digests is None or self._is_damaged(path, digests):
            return None
        try:
            head = read_parquet(path.read_bytes())
        except NotOurs:
            # Earlier versions used other Parquet encodings.
            self._of_others += 1
            return None
        if set(head.columns.get(_KEY, [])) != {key}:
            return None
        wrong = [name for name, kind in job.head_columns.items() if head.schema.get(name) is not kind]
        if wrong:
            self._damaged.append(f"{path}: has no column `{wrong[0]}` as runs have it")
            return None
        tables = {self._path(table, job.id) for table in job.tables}
        # Users may delete the folders of runs to save space.
        kept = {self.out / name for name in digests if (self.out / name).exists()}
        return None if any(self._is_damaged(path, digests) for path in sorted(tables | kept)) else head

    def finished(self, job: Job[Any], key: str) -> Finished | None:
        """Returns a finished run with its tables and the files that users have left, or None."""
        if self.load(job, key) is None:
            return None
        folder = self.runs / job.id
        files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
        return Finished(
            {name: read_parquet(self._path(name, job.id).read_bytes()).without("run", _KEY) for name in job.tables},
            {name: path.read_bytes() for name, path in files.items()},
        )

    def print_restarts(self) -> None:
        """Prints the runs that start again because of their files, although their inputs may be unchanged."""
        for text in self._damaged[:_MOST_NAMED]:
            print(f"{text}: the run starts again", file=sys.stderr)
        if len(self._damaged) > _MOST_NAMED:
            print(f"and {len(self._damaged) - _MOST_NAMED} more runs start again", file=sys.stderr)
        if self._unproven:
            which = f"{self._unproven} runs have no checksums, as those of earlier versions"
            print(f"{self.out}: {which}: they start again", file=sys.stderr)
        if self._of_others:
            print(f"{self.out}: runs of another version start again: {self._of_others}", file=sys.stderr)

    def write(self, job: Job[Any], key: str, finished: Finished) -> Table:
        """Writes the files of a run, then its tables, the head last. Returns the head."""
        path = self._path(job.tables[-1], job.id)
        try:
            # The former run is invalid as soon as the first of its files is replaced.
            path.unlink(missing_ok=True)
        except OSError as error:
            raise cannot_write(path, error) from None
        digests: dict[str, str] = {}
        if job.keeps_files:
            self._keep_files(job.id, finished.files)
            kept = self._name(self.runs / job.id)
            digests = {f"{kept}/{name}": _digest(content) for name, content in finished.files.items()}
        for name in job.tables:
            path = self._path(name, job.id)
            head = finished.tables[name].after({"run": job.id, _KEY: key})
            content = parquet_bytes(head)
            digests[self._name(path)] = _digest(content)
            if name == job.tables[-1]:
                write_whole(self._record(job.id), (json.dumps({"sha256": digests}, indent=1) + "\n").encode())
            write_whole(path, content)
        return head

    def keep_failure(self, failure: Failure) -> Failure:
        """Keeps the files of a failed run until the next campaign. The returned text names their folder."""
        if not failure.files:
            return failure
        kept = self.failed / failure.id
        _write_files(kept, failure.files)

        def named(text: str) -> str:
            # A `cannot write` error names the full disk of the worker, not this one.
            says_where = failure.folder and "cannot write" not in text
            return text.replace(failure.folder, str(kept)) if says_where else text

        lines = [named(line) for line in failure.last_lines]
        return replace(failure, reason=named(failure.reason), last_lines=lines, files={}, folder=str(kept))

    def clear(self, tables: tuple[str, ...], wanted: Iterable[tuple[Job[Any], str]]) -> int:
        """Removes all runs except finished ones with a wanted key. Returns the number of removed runs."""
        self.take_over()
        kept = {job.id for job, key in wanted if self.load(job, key) is not None}
        gone = [path for path in (self.data / tables[-1]).glob("*.parquet") if path.stem not in kept]
        for table in reversed(tables):
            for path in (self.data / table).glob("*.parquet"):
                if path.stem not in kept:
                    path.unlink(missing_ok=True)
        for path in self.checksums.glob("*.json"):
            if path.stem not in kept:
                path.unlink(missing_ok=True)
        return len(gone)

    def _path(self, table: str, job_id: str) -> Path:
        return self.data / table / f"{job_id}.parquet"

    def _record(self, job_id: str) -> Path:
        return self.checksums / f"{job_id}.json"

    def _name(self, path: Path) -> str:
        return path.relative_to(self.out).as_posix()

    def _digests(self, job_id: str) -> dict[str, str] | None:
        record = self._record(job_id)
        try:
            digests = json.loads(record.read_bytes())["sha256"]
        except FileNotFoundError:
            self._unproven += 1
            return None
        except (OSError, ValueError, LookupError, TypeError):
            digests = None
        if not isinstance(digests, dict):
            self._damaged.append(f"{record}: is not as it was written")
            return None
        if any(name.startswith(f"{earlier}/") for name in digests for earlier in _EARLIER_NAMES):
            self._of_others += 1
            return None
        return digests

    def _is_damaged(self, path: Path, digests: dict[str, str]) -> bool:
        try:
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == digests.get(self._name(path)):
                    return False
            self._damaged.append(f"{path}: is not as it was written")
        except OSError as error:
            self._damaged.append(f"{path}: {error.strerror}")
        return True

    def _keep_files(self, job_id: str, files: dict[str, bytes]) -> None:
        partial, final = self.runs / f".writing-{job_id}", self.runs / job_id
        _write_files(partial, files)
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
