"""Pipes, eventfds, Unix sockets, signalfds and terminals: a write wakes those that poll or wait for it, at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Softband

ROUNDS = 30
LINES = 300
# The writer's call, the wake-up, and the calls of the reader that find and take the write.
LATE_NS_MAX = 3_000


def lateness(softband: Softband, program: Path, kind: str, way: str) -> str:
    return softband.run("two-hosts", ("a", f"{program} {kind} {way} {ROUNDS}")).assert_ok().program("a-0")


@pytest.mark.parametrize("way", ["poll", "nonblocking", "wait", "read"])
@pytest.mark.parametrize("kind", ["eventfd", "pipe", "socket", "signalfd", "child"])
def test_a_write_is_found_at_the_time_of_the_write(softband: Softband, c_programs: Path, kind: str, way: str) -> None:
    _, average, most = lateness(softband, c_programs / "kernel_descriptors", kind, way).split()
    assert 0 < int(average) <= int(most) < LATE_NS_MAX


def test_a_write_is_found_at_the_same_times_in_each_run(softband: Softband, c_programs: Path) -> None:
    program = c_programs / "kernel_descriptors"
    assert len({lateness(softband, program, "child", "poll") for _ in range(3)}) == 1


@pytest.mark.parametrize("way", ["epoll", "nested", "inquiry"])
def test_a_line_of_a_terminal_comes_no_later_than_what_its_writer_writes_next(softband: Softband, c_programs: Path, way: str) -> None:
    """The kernel's own task carries the line, late if the processors are busy."""
    done = softband.run("two-hosts", ("a", f"{c_programs / 'terminal'} {way} {LINES}")).assert_ok()
    assert done.program("a-0") == f"0 of {LINES} lines came late\n"
