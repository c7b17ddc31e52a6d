"""Pipes, eventfds, Unix sockets, signalfds and terminals: a write wakes those that poll or wait for it, at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Softband

ROUNDS = 30
LINES = 300
# The writer's call, the wake-up, and the calls of the reader that find and take the write.
LATE_NS_MAX = 3_000
CONNECTS = 20_000
TICKS = 3_000
# The listener of the test accepts after a millisecond.
WAIT_NS_MIN = {"virtual": 500_000, "wall": 0}
# Socket, connect and close.
CALL_NS_MAX = 1_000


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


def test_a_connect_to_a_unix_socket_takes_no_time_of_other_programs(softband: Softband, c_programs: Path) -> None:
    """librdmacm looks for a daemon this way in each program. The other host lets simulated time pass all the while."""
    program = c_programs / "unix_connect"

    def duration_ns() -> int:
        run = softband.run("two-hosts", ("a", f"{program} absent {CONNECTS}"), ("b", f"{program} ticks {TICKS}")).assert_ok()
        return int(run.program("a-0"))

    durations = {duration_ns() for _ in range(3)}
    assert len(durations) == 1
    assert durations.pop() < CONNECTS * CALL_NS_MAX


@pytest.mark.parametrize("pace", WAIT_NS_MIN)
def test_a_connect_to_a_full_listener_waits_for_room(softband: Softband, c_programs: Path, pace: str) -> None:
    run = softband.run("two-hosts", ("a", f"{c_programs / 'unix_connect'} full {WAIT_NS_MIN[pace]}"), options=("--pace", pace)).assert_ok()
    assert run.program("a-0") == "ok\n"
