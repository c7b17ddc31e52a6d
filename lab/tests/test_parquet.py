"""Tables as Parquet and CSV: another library reads the same, and so does the lab."""

from __future__ import annotations

import io
import random
import struct
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from softband_lab.base import parquet
from softband_lab.base.parquet import NotOurs, parquet_bytes, read_parquet
from softband_lab.base.tables import Kind, Table, joined, print_float, read_csv

SCHEMA = {"text": Kind.STRING, "int": Kind.INT, "uint": Kind.UINT, "float": Kind.FLOAT, "bool": Kind.BOOL}
THEIRS = {"text": pl.String, "int": pl.Int64, "uint": pl.UInt64, "float": pl.Float64, "bool": pl.Boolean}
ROWS: list[dict[str, Any]] = [
    {"text": "", "int": -(2**63), "uint": 2**64 - 1, "float": 1e-5, "bool": True},
    {"text": None, "int": None, "uint": None, "float": None, "bool": None},
    {"text": 'Größe, "µs"\nand more', "int": 2**63 - 1, "uint": 0, "float": -0.0, "bool": False},
    {"text": "plain", "int": 0, "uint": 7, "float": 3, "bool": True},
]


def theirs(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=THEIRS)


@pytest.mark.parametrize("rows", [ROWS, ROWS * 300, [], [ROWS[1]] * 9, ROWS[:1]], ids=len)
def test_another_library_and_the_lab_read_what_was_written(rows: list[dict[str, Any]]) -> None:
    table = Table.of(rows, SCHEMA)
    content = parquet_bytes(table)
    assert pl.read_parquet(io.BytesIO(content)).equals(theirs(rows))
    assert pl.read_parquet(io.BytesIO(content)).schema == THEIRS
    assert read_parquet(content) == table
    assert parquet_bytes(table) == content


def test_large_tables_have_several_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_ROWS_OF_A_GROUP", 3)
    content = parquet_bytes(Table.of(ROWS * 5, SCHEMA))
    assert pl.read_parquet(io.BytesIO(content)).equals(theirs(ROWS * 5))
    assert read_parquet(content) == Table.of(ROWS * 5, SCHEMA)


def test_files_of_others_and_damaged_ones_are_refused() -> None:
    buffer = io.BytesIO()
    theirs(ROWS).write_parquet(buffer)
    ours = parquet_bytes(Table.of(ROWS, SCHEMA))
    for content in (buffer.getvalue(), b"", b"PAR1", ours[:-20], ours[:40] + b"\xff" * 20 + ours[60:]):
        with pytest.raises(NotOurs, match="cannot be read"):
            read_parquet(content)


def test_csv_is_what_another_library_writes() -> None:
    assert Table.of(ROWS, SCHEMA).csv_bytes().decode() == theirs(ROWS).write_csv()


def test_numbers_are_printed_with_their_shortest_text() -> None:
    chance = random.Random(1)
    values = [0.0, 1e15, 1e16, 1.5e17, 1e21, 1e-4, 1e-5, 1.25e-6, 5e-324, 1 / 3, 943.01, 12345678901234567.0]
    values += [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(2000)]
    values += [round(chance.random() * 10 ** chance.randint(-7, 18), chance.randint(0, 7)) for _ in range(2000)]
    values = [value for value in values if value == value]
    printed = [print_float(value) for value in values]
    assert printed == pl.DataFrame({"x": values}).write_csv().splitlines()[1:]
    assert [float(text) for text in printed] == values


def test_tables_of_other_columns_cannot_be_joined() -> None:
    one = Table.of(ROWS, SCHEMA)
    assert joined([one, one]) == Table.of(ROWS * 2, SCHEMA)
    with pytest.raises(ValueError, match="different columns"):
        joined([one, Table.of(ROWS, {"text": Kind.STRING})])


def test_csv_is_read_by_column_with_empty_fields(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,int,float\nx,1,\ny,,0.5\n")
    table = read_csv(path, {"float": Kind.FLOAT, "int": Kind.INT, "text": Kind.STRING})
    assert list(table.rows()) == [
        {"float": None, "int": 1, "text": None},
        {"float": 0.5, "int": None, "text": None},
    ]
    path.write_text("a,int\n")
    assert read_csv(path, {"int": Kind.INT}).height == 0


def test_a_hundred_thousand_flows_take_no_minute() -> None:
    rows = [{"text": f"h{n % 512}", "int": n, "uint": n, "float": n / 7, "bool": True} for n in range(100_000)]
    before = time.process_time()
    content = parquet_bytes(Table.of(rows, SCHEMA).after({"key": "f" * 64}))
    assert read_parquet(content).height == 100_000
    assert time.process_time() - before < 20
    assert len(content) < 3_000_000
