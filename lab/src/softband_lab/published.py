"""Published numbers: a file of references/, one claim a row."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from softband_lab.errors import LabError
from softband_lab.units import is_known, known_units


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
        above, _, below = self.value.partition("/")
        try:
            number = float(above) / float(below) if below else float(above)
        except (ValueError, ZeroDivisionError):
            number = 0.0
        if number == 0.0:
            raise LabError(
                f"{self.id} of {self.source}",
                f"`{self.value}` is no number to compare with",
                "a number other than 0, or a quotient of two; or another kind of rule in claims.toml",
            )
        return number


def load_published(path: Path) -> list[Published]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            rows = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise LabError(
            path, f"cannot be read: {error.strerror}", "keep the study's claims file in references/"
        ) from None
    found: dict[str, Published] = {}
    for number, row in rows:
        claim = _parse(row, f"{path}:{number}")
        if claim.id in found:
            raise LabError(f"{path}:{number}", f"has the id `{claim.id}` again", "an id of its own for each row")
        found[claim.id] = claim
    return list(found.values())


def published_ids(references: Path) -> set[str]:
    """The ids of all rows of all files."""
    found: set[str] = set()
    for path in references.glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            found |= {row["id"] for row in csv.DictReader(file) if row.get("id")}
    return found


def _parse(row: dict[str, str], where: str) -> Published:
    for column in Published.__dataclass_fields__:
        if row.get(column) is None:
            raise LabError(where, f"has no column `{column}`", "add the column to the header and row")
    if not is_known(row["unit"]):
        raise LabError(where, f"`{row['unit']}` is no unit", f"one of {', '.join(known_units())}")
    return Published(**{column: row[column] for column in Published.__dataclass_fields__})
