from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Tree
from rich.console import Console
from typer.testing import CliRunner

from softband_lab.base.errors import LabError
from softband_lab.base.places import find_home, find_softband
from softband_lab.cli import _single
from softband_lab.cli import compare as compare_command
from softband_lab.report.compare import compare, load_results, print_comparison


def edit(path: Path, change: Callable[[list[dict[str, str]]], None]) -> None:
    rows = list(csv.DictReader(path.open()))
    change(rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def pair(tree: Tree, tmp_path: Path) -> tuple[Path, Path]:
    """The same results twice: folders to change."""
    tree.run(quick=True)
    second = tmp_path / "second"
    second.mkdir()
    shutil.copy(tree.out / "results.csv", second)
    return tree.out / "results.csv", second / "results.csv"


def compared(pair: tuple[Path, Path], *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(_single(compare_command), [*(str(path) for path in pair), *options])
    if isinstance(done.exception, LabError):
        return 2, str(done.exception)
    return done.exit_code, done.output


def test_only_what_deviates_is_marked(tree: Tree) -> None:
    tree.run(quick=True)
    first = load_results(tree.out)
    second = {key: dict(row) for key, row in first.items()}
    row = second["ddr-rc-bandwidth", 65536]
    row["bw_average_mib_s"] = 0.9 * (row["bw_average_mib_s"] or 0.0)
    text = io.StringIO()
    assert print_comparison(compare(first, second), 5.0, Console(file=text, width=160)) == 1
    assert "-10.0 %" in text.getvalue()
    assert "69 values compared, 1 of them" in text.getvalue()


def test_the_same_results_are_alike(pair: tuple[Path, Path]) -> None:
    status, printed = compared(pair)
    assert (status, printed) == (0, "69 values compared, 0 of them more than 5 % apart\n")


def test_results_of_an_earlier_version_are_compared(pair: tuple[Path, Path]) -> None:
    earlier = pair[1].read_text()
    assert earlier.startswith("run,figures,")
    pair[1].write_text(earlier.replace("run,", "cell,", 1))
    assert compared(pair) == (0, "69 values compared, 0 of them more than 5 % apart\n")


@pytest.mark.parametrize("order", ["first", "second"])
def test_rows_that_only_one_of_the_two_has_are_told(pair: tuple[Path, Path], order: str) -> None:
    def halve(rows: list[dict[str, str]]) -> None:
        del rows[len(rows) // 3 :]

    edit(pair[1], halve)
    status, printed = compared(pair if order == "second" else (pair[1], pair[0]))
    other = "first" if order == "second" else "second"
    assert status == 1
    assert f"rows only in the {other} (46): " in printed
    assert " of 2 bytes; " in printed
    assert "; and 41 more\n" in printed
    assert f"rows only in the {order}" not in printed
    assert "23 values compared, 0 of them" in printed


def test_a_renamed_run_is_missed_in_both(pair: tuple[Path, Path]) -> None:
    def rename(rows: list[dict[str, str]]) -> None:
        rows[0]["run"] = "another"

    edit(pair[1], rename)
    status, printed = compared(pair)
    assert status == 1
    assert "rows only in the first (1): ddr-rc-bandwidth of 2 bytes\n" in printed
    assert "rows only in the second (1): another of 2 bytes\n" in printed


def test_two_without_a_row_in_common_are_refused_with_a_row_of_each(pair: tuple[Path, Path]) -> None:
    def rename(rows: list[dict[str, str]]) -> None:
        for row in rows:
            row["run"] += "-2"

    edit(pair[1], rename)
    status, said = compared(pair)
    assert status == 2
    assert "in common: one has ddr-rc-bandwidth of 2 bytes, the other ddr-rc-bandwidth-2 of 2 bytes" in said


def test_empty_values_are_counted(pair: tuple[Path, Path]) -> None:
    def empty(rows: list[dict[str, str]]) -> None:
        for row in rows[:7]:
            row["bw_average_mib_s"] = ""

    edit(pair[1], empty)
    status, printed = compared(pair)
    assert status == 1
    assert "empty values (7): ddr-rc-bandwidth of 2 bytes: bw_average_mib_s in the second; " in printed
    assert "; and 2 more\n" in printed
    assert "62 values compared" in printed
    edit(pair[0], empty)
    status, printed = compared(pair)
    assert status == 1
    assert "empty values (7): ddr-rc-bandwidth of 2 bytes: all in both; " in printed


def test_a_latency_without_a_typical_one_is_compared_by_its_average(pair: tuple[Path, Path]) -> None:
    def average(rows: list[dict[str, str]]) -> None:
        for row in rows:
            row.update(bw_average_mib_s="", latency_avg_us="5")

    for path in pair:
        edit(path, average)
    assert compared(pair) == (0, "69 values compared, 0 of them more than 5 % apart\n")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            "bw_average_mib_s",
            "abc",
            r"results\.csv:3: bw_average_mib_s: `abc` is not a number\n  help: a number,",
        ),
        ("bw_average_mib_s", "nan", r"results\.csv:3: bw_average_mib_s: `nan` is not a number"),
        ("latency_avg_us", "1,5", r"results\.csv:3: latency_avg_us: `1,5` is not a number"),
        ("latency_max_us", "abc", r"results\.csv:3: latency_max_us: `abc` is not a number"),
        ("size_bytes", "4.0", r"results\.csv:3: size_bytes: `4\.0` is not a size of a message\n  help: a whole number"),
        ("size_bytes", "", r"results\.csv:3: size_bytes: `` is not a size"),
        ("size_bytes", "2", r"results\.csv:3: has the row ddr-rc-bandwidth of 2 bytes again"),
        ("format", "", r"results\.csv:3: column `format`: is empty, this version reads 3"),
    ],
)
def test_a_field_that_means_nothing_is_named_with_its_line(
    pair: tuple[Path, Path], column: str, value: str, message: str
) -> None:
    def spoil(rows: list[dict[str, str]]) -> None:
        rows[1][column] = value

    edit(pair[1], spoil)
    status, said = compared(pair)
    assert status == 2
    assert re.search(f"second/{message}", said)


def test_a_row_of_another_length_is_named(pair: tuple[Path, Path]) -> None:
    lines = pair[1].read_text().splitlines()
    pair[1].write_text("\n".join([*lines[:2], f"{lines[2]},more", *lines[3:]]))
    assert "results.csv:3: has 26 fields, the header 25" in compared(pair)[1]


@pytest.mark.parametrize("tolerance", ["nan", "inf", "-1"])
def test_a_tolerance_that_would_let_everything_pass_is_refused(pair: tuple[Path, Path], tolerance: str) -> None:
    status, said = compared(pair, "--tolerance", tolerance)
    assert (status, f"--tolerance: `{tolerance}` is not a tolerance" in said) == (2, True)


def test_the_help_says_what_the_exit_status_means(pair: tuple[Path, Path]) -> None:
    said = " ".join(compared(pair, "--help")[1].split())
    assert "Exit status: 0: both have the same rows" in said
    assert "1: a value is beyond the tolerance" in said
    assert "2: a mistake in a file" in said


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
    assert f"{empty}: has no rows: no run of that study has finished" in str(done.exception)


def test_runs_with_numbers_for_names_are_compared(tree: Tree) -> None:
    tree.run(quick=True)
    first = load_results(tree.out)
    path = tree.out / "results.csv"
    path.write_text(path.read_text().replace("ddr-rc-bandwidth,", "17,").replace("switch", "17"))
    second = load_results(tree.out)
    assert compare(first, second).differences == []
    assert len(compare(second, second).differences) == 69


def test_results_of_another_version_are_refused(tree: Tree) -> None:
    tree.run(quick=True)
    path = tree.out / "results.csv"
    now = path.read_text()
    path.write_text(now.replace(",3\n", ",1\n"))
    with pytest.raises(LabError, match=r"results\.csv:2: column `format`: is 1, this version reads 3\n  help: run the"):
        load_results(tree.out)
    path.write_text("\n".join(line.rpartition(",")[0] for line in now.splitlines()))
    with pytest.raises(LabError, match=r"column `format`: is none, this version reads 3"):
        load_results(tree.out)


@pytest.mark.parametrize("name", ["claims.csv", "claims_notes.csv"])
def test_what_is_no_table_of_runs_is_not_taken_for_an_old_one(tree: Tree, name: str) -> None:
    tree.run(quick=True)
    with pytest.raises(LabError, match=rf"{name}:1: has no column `run`\n  help: the results\.csv that"):
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
