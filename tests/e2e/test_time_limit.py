"""Runs that take too long: their end, and their report of the waiting threads."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import HANG_SECONDS, Outcome, Softband, left_behind

TIMED_OUT = 124
QUEUE_PAIR = "queue pair 0x404 (RC, RTS) to {}/mthca0/1, queue pair 0x404: 0 sends{} and 1 receive outstanding"


@pytest.fixture(autouse=True)
def nothing_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("SOFTBAND_TEST_MARK", str(tmp_path))
    yield
    assert left_behind(tmp_path) == []


def waits(softband: Softband, programs: Path, way: str, *options: str, alone: bool = False) -> Outcome:
    program = f"{programs / 'waits'} {way}"
    others = () if alone else (("b", f"{program} a"),)
    return softband.run("two-hosts", ("a", program), *others, options=options)


def assert_timed_out(outcome: Outcome, limit: str) -> None:
    assert outcome.status == TIMED_OUT, outcome.stderr
    assert f"softband: the run was ended after {limit}:\n" in outcome.stderr
    report = outcome.report()
    assert report["exit_status"] == TIMED_OUT
    failure = report["failure"]
    assert isinstance(failure, dict) and failure["TimedOut"]["limit"] == limit
    assert all(f"softband:   {line}\n" in outcome.stderr for line in failure["TimedOut"]["waiting"])
    assert (outcome.out / "counters.json").is_file() if outcome.out else False


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("poll", "polls completion queue 0x300 (a/mthca0) in vain since 0.000"),
        ("spin", "spins on registered memory (0x"),
    ],
)
def test_a_limit_of_simulated_time_names_pollers_and_their_queue_pairs(softband: Softband, c_programs: Path, way: str, words: str) -> None:
    outcome = waits(softband, c_programs, way, "--time-limit", "300 ms")
    assert_timed_out(outcome, "0.300000 s of simulated time")
    assert f"a: '{c_programs / 'waits'} {way}' (process 1000, thread 0) {words}" in outcome.stderr
    for peer in "ab":
        assert QUEUE_PAIR.format(peer, "") in outcome.stderr
    assert outcome.report()["virtual_seconds"] == pytest.approx(0.3)
    # The limit is a moment of simulated time, so every run ends in the same state.
    again = waits(softband, c_programs, way, "--time-limit", "0.3s")
    assert again.stderr == outcome.stderr and again.report()["turns"] == outcome.report()["turns"]


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("child", "(process 1000, thread 0) waits for a child process"),
        ("child", "(process 1001, thread 0) sleeps until 3600.000000 s of simulated time"),
        ("sleep", "sleeps until 3600.000000 s of simulated time"),
    ],
)
def test_a_limit_of_simulated_time_names_sleepers_and_parents(softband: Softband, c_programs: Path, way: str, words: str) -> None:
    outcome = waits(softband, c_programs, way, "--time-limit", "1 s", alone=True)
    assert_timed_out(outcome, "1.000000 s of simulated time")
    assert words in outcome.stderr


@pytest.mark.parametrize(
    ("way", "alone", "words"),
    [
        ("event", False, "waits for an event of completion queue 0x300 (a/mthca0)"),
        ("event", False, QUEUE_PAIR.format("b", "")),
        ("data", False, "waits for data from b:32768 (TCP)"),
        ("data", False, "waits for data from a:18999 (TCP)"),
        ("listen", True, "waits for a connection to its TCP port 18999"),
        ("lock", True, "thread 1) waits for a lock, a condition or the end of a thread"),
    ],
)
def test_a_run_that_stands_still_names_sockets_channels_and_locks(
    softband: Softband, c_programs: Path, way: str, alone: bool, words: str
) -> None:
    outcome = waits(softband, c_programs, way, alone=alone)
    assert outcome.status not in (0, TIMED_OUT)
    assert "the run stands still" in outcome.stderr and words in outcome.stderr


@pytest.mark.parametrize(
    ("way", "alone", "words"),
    [
        ("poll", False, QUEUE_PAIR.format("b", " with the engine")),
        ("event", False, "waits for an event of completion queue "),
        ("data", False, "waits for data from a:18999 (TCP)"),
        ("listen", True, "waits for a connection to its TCP port 18999"),
        ("lock", True, "waits for a lock, a condition or the end of a thread (futex at 0x"),
        ("child", True, "waits for a child process"),
        ("compute", True, "runs (it computes, or polls)"),
    ],
)
def test_a_timeout_at_wall_pace_says_what_the_kernel_knows(
    softband: Softband, c_programs: Path, way: str, alone: bool, words: str
) -> None:
    outcome = waits(softband, c_programs, way, "--pace", "wall", "--timeout", "2", alone=alone)
    assert_timed_out(outcome, "2 s of wall-clock time")
    assert words in outcome.stderr
    # No program sees the end of another program and reports it.
    assert "FAILED" not in outcome.stderr


def test_a_timeout_ends_a_program_that_never_calls(softband: Softband, c_programs: Path) -> None:
    started = time.monotonic()
    outcome = waits(softband, c_programs, "compute", "--timeout", "1.5", "--time-limit", "1 s", alone=True)
    assert time.monotonic() - started < 30
    assert_timed_out(outcome, "1.5 s of wall-clock time")
    assert "runs code of its own" in outcome.stderr


def test_a_run_that_ends_in_time_does_not_notice_its_limits(softband: Softband) -> None:
    plain = softband.pair("two-hosts", "ib_send_lat -n 50").assert_ok()
    limited = softband.pair("two-hosts", "ib_send_lat -n 50", options=("--timeout", "60", "--time-limit", "100 s")).assert_ok()
    assert (limited.stdout, limited.stderr) == (plain.stdout, plain.stderr)


def test_limits_that_mean_nothing_are_refused(softband: Softband) -> None:
    done = softband.run("two-hosts", ("a", "true"), options=("--pace", "wall", "--time-limit", "1 s"))
    assert done.status == 2 and "use --timeout SECONDS" in done.stderr
    seconds, moment = "write a number of seconds above 0", "write a time with its unit"
    cases = (("--timeout", "0", seconds), ("--timeout", "soon", seconds), ("--time-limit", "10", moment), ("--time-limit", "2 weeks", moment))
    for option, value, words in cases:
        done = softband.run("two-hosts", ("a", "true"), options=(option, value))
        assert done.status == 2 and words in done.stderr


def test_who_polls_for_what_never_comes_is_named_after_ten_seconds(softband: Softband, c_programs: Path) -> None:
    outcome = waits(softband, c_programs, "poll", "--timeout", "14")
    named = [line for line in outcome.stderr.splitlines() if "and nothing else happens" in line]
    assert len(named) == 2 and outcome.report()["warnings"] == [line.removeprefix("softband: ") for line in named]
    assert f"a: '{c_programs / 'waits'} poll' (process 1000, thread 0) polls completion queue 0x300 (a/mthca0) in vain" in named[0]
    assert QUEUE_PAIR.format("b", "") in named[0]


def test_who_polls_for_a_peer_that_sleeps_is_not_named(softband: Softband, c_programs: Path) -> None:
    # The program polls in vain for some fifteen seconds. Then the message comes.
    outcome = waits(softband, c_programs, "late").assert_ok()
    assert outcome.stderr == "" and "a: it came" in outcome.stdout


@pytest.mark.parametrize("pace", ["virtual", "wall"])
@pytest.mark.parametrize(("end", "status"), [(None, TIMED_OUT), (signal.SIGTERM, 130)])
def test_a_run_ends_though_nobody_takes_its_output(softband: Softband, pace: str, end: signal.Signals | None, status: int) -> None:
    limit = ("--timeout", "1.5") if end is None else ()
    command = [str(softband.binary), "run", "two-hosts", "--pace", pace, *limit, "--on", "a", "yes"]
    temporary = softband.folder / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, cwd=softband.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as run:
        assert run.stdout is not None and run.stdout.readline() == b"y\n"
        names = [path.name.removesuffix("-files") for path in temporary.glob("softband-*-files")]
        assert len(names) == 1 and Path(f"/dev/shm/{names[0]}-shm").exists()
        if end is not None:
            time.sleep(1)
            run.send_signal(end)
        # The pipe is full, and stays full.
        assert run.wait(timeout=HANG_SECONDS) == status
    assert list(temporary.iterdir()) == [] and not Path(f"/dev/shm/{names[0]}-shm").exists()


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_a_run_ends_in_time_though_nobody_takes_its_report(softband: Softband, pace: str) -> None:
    """All programs have ended when the command blocks in its last lines."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, bytes(4096))
    command = [str(softband.binary), "run", "two-hosts", "--pace", pace, "--timeout", "1", "--on", "a", "sh -c 'while :; do :; done'"]
    started = time.monotonic()
    done = subprocess.run(command, cwd=softband.folder, stdout=subprocess.DEVNULL, stderr=writer, timeout=HANG_SECONDS, check=False)
    os.close(reader)
    os.close(writer)
    assert done.returncode == TIMED_OUT
    assert time.monotonic() - started < 15


def test_a_run_ends_in_time_though_a_process_keeps_its_output_open(softband: Softband) -> None:
    """The process is no program of the run: it has neither the library nor the run's variables."""
    script = "env -i setsid sleep 20 & exec sleep 3600"
    started = time.monotonic()
    outcome = softband.run("two-hosts", ("a", f"sh -c '{script}'"), options=("--pace", "wall", "--timeout", "1"))
    assert_timed_out(outcome, "1 s of wall-clock time")
    assert time.monotonic() - started < 15
