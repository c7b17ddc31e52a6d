"""Tables with typed columns, from rows and to CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

# Floats are printed as Ryu does, which other programs use. Python switches to exponents at other values.
_MOST_DIGITS = 16
_MOST_ZEROS = 5


class Kind(Enum):
    """The type of a column. Every column may have empty fields."""

    STRING = "string"
    INT = "int"
    UINT = "uint"
    FLOAT = "float"
    BOOL = "bool"


Schema = Mapping[str, Kind]


@dataclass(frozen=True)
class Table:
    """Columns of the same length, in the order of the schema."""

    schema: dict[str, Kind]
    columns: dict[str, list[Any]]

    @staticmethod
    def of(rows: Sequence[Mapping[str, Any]], schema: Schema) -> Table:
        """Builds a table from rows. Each row needs every column of the schema; other columns are ignored."""
        columns = {name: [_typed(row[name], kind) for row in rows] for name, kind in schema.items()}
        return Table(dict(schema), columns)

    @property
    def height(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def rows(self) -> Iterator[dict[str, Any]]:
        for values in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.schema, values, strict=True))

    def after(self, first: Mapping[str, str]) -> Table:
        """Returns the table with text columns in front. Each has one value in all rows."""
        return Table(
            {**dict.fromkeys(first, Kind.STRING), **self.schema},
            {**{name: [value] * self.height for name, value in first.items()}, **self.columns},
        )

    def without(self, *names: str) -> Table:
        """Returns the table without some columns."""
        return Table(
            {name: kind for name, kind in self.schema.items() if name not in names},
            {name: values for name, values in self.columns.items() if name not in names},
        )

    def csv_bytes(self) -> bytes:
        printed = [
            [_print(value, kind) for value in self.columns[name]]
            for name, kind in self.schema.items()
        ]  # fmt: skip
        lines = [
            ",".join(_quoted(name) for name in self.schema),
            *(",".join(row) for row in zip(*printed, strict=True)),
        ]
        return "".join(f"{line}\n" for line in lines).encode()


def joined(tables: Sequence[Table]) -> Table:
    """Concatenates tables of the same columns. Fails if the columns differ."""
    schema = tables[0].schema
    if any(table.schema != schema for table in tables):
        raise ValueError("tables of different columns")
    return Table(schema, {name: [value for table in tables for value in table.columns[name]] for name in schema})


def read_csv(path: Path, schema: Schema) -> Table:
    """Reads the columns of the schema from a file. Columns that the file lacks have empty fields."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        by_name = dict(zip(header, zip(*reader, strict=True), strict=False))
    height = len(next(iter(by_name.values()), ()))
    found: dict[str, list[Any]] = {}
    for name, kind in schema.items():
        convert = _CONVERT[kind]
        found[name] = [convert(text) if text else None for text in by_name.get(name, ("",) * height)]
    return Table(dict(schema), found)


def header_of(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="") as file:
        return next(csv.reader(io.StringIO(file.readline())), [])


_CONVERT: dict[Kind, Callable[[str], Any]] = {
    Kind.STRING: str,
    Kind.INT: int,
    Kind.UINT: int,
    Kind.FLOAT: float,
    Kind.BOOL: lambda text: text == "true",
}


def _typed(value: Any, kind: Kind) -> Any:
    return float(value) if kind is Kind.FLOAT and value is not None else value


def _print(value: Any, kind: Kind) -> str:
    if value is None:
        return ""
    if kind is Kind.FLOAT:
        return print_float(value)
    if kind is Kind.BOOL:
        return "true" if value else "false"
    return _quoted(value) if kind is Kind.STRING else str(value)


def _quoted(text: str) -> str:
    """Quotes a text for CSV if it needs quotes. An empty text gets quotes too: no value has none."""
    if text and not re.search(r'[",\r\n]', text):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def print_float(value: float) -> str:
    """Returns the shortest text that reads as the number, with an exponent in place of many zeros."""
    text = repr(value)
    if "e" not in text and len(text) < _MOST_DIGITS:
        return text
    match = re.fullmatch(r"(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?", text)
    if match is None:
        return {"inf": "inf", "-inf": "-inf"}.get(text, "NaN")
    sign, whole, part, power = match[1], match[2], match[3] or "", int(match[4] or 0)
    digits = (whole + part).lstrip("0") or "0"
    exponent = power - len(part) + (len(digits) - len(digits.rstrip("0")) if digits.strip("0") else 0)
    digits = digits.rstrip("0") or "0"
    point = len(digits) + exponent  # digits before the point
    if exponent >= 0 and point <= _MOST_DIGITS:
        return f"{sign}{digits}{'0' * exponent}.0"
    if 0 < point <= _MOST_DIGITS:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -_MOST_ZEROS < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}"
