"""`softband_lab.run`, `model` and `sweep`: their frames, and their errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from conftest import Tree

import softband_lab
from softband_lab import LabError, RunFailed

SERVER = "ib_send_bw -F -s 65536 -n 10"


@pytest.fixture
def home(tree: Tree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tree:
    """The tree with the fake engine, found by the environment; the current folder is another one."""
    monkeypatch.setenv("SOFTBAND_HOME", str(tree.home))
    monkeypatch.setenv("SOFTBAND_BIN", str(tree.home / "bin/softband"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tree


def test_a_run_returns_frames_of_programs_measurements_ports_and_bottlenecks(home: Tree) -> None:
    result = softband_lab.run("sdr", {"a": SERVER, "b": f"{SERVER} a"}, seed=3)
    assert result.seconds == 0.5
    assert result.programs.select("program", "host", "exit_status").rows() == [("a-0", "a", 0), ("b-0", "b", 0)]
    assert "#bytes" in result.programs["output"][0]
    assert result.measurements.select("program", "size_bytes", "iterations").rows() == [
        ("a-0", 65536, 10),
        ("b-0", 65536, 10),
    ]
    assert result.measurements["latency_avg_us"].to_list() == [None, None]
    assert result.bottlenecks.rows() == [("link", "a/mthca0/1", 97, "the link was busy")]
    assert result.ports.filter(port="b/mthca0/1")["port_xmit_data"].item() == 1003
    assert result.ports.schema["port_rcv_data"] == pl.Int64
    assert result.hcas.height == 0
    assert list(Path.cwd().iterdir()) == []
    assert len(home.runs()) == 1


def test_several_programs_of_a_host_have_names_of_their_own(home: Tree) -> None:
    programs = [("a", SERVER), ("b", f"{SERVER} a"), ("a", SERVER)]
    result = softband_lab.run(home.home / "fabrics/sdr.toml", programs, out="kept", time_limit="10 ms")
    assert result.programs["program"].to_list() == ["a-0", "b-0", "a-1"]
    assert Path("kept/run.json").is_file()


def test_a_model_returns_frames_of_flows_ports_and_hot_ports(home: Tree) -> None:
    result = softband_lab.model("switch", "incast", bytes=2, ranks_per_host=1, allow_out_of_spec=True, root=None)
    assert result.completion_seconds == 2e-9
    assert result.flows["ended_ps"].to_list() == [2000, 2000]
    assert result.ports["port"].to_list() == ["sw/1"]
    assert result.hot_ports.select("depth", "port", "feeds").rows() == [
        (0, "sw/1", "a/mthca0/1"),
        (1, "b/mthca0/1", "sw/1"),
    ]
    assert home.runs() == ["switch.toml 2 on all threads"]


def test_a_sweep_returns_a_row_for_each_combination_and_keeps_what_out_names(home: Tree) -> None:
    keys: dict[str, list[int]] = {"bytes": [1, 2], "vls": [1, 8]}
    frame = softband_lab.sweep("switch", "incast", keys, out="kept", window=4)
    assert frame.select("bytes", "vls", "completion_ps").rows() == [
        (1, 1, 1000),
        (1, 8, 1000),
        (2, 1, 2000),
        (2, 8, 2000),
    ]
    assert all("--window 4" in command for command in frame["command"])
    assert frame.equals(pl.read_parquet("kept/runs.parquet"))
    assert softband_lab.sweep("switch", "incast", keys, out="kept", window=4).equals(frame)
    assert len(home.runs()) == 4
    assert softband_lab.sweep("switch", "incast", {"bytes": 3})["bytes"].to_list() == [3]


def test_the_function_sweep_stays_when_modules_of_the_package_sweep_are_imported() -> None:
    script = "import softband_lab, softband_lab.sweep.question\nassert callable(softband_lab.sweep)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_without_polars_each_call_says_how_to_install_it_before_anything_runs(
    home: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    for call in (
        lambda: softband_lab.run("sdr", {"a": SERVER}),
        lambda: softband_lab.model("sdr", "incast"),
        lambda: softband_lab.sweep("sdr", "incast", {"bytes": [1]}),
    ):
        with pytest.raises(LabError, match=r"pip install polars .*softband-lab\[frames\]"):
            call()
    assert home.runs() == []


def test_a_failed_run_has_its_last_lines(home: Tree) -> None:
    home.append("sdr.toml", 'fail = "the flux capacitor broke"')
    with pytest.raises(RunFailed) as failed:
        softband_lab.run("sdr", {"a": SERVER})
    assert failed.value.last_lines == ["the flux capacitor broke"]
    assert str(failed.value).endswith("  | the flux capacitor broke")
    assert str(failed.value).startswith("exit status 1: softband run ")


def test_a_run_that_takes_too_long_ends(home: Tree) -> None:
    home.append("sdr.toml", "seconds = 60")
    with pytest.raises(RunFailed, match=r"no end within 0\.3 s"):
        softband_lab.run("sdr", {"a": SERVER}, timeout_seconds=0.3)


def test_a_failed_run_of_a_sweep_is_named_after_the_others_have_run(home: Tree) -> None:
    with pytest.raises(RunFailed, match="1 of 3 runs failed, first bytes-13: exit status 2: softband model") as failed:
        softband_lab.sweep("switch", "incast", {"bytes": [12, 13, 14]}, jobs=1, out="kept")
    assert failed.value.last_lines[0].endswith("bad luck")
    assert len(home.runs()) == 2
    assert pl.read_csv("kept/runs.csv")["bytes"].to_list() == [12, 14]


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({}, "keys: is empty"),
        ({"bytes": ["1,2"]}, "keys: bytes: `1,2` has a comma"),
        ({"bytess": [1]}, "--sweep bytess: is not a key"),
        ({"bytes": []}, "has an empty value"),
        ({"senders": [1, 3]}, "--sweep senders=3: senders = 3 is out of range"),
    ],
)
def test_wrong_keys_of_a_sweep_are_named(home: Tree, keys: dict[str, list[int]], wanted: str) -> None:
    with pytest.raises(LabError) as error:
        softband_lab.sweep("switch", "incast", keys)
    assert wanted in str(error.value)
    assert home.runs() == []


def test_other_wrong_inputs_are_named(home: Tree) -> None:
    with pytest.raises(LabError, match="nowhere: is not a fabric file"):
        softband_lab.model("nowhere", "incast")
    with pytest.raises(LabError, match="programs: is empty"):
        softband_lab.run("sdr", {})
    with pytest.raises(RunFailed, match="senders = 3 is out of range"):
        softband_lab.model("switch", "incast", senders=3)
    assert home.runs() == []
