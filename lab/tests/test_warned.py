"""What `softband` warns of in the runs of a sweep: once for each fabric, with the values it is about, and kept."""

from __future__ import annotations

import io

import polars as pl
import pytest
from conftest import Tree
from rich.console import Console
from test_sweep import question, run, table

from softband_lab.campaign.warned import Warned, paragraphs
from softband_lab.sweep.run import check_runs

LOOP = "switch.toml:3:1: warning: credit loop\n  help: less of it\n"


def check(tree: Tree, *sweeps: str) -> tuple[int, str]:
    text = io.StringIO()
    console = Console(file=text, width=200)
    return check_runs(question(tree, *sweeps), tree.softband, 2, console), text.getvalue()


def test_a_fabric_is_warned_of_once_for_all_its_runs(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    tree.append("switch.toml", 'warn = "credit loop"')
    assert check(tree, "seed=1,2", "bytes=1,2") == (0, "4 runs checked: all of them can be run\n")
    assert capsys.readouterr().err == f"warnings of all runs:\n{LOOP}"
    status, printed = run(tree, "seed=1,2", "bytes=1,2")
    assert (status, "4 finished, 0 of them kept" in printed) == (0, True)
    assert capsys.readouterr().err == f"warnings of all runs:\n{LOOP}"
    assert "4 finished, 4 of them kept" in run(tree, "seed=1,2", "bytes=1,2")[1]
    assert capsys.readouterr().err == f"warnings of all runs:\n{LOOP}"


def test_each_fabric_of_a_sweep_has_its_warnings_with_its_values(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    sweeps = ("fake.warn=one,two", "seed=1,2", "fake.bus_mib=900,901")
    # A changed file has lines of its own, which are none of the user's.
    wanted = "".join(
        f"warnings of --sweep fake.warn={text} --sweep fake.bus_mib=900; "
        f"--sweep fake.warn={text} --sweep fake.bus_mib=901:\nswitch.toml: warning: {text}\n  help: less of it\n"
        for text in ("one", "two")
    )
    assert check(tree, *sweeps)[0] == 0
    assert capsys.readouterr().err == wanted
    assert run(tree, *sweeps)[0] == 0
    assert capsys.readouterr().err == wanted


def test_of_many_fabrics_the_first_are_shown_and_the_others_counted(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [f"w{number}" for number in range(40)]
    sweep = f"fake.warn={','.join(texts)}"
    assert check(tree, sweep)[0] == 0
    said = capsys.readouterr().err
    assert [text for text in texts if f"warning: {text}\n" in said] == texts[:4]
    left = "and warnings of 36 more, first --sweep fake.warn=w4: --check with these values alone shows them\n"
    assert said.endswith(left)
    assert run(tree, sweep)[0] == 0
    said = capsys.readouterr().err
    # Of those that were not looked at before, their runs tell it.
    assert [text for text in texts[34:39] if f"warning: {text}\n" in said] == texts[34:38]
    assert said.count("warning: w") == 8
    assert f"and warnings of 1 more, first --sweep fake.warn=w38: {tree.out}/data/warnings\n" in said
    assert table(tree, "warnings").height == 40


def test_the_warnings_of_a_run_are_kept_with_its_results(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    tree.append("switch.toml", 'warn = "credit loop"')
    assert run(tree, "fake.deadlock=false,true", "bytes=1,2")[0] == 0
    said = capsys.readouterr().err
    assert said.count("credit loop") == 1
    assert said.count("deadlock of 1 B, broken up") == said.count("deadlock of 2 B, broken up") == 1
    assert "warnings of --sweep fake.deadlock=True --sweep bytes=2:\nsoftband: deadlock of 2 B, broken up\n" in said
    runs = table(tree, "runs")
    assert runs["warnings"].to_list() == [1, 1, 2, 2]
    warnings = table(tree, "warnings").join(runs, on=["run", "key"])
    assert warnings.filter(bytes=2)["warning"].to_list() == [
        "fabrics/switch_fake.deadlock-False.toml:3:1: warning: credit loop\n  help: less of it",
        "fabrics/switch_fake.deadlock-True.toml:3:1: warning: credit loop\n  help: less of it",
        "softband: deadlock of 2 B, broken up",
    ]


def test_without_warnings_there_is_an_empty_table_and_nothing_is_said(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tree, "bytes=1,2")[0] == 0
    assert capsys.readouterr().err == ""
    assert table(tree, "warnings").schema == {"run": pl.String, "key": pl.String, "warning": pl.String}
    assert table(tree, "runs")["warnings"].to_list() == [0, 0]


def test_a_refused_value_has_its_remedy_also_where_warnings_have_theirs(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    tree.append("switch.toml", 'warn = "credit loop"')
    status, printed = check(tree, "senders=1,3")
    assert status == 2
    assert printed.startswith("cannot run --sweep senders=3: senders = 3 is out of range\n")
    with pytest.raises(Exception, match=r"^--sweep senders=3: senders = 3 is out of range\n  help: what docs/model"):
        run(tree, "senders=1,3")
    assert capsys.readouterr().err.count(LOOP) == 2


def test_what_belongs_to_the_line_before_is_said_with_it() -> None:
    assert paragraphs("a: warning: b\n  help: c\n\n  d\na: e\n") == ["a: warning: b\n  help: c\n\n  d", "a: e"]
    assert paragraphs("\n") == []


def test_a_fabric_with_very_many_warnings_says_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    warned = Warned()
    warned.add("", [f"f: warning: {number}" for number in range(100)])
    warned.show("")
    assert capsys.readouterr().err.splitlines()[-1] == "and 80 more warnings"
