"""Writes of HCAs to memory that processes share, and its registration."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Softband

KINDS = ("sysv", "memfd", "shm_open", "file", "inherited")
WORKS = ("write", "long", "send", "immediate", "add", "swap", "read")
WAYS = ("nap", "spin", "clock", "yield", "cq")
ROUNDS = 5
# From the post to the arrival. "long" is 64 KiB.
WAY_NS = {"long": 6_000}
SMALL_NS = 2_500
# A nap of the watching process, with the cost of its calls.
NAP_NS = 11_000


def arrivals(softband: Softband, programs: Path, kind: str, work: str, way: str) -> list[int]:
    """Returns the nanoseconds from each post to the look that found its word."""
    words = f"{programs / 'shared_arrivals'} {kind} {work} {way}"
    outcome = softband.run("modern-pair", ("a", words), ("b", f"{words} a")).assert_ok()
    rows = [line.split() for line in outcome.program("a-0").splitlines()]
    assert [int(number) for number, _ in rows] == list(range(1, ROUNDS + 1))
    return [int(nanos) for _, nanos in rows]


def check(taken: list[int], work: str, way: str) -> None:
    most = WAY_NS.get(work, SMALL_NS) + (NAP_NS if way == "nap" else 0)
    assert all(0 < nanos <= most for nanos in taken), taken


@pytest.mark.parametrize("way", ["nap", "spin"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_word_from_afar_is_there_for_each_process_of_the_memory(
    softband: Softband, c_programs: Path, kind: str, way: str
) -> None:
    check(arrivals(softband, c_programs, kind, "write", way), "write", way)


@pytest.mark.parametrize("work", WORKS)
def test_each_work_of_a_peer_wakes_a_process_that_watches(
    softband: Softband, c_programs: Path, work: str
) -> None:
    check(arrivals(softband, c_programs, "memfd", work, "spin"), work, "spin")


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_watch_sees_a_word_from_afar(
    softband: Softband, c_programs: Path, way: str
) -> None:
    check(arrivals(softband, c_programs, "sysv", "write", way), "write", way)


@pytest.mark.parametrize("way", ["nap", "spin", "clock"])
def test_arrivals_take_the_same_time_beside_other_work(
    softband: Softband, c_programs: Path, way: str
) -> None:
    alone = arrivals(softband, c_programs, "sysv", "long", way)
    hogs = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)
    ]
    try:
        assert arrivals(softband, c_programs, "sysv", "long", way) == alone
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


@pytest.mark.parametrize("kind", ["sysv", "inherited"])
def test_a_read_from_afar_returns_the_word_of_its_time(
    softband: Softband, c_programs: Path, kind: str
) -> None:
    words = f"{c_programs / 'shared_arrivals'} {kind} source -"
    outcome = softband.run("modern-pair", ("a", words), ("b", f"{words} a")).assert_ok()
    assert outcome.program("a-0").endswith(" reads\n")


@pytest.mark.parametrize("pace", ["virtual", "wall"])
@pytest.mark.parametrize("way", ["plain", "receive", "demand", "implicit", "again"])
@pytest.mark.parametrize("beside", ["writes", "reads", "nothing", "ends"])
def test_memory_that_another_process_has_can_be_registered(
    softband: Softband, c_programs: Path, beside: str, way: str, pace: str
) -> None:
    own = {"writes": "nothing", "reads": "reads"}.get(beside, "nothing")
    words = f"{c_programs / 'shared_registration'} {beside} {own} {way}"
    outcome = softband.run("modern-pair", ("a", words), options=("--pace", pace)).assert_ok()
    assert outcome.program("a-0") == "ok\n"
