"""Two result folders side by side, with what deviates marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table

from softband_lab.errors import LabError
from softband_lab.results import FORMAT, SCHEMA

_KEY = ["cell", "size_bytes"]
_QUANTITIES = ("bw_average_mib_s", "bw_average_mb_s", "latency_typical_us")

# Not guessed from the rows: an empty column, or cells called 1 and 2, would have other types in one of two tables.
_TYPES = {name: SCHEMA[name] for name in (*_KEY, *_QUANTITIES)}


@dataclass(frozen=True)
class Difference:
    cell: str
    size_bytes: int
    quantity: str
    first: float
    second: float

    @property
    def deviation_percent(self) -> float:
        if self.first == self.second:
            return 0.0
        return 100.0 * (self.second - self.first) / self.first if self.first else float("inf")


def load_results(folder: Path) -> pl.DataFrame:
    path = folder / "results.csv" if folder.is_dir() else folder
    try:
        table = pl.read_csv(path, infer_schema_length=None, schema_overrides=_TYPES)
    except OSError as error:
        raise LabError(path, f"cannot be read: {error}", "name a folder that `softband-study` wrote") from None
    except pl.exceptions.PolarsError as error:
        raise LabError(path, f"is no results table: {error}", "the results.csv that `softband-study` wrote") from None
    # What is no table of cells at all, such as claims.csv or accuracy.csv, is of no version of one.
    _check_columns(table, path, _KEY)
    _check_format(table, path)
    _check_columns(table, path, _QUANTITIES)
    if not table.height:
        raise LabError(
            path, "has no rows: no cell of that study has finished", "the results.csv of a study with finished cells"
        )
    return table


def _check_columns(table: pl.DataFrame, path: Path, columns: Sequence[str]) -> None:
    for column in columns:
        if column not in table.columns:
            raise LabError(f"{path}:1", f"has no column `{column}`", "the results.csv that `softband-study` wrote")


def _check_format(table: pl.DataFrame, path: Path) -> None:
    """A table of another version has the same names for something else, or other names for the same."""
    found = table["format"].unique().to_list() if "format" in table.columns else ["none"]
    if table.height and found != [FORMAT]:
        raise LabError(
            f"{path}: column `format`",
            f"is {', '.join(str(number) for number in found)}, this version reads {FORMAT}",
            "run the study again with this version of softband; finished cells that have not changed are kept",
        )


def compare(first: pl.DataFrame, second: pl.DataFrame) -> list[Difference]:
    """Every quantity that both tables have for the same cell and size."""
    joined = first.join(second, on=_KEY, how="inner", suffix="_second", maintain_order="left")
    return [
        Difference(row["cell"], row["size_bytes"], quantity, row[quantity], row[f"{quantity}_second"])
        for row in joined.to_dicts()
        for quantity in _QUANTITIES
        if row[quantity] is not None and row[f"{quantity}_second"] is not None
    ]


def print_comparison(differences: list[Difference], tolerance_percent: float, console: Console) -> int:
    """Prints what deviates; returns how many do."""
    marked = [item for item in differences if abs(item.deviation_percent) > tolerance_percent]
    if marked:
        table = Table(title=f"more than {tolerance_percent:g} % apart")
        for title in ("cell", "size (bytes)", "quantity", "first", "second", "deviation"):
            table.add_column(title, justify="left" if title in ("cell", "quantity") else "right")
        for item in sorted(marked, key=lambda item: -abs(item.deviation_percent)):
            table.add_row(
                item.cell,
                str(item.size_bytes),
                item.quantity,
                f"{item.first:.2f}",
                f"{item.second:.2f}",
                f"[red]{item.deviation_percent:+.1f} %[/]",
            )
        console.print(table)
    console.print(f"{len(differences)} values compared, {len(marked)} of them more than {tolerance_percent:g} % apart")
    return len(marked)
