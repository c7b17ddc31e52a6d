from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest
from conftest import Tree
from rich.console import Console
from typer.testing import CliRunner

from softband_lab.cli import _single
from softband_lab.cli import compare as compare_command
from softband_lab.compare import compare, load_results, print_comparison
from softband_lab.errors import LabError
from softband_lab.places import find_home, find_softband


def test_only_what_deviates_is_marked(tree: Tree) -> None:
    tree.run(quick=True)
    first = load_results(tree.out)
    slower = pl.when((pl.col("cell") == "ddr-rc-bandwidth") & (pl.col("size_bytes") == 65536)).then(0.9).otherwise(1.0)
    second = first.with_columns(pl.col("bw_average_mib_s") * slower)
    text = io.StringIO()
    assert print_comparison(compare(first, second), 5.0, Console(file=text, width=160)) == 1
    assert "-10.0 %" in text.getvalue()
    assert "69 values compared, 1 of them" in text.getvalue()


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"results\.csv: cannot be read"):
        load_results(tmp_path)


@pytest.mark.parametrize("order", ["first", "second"])
def test_a_table_without_rows_is_refused(tree: Tree, tmp_path: Path, order: str) -> None:
    tree.run(quick=True)
    empty = tmp_path / "empty.csv"
    empty.write_text((tree.out / "results.csv").read_text().splitlines()[0] + "\n")
    tables = [empty, tree.out] if order == "first" else [tree.out, empty]
    done = CliRunner().invoke(_single(compare_command), [str(table) for table in tables])
    assert isinstance(done.exception, LabError)
    assert f"{empty}: has no rows: no cell of that study has finished" in str(done.exception)


def test_cells_with_numbers_for_names_are_compared(tree: Tree) -> None:
    tree.run(quick=True)
    first = load_results(tree.out)
    path = tree.out / "results.csv"
    path.write_text(path.read_text().replace("ddr-rc-bandwidth,", "17,").replace("switch", "17"))
    assert compare(first, load_results(tree.out)) == []
    path.write_text(path.read_text().replace(",65536,", ",many,"))
    with pytest.raises(LabError, match=r"results\.csv: is no results table"):
        load_results(tree.out)


def test_results_of_another_version_are_refused(tree: Tree) -> None:
    tree.run(quick=True)
    path = tree.out / "results.csv"
    now = path.read_text()
    path.write_text(now.replace(",2\n", ",1\n"))
    with pytest.raises(
        LabError, match=r"results\.csv: column `format`: is 1, this version reads 2\n  instead: run the"
    ):
        load_results(tree.out)
    path.write_text("\n".join(line.rpartition(",")[0] for line in now.splitlines()))
    with pytest.raises(LabError, match=r"column `format`: is none, this version reads 2"):
        load_results(tree.out)


@pytest.mark.parametrize("name", ["claims.csv", "claims_notes.csv"])
def test_what_is_no_table_of_cells_is_not_taken_for_an_old_one(tree: Tree, name: str) -> None:
    tree.run(quick=True)
    with pytest.raises(LabError, match=rf"{name}:1: has no column `cell`\n  instead: the results\.csv that"):
        load_results(tree.out / name)


def test_places_come_from_the_environment_first(tree: Tree) -> None:
    assert find_home({"SOFTBAND_HOME": str(tree.home)}) == tree.home.resolve()
    assert find_softband({"SOFTBAND_BIN": str(tree.home / "bin/softband")}) == (tree.home / "bin/softband").resolve()
    assert find_softband({"PATH": str(tree.home / "bin")}).name == "softband"


def test_a_wrong_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="has no folder studies/"):
        find_home({"SOFTBAND_HOME": str(tmp_path)})
    with pytest.raises(LabError, match=r"SOFTBAND_BIN=.*is not a program"):
        find_softband({"SOFTBAND_BIN": str(tmp_path)})
