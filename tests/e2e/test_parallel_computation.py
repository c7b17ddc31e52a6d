"""Recorded computation in parallel: results do not depend on the processors or on their load."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import FULL, ROOT, Softband, which

SOURCE = ROOT / "conformance" / "mpi" / "computation.c"
LIMIT = ("--timeout", "120")
PROCESSORS = (("--processors", "1"), ("--processors", "2"), ())
# The stretches are far longer than half a millisecond, from which on ranks announce them.
STEPS = "1500000"


@pytest.fixture(params=("mpich", "openmpi"))
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    stack = str(request.param)
    if not which(f"mpicc.{stack}"):
        pytest.skip(f"mpicc.{stack} is not installed")
    made = tmp_path / f"computation-{stack}"
    subprocess.run([f"mpicc.{stack}", "-O2", "-w", "-o", str(made), str(SOURCE)], check=True)
    return made


def record(softband: Softband, program: Path, *arguments: str) -> Path:
    recording = softband.folder / "app.rec"
    done = softband.command("mpirun", "-n", "4", "--record", str(recording), *LIMIT, str(program), *arguments)
    assert done.returncode == 0, done.stderr
    return recording


def stretches_before_barriers(recording: Path, rank: int) -> list[int]:
    lines = [json.loads(line) for line in recording.read_text().splitlines()]
    starts = [index for index, line in enumerate(lines) if line.keys() == {"rank"}] + [len(lines)]
    return [int(line["t"]) for line in lines[starts[rank] : starts[rank + 1]] if line.get("c") == "MPI_Barrier"]


def replay(softband: Softband, recording: Path, processors: tuple[str, ...], *words: str) -> tuple[int, str, str]:
    done = softband.command("mpirun", "-n", "4", "--compute", f"recorded={recording}", *processors, *LIMIT, *words)
    return done.returncode, done.stdout, done.stderr


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_ranks_alone_on_their_hosts_announce_their_stretches(softband: Softband, program: Path) -> None:
    recording = record(softband, program, "ep", "3", STEPS)
    status, _, errors = replay(softband, recording, (), "--verbose", str(program), "ep", "3", STEPS)
    assert status == 0, errors
    counts = [line.split()[3] for line in errors.splitlines() if line.endswith("recorded stretches beside the engine")]
    assert len(counts) == 1 and int(counts[0]) >= 4, errors


@pytest.mark.parametrize("pattern", ["cg", "ep", "ft"] if FULL else ["cg"])
def test_ranks_compute_alike_on_one_processor_and_on_all(softband: Softband, program: Path, pattern: str) -> None:
    recording = record(softband, program, pattern, "3", STEPS)
    first, *others = (replay(softband, recording, processors, str(program), pattern, "3", STEPS) for processors in PROCESSORS)
    assert first[0] == 0, first[2]
    assert len(first[1].splitlines()) == 4
    with busy_loops(3):
        others.append(replay(softband, recording, (), str(program), pattern, "3", STEPS))
    assert others == [first] * 3


def test_system_calls_in_a_stretch_keep_their_order(softband: Softband, program: Path) -> None:
    meeting = softband.folder / "meeting"
    recording = record(softband, program, "meet", "3", STEPS, str(meeting))
    seen = []
    for processors in PROCESSORS:
        meeting.unlink()
        outcome = replay(softband, recording, processors, str(program), "meet", "3", STEPS, str(meeting))
        assert outcome[0] == 0, outcome[2]
        seen.append((outcome, meeting.read_text()))
    assert seen == [seen[0]] * 3
    lines = seen[0][1].splitlines()
    rounds = [line.split(" round ")[1] for line in lines]
    assert len(lines) == 12 and rounds == sorted(rounds)
    # Each rank writes when its stretch ends in simulated time. All stretches of a round begin with the
    # same barrier, so the recorded times give the order.
    times = [stretches_before_barriers(recording, rank)[1:] for rank in range(4)]
    expected = [sorted(range(4), key=[of_rank[turn] for of_rank in times].__getitem__) for turn in range(3)]
    assert [int(line.split()[1]) for line in lines] == [rank for order in expected for rank in order]


def test_a_rank_that_crashes_while_it_computes_ends_the_job(softband: Softband, program: Path) -> None:
    meeting = softband.folder / "meeting"
    recording = record(softband, program, "meet", "2", STEPS, str(meeting))
    words = ("env", "COMPUTATION_DIES=2", str(program), "meet", "2", STEPS, str(meeting))
    stack = program.name.removeprefix("computation-").replace("openmpi", "openmpi4")
    outcomes = [replay(softband, recording, (*processors, "--mpi", stack), *words) for processors in PROCESSORS]
    # The MPI library also prints the machine's number of the process.
    (status, reason), *others = [(outcome[0], outcome[2].splitlines()[-1]) for outcome in outcomes]
    assert status != 0 and reason.startswith("softband: error: rank 2 on c") and "SIGSEGV" in reason
    assert others == [(status, reason)] * 2
