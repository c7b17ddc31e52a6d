#!/usr/bin/env python3
"""Simulated time on a busy machine: python benches/busy.py [DIST ...]

Prints figures and a ratio, asserts nothing. Runs jobs of two programs alone and beside endless
loops (twelve, nice 0). The loops show the share of a processor that a task gets meanwhile. A job of
one task would take its CPU time divided by that share. The ratio is the wall time in relation to
that time, so 1 is the share of one task. Other work on the machine changes both alike.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOOP = ["sh", "-c", "while :; do :; done"]
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Measured:
    wall: float
    cpu: float
    switches: int
    ratio: float


def cpu_seconds(pid: int) -> float:
    """Returns the CPU time of a running process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def run(words: list[str], loops: list[subprocess.Popen[bytes]]) -> Measured:
    """Runs the job once beside `loops`."""
    with tempfile.TemporaryFile() as errors:
        before, begun = [cpu_seconds(loop.pid) for loop in loops], time.monotonic()
        job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(job.pid, 0)
        wall = time.monotonic() - begun
        after = [cpu_seconds(loop.pid) for loop in loops]
        job.returncode = os.waitstatus_to_exitcode(status)
        if job.returncode != 0:
            errors.seek(0)
            sys.exit(f"{' '.join(words)}: status {job.returncode}: {errors.read().decode(errors='replace')[-300:]}")
    cpu = usage.ru_utime + usage.ru_stime
    share = statistics.mean(late - early for early, late in zip(before, after, strict=True)) / wall if loops else 1.0
    return Measured(wall, cpu, usage.ru_nvcsw + usage.ru_nivcsw, wall * share / cpu)


def medians_of(runs: list[Measured], is_busy: bool) -> str:
    """Returns the median of each figure, and the worst ratio."""

    def of(field: str) -> float:
        return statistics.median(getattr(each, field) for each in runs)

    worst = max(each.ratio for each in runs)
    ratio = f"{of('ratio'):7.2f} {worst:7.2f}" if is_busy else ""
    return f"{of('wall'):8.2f} s {of('cpu'):7.2f} s {of('switches'):9.0f} {ratio}"


def busy_run(words: list[str], count: int) -> Measured:
    """Runs the job once beside `count` loops."""
    loops = [subprocess.Popen(LOOP) for _ in range(count)]
    try:
        time.sleep(0.3)
        return run(words, loops)
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()


def jobs(dist: Path, messages: int, processors: str | None) -> dict[str, list[str]]:
    """Returns the jobs: each has a program on either host."""
    head = [str(dist / "bin/softband"), "run", "--quiet", "two-hosts", *(["--processors", processors] if processors else [])]

    def pair(command: str) -> list[str]:
        return [*head, "--on", "a", command, "--on", "b", f"{command} a"]

    return {"poll": pair(f"ib_send_lat -n {messages}"), "spin": pair(f"ib_write_lat -n {messages // 5}")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path, nargs="*", help="folders of builds, which take turns; default: target/dist")
    parser.add_argument("--loops", type=int, default=12)
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--processors", choices=["1", "2"])
    parser.add_argument("--jobs", nargs="+", choices=["poll", "spin"], default=["poll", "spin"])
    wanted = parser.parse_args()
    busy: dict[tuple[str, Path], list[Measured]] = {}
    alone: dict[tuple[str, Path], list[Measured]] = {}
    for _ in range(wanted.runs):
        for dist in wanted.dist or [ROOT / "target" / "dist"]:
            words_of = jobs(dist, wanted.messages, wanted.processors)
            for name, words in ((name, words_of[name]) for name in wanted.jobs):
                alone.setdefault((name, dist), []).append(run(words, []))
                busy.setdefault((name, dist), []).append(busy_run(words, wanted.loops))
    print("job   build                     loops       wall       CPU  switches   ratio   worst")
    for loops, table in ((0, alone), (wanted.loops, busy)):
        for (name, dist), runs in sorted(table.items()):
            print(f"{name:5} {str(dist)[-25:]:25} {loops:5} {medians_of(runs, loops > 0)}")


if __name__ == "__main__":
    main()
