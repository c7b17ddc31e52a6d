"""Published numbers: a file of references/, one claim a row."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from softband_lab.errors import LabError
from softband_lab.units import is_known, known_units, may_be_negative


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

    @property
    def number(self) -> float:
        """What a rule compares with that is about one number: `945`, or a quotient such as `2727/946`."""
        number = _number(self.value)
        if number is None or number == 0.0 or not math.isfinite(number):
            raise LabError(
                f"{self.id} of {self.source}",
                f"`{self.value}` is no number to compare with",
                "a number other than 0, or a quotient of two; or another kind of rule in claims.toml",
            )
        return number


def load_published(path: Path) -> list[Published]:
    found: dict[str, Published] = {}
    for number, row in _read_rows(path):
        claim = _parse(row, f"{path}:{number}")
        if claim.id in found:
            raise LabError(f"{path}:{number}", f"has the id `{claim.id}` again", "an id of its own for each row")
        found[claim.id] = claim
    return list(found.values())


def published_ids(references: Path) -> set[str]:
    """The ids of all rows of all files."""
    return {row["id"] for path in sorted(references.glob("*.csv")) for _, row in _read_rows(path) if row.get("id")}


def _read_rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Each row with the number of its last line. Columns of other names than a claim's are the reader's own."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            _check_header(list(reader.fieldnames or []), path)
            rows = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise LabError(
            path, f"cannot be read: {error.strerror}", "a claims file beside study.toml or in references/"
        ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise LabError(path, f"is no CSV file in UTF-8: {error}", "save the table as CSV in UTF-8") from None
    for number, row in rows:
        # What stands behind the last column comes without a name.
        surplus = len(row.pop(None, ()))
        if surplus:
            raise LabError(
                f"{path}:{number}",
                f"has {len(row) + surplus} fields, the header {len(row)}",
                'quotes around a field with a comma, as in "a, b"; or a name in the header for each column',
            )
    return rows


def _check_header(names: list[str], path: Path) -> None:
    for index, name in enumerate(names):
        if not name.strip():
            raise LabError(f"{path}:1", f"column {index + 1} has no name", "a name for each column, or no such column")
        if name in names[:index]:
            raise LabError(f"{path}:1", f"has the column `{name}` twice", "each column once")


def _parse(row: dict[str, str], where: str) -> Published:
    for column in Published.__dataclass_fields__:
        if row.get(column) is None:
            raise LabError(where, f"has no column `{column}`", "add the column to the header and row")
    if not row["id"]:
        raise LabError(where, "has no id", "an id of its own for each row")
    if not is_known(row["unit"]):
        raise LabError(where, f"`{row['unit']}` is no unit", f"one of {', '.join(known_units())}")
    number = _number(row["value"])
    if number is not None and not math.isfinite(number):
        raise LabError(where, f"the value `{row['value']}` is no finite number", "the number that was published")
    if number is not None and number < 0 and not may_be_negative(row["unit"]):
        raise LabError(
            where,
            f"the value `{row['value']}` is negative, which nothing in `{row['unit']}` is",
            "a number above 0; of a `difference` the other way round `base` and `curves` change places",
        )
    return Published(**{column: row[column] for column in Published.__dataclass_fields__})


def _number(text: str) -> float | None:
    """A number or a quotient of two, finite or not; None for words."""
    above, _, below = text.partition("/")
    try:
        return float(above) / float(below) if below else float(above)
    except (ValueError, ZeroDivisionError):
        return None
