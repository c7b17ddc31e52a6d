"""Published numbers: the files of references/, with a claim in each row."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from pathlib import Path

from softband_lab.base.errors import LabError
from softband_lab.base.spelling import nearest, suggest
from softband_lab.base.units import is_known, known_units, may_be_negative

# Columns that the lab reads. The others describe the measurement for readers.
_NEEDED = ("id", "source", "section", "value", "unit", "quality", "note")
_DESCRIBED = ("system", "transport", "op", "size_bytes")
_COLUMNS = (
    "id", "source", "section", "system", "test", "transport", "op", "size_bytes", "direction", "ports", "procs",
    "metric", "value", "unit", "quality", "note",
)  # fmt: skip
# Prefix of the user's own columns. Any other unknown name counts as misspelt.
_OWN_PREFIX = "x_"

QUALITIES = ("exact", "about", "relative claim", "ordering only")
_DIRECTIONS = ("uni", "bi", "both", "shared", "pingpong", "roundtrip", "not stated")


@dataclass(frozen=True)
class Published:
    """A row of the reference file."""

    id: str
    source: str
    section: str
    value: str
    unit: str
    quality: str
    note: str
    # The file and the line.
    place: str
    # The measured system, its transport, operation and message size in bytes, if the file names them.
    system: str = ""
    transport: str = ""
    op: str = ""
    size_bytes: str = ""

    @property
    def where(self) -> str:
        return f"{self.place}: {self.id}"

    @property
    def number(self) -> float:
        """The number of the value: `945`, or a quotient such as `2727/946`. Fails if it is not a number or 0."""
        number = _number(self.value)
        if number is None or number == 0.0 or not math.isfinite(number):
            wrong = "nothing that a deviation is a share of" if number == 0.0 else "not a number to compare with"
            raise LabError(
                self.where,
                f"the value `{self.value}` is {wrong}",
                "a number other than 0, or a quotient of two; or another kind of rule in claims.toml",
            )
        return number


def load_published(path: Path) -> list[Published]:
    found: dict[str, Published] = {}
    header, rows = read_rows(path)
    _check_names(header, f"{path}:1")
    for number, row in rows:
        claim = _parse(row, f"{path}:{number}")
        if claim.id in found:
            raise LabError(f"{path}:{number}", f"has the id `{claim.id}` again", "an id of its own for each row")
        found[claim.id] = claim
    return list(found.values())


def published_ids(references: Path) -> set[str]:
    """Returns the ids of all rows of all files. Other faults of a file appear in the study that uses it."""
    return {row["id"] for path in sorted(references.glob("*.csv")) for _, row in read_rows(path)[1] if row.get("id")}


def read_rows(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Returns the names of the columns, and each row with the number of its last line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            _check_header(header, path)
            rows = [(reader.line_num, row) for row in reader if row]
    except OSError as error:
        raise LabError(
            path, f"cannot be read: {error.strerror}", "a claims file beside study.toml or in references/"
        ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise LabError(path, f"is no CSV file in UTF-8: {error}", "save the table as CSV in UTF-8") from None
    for number, row in rows:
        if len(row) != len(header):
            raise LabError(
                f"{path}:{number}",
                f"has {len(row)} fields, the header {len(header)}",
                'a field for each column, empty or not, and quotes around one with a comma, as in "a, b"',
            )
    return header, [(number, dict(zip(header, row, strict=True))) for number, row in rows]


def _check_header(names: list[str], path: Path) -> None:
    for index, name in enumerate(names):
        if not name.strip():
            raise LabError(f"{path}:1", f"column {index + 1} has no name", "a name for each column, or no such column")
        if name in names[:index]:
            raise LabError(f"{path}:1", f"has the column `{name}` twice", "each column once")


def _check_names(names: list[str], where: str) -> None:
    missing = [column for column in _COLUMNS if column not in names]
    for name in names:
        if name not in _COLUMNS and not name.startswith(_OWN_PREFIX):
            near = nearest(name, missing)
            meant = f"did you mean `{near}`? " if near else f"one of {', '.join(missing)}; " if missing else ""
            raise LabError(
                where,
                f"`{name}` is not a column of a claims file",
                f"{meant}`{_OWN_PREFIX}{name}` is for a column of your own",
            )
    for column in _NEEDED:
        if column in missing:
            raise LabError(where, f"has no column `{column}`", "add the column to the header and to each row")


def _parse(row: dict[str, str], where: str) -> Published:
    for column in ("id", "value"):
        if not row[column].strip():
            remedy = "an id of its own for each row" if column == "id" else "what was published, a number or words"
            raise LabError(where, f"has no {column}", remedy)
    _check_words(row, where)
    if not is_known(row["unit"]):
        raise LabError(where, f"`{row['unit']}` is not a unit", suggest(row["unit"], known_units()))
    number = _number(row["value"])
    if number is not None and not math.isfinite(number):
        raise LabError(where, f"the value `{row['value']}` is not a finite number", "the number that was published")
    if number is not None and number < 0 and not may_be_negative(row["unit"]):
        raise LabError(
            where,
            f"the value `{row['value']}` is negative, which nothing in `{row['unit']}` is",
            "a number above 0; of a `difference` the other way round `base` and `curves` change places",
        )
    described = {column: row.get(column, "") for column in _DESCRIBED}
    return Published(**{column: row[column] for column in _NEEDED}, place=where, **described)


def _check_words(row: dict[str, str], where: str) -> None:
    """Checks the columns with fixed words. A source may have any system, transport or metric."""
    if row["quality"] not in QUALITIES:
        raise LabError(f"{where}: quality", f"`{row['quality']}` is not a quality", suggest(row["quality"], QUALITIES))
    direction = row.get("direction", "")
    if direction and direction not in _DIRECTIONS:
        raise LabError(
            f"{where}: direction", f"`{direction}` is not a direction", f"{suggest(direction, _DIRECTIONS)}; or nothing"
        )
    for column in ("ports", "procs"):
        count = row.get(column, "")
        if count and not re.fullmatch(r"[1-9][0-9]*", count):
            raise LabError(f"{where}: {column}", f"`{count}` is not a number of {column}", "a whole number; or nothing")


def _number(text: str) -> float | None:
    """Returns a number or a quotient of two, finite or not, or None for words."""
    above, _, below = text.partition("/")
    try:
        return float(above) / float(below) if below else float(above)
    except (ValueError, ZeroDivisionError):
        return None
