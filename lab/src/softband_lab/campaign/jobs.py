"""The jobs of a campaign. Each leaves one run, with its outcome.

A job carries everything that it needs, as text: it may be carried out on another machine.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from softband_lab.base.softband import Softband
from softband_lab.base.tables import Kind, Table

Tables = dict[str, Table]
ResultT_co = TypeVar("ResultT_co", covariant=True)

# Of finished runs. With another number every run starts again.
FORMAT = 6


class Job(Protocol[ResultT_co]):
    """One run: runs of `softband` whose tables together are one result.

    `tables` names the tables of a run; the last of them, the head, is written last: where it is, the run is whole.
    `head_columns` names the columns that every head has, each with its type.
    `keeps_files` says whether what the runs left is kept beside the tables.
    """

    tables: ClassVar[tuple[str, ...]]
    head_columns: ClassVar[dict[str, Kind]]
    keeps_files: ClassVar[bool]

    @property
    def id(self) -> str:
        """Names the run, and its files."""

    def inputs(self) -> Any:
        """All that decides about the result, apart from `softband` itself; JSON can hold it."""

    def command(self) -> str:
        """As a person would type it."""

    def run(self, softband: Softband, folder: Path) -> Tables:
        """On whatever machine, in an empty folder. Raises RunFailed."""

    def read(self, key: str, head: Table) -> ResultT_co:
        """The result, from the run's head."""


@dataclass(frozen=True)
class Finished:
    tables: Tables
    # What the runs left, by its path in the run's folder.
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    id: str
    command: str
    reason: str
    last_lines: list[str]
    files: dict[str, bytes] = field(default_factory=dict)
    # Where the files are, which the text may name: where the run ran, and then where they are kept.
    folder: str = ""


def content_key(job: Job[Any], softband: Softband) -> str:
    """The same for the same inputs and the same `softband`, wherever it runs."""
    return digest_of(softband, type(job).__name__, job.inputs())


def digest_of(softband: Softband, *inputs: Any) -> str:
    """Returns a digest of inputs, which JSON can hold, and of the version and the build of `softband`."""
    parts = [FORMAT, softband.version, softband.build_digest, *inputs]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
