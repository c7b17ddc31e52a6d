"""Writes files whole or not at all. Errors name the file, because the system's error of a full disk does not."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from softband_lab.base.errors import LabError


def write_whole(path: Path, content: bytes) -> None:
    """Replaces a file by a rename, so that it has the whole new content or its former one."""
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise cannot_write(path, error) from None


def cannot_write(path: Path, error: OSError) -> LabError:
    return LabError(
        path,
        f"cannot be written: {error.strerror or error}",
        "make room there, or name another --out; the same command goes on with the runs that are finished",
    )


def write_csv(path: Path, columns: list[str], rows: Iterable[Mapping[str, str]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())
