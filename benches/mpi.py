#!/usr/bin/env python3
"""The speed of MPI jobs, beside SimGrid's SMPI and UCX on this machine: prints figures, asserts nothing.

Simulated time: wall-clock seconds of the start of a job, and for a million messages and for
Alltoall, on 8 ranks of four hosts and 64 ranks of eight. A short run with the same start is
subtracted. The source under SMPI is the same (tools/mpibench). SMPI's platform has the rate and the
latency of the fabric's cables and switch.
Predictions: half a round trip, beside published latencies (references/mpi.csv).
Wall pace: a ping-pong of UCX over rc_verbs, over shared memory, and over TCP on the loopback.
Words select parts: start, messages, predictions, transports.
"""

from __future__ import annotations

import csv
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import mpi_jobs

ROUNDS = int(os.environ.get("SOFTBAND_BENCH_ROUNDS", "3"))
PATIENCE_SECONDS = 300
PUBLISHED = mpi_jobs.ROOT / "references" / "mpi.csv"
HELLO = mpi_jobs.ROOT / "conformance" / "mpi" / "hello.c"
# Fabrics of the hardware that published latencies name, by section of the file.
FABRICS = {"1 QDR": "fabrics/qdr-through-switch.toml", "2 ConnectX-3": "fabrics/accuracy/connectx3-fdr.toml"}
# SMPI's hosts: the default rate of a port, and half the latency of two cables and a switch.
LINKS = {None: ("50GBps", "70ns"), "1 QDR": ("4GBps", "55ns"), "2 ConnectX-3": ("6.8GBps", "90ns")}
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="hosts" prefix="h" suffix="" radical="0-{last}" speed="1Gf" bw="{rate}" lat="{latency}" sharing_policy="SPLITDUPLEX"/>
</platform>
"""
SIZES = (8, 1024, 65536, 1 << 20)
TRANSPORTS = {"rc_verbs over Softband": "rc_verbs,ud_verbs,self", "shared memory": "posix,cma,self", "TCP loopback": "tcp,self"}


class Place(NamedTuple):
    ranks: int
    hosts: int


class Job(NamedTuple):
    name: str
    size: int
    iterations: int
    messages: int
    """Messages of all ranks in an iteration."""


EIGHT, SIXTY_FOUR = Place(8, 4), Place(64, 8)
JOBS = {
    EIGHT: (Job("MessageRate", 8, 1000, 4 * 65), Job("Exchange", 8, 2000, 2 * 8), Job("Alltoall", 1024, 300, 8 * 7)),
    SIXTY_FOUR: (Job("MessageRate", 8, 100, 32 * 65), Job("Exchange", 8, 200, 2 * 64), Job("Alltoall", 1024, 10, 64 * 63)),
}


class Skipped(Exception):
    """A candidate that this machine does not have, or that failed."""


def timed(command: list[str], folder: Path) -> tuple[float, str]:
    """Runs a command. Returns its wall-clock seconds and its output."""
    start = time.monotonic()
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        raise Skipped(f"it takes longer than {PATIENCE_SECONDS} s") from None
    if done.returncode != 0:
        raise Skipped(f"status {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")
    return time.monotonic() - start, done.stdout


def compiled(mpi: str, sources: list[Path], folder: Path) -> Path:
    if not shutil.which(f"mpicc.{mpi}"):
        raise Skipped(f"no mpicc.{mpi} (Debian: libmpich-dev, libopenmpi-dev)")
    return mpi_jobs.compiled(mpi, sources, folder / f"{sources[0].stem}.{mpi}")


def benchmarks(mpi: str, folder: Path) -> Path:
    return compiled(mpi, sorted(mpi_jobs.BENCHMARKS.glob("*.c")), folder)


def options(name: str, size: int, iterations: int) -> list[str]:
    return ["--csv", "--warmup", "5", "--benchmarks", name, "--sizes", str(size), "--iterations", str(iterations)]


def predicted(output: str, name: str) -> float:
    """Returns the mean time of an iteration, in microseconds."""
    row = next(line for line in output.splitlines() if f"{name}," in line)
    return float(row.split(",")[6])


def softband(program: Path, place: Place, folder: Path, words: list[str], fabric: str | None = None) -> tuple[float, str]:
    where = [str(mpi_jobs.ROOT / fabric)] if fabric else []
    command = [str(mpi_jobs.SOFTBAND), "mpirun", "-n", str(place.ranks), "--ppn", str(-(-place.ranks // place.hosts))]
    return timed([*command, "--timeout", str(PATIENCE_SECONDS), *where, str(program), *words], folder)


def smpi(place: Place, folder: Path, words: list[str], link: tuple[str, str] = LINKS[None]) -> tuple[float, str]:
    if not shutil.which("smpicc"):
        raise Skipped("no smpicc (Debian: libsimgrid-dev)")
    program = folder / "mpibench.smpi"
    if not program.exists():
        timed(["smpicc", "-O1", "-o", str(program), *map(str, sorted(mpi_jobs.BENCHMARKS.glob("*.c")))], folder)
    (folder / "platform.xml").write_text(PLATFORM.format(last=place.hosts - 1, rate=link[0], latency=link[1]))
    each = place.ranks // place.hosts
    (folder / "hostfile").write_text("".join(f"h{rank // each}\n" for rank in range(place.ranks)))
    start = ["smpirun", "-np", str(place.ranks), "-platform", "platform.xml", "-hostfile", "hostfile", "--cfg=smpi/simulate-computation:no",
             "--log=root.thresh:error"]
    return timed([*start, str(program), *words], folder)


def figures(run: Callable[[list[str]], tuple[float, str]], job: Job) -> str:
    """Describes the speed of a job: medians of the start, and of what a long run takes beyond it."""
    starts, rests = [], []
    for _ in range(ROUNDS):
        idle, _ = run(options(job.name, job.size, 1))
        whole, output = run(options(job.name, job.size, job.iterations))
        starts.append(idle)
        rests.append(whole - idle)
    rest, count = statistics.median(rests), job.iterations * job.messages
    pace = f"{rest / count * 1e6:.1f} wall s per million messages (extrapolated from {count:,})" if rest > 0 else "less time than the start varies by"
    return f"start {statistics.median(starts):.2f} s, then {pace}; it predicts {predicted(output, job.name):.2f} us an iteration"


def show_starts(folder: Path) -> None:
    """Prints the time of jobs that only start and end: MPI_Init, a sum of all ranks, MPI_Finalize."""
    for place in (Place(2, 2), EIGHT, SIXTY_FOUR):
        for mpi in mpi_jobs.MPIS:
            try:
                program = compiled(mpi, [HELLO], folder)
                seconds = [softband(program, place, folder, [])[0] for _ in range(ROUNDS)]
                print(f"start and end of {place.ranks} ranks on {place.hosts} hosts, {mpi}: {statistics.median(seconds):.2f} wall s")
            except Skipped as reason:
                print(f"start of {place.ranks} ranks, {mpi}: left out: {reason}")


def compare_simulators(folder: Path) -> None:
    for place, jobs in JOBS.items():
        for job in jobs:
            print(f"{job.name}, {job.size} bytes, {place.ranks} ranks on {place.hosts} hosts, {job.iterations} iterations of {job.messages} messages:")
            for candidate in (*mpi_jobs.MPIS, "SMPI"):
                def run(words: list[str], candidate: str = candidate, place: Place = place) -> tuple[float, str]:
                    if candidate == "SMPI":
                        return smpi(place, folder, words)
                    return softband(benchmarks(candidate, folder), place, folder, words)
                try:
                    print(f"  {candidate}: {figures(run, job)}", flush=True)
                except Skipped as reason:
                    print(f"  {candidate}: left out: {reason}", flush=True)


def compare_predictions(folder: Path) -> None:
    """Prints half a round trip between two hosts, as published, under Softband and under SMPI."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        words = options("PingPong", int(row["size_bytes"]), 100)
        parts = [f"published {row['value']} us ({row['test']}, {row['system']})"]
        for mpi in mpi_jobs.MPIS:
            try:
                program = benchmarks(mpi, folder)
                parts.append(f"{mpi} over Softband {predicted(softband(program, Place(2, 2), folder, words, FABRICS[row['section']])[1], 'PingPong'):.2f}")
            except Skipped as reason:
                parts.append(f"{mpi} left out: {reason}")
        try:
            parts.append(f"SMPI {predicted(smpi(Place(2, 2), folder, words, LINKS[row['section']])[1], 'PingPong'):.2f}")
        except Skipped as reason:
            parts.append(f"SMPI left out: {reason}")
        print(f"PingPong, {row['size_bytes']} bytes, {FABRICS[row['section']]}: {'; '.join(parts)}", flush=True)


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
        print(f"UCX tag_lat, {size} bytes: " + ", ".join(f"{name} {value:.2f} us" for name, value in middle.items()) + f" (ratios: {ratios})", flush=True)


PARTS = {"start": show_starts, "messages": compare_simulators, "predictions": compare_predictions, "transports": compare_transports}


def main() -> int:
    if not mpi_jobs.SOFTBAND.is_file():
        print(f"{mpi_jobs.SOFTBAND} is not there: run `make build`", file=sys.stderr)
        return 1
    wanted = sys.argv[1:] or list(PARTS)
    if unknown := [word for word in wanted if word not in PARTS]:
        print(f"{unknown[0]} is no part: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        for part in wanted:
            PARTS[part](Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
