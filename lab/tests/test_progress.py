"""Progress: plain lines where the output is not a terminal, a bar where it is, and nothing on a quiet console."""

from __future__ import annotations

import io
import re

import pytest
from conftest import Tree
from rich.console import Console
from test_sweep import run as sweep

from softband_lab.base.parquet import read_parquet
from softband_lab.campaign.progress import Progress, plain_interval_seconds


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("softband: ")]


def test_a_campaign_prints_plain_lines_where_nobody_looks_at_a_terminal(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOFTBAND_PROGRESS", "0.000001")
    status, printed = tree.run()
    assert status == 0
    assert "━" not in printed
    lines = lines_of(capsys)
    assert re.fullmatch(r"softband: runs: \d of 6 after \d+ s(, about \d+ s left)?", lines[0])
    assert re.fullmatch(r"softband: runs: 6 of 6 after \d+ s", lines[-1])
    assert any("left" in line for line in lines)


def test_no_line_comes_before_its_time_and_none_at_all_with_zero(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOFTBAND_PROGRESS", "1000")
    tree.run(quick=True)
    monkeypatch.setenv("SOFTBAND_PROGRESS", "0")
    tree.run()
    assert lines_of(capsys) == []


@pytest.mark.parametrize(("said", "seconds"), [("", 10), ("2.5", 2.5), ("0", None), ("-1", 10), ("often", 10)])
def test_the_interval_is_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, said: str, seconds: float | None
) -> None:
    monkeypatch.setenv("SOFTBAND_PROGRESS", said)
    assert plain_interval_seconds() == seconds


def test_a_terminal_has_a_bar_and_a_quiet_console_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOFTBAND_PROGRESS", "0.000001")
    for console, has_bar in (
        (Console(file=io.StringIO(), force_terminal=True), True),
        (Console(file=io.StringIO(), quiet=True), False),
    ):
        with Progress(console, 2) as progress:
            progress.advance()
            progress.advance()
        assert isinstance(console.file, io.StringIO)
        assert ("2/2" in console.file.getvalue()) == has_bar
    assert lines_of(capsys) == []


def test_runs_say_nothing_of_their_own_progress(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their standard error holds warnings, which are counted."""
    monkeypatch.setenv("SOFTBAND_PROGRESS", "0.000001")
    assert sweep(tree, "bytes=1,2")[0] == 0
    runs = read_parquet((tree.out / "runs.parquet").read_bytes())
    assert runs.columns["warnings"] == [0, 0]
