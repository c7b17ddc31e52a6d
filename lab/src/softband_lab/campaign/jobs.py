"""The jobs of a campaign. A job is the description of one run.

It carries all its inputs as text, because another machine may execute it.
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
FORMAT = 8


class Job(Protocol[ResultT_co]):
    """One run: commands of `softband` whose tables together are one result.

    `tables`: the names of its tables. The last one, the head, is written last, so a run with a head is whole.
    `head_columns`: the columns that every head has, with their types.
    `keeps_files`: whether the data set keeps the other files of the run.
    """

    tables: ClassVar[tuple[str, ...]]
    head_columns: ClassVar[dict[str, Kind]]
    keeps_files: ClassVar[bool]

    @property
    def id(self) -> str:
        """The name of the run and of its files."""

    def inputs(self) -> Any:
        """Returns all inputs that the result depends on, except `softband` itself, as JSON values."""

    def command(self) -> str:
        """Returns the command as a user types it."""

    def run(self, softband: Softband, folder: Path) -> Tables:
        """Executes the run in an empty folder of any machine. Raises RunFailed."""

    def read(self, key: str, head: Table) -> ResultT_co:
        """Returns the result of a finished run from its head."""


@dataclass(frozen=True)
class Finished:
    tables: Tables
    # The other files of the run, by their paths in its folder.
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    id: str
    command: str
    reason: str
    last_lines: list[str]
    files: dict[str, bytes] = field(default_factory=dict)
    # The folder of the files, which the text may name: first the temporary one, then the kept one.
    folder: str = ""


def content_key(job: Job[Any], softband: Softband) -> str:
    """Returns the key of a run. The same inputs and the same `softband` have the same key on every machine."""
    return digest_of(softband, type(job).__name__, job.inputs())


def digest_of(softband: Softband, *inputs: Any) -> str:
    """Returns a digest of inputs, which JSON can hold, and of the version and the build of `softband`."""
    parts = [FORMAT, softband.version, softband.build_digest, *inputs]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
