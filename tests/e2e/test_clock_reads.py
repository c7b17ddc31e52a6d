"""Reads of a clock in simulated time: those of a computation, and those of a loop that waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Softband

# A thread that only reads clocks keeps the token for at most this long beyond an event.
LATE_NS = 20_000
# A thread that polls looks again once a microsecond after turns of other threads.
LOOK_NS = 1_000


@pytest.mark.parametrize("count", [300, 30_000])
def test_reads_of_a_computation_cost_the_same_however_many(
    softband: Softband, c_programs: Path, count: int
) -> None:
    """The process shares memory with one that waits, and never looks at it."""
    command = f"{c_programs / 'clock_reads'} computes {count}"
    outcome = softband.run("modern-pair", ("a", command)).assert_ok()
    assert float(outcome.program("a-0")) == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize("micros", [777, 3_300])
@pytest.mark.parametrize(("way", "late"), [("clock", LATE_NS), ("queue", LOOK_NS)])
def test_a_loop_sees_a_word_of_another_thread_soon(
    softband: Softband, c_programs: Path, way: str, late: int, micros: int
) -> None:
    command = f"{c_programs / 'clock_reads'} {way} {micros}"
    outcome = softband.run("modern-pair", ("a", command)).assert_ok()
    assert float(outcome.program("a-0")) <= late


def test_a_loop_that_reads_clocks_sees_an_rdma_write_at_once(softband: Softband, c_programs: Path) -> None:
    command = f"{c_programs / 'clock_reads'} remote 777"
    outcome = softband.run("modern-pair", ("a", command), ("b", f"{command} a")).assert_ok()
    # A write of eight bytes takes 1.4 us on these hosts.
    assert float(outcome.program("a-0")) <= 2 * LOOK_NS
