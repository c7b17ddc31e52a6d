"""The time that a small message takes on one queue pair, by system and class of host: a table of published logs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from softband_lab.base.errors import LabError
from softband_lab.base.spelling import nearest
from softband_lab.spec.published import read_rows

COLUMNS = ("system", "class", "ns_per_message", "transport", "op", "size_bytes", "source", "note")


@dataclass(frozen=True)
class HostLog:
    """The log of a system. `ns_per_message`: the inverse of its message rate, for small messages."""

    system: str
    host_class: str
    ns_per_message: float
    transport: str
    op: str
    size_bytes: str
    source: str
    note: str

    @property
    def rate(self) -> float:
        """Millions of messages a second."""
        return 1e3 / self.ns_per_message


def load_host_logs(path: Path) -> list[HostLog]:
    header, rows = read_rows(path)
    for column in COLUMNS:
        if column not in header:
            raise LabError(f"{path}:1", f"has no column `{column}`", "add the column to the header and to each row")
    for name in header:
        if name not in COLUMNS:
            near = nearest(name, COLUMNS)
            remedy = f"did you mean `{near}`?" if near else f"remove it; the columns are {', '.join(COLUMNS)}"
            raise LabError(f"{path}:1", f"`{name}` is not a column of this table", remedy)
    logs: list[HostLog] = []
    for number, row in rows:
        log = _parse(row, f"{path}:{number}")
        if any(other.system == log.system for other in logs):
            raise LabError(f"{path}:{number}", f"has the system `{log.system}` again", "one row for each system")
        logs.append(log)
    return logs


def _parse(row: dict[str, str], where: str) -> HostLog:
    for column in ("system", "class", "source"):
        if not row[column].strip():
            raise LabError(where, f"has no {column}", "words there; a class may be `not stated`")
    try:
        time = float(row["ns_per_message"])
    except ValueError:
        time = math.nan
    if not (math.isfinite(time) and time > 0):
        raise LabError(where, f"`{row['ns_per_message']}` is no time of a message", "a number of ns above 0")
    rest = (row[column] for column in COLUMNS[3:])
    return HostLog(row["system"], row["class"], time, *rest)
