"""A recording that plays by `softband model` over RC, and by softband-tcpplay over sockets."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Tree

from softband_lab.base.errors import LabError
from softband_lab.base.parquet import read_parquet
from softband_lab.base.softband import RunFailed
from softband_lab.campaign.cluster import Cluster
from softband_lab.campaign.engine_job import EngineJob
from softband_lab.campaign.inputs import InputFile
from softband_lab.campaign.subnet_manager import SubnetManager, managed_by
from softband_lab.campaign.trace_step import TcpTraceStep, parse_trace
from softband_lab.study.plan import StudyOptions, plan

TRACE = (
    'trace = { computation = { recording = "is.rec", kind = "memory", host = "a-host" }, '
    'ranks_per_host = 1, operations = 1e9, interfaces = { Ethernet = "eth1" } }'
)
TEST = f"""
[tests.replay]
title = "Replay"
quantity = "rate"
unit = "GFlop/s"
direction = "uni"
column = "operations_gflop_s"
iterations = 1
{TRACE}
sizes = {{ RC = {{ from = 1, to = 1 }}, Ethernet = {{ from = 1, to = 1 }} }}

[[figures]]
"""
FIGURE = """
[[figures]]
number = 3
title = "Replay"
section = "3"
caption = "Two ranks."
transport = "RC"
tests = ["replay"]
curves = [
  { name = "sdr", fabric = "sdr.toml" },
  { name = "gigabit", fabric = "gigabit.toml", transport = "Ethernet" },
]
"""
RULES = """
[M10]
claim = "InfiniBand is faster"
kind = "below"
figures = [3]
lower = ["gigabit"]
upper = ["sdr"]
tests = ["replay"]
at = 1
factor = 0.9
"""
PUBLISHED = "M10,nobody,3,faster,ordering,ordering only,\n"
RECORDING = '{"format":"softband-mpi-record","version":1,"ranks":2}\n'
INTERFACES = '[interfaces.eth1]\nkind = "ethernet"\n'


@pytest.fixture
def replay(tree: Tree) -> Tree:
    """The tree with a recording of two ranks, and a fabric with interfaces."""
    study = tree.home / "studies/mini"
    path = study / "study.toml"
    path.write_text(path.read_text().replace("[[figures]]\n", TEST.lstrip(), 1) + FIGURE)
    (study / "is.rec").write_text(RECORDING)
    (study / "claims.toml").write_text((study / "claims.toml").read_text() + RULES)
    path = tree.home / "references/mini_claims.csv"
    path.write_text(path.read_text() + PUBLISHED)
    (tree.home / "fabrics/gigabit.toml").write_text((tree.home / "fabrics/sdr.toml").read_text() + INTERFACES)
    return tree


def jobs(tree: Tree) -> dict[str, EngineJob]:
    with Cluster(None, 1) as cluster:
        planned = plan(tree.study(), [], StudyOptions(tree.home, tree.out, False, cluster, ""))
    return {job.id: job for job in planned.all_jobs() if "replay" in job.id}


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_each_rank_is_a_program_on_its_host(replay: Tree) -> None:
    found = jobs(replay)
    made, played = found["gigabit-ethernet-replay"].command().split(" && ")
    assert made.startswith("softband record goal studies/mini/is.rec --out app.goal --timed --compute-kind memory ")
    rank = "'softband-tcpplay --rank {} --hosts a-eth1,b-eth1 --ranks-per-host 1 app.goal'"
    programs = f"--on a {rank.format(0)} --on b {rank.format(1)}"
    assert played == f"softband run fabrics/gigabit.toml {programs} --seed 1 --out OUT"
    assert " && softband model fabrics/sdr.toml app.goal " in found["sdr-rc-replay"].command()


def test_two_ranks_of_a_host_need_no_other_host(replay: Tree) -> None:
    change(replay.home / "studies/mini/study.toml", "ranks_per_host = 1", "ranks_per_host = 2")
    command = jobs(replay)["gigabit-ethernet-replay"].command()
    assert "--on b" not in command and command.count("--on a 'softband-tcpplay --rank ") == 2
    assert command.count("--hosts a-eth1 --ranks-per-host 2 ") == 2 and "--compute-ranks 2 " in command


def test_a_study_reads_the_seconds_of_rank_0_for_each_rate_of_the_host(replay: Tree) -> None:
    status, printed = replay.run()
    assert status == 0, printed
    seconds = {"": 2.0, "-host-slower": 2.5, "-host-faster": 1.666666}
    for word, time in seconds.items():
        path = replay.out / f"data/measurements/gigabit-ethernet-replay{word}.parquet"
        row = next(iter(read_parquet(path.read_bytes()).rows()))
        assert float(row["latency_max_us"]) == pytest.approx(time * 1e6, rel=1e-3)
        assert float(row["operations_gflop_s"]) == pytest.approx(1.0 / time, rel=1e-3)


def test_a_second_study_runs_nothing_again(replay: Tree) -> None:
    assert replay.run()[0] == 0
    runs = len(replay.runs())
    assert replay.run()[0] == 0
    assert len(replay.runs()) == runs


def test_interface_hosts_and_ranks_change_the_key_of_a_run(replay: Tree) -> None:
    step = jobs(replay)["gigabit-ethernet-replay"].steps[0]
    assert isinstance(step, TcpTraceStep)
    base = (step.recording, step.goal_options, 1, 1e9)
    others = [(2, ("a", "b"), "ib0"), (2, ("b", "a"), "eth1"), (1, ("a", "b"), "eth1")]
    keys = [TcpTraceStep(*base, *rest).inputs() for rest in others]
    assert step.inputs() not in keys and all(keys.count(key) == 1 for key in keys)


@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        ("study.toml", ', interfaces = { Ethernet = "eth1" }', "", "has no interface for Ethernet"),
        ("study.toml", '{ Ethernet = "eth1" }', '{ Ethernet = "eth1", RC = "ib0" }', "has an interface for RC, which"),
        ("study.toml", "Ethernet = { from = 1, to = 1 } }", "SDP = { from = 1, to = 1 } }", "cannot play over SDP"),
        ("study.toml", '"eth1"', '"eth7"', "`a` has no interface `eth7` in fabrics/gigabit.toml"),
        ("is.rec", '"ranks":2', '"ranks":3', "needs 3 hosts for 3 ranks, and fabrics/gigabit.toml names 2"),
        ("is.rec", '"ranks":2', '"size":2', "studies/mini/is.rec states no ranks"),
    ],
)
def test_an_impossible_replay_is_refused_before_the_first_run(
    replay: Tree, file: str, old: str, new: str, problem: str
) -> None:
    change(replay.home / "studies/mini" / file, old, new)
    with pytest.raises(LabError, match=r"study\.toml:") as caught:
        jobs(replay)
    assert problem in str(caught.value)


def test_a_recording_without_a_trace_fails_the_run(replay: Tree, tmp_path: Path) -> None:
    step = jobs(replay)["gigabit-ethernet-replay"].steps[0]
    assert isinstance(step, TcpTraceStep)
    broken = TcpTraceStep(InputFile("is.rec", "broken"), step.goal_options, 1, 1e9, 2, ("a", "b"), "eth1")
    with pytest.raises(RunFailed, match="no trace") as caught:
        broken.run(replay.softband, replay.home / "fabrics/gigabit.toml", tmp_path / "out", 1, 10.0)
    assert caught.value.last_lines[-1].endswith("error: broken")


def test_a_run_without_the_table_of_rank_0_fails(replay: Tree) -> None:
    change(replay.home / "bin/softband", 'if option["--rank"] == "0"', 'if option["--rank"] == "1"')
    status, printed = replay.run()
    assert status == 1 and "rank 0 left no table of softband-tcpplay" in printed


def test_ranks_do_not_wait_for_opensm(replay: Tree) -> None:
    job = jobs(replay)["gigabit-ethernet-replay"]
    with pytest.raises(LabError, match="a replay over TCP, whose ranks do not wait for OpenSM"):
        managed_by(SubnetManager.OPENSM, job)


def test_a_cut_table_is_an_error() -> None:
    with pytest.raises(LabError, match="the table of the trace is cut"):
        parse_trace("trace_seconds,operations\n", Path("trace.csv"))
