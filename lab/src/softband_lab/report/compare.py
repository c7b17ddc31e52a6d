"""Compares two results folders."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from softband_lab.base.errors import LabError
from softband_lab.base.tables import Kind
from softband_lab.report.results import FORMAT, SCHEMA

_KEY = ["run", "size_bytes"]
# The name that earlier versions gave to the column `run`.
_EARLIER_RUN = "cell"
_QUANTITIES = ("bw_average_mib_s", "bw_average_mb_s", "bw_average_gbit_s", "latency_typical_us")
# Compared if a program prints no typical latency, as perftest with a duration. Outliers change an average.
_ELSE = "latency_avg_us"
# All numbers are checked, also those that are not compared: damage there makes the whole table doubtful.
_NUMBERS = [name for name, kind in SCHEMA.items() if kind is Kind.FLOAT]

# Number of rows of only one folder that the report names. It counts the others.
_NAMED = 5

# Run and message size in bytes. Quantities that the test does not measure are None.
Key = tuple[str, int]
Results = dict[Key, dict[str, float | None]]


@dataclass(frozen=True)
class Difference:
    run: str
    size_bytes: int
    quantity: str
    first: float
    second: float

    @property
    def deviation_percent(self) -> float:
        if self.first == self.second:
            return 0.0
        return 100.0 * (self.second - self.first) / self.first if self.first else float("inf")


@dataclass(frozen=True)
class Comparison:
    differences: list[Difference]
    # Names of rows that the other folder lacks.
    only_first: list[str]
    only_second: list[str]
    # Values of common rows that are empty in one folder, and common rows that are empty in both.
    empty: list[str]

    def is_alike(self, tolerance_percent: float) -> bool:
        return not (self.only_first or self.only_second or self.empty or self.apart(tolerance_percent))

    def apart(self, tolerance_percent: float) -> list[Difference]:
        return [item for item in self.differences if abs(item.deviation_percent) > tolerance_percent]


def load_results(folder: Path) -> Results:
    path = folder / "results.csv" if folder.is_dir() else folder
    header, rows = _read(path)
    if "run" not in header:
        header = ["run" if name == _EARLIER_RUN else name for name in header]
    # Checked first: other tables, such as claims.csv, have no format number.
    _check_columns(header, path, _KEY)
    _check_format(header, rows, path)
    _check_columns(header, path, [*_QUANTITIES, _ELSE])
    if not rows:
        raise LabError(
            path, "has no rows: no run of that study has finished", "the results.csv of a study with finished runs"
        )
    found: Results = {}
    for number, fields in rows:
        row, where = dict(zip(header, fields, strict=True)), f"{path}:{number}"
        key = row["run"], _size(row["size_bytes"], where)
        if key in found:
            raise LabError(where, f"has the row {_name(key)} again", "one row for each run and size")
        found[key] = {name: _value(row[name], name, where) for name in header if name in _NUMBERS}
    return found


def _read(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Returns the header, and each row with the number of its last line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            rows = [(reader.line_num, row) for row in reader if row]
    except OSError as error:
        remedy = "name a folder that `softband-study` wrote"
        raise LabError(path, f"cannot be read: {error.strerror}", remedy) from None
    except (UnicodeDecodeError, csv.Error) as error:
        remedy = "the results.csv that `softband-study` wrote"
        raise LabError(path, f"is no CSV file in UTF-8: {error}", remedy) from None
    for number, row in rows:
        if len(row) != len(header):
            raise LabError(
                f"{path}:{number}",
                f"has {len(row)} fields, the header {len(header)}",
                "the row as `softband-study` wrote it, with an empty field where there is no value",
            )
    return header, rows


def _size(text: str, where: str) -> int:
    if not re.fullmatch(r"[0-9]+", text):
        raise LabError(f"{where}: size_bytes", f"`{text}` is not a size of a message", "a whole number of bytes")
    return int(text)


def _value(text: str, column: str, where: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise LabError(
            f"{where}: {column}", f"`{text}` is not a number", "a number, or an empty field where the test has no value"
        )
    return value


def _check_columns(header: list[str], path: Path, columns: Sequence[str]) -> None:
    for column in columns:
        if column not in header:
            raise LabError(f"{path}:1", f"has no column `{column}`", "the results.csv that `softband-study` wrote")


def _check_format(header: list[str], rows: list[tuple[int, list[str]]], path: Path) -> None:
    """Fails for another format, whose columns may have other meanings."""
    index = header.index("format") if "format" in header else None
    for number, row in rows:
        found = "none" if index is None else row[index]
        if found != str(FORMAT):
            raise LabError(
                f"{path}:{number}: column `format`",
                f"is {found or 'empty'}, this version reads {FORMAT}",
                "run the study again with this version of softband; finished runs that have not changed are kept",
            )


def compare(first: Results, second: Results) -> Comparison:
    """Compares each quantity of common runs and sizes, and finds rows of only one folder."""
    differences: list[Difference] = []
    empty: list[str] = []
    for key in (key for key in first if key in second):
        has_any = any(row[name] is not None for row in (first[key], second[key]) for name in _QUANTITIES)
        for name in _QUANTITIES if has_any else (_ELSE,):
            left, right = first[key][name], second[key][name]
            if left is not None and right is not None:
                differences.append(Difference(*key, name, left, right))
            elif left is not None or right is not None:
                empty.append(f"{_name(key)}: {name} in the {'first' if left is None else 'second'}")
            elif not has_any:
                empty.append(f"{_name(key)}: all in both")
    only_first = [_name(key) for key in first if key not in second]
    only_second = [_name(key) for key in second if key not in first]
    return Comparison(differences, only_first, only_second, empty)


def _name(key: Key) -> str:
    return f"{key[0]} of {key[1]} bytes"


def print_comparison(comparison: Comparison, tolerance_percent: float, console: Console) -> int:
    """Prints deviations and rows of only one folder. Returns the number of values beyond the tolerance."""
    marked = comparison.apart(tolerance_percent)
    if marked:
        table = Table(title=f"more than {tolerance_percent:g} % apart")
        for title in ("run", "size (bytes)", "quantity", "first", "second", "deviation"):
            table.add_column(title, justify="left" if title in ("run", "quantity") else "right")
        for item in sorted(marked, key=lambda item: -abs(item.deviation_percent)):
            table.add_row(
                item.run,
                str(item.size_bytes),
                item.quantity,
                f"{item.first:.2f}",
                f"{item.second:.2f}",
                f"[red]{item.deviation_percent:+.1f} %[/]",
            )
        console.print(table)
    for what, names in (
        ("rows only in the first", comparison.only_first),
        ("rows only in the second", comparison.only_second),
        ("empty values", comparison.empty),
    ):
        if names:
            more = f"; and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            text = f"{what} ({len(names)}): {'; '.join(names[:_NAMED])}{more}"
            console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"{len(comparison.differences)} values compared, {len(marked)} of them more than {tolerance_percent:g} % apart"
    )
    return len(marked)
