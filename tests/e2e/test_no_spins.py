"""Computations that look at memory of peers in each round wait for nothing, and cost no simulated time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import FABRICS, Softband, line_of

# Long enough for the engine to suspect a spin.
ROUNDS = 3_000_000
# About a second of system calls.
CALLS = 3_000_000
# The engine's signal to a thread that keeps its turn (`SPIN_SIGNAL`).
SPIN_SIGNAL = 62
# Two reads of the clock. Nothing else costs time.
CLOCKS_NS_MAX = 100

# Reads a word of shared memory in each round of a computation.
INTERPRETED = """
import mmap, os, time

shared = mmap.mmap(-1, 4096)
child = os.fork()
if child == 0:
    time.sleep(3)
    os._exit(0)
begin = time.perf_counter_ns()
number = 0
for _ in range(400_000):
    number = (number * 31 + shared[0] + 7) % 1_000_003
print(time.perf_counter_ns() - begin)
os.waitpid(child, 0)
"""


def nanoseconds(softband: Softband, command: str) -> int:
    return int(softband.run("modern-pair", ("a", command)).assert_ok().program("a-0"))


@pytest.mark.parametrize("way", ["state", "loop", "converge", "stride", "coefficient", "interpreter"])
def test_a_computation_on_registered_memory_is_no_spin(softband: Softband, c_programs: Path, way: str) -> None:
    command = f"{c_programs / 'no_spins'} {way} {ROUNDS}"
    alone = nanoseconds(softband, command)
    assert alone <= CLOCKS_NS_MAX
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        assert nanoseconds(softband, command) == alone
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def test_an_interpreter_that_computes_on_shared_memory_is_no_spin(
    softband: Softband,
) -> None:
    script = softband.folder / "interpreted.py"
    script.write_text(INTERPRETED)
    assert nanoseconds(softband, f"{sys.executable} {script}") <= CLOCKS_NS_MAX


def test_a_signal_of_the_engine_before_a_system_call_costs_no_simulated_time(
    softband: Softband, c_programs: Path
) -> None:
    words = [
        str(softband.binary),
        "run",
        str(FABRICS / "two-hosts.toml"),
        "--on",
        "a",
        f"{c_programs / 'native_calls'} {CALLS}",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as run:
        assert line_of(run) == "begins\n"
        program = int(Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()[0])
        sent = 0
        try:
            while run.poll() is None:
                os.kill(program, SPIN_SIGNAL)
                sent += 1
                time.sleep(20e-6)
        except ProcessLookupError:
            pass
        assert run.stdout is not None
        assert int(run.stdout.read().split()[-1]) <= CLOCKS_NS_MAX
    assert run.returncode == 0
    assert sent > 100
