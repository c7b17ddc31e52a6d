"""Sweeps of `softband model`: keys and values, the data set, what a full disk and lost workers leave."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Tree
from distributed import KilledWorker
from rich.console import Console

from softband_lab.base.errors import LabError
from softband_lab.base.fabricfile import set_field
from softband_lab.campaign import jobs
from softband_lab.campaign.cluster import Cluster
from softband_lab.campaign.model_job import name_of
from softband_lab.sweep.question import Question, ask
from softband_lab.sweep.run import check_runs, run_sweep


def question(tree: Tree, *sweeps: str, options: tuple[str, ...] = (), workload: str = "incast") -> Question:
    return ask(tree.home, Path("switch.toml"), workload, options, list(sweeps))


def run(tree: Tree, *sweeps: str, options: tuple[str, ...] = (), workload: str = "incast") -> tuple[int, str]:
    text = io.StringIO()
    console = Console(file=text, width=200)
    asked = question(tree, *sweeps, options=options, workload=workload)
    with Cluster(None, 2) as cluster:
        return run_sweep(asked, tree.softband, tree.out, cluster, console), text.getvalue()


def fill_the_disk(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """There is no room for what is called so."""
    real = os.fsync

    def full(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").resolve().name.startswith(name):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)


def table(tree: Tree, name: str) -> pl.DataFrame:
    return pl.read_parquet(tree.out / "data" / name / "**/*.parquet").sort("run")


def test_a_sweep_leaves_a_run_for_each_combination_in_one_data_set(tree: Tree) -> None:
    status, printed = run(tree, "bytes=4KiB,64KiB", "vls=1,8", "fake.rate=SDR,DDR")
    assert status == 0, printed
    assert "8 finished, 0 of them kept" in printed
    runs = table(tree, "runs")
    assert runs.select("bytes", "vls", "fake.rate").unique().height == 8
    assert runs.schema["bytes"] == pl.Int64
    assert runs["completion_ps"].unique().sort().to_list() == [4096000, 65536000]
    assert table(tree, "flows").join(runs, on=["run", "key"]).height == 16
    assert table(tree, "hot_ports").select("depth", "port", "feeds").unique().sort("depth").rows() == [
        (0, "sw/1", "a/mthca0/1"),
        (1, "b/mthca0/1", "sw/1"),
    ]
    ports = table(tree, "ports").join(runs.select("run", "vls"), on="run")
    assert ports.filter(vls=1)["credit_stall_vl7_ps"].null_count() == 4
    assert ports.filter(vls=8)["credit_stall_vl7_ps"].to_list() == [17] * 4
    whole = pl.read_parquet(tree.out / "runs.parquet")
    assert whole.sort("run").equals(runs)
    assert whole["bytes"].to_list() == [4096] * 4 + [65536] * 4  # in the order that was asked for
    assert (tree.out / whole["fabric"][0]).is_file()


def test_runs_that_are_there_are_not_run_again_and_further_values_join_them(tree: Tree) -> None:
    run(tree, "bytes=1,2")
    assert run(tree, "bytes=2,3")[0] == 0
    assert sorted(tree.runs()) == [f"switch.toml {size} on 1 threads" for size in (1, 2, 3)]
    run(tree, "bytes=3,4", options=("--threads", "2"))
    assert tree.runs()[-1] == "switch.toml 4 on 2 threads"
    assert table(tree, "runs")["bytes"].to_list() == [1, 2, 3, 4]
    assert pl.read_csv(tree.out / "runs.csv")["bytes"].to_list() == [3, 4]


def test_a_changed_fabric_makes_the_runs_start_again_and_the_old_ones_go(tree: Tree) -> None:
    run(tree, "bytes=1,2")
    tree.append("switch.toml", "bus_mib = 900.0")
    status, printed = run(tree, "bytes=2,3")
    assert status == 0
    assert "2 runs in" in printed
    assert table(tree, "runs")["bytes"].to_list() == [2, 3]


@pytest.mark.parametrize("name", ["flows", "ports", "hot_ports", "warnings", "runs"])
def test_a_damaged_table_makes_its_run_starts_again(tree: Tree, capsys: pytest.CaptureFixture[str], name: str) -> None:
    run(tree, "bytes=1,2")
    path = tree.out / "data" / name / "bytes-1.parquet"
    whole = path.read_bytes()
    in_the_middle = whole[:40] + b"\xff" * 160 + whole[200:]
    one_bit = whole[:60] + bytes([whole[60] ^ 1]) + whole[61:]
    for damaged in (b"", whole[:-20], in_the_middle, one_bit):
        path.write_bytes(damaged)
        before = len(tree.runs())
        assert "2 finished, 1 of them kept" in run(tree, "bytes=1,2")[1]
        assert len(tree.runs()) == before + 1
        assert capsys.readouterr().err == f"{path}: is not as it was written: the run starts again\n"
        assert path.read_bytes() == whole


@pytest.mark.parametrize("damage", ["{", "{}", '{"sha256": []}', '{"sha256": {}}'])
def test_damaged_checksums_make_their_run_start_again(
    tree: Tree, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    run(tree, "bytes=1,2")
    (tree.out / "checksums/bytes-1.json").write_text(damage)
    assert "2 finished, 1 of them kept" in run(tree, "bytes=1,2")[1]
    assert "is not as it was written: the run starts again" in capsys.readouterr().err
    assert "2 finished, 2 of them kept" in run(tree, "bytes=1,2")[1]


def test_of_many_damaged_runs_the_first_are_named(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = f"seed={','.join(map(str, range(10)))}"
    run(tree, sweep)
    for path in (tree.out / "data/flows").iterdir():
        path.write_bytes(b"damaged")
    assert "10 finished, 0 of them kept" in run(tree, sweep)[1]
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 9
    assert said[-1] == "and 2 more runs start again"


def test_runs_without_checksums_run_again_and_that_is_said(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of earlier versions have none."""
    run(tree, "bytes=1,2,3")
    for name in ("bytes-1", "bytes-3"):
        (tree.out / f"checksums/{name}.json").unlink()
    assert "3 finished, 1 of them kept" in run(tree, "bytes=1,2,3")[1]
    wanted = f"{tree.out}: 2 runs have no checksums, as those of earlier versions: they start again\n"
    assert capsys.readouterr().err == wanted
    assert "3 finished, 3 of them kept" in run(tree, "bytes=1,2,3")[1]


def test_files_of_an_earlier_version_get_present_names_and_their_runs_start_again(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tree, "bytes=1,2")
    (tree.out / "runs").mkdir()
    for name in ("runs", "data/runs", "runs.csv", "runs.parquet"):
        (tree.out / name).rename(tree.out / name.replace("runs", "cells"))
    for record in (tree.out / "checksums").iterdir():
        record.write_text(record.read_text().replace("data/runs/", "data/cells/"))
    before = len(tree.runs())
    status, printed = run(tree, "bytes=1,2")
    assert (status, len(tree.runs())) == (0, before + 2)
    assert "runs: 2 finished, 0 of them kept from before" in printed
    assert capsys.readouterr().err == f"{tree.out}: runs of another version start again: 2\n"
    assert table(tree, "runs")["bytes"].to_list() == [1, 2]
    assert not list(tree.out.rglob("cells*"))


def test_the_largest_seed_has_a_run(tree: Tree) -> None:
    most = (1 << 64) - 1
    assert run(tree, f"seed=1,{most}")[0] == 0
    assert table(tree, "runs")["seed"].dtype == pl.UInt64


def test_a_check_looks_at_every_run_and_runs_none(tree: Tree) -> None:
    def checked(*sweeps: str) -> tuple[int, str]:
        text = io.StringIO()
        return check_runs(question(tree, *sweeps), tree.softband, 2, Console(file=text, width=200)), text.getvalue()

    assert checked("senders=1,2", "bytes=1,2") == (0, "4 runs checked: all of them can be run\n")
    status, printed = checked("senders=1,3", "bytes=1,2")
    assert status == 2
    assert "cannot run --sweep senders=3 --sweep bytes=1: senders = 3 is out of range" in printed
    assert "4 runs checked: 2 of them cannot be run" in printed
    assert not tree.runs()
    assert not tree.out.exists()


def test_what_is_wrong_is_said_of_the_users_own_files(tree: Tree) -> None:
    trace = tree.home / "wrong.goal"
    trace.write_text("wrong\n")
    with pytest.raises(LabError) as caught:
        run(tree, "seed=1,2", workload=str(trace))
    assert str(caught.value) == f"--sweep seed=1: {trace}:1: error: wrong\n  help: right"
    with pytest.raises(LabError) as caught:
        run(tree, "fake.wrong=1")
    assert str(caught.value) == "--sweep fake.wrong=1: switch.toml: error: wrong\n  help: right"
    with pytest.raises(LabError, match=r"help: what docs/model\.md says of that key"):
        run(tree, "senders=3")
    with pytest.raises(LabError) as caught:
        run(tree, "bytes=1", options=("--senders", "3"))
    assert "help" not in str(caught.value)


def test_another_sweep_in_the_same_folder_is_refused(tree: Tree) -> None:
    run(tree, "bytes=1,2")
    with pytest.raises(LabError, match=r"sweep.json: holds a sweep of bytes of incast on switch.toml"):
        run(tree, "messages=1,2")
    with pytest.raises(LabError, match=r"help: another --out"):
        run(tree, "bytes=1,2", options=("--window", "3"))
    assert table(tree, "runs").height == 2


@pytest.mark.parametrize("damage", ["gone", "broken"])
def test_finished_runs_stay_when_what_they_are_of_is_lost(tree: Tree, damage: str) -> None:
    run(tree, "bytes=1,2,3")
    if damage == "gone":
        (tree.out / "sweep.json").unlink()
    else:
        (tree.out / "sweep.json").write_text("{")
    status, printed = run(tree, "bytes=1,2")
    assert status == 0
    assert "runs: 2 finished, 2 of them kept from before" in printed
    assert "1 runs in" in printed and "are of other values: they go" in printed
    assert table(tree, "runs")["bytes"].to_list() == [1, 2]


def test_a_failing_run_is_named_and_the_others_go_on(tree: Tree) -> None:
    status, printed = run(tree, "bytes=12,13,14", workload="permutation")
    assert status == 1
    assert "failed bytes-13: exit status 2" in printed
    assert "softband model switch.toml permutation --bytes 13" in printed
    assert "| switch.toml: bad luck" in printed
    kept = tree.out / "runs/failed/bytes-13"
    assert f"  | softband: its results until then are in {kept}/results\n" in printed
    assert "what it left" not in printed  # it was printed before
    assert (kept / "results/flows.csv").read_text() == "some\n"
    assert (kept / "switch.toml").is_file()
    assert table(tree, "runs")["bytes"].to_list() == [12, 14]


def test_what_a_failing_run_left_is_named_and_kept_until_the_next_time(tree: Tree) -> None:
    (tree.out / "runs/.failed-bytes-9").mkdir(parents=True)  # of an earlier version
    status, printed = run(tree, "bytes=12,15")
    assert status == 1
    # The disk that is full is the one where the run ran.
    assert f"cannot write the results to {tree.out}" not in printed
    assert f"\n  what it left: {tree.out}/runs/failed/bytes-15\n" in printed
    assert (tree.out / "runs/failed/bytes-15/results/softband.log").is_file()
    assert [path.name for path in (tree.out / "runs").iterdir()] == ["failed"]
    run(tree, "bytes=12")
    assert not (tree.out / "runs/failed").exists()


def test_a_failing_run_is_named_also_when_there_is_no_room_for_what_it_left(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, _content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    printed = io.StringIO()
    monkeypatch.setattr(Path, "write_bytes", full)
    with (
        Cluster(None, 1) as cluster,
        pytest.raises(LabError, match=r"runs/failed/bytes-13/\S+: cannot be written: No space left"),
    ):
        run_sweep(question(tree, "bytes=13"), tree.softband, tree.out, cluster, Console(file=printed, width=200))
    assert "failed bytes-13: exit status 2" in printed.getvalue()


def test_the_workload_may_be_a_file(tree: Tree) -> None:
    trace = tree.home / "two words.goal"
    trace.write_text("num_ranks 2\n")
    assert run(tree, "bytes=1,2", workload=str(trace))[0] == 0
    assert table(tree, "runs")["workload"].unique().to_list() == ["two words"]
    assert question(tree, "bytes=1", workload="incast").workload == "incast"
    trace.write_text("num_ranks 3\n")
    assert "they go" in run(tree, "bytes=1,2", workload=str(trace))[1]


def test_a_full_disk_is_an_error_with_its_place_and_the_same_command_goes_on(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tree, "bytes=1,2")
    fill_the_disk(monkeypatch, ".bytes-4.parquet")
    with pytest.raises(LabError, match=r"data/flows/bytes-4.parquet: cannot be written: No space left on device"):
        run(tree, "bytes=1,2,4")
    assert table(tree, "runs")["bytes"].to_list() == [1, 2]
    assert table(tree, "flows").height == 4
    assert not list(tree.out.rglob("*.part"))
    monkeypatch.undo()
    assert run(tree, "bytes=1,2,4")[0] == 0
    assert sorted(line.split()[1] for line in tree.runs()) == ["1", "2", "4", "4"]


def test_a_full_disk_at_the_end_of_a_study_is_an_error_with_its_place(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_the_disk(monkeypatch, ".figure-02-bandwidth.svg")
    with pytest.raises(LabError, match=r"figures/figure-02-bandwidth.svg: cannot be written: No space left"):
        tree.run(quick=True)
    monkeypatch.undo()
    before = len(tree.runs())
    assert tree.run(quick=True)[0] == 0
    assert len(tree.runs()) == before


def test_what_was_being_written_is_never_read(tree: Tree) -> None:
    run(tree, "bytes=1,2")
    runs = tree.out / "data/runs"
    (runs / ".bytes-3.parquet.part").write_bytes(b"PAR1 half")
    (runs / "bytes-1.parquet").unlink()  # its other tables are there
    assert run(tree, "bytes=1,2")[0] == 0
    assert sorted(path.name for path in runs.iterdir()) == ["bytes-1.parquet", "bytes-2.parquet"]
    assert len(tree.runs()) == 3


def test_a_run_that_loses_its_workers_is_a_failure_and_the_others_go_on(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Cluster.submit

    class Lost:
        def result(self) -> Any:
            raise KilledWorker("run", "tcp://there:1", 3)

        def add_done_callback(self, done: Any) -> None:
            done(self)

        def cancel(self) -> None: ...

    def submit(cluster: Cluster, order: Any) -> Any:
        return Lost() if order.job.id == "bytes-2" else real(cluster, order)

    monkeypatch.setattr(Cluster, "submit", submit)
    status, printed = run(tree, "bytes=1,2,3")
    assert status == 1
    assert "failed bytes-2: the worker that ran it was lost 4 times, last tcp://there:1" in printed
    assert table(tree, "runs")["bytes"].to_list() == [1, 3]


def test_a_cluster_without_workers_is_an_error_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("tcp://127.0.0.1:1")
    monkeypatch.setattr(cluster, "_count", lambda: 0)
    assert cluster.slots() == 0
    monkeypatch.setattr(cluster, "_workers_seen", -1e9)
    with pytest.raises(LabError, match=r"has had no workers for 60 s\n  help: start some"):
        cluster.slots()


def test_keys_follow_from_all_inputs_and_from_nothing_else(tree: Tree) -> None:
    softband = tree.softband
    one = [jobs.content_key(job, softband) for job in question(tree, "bytes=1,2").jobs()]
    assert one == [jobs.content_key(job, softband) for job in question(tree, "bytes=1,2").jobs()]
    assert len(set(one)) == 2
    more = question(tree, "bytes=1", options=("--seed", "2")).jobs()
    assert jobs.content_key(more[0], softband) not in one
    tree.append("switch.toml", "bus_mib = 900.0")
    assert jobs.content_key(question(tree, "bytes=1").jobs()[0], softband) not in one


@pytest.mark.parametrize(
    ("sweeps", "wanted"),
    [
        (["bytes"], "--sweep bytes: has no values"),
        (["bytes="], "has an empty value"),
        (["bytes=1,1B"], "has a value twice"),
        (["bytes=1", "bytes=2"], "--sweep bytes: is given twice"),
        (["byts=1"], "--sweep byts: is not a key\n  help: one of bytes, messages"),
        (["bytes=4 parsecs"], "--sweep bytes: `4 parsecs` is not a size"),
        (["window=-1"], "--sweep window: `-1` is not a whole number"),
        (["seed=18446744073709551616"], "`18446744073709551616` is too large\n  help: at most 18446744073709551615"),
        (["messages=4294967296"], "--sweep messages: `4294967296` is too large\n  help: at most 4294967295"),
        (["bytes=9000000000GiB"], "`9000000000` is too large"),
        ([f"bytes={'9' * 5000}"], "is too large"),
        (["vls=3"], "--sweep vls: 3 is not a number of operational data lanes"),
        (["rate=slow"], "--sweep rate: `SLOW` is not a link rate"),
        (["cable-length=far"], "--sweep cable-length: `far` is not a length"),
        (["cables.9.part=cx4"], "--sweep cables.9.part: there is no `9` in `cables`\n  help: from 0 to 1"),
        (["cables.0=cx4"], "`cables.0` is not a single value"),
        (["subnet.max_op_vls.x=1"], "`subnet.max_op_vls` is 5, and nothing is in it"),
        (["senders=1,3"], "--sweep senders=3: senders = 3 is out of range"),
        ([f"seed={','.join(map(str, range(400)))}", f"bytes={','.join(map(str, range(400)))}"], "160000 runs"),
    ],
)
def test_a_bad_key_or_value_is_refused_with_what_would_be_right(tree: Tree, sweeps: list[str], wanted: str) -> None:
    with pytest.raises(LabError) as caught:
        run(tree, *sweeps)
    assert wanted in str(caught.value)
    assert not tree.runs()


@pytest.mark.parametrize("where", ["here", "tcp://", "tcp://host", "http://host:1"])
def test_a_cluster_is_an_address_or_slurm(where: str) -> None:
    with pytest.raises(LabError, match="is not a cluster\n  help: the address of a Dask scheduler, tcp://HOST:PORT"):
        Cluster(where)


def test_of_many_values_the_ends_are_checked(tree: Tree) -> None:
    sizes = [7, *range(100, 40, -1), 8]
    checked = question(tree, f"bytes={','.join(map(str, sizes))}", "seed=1,2").to_be_checked()
    assert [value for axis, value, _ in checked if axis.name == "bytes"] == [7, 8, 100]
    assert [value for axis, value, _ in checked if axis.name == "seed"] == [1, 2]


def test_names_of_runs_are_files_and_differ() -> None:
    assert name_of((("bytes", 4096), ("seed", 1))) == "bytes-4096_seed-1"
    odd = [name_of((("cables.0.length", value),)) for value in ("1 m", "1/m", "1-m")]
    assert len(set(odd)) == 3
    assert all("/" not in name and " " not in name for name in odd)


def test_a_field_is_set_by_its_path() -> None:
    document = {"cables": [{"part": "cx4"}], "subnet": {"max_op_vls": 5}}
    assert set_field(document, "cables.0.length", "3 m", "x")["cables"] == [{"part": "cx4", "length": "3 m"}]
    assert set_field(document, "ethernet.mtu", 1500, "x")["ethernet"] == {"mtu": 1500}
    assert document == {"cables": [{"part": "cx4"}], "subnet": {"max_op_vls": 5}}
