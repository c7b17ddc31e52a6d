from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest
from conftest import TESTS, Tree

from softband_lab.base.errors import LabError
from softband_lab.base.fabricfile import load_toml, plain, two_hosts, with_cable
from softband_lab.sweep.whatif import Point, choose_cables, derive, parse_lengths


def test_lengths_are_a_list_a_range_or_steps() -> None:
    assert parse_lengths("10m, 1m,2.5 m") == [1.0, 2.5, 10.0]
    assert parse_lengths("1m..20m") == [1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0]
    assert parse_lengths("10m..35m:10m") == [10.0, 20.0, 30.0, 35.0]


def test_lengths_keep_all_their_digits() -> None:
    assert parse_lengths("0.1m..0.4m:0.1m") == [0.1, 0.2, 0.3, 0.4]
    assert parse_lengths("1.1cm,7km") == [0.011, 7000.0]
    assert [plain(length) for length in (1e6, 1.2345678, 0.5, 100.0, 1e22)] == [
        "1000000", "1.2345678", "0.5", "100", "1" + "0" * 22,
    ]  # fmt: skip
    cables = {"cables": [{"part": "optical-active"}]}
    assert with_cable(cables, [0], 1000000.0)["cables"][0]["length"] == "1000000 m"


@pytest.mark.parametrize("text", ["10", "1m..", "300m..1m", "10m..20m:0m", "ten metres"])
def test_a_bad_length_is_refused(text: str) -> None:
    with pytest.raises(LabError, match="--cable-length"):
        parse_lengths(text)


def test_a_derived_fabric_changes_only_what_was_asked(tree: Tree) -> None:
    path = tree.home / "fabrics/switch.toml"
    document = load_toml(path)
    changed = derive(document, Point(4, "SDR", 30), choose_cables(document, path, [], ["cx4"]), "optical-active")
    assert changed["subnet"]["max_op_vls"] == 3
    assert changed["cables"][0] == {**document["cables"][0], "rate": "SDR"}
    assert changed["cables"][1] == {
        "part": "optical-active", "from": "b/mthca0/1", "to": "sw/2", "length": "30 m", "rate": "SDR",
    }  # fmt: skip
    assert document == load_toml(path)


def test_cables_to_vary_may_be_named_and_must_exist(tree: Tree) -> None:
    path = tree.home / "fabrics/switch.toml"
    assert choose_cables(load_toml(path), path, ["a/mthca0/1"], []) == [0]
    with pytest.raises(LabError, match=r"name some with --cable; the file has: cx4 \(a/mthca0/1 to sw/1\)"):
        choose_cables(load_toml(path), path, ["sw/9"], [])


def what_if(tree: Tree, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "SOFTBAND_HOME": str(tree.home),
        "SOFTBAND_BIN": str(tree.home / "bin/softband"),
        "PYTHONPATH": str(TESTS.parent / "src"),
    }
    command = [sys.executable, "-m", "softband_lab", "what-if", "--out", str(tree.out), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_what_if_finds_the_longest_cable_to_the_metre(tree: Tree) -> None:
    done = what_if(tree)
    assert done.returncode == 0, done.stderr
    assert "1 data lane: full bandwidth (1414 MB/s) up to 100 m, the longest tested" in done.stdout
    assert "8 data lanes: full bandwidth (1311 MB/s) up to 9 m; 10 m falls short" in " ".join(done.stdout.split())
    surface = pl.read_csv(tree.out / "surface.csv")
    lengths = surface.filter(pl.col("data_vls") == 8)["length_m"].to_list()
    assert {1.0, 9.0, 10.0, 100.0} <= set(lengths)
    assert (tree.out / "report.html").is_file()
    for path in (tree.out / "fabrics").glob("*.toml"):
        tomllib.loads(path.read_text())
    runs = len(tree.runs())
    assert what_if(tree).returncode == 0
    assert len(tree.runs()) == runs


def test_a_bad_option_is_an_error_with_a_remedy(tree: Tree) -> None:
    done = what_if(tree, "--vls", "3")
    assert done.returncode == 2
    assert "--vls: 3 is not a number of operational data lanes" in done.stderr
    assert "one of 1, 2, 4, 8, 15" in done.stderr
    assert Path(tree.out / "surface.csv").exists() is False


def test_server_and_client_are_the_wanted_hosts_or_the_first_two(tmp_path: Path) -> None:
    hosts = {"hosts": {"left": {}, "right": {}, "far": {}}}
    assert two_hosts(hosts, tmp_path, ("a", "b")) == ("left", "right")
    assert two_hosts(hosts, tmp_path, ("far", "left")) == ("far", "left")
    with pytest.raises(LabError, match="has 1 hosts"):
        two_hosts({"hosts": {"a": {}}}, tmp_path, ("a", "b"))
