"""Signals in simulated time: programs wait for them, and signals end programs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from conftest import Softband


def test_waits_for_signals_take_simulated_time(softband: Softband, c_programs: Path) -> None:
    done = softband.run("two-hosts", ("a", str(c_programs / "signal_waits"))).assert_ok()
    lines = done.program("a-0").splitlines()
    assert lines[:7] == [
        *["nothing: Resource temporarily unavailable after 40 ms"] * 3,
        "no wait: Resource temporarily unavailable after 0 ms",
        "pending: User defined signal 1 after 0 ms",
        "told: 1",
        "alarm: Alarm clock after 1000 ms",
    ]
    # A program sees a signal of the kernel at its next check.
    latest = {"child: Child exited": [310, 413], "handler: Interrupted system call": [207]}
    for line in (lines[7], lines[9], lines[10]):
        what, _, millis = line.removesuffix(" ms").partition(" after ")
        limit = latest[what].pop(0)
        assert limit - 14 <= int(millis) <= limit
    assert lines[8] == "reaped: 1"
    assert lines[11:] == ["thread: 0 Alarm clock"] * 2
    assert done.stderr == ""
    assert softband.run("two-hosts", ("a", str(c_programs / "signal_waits"))).assert_ok().program("a-0").splitlines() == lines


@pytest.mark.parametrize("how", ["", " quick"])
def test_who_ends_in_good_order_is_not_said_to_have_crashed(softband: Softband, c_programs: Path, how: str) -> None:
    done = softband.run("two-hosts", ("a", f"{c_programs / 'thread_left_behind'}{how}")).assert_ok()
    assert done.program("a-0") == "done\n"
    assert done.stderr == ""
    for status, end in ((3, "exit 3"), (134, "kill -ABRT $$")):
        done = softband.run("two-hosts", ("a", f"sh -c '{end}'"))
        assert done.status == status
        assert ("killed or crashed" in done.stderr) == (status > 128)


def test_a_signal_of_another_process_interrupts_a_wait_at_once(softband: Softband, c_programs: Path) -> None:
    done = softband.run("two-hosts", ("a", str(c_programs / "interrupted"))).assert_ok()
    interrupted = "Interrupted system call after 100 ms"
    assert done.program("a-0").splitlines() == [
        f"nanosleep: {interrupted}, 1 handled",
        "rest: 900 ms",
        f"poll: {interrupted}, 2 handled",
        "value: 42",
        f"epoll_wait: {interrupted}, 3 handled",
        f"recv: {interrupted}, 4 handled",
        f"read of a pipe: {interrupted}, 5 handled",
        f"pause: {interrupted}, 6 handled",
        f"select: {interrupted}, 7 handled",
        "recv that restarts: done after 200 ms, 8 handled",
        "read of a pipe that restarts: done after 200 ms, 9 handled",
        f"nanosleep: {interrupted}, 10 handled",
        "nanosleep with the signal blocked: done after 1000 ms, 10 handled",
        "ppoll that lets it in: Interrupted system call after 0 ms, 11 handled",
        f"ppoll that waits for it: {interrupted}, 12 handled",
        "nanosleep with the signal ignored: done after 1000 ms, 12 handled",
        "senders: 12 of 12",
    ]
    assert done.stderr == ""


def test_a_signal_of_another_process_reaches_threads_that_wait_for_locks(softband: Softband, c_programs: Path) -> None:
    done = softband.run("two-hosts", ("a", str(c_programs / "interrupted_locks"))).assert_ok()
    interrupted = "Interrupted system call after 100 ms, handler at 100 ms"
    assert done.program("a-0").splitlines() == [
        f"sem_wait: {interrupted}, 1 handled",
        f"sem_timedwait: {interrupted}, 2 handled",
        f"futex: {interrupted}, 3 handled",
        f"shared futex: {interrupted}, 4 handled",
        f"sem_wait with a post by the handler: {interrupted}, 5 handled",
        "sem_wait that restarts: done after 100 ms, handler at 100 ms, 6 handled",
        f"sem_timedwait: {interrupted}, 7 handled",
        f"futex with a limit: {interrupted}, 8 handled",
        f"msgrcv: {interrupted}, 9 handled",
        f"semop: {interrupted}, 10 handled",
        "mutex: done after 250 ms, handler at 100 ms, 11 handled",
        "condition: Connection timed out after 1000 ms, handler at 100 ms, 12 handled",
        "values: 1 2 3 4 5",
    ]
    assert done.stderr == ""


def test_python_handles_a_signal_while_it_waits_for_an_event(softband: Softband) -> None:
    script = (
        "import os, signal, threading, time\n"
        "stop = threading.Event()\n"
        "signal.signal(signal.SIGTERM, lambda *ignored: stop.set())\n"
        "begun = time.monotonic()\n"
        "if os.fork() == 0:\n"
        "    time.sleep(0.1)\n"
        "    os.kill(os.getppid(), signal.SIGTERM)\n"
        "    os._exit(0)\n"
        "stop.wait()\n"
        "print('stopped after %.2f s' % (time.monotonic() - begun))\n"
        "os.wait()\n"
    )
    done = softband.run("two-hosts", ("a", shlex.join([sys.executable, "-c", script]))).assert_ok()
    assert done.program("a-0") == "stopped after 0.10 s\n"
    assert done.stderr == ""
