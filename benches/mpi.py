#!/usr/bin/env python3
"""The speed of MPI jobs, beside SimGrid's SMPI and UCX on this machine: prints figures, asserts nothing.

Simulated time: wall-clock seconds for a million messages and for Alltoall on 8 ranks over four
hosts. A short run with the same start is subtracted. The source under SMPI is the same
(tools/mpibench). SMPI's platform has the rate and latency of the fabric's cables and switch.
Wall pace: a ping-pong of UCX over rc_verbs, over shared memory, and over TCP on the loopback.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import mpi_jobs

RANKS = 8
HOSTS = 4
ROUNDS = 3
# SMPI's hosts: the default rate of an NDR port, and the latency of two cables and a switch.
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="hosts" prefix="h" suffix="" radical="0-3" speed="1Gf" bw="50GBps" lat="70ns" sharing_policy="SPLITDUPLEX"/>
</platform>
"""
SIZES = (8, 1024, 65536, 1 << 20)
TRANSPORTS = {"rc_verbs over Softband": "rc_verbs,ud_verbs,self", "shared memory": "posix,cma,self", "TCP loopback": "tcp,self"}
# (benchmark, bytes, iterations of the long run, messages in an iteration on 8 ranks)
JOBS = (("MessageRate", 8, 1000, 4 * 65), ("Exchange", 8, 2000, 2 * RANKS), ("Alltoall", 1024, 300, RANKS * (RANKS - 1)))


class Skipped(Exception):
    """A candidate that this machine does not have, or that failed."""


def timed(command: list[str], folder: Path) -> tuple[float, str]:
    """Runs a command. Returns its wall-clock seconds and its output."""
    start = time.monotonic()
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        raise Skipped("it takes longer than two minutes") from None
    if done.returncode != 0:
        raise Skipped(f"status {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")
    return time.monotonic() - start, done.stdout


def options(name: str, size: int, iterations: int) -> list[str]:
    return ["--csv", "--warmup", "5", "--benchmarks", name, "--sizes", str(size), "--iterations", str(iterations)]


def predicted(output: str, name: str) -> float:
    """Returns the mean time of an iteration, in microseconds."""
    row = next(line for line in output.splitlines() if f"{name}," in line)
    return float(row.split(",")[6])


def softband(mpi: str, folder: Path, words: list[str]) -> tuple[float, str]:
    program = str(mpi_jobs.benchmarks(mpi, folder))
    return timed(mpi_jobs.command_of(mpi, RANKS, [program, *words], folder), folder)


def smpi(folder: Path, words: list[str]) -> tuple[float, str]:
    if not shutil.which("smpicc"):
        raise Skipped("no smpicc (Debian: libsimgrid-dev)")
    program = folder / "mpibench.smpi"
    if not program.exists():
        timed(["smpicc", "-O1", "-o", str(program), *map(str, sorted(mpi_jobs.BENCHMARKS.glob("*.c")))], folder)
        (folder / "platform.xml").write_text(PLATFORM)
        (folder / "hostfile").write_text("".join(f"h{rank % HOSTS}\n" for rank in range(RANKS)))
    start = ["smpirun", "-np", str(RANKS), "-platform", "platform.xml", "-hostfile", "hostfile", "--cfg=smpi/simulate-computation:no",
             "--log=root.thresh:error"]
    return timed([*start, str(program), *words], folder)


def figures(run: Callable[[list[str]], tuple[float, str]], job: tuple[str, int, int, int]) -> str:
    """Describes the speed of a job: medians of the start, and of what a long run takes beyond it."""
    name, size, iterations, messages = job
    starts, rests = [], []
    for _ in range(ROUNDS):
        idle, _ = run(options(name, size, 1))
        whole, output = run(options(name, size, iterations))
        starts.append(idle)
        rests.append(whole - idle)
    rest, count = statistics.median(rests), iterations * messages
    pace = f"{rest / count * 1e6:.1f} wall s per million messages (extrapolated from {count:,})" if rest > 0 else "less time than the start varies by"
    return f"start {statistics.median(starts):.2f} s, then {pace}; it predicts {predicted(output, name):.2f} us an iteration"


def compare_simulators(folder: Path) -> None:
    candidates = {f"{mpi} over Softband": lambda words, mpi=mpi: softband(mpi, folder, words) for mpi in mpi_jobs.MPIS}
    candidates["SMPI"] = lambda words: smpi(folder, words)
    for name, size, iterations, messages in JOBS:
        print(f"{name}, {size} bytes, {RANKS} ranks on {HOSTS} hosts, {iterations} iterations of {messages} messages:")
        for candidate, run in candidates.items():
            try:
                print(f"  {candidate}: {figures(run, (name, size, iterations, messages))}")
            except (Skipped, subprocess.CalledProcessError) as reason:
                print(f"  {candidate}: left out: {reason}")


def ping_pong(transport: str, size: int, folder: Path) -> float:
    """Returns half a round trip of UCX, in microseconds: the median, which a busy machine changes least."""
    command = f"ucx_perftest -t tag_lat -s {size} -n {2000 if size > 65535 else 10000} -w 500 -f"
    environment = {"UCX_TLS": transport, "UCX_LOG_LEVEL": "error"}
    if transport.startswith("rc"):
        words = [str(mpi_jobs.SOFTBAND), "run", "--quiet", "--pace", "wall", "--timeout", "60", "modern-pair",
                 "--on", "a", command, "--on", "b", f"{command} a"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **environment})
        output, errors = done.stdout, done.stderr
    else:
        with subprocess.Popen(command.split(), env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            time.sleep(0.5)
            done = subprocess.run([*command.split(), "127.0.0.1"], env={**os.environ, **environment}, capture_output=True, text=True,
                                  check=False, timeout=60)
            server.wait(timeout=10)
        output, errors = done.stdout, done.stderr
    rows = [line.removeprefix("b: ").split() for line in output.splitlines()]
    found = [row for row in rows if len(row) >= 8 and row[0].isdigit()]
    if not found:
        raise Skipped(f"no figure: {(output + errors).strip()[-300:]}")
    return float(found[-1][1])


def compare_transports(folder: Path) -> None:
    if not shutil.which("ucx_perftest"):
        print("UCX ping-pong: left out: no ucx_perftest (Debian: ucx-utils)")
        return
    for size in SIZES:
        found: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for name, transport in TRANSPORTS.items():
                try:
                    found.setdefault(name, []).append(ping_pong(transport, size, folder))
                except (Skipped, subprocess.TimeoutExpired) as reason:
                    print(f"  {name}: left out: {reason}")
        middle = {name: statistics.median(values) for name, values in found.items() if values}
        own = middle.get("rc_verbs over Softband")
        ratios = ", ".join(f"{own / value:.2f} of {name}" for name, value in middle.items() if own and value != own)
        print(f"UCX tag_lat, {size} bytes: " + ", ".join(f"{name} {value:.2f} us" for name, value in middle.items()) + f" (ratios: {ratios})")


def main() -> int:
    if not mpi_jobs.SOFTBAND.is_file():
        print(f"{mpi_jobs.SOFTBAND} is not there: run `make build`", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        compare_simulators(Path(folder))
        compare_transports(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
