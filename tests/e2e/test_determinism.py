"""The same fabric, programs and seed give the same bytes under any load of the machine."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Outcome, Softband

Programs = tuple[tuple[str, str], ...]


def pair(command: str) -> Programs:
    return (("a", command), ("b", f"{command} a"))


COMBINATIONS: list[tuple[str, Programs]] = [
    ("cables/sdr-cx4", pair("ib_send_bw -a -n 10")),
    ("cables/ddr-100m", pair("ib_send_bw -b -s 64 -n 300")),
    ("cables/ddr-switch-cx4-100m", pair("ib_send_bw -s 65536 -n 50 -e")),
    ("cables/sdr-10m", pair("ib_send_lat -n 200")),
    ("cables/sdr-cx4", pair("ib_write_lat -n 100")),
    ("cables/sdr-cx4", pair("ib_send_bw -c UD -s 1024 -n 200 -q 2")),
    ("cables/sdr-cx4", pair("ibv_rc_pingpong -c -n 100")),
    ("cables/sdr-cx4", pair("ib_atomic_bw -n 100 -b")),
    (
        "three-hosts",
        (
            ("a", "ib_send_bw -s 32768 -n 60 -p 18600"),
            ("b", "ib_write_bw -s 32768 -n 60 -p 18601"),
            ("c", "ib_send_bw -s 32768 -n 60 -p 18600 a"),
            ("c", "ib_write_bw -s 32768 -n 60 -p 18601 b"),
        ),
    ),
]

HOG = "while True: pass"


def digest(outcome: Outcome) -> str:
    outcome.assert_ok()
    assert outcome.out is not None
    whole = hashlib.md5(outcome.stdout.encode())
    for file in sorted(outcome.out.glob("*.out")):
        whole.update(file.name.encode() + file.read_bytes())
    whole.update((outcome.out / "counters.json").read_bytes())
    whole.update(str(outcome.report()["virtual_seconds"]).encode())
    return whole.hexdigest()


@pytest.mark.parametrize(("fabric", "programs"), COMBINATIONS, ids=[f"{f}-{p[0][1]}" for f, p in COMBINATIONS])
def test_repeats_to_the_byte_under_load_and_on_one_core(softband: Softband, fabric: str, programs: Programs) -> None:
    alone = digest(softband.run(fabric, *programs))
    assert digest(softband.run(fabric, *programs, wrapper=("taskset", "-c", "0"))) == alone, "pinned to one core"
    hogs = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(2)]
    try:
        assert digest(softband.run(fabric, *programs)) == alone, "under two CPU hogs"
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def test_another_seed_gives_other_sequence_numbers_and_the_same_bandwidth(softband: Softband) -> None:
    first = softband.pair("cables/sdr-cx4", "ib_send_bw -n 100").assert_ok()
    second = softband.pair("cables/sdr-cx4", "ib_send_bw -n 100", options=("--seed", "7")).assert_ok()
    assert first.report()["seed"] != second.report()["seed"]
    last = [line for line in first.program("b-0").splitlines() if line.strip().startswith("65536")]
    assert last and last[0] in second.program("b-0")


def test_a_thread_or_process_that_the_system_ends_slowly_takes_no_simulated_time(softband: Softband, c_programs: Path) -> None:
    lines = softband.run("two-hosts", ("a", str(c_programs / "slow_ends"))).assert_ok().program("a-0").splitlines()
    assert [line.rpartition(" after ")[0] for line in lines] == ["joined"] * 5 + ["told"] * 5
    # The host part's cost of one read of the clock.
    assert {line.rpartition(" after ")[2] for line in lines} == {"30 ns"}
