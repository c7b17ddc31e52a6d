#!/usr/bin/env python3
"""Speed and memory of `softband model` on fabrics of two to 11,664 hosts.

Prints figures and ratios beside ns-3, SimGrid and bare events. Asserts nothing. `--before` also runs
an earlier build, and `--compare` a run without trains, in turns with the present build.

Each run is a separate process, from reading the fabric file to writing the last result. A packet-hop
is a packet that has crossed a link, acknowledgements included. The rate of one core refers to
processor time, the rate of several cores to wall-clock time.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import engine_growth
from engine_jobs import JOBS, USUAL, Job, generate, write_flows
from engine_peers import PEERS, build, floor
from engine_runs import (
    NotFinishedError,
    Run,
    median,
    memory_available_bytes,
    repeated,
    run,
)

ROOT = Path(__file__).resolve().parents[1]
SOFTBAND = ROOT / "target" / "dist" / "bin" / "softband"
CORES = {1: "one-core", 2: "two-core", 4: "four-core", 8: "eight-core"}
UNITS = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
# The bench of bare events simulates this job, too.
FLOOR_JOB = "c"


@dataclass(frozen=True)
class Figures:
    hops_a_second: float
    cpu_seconds: float


class Bench:
    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.memory_bytes = int(memory_available_bytes() * 0.9)
        self.threads = [int(count) for count in options.threads.split(",")]
        load = os.getloadavg()[0]
        if load > 0.5:
            print(f"the machine is busy (load {load:.1f}): with more than one core rates come out too low, and with one a little")
        self.peers = [] if options.no_peers else [(peer, program) for peer in PEERS if (program := build(peer, folder))]

    def once(self, words: list[str]) -> Callable[[], Run]:
        return lambda: run(words, self.options.seconds, self.memory_bytes)

    def repeated(self, words: list[str]) -> tuple[list[Run], str]:
        return repeated(self.options.rounds, self.once(words))

    def job(self, job: Job) -> Figures | None:
        """Measures each number of threads, then the peers. Returns the figures of one core."""
        fabric = self.folder / f"{job.name}.toml"
        generate(SOFTBAND, job.ports, fabric)
        first, digests = None, set()
        for threads in self.threads:
            out = self.folder / job.name
            words = [str(SOFTBAND), "model", str(fabric), job.workload, *job.options, "--threads", str(threads), "--out", str(out)]
            figures = self.ours(job, words, threads)
            first = first or figures
            if figures is not None:
                digests.add(hashlib.sha256((out / "flows.csv").read_bytes() + (out / "ports.csv").read_bytes()).hexdigest())
        if len(digests) > 1:
            print(f"{job.name} the number of threads has changed the results")
        self.compare(job, fabric)
        flows = self.folder / "flows"
        write_flows(job, self.folder / job.name / "flows.csv", flows)
        for peer, program in self.peers:
            self.theirs(job, peer.name, [str(program), str(job.ports), str(flows)], first)
        return first

    def compare(self, job: Job, fabric: Path) -> None:
        """Runs the present build in turns with an earlier one and with a run without trains."""
        present = [str(SOFTBAND), "model", str(fabric), job.workload, *job.options, "--threads", "1", "--out", str(self.folder / "compared")]
        others = {}
        if self.options.before:
            others["before"] = [self.options.before, *present[1:]]
        if self.options.compare:
            others["packet-by-packet"] = [*present, "--packet-by-packet"]
        for name, words in others.items():
            pairs = []
            for _ in range(self.options.rounds):
                try:
                    pairs.append((self.once(present)().cpu_seconds, self.once(words)().cpu_seconds))
                except NotFinishedError as error:
                    print(f"{job.name} {name}: {error}", flush=True)
                    break
            if pairs:
                ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
                ratio = statistics.median(other / own for own, other in pairs)
                print(f"{job.name} {name} {theirs:.2f} CPU s, present {ours:.2f}: present/{name} {ratio:.2f} in speed (median of {len(pairs)})", flush=True)

    def ours(self, job: Job, words: list[str], threads: int) -> Figures | None:
        cores = CORES.get(threads, f"{threads}-core")
        try:
            runs, how = self.repeated(words)
            hops = runs[0].number(r"packet-hops\s+(\d+)")
            peak = median(runs, lambda each: each.number(r"memory\s+([\d.]+) MiB")) * 1.048576
            simulated = simulated_milliseconds(runs[0])
        except NotFinishedError as error:
            print(f"{job.name} {cores} {error}")
            return None
        cpu, wall = median(runs, lambda each: each.cpu_seconds), median(runs, lambda each: each.wall_seconds)
        seconds = cpu if threads == 1 else wall
        print(
            f"{job.name} {cores} {hops / seconds / 1e6:.2f} M packet-hops/s, {peak:.0f} MB; {peak * 1e3 / job.hosts:.0f} KB a host, {hops:.0f} hops,"
            f" {simulated:.3f} ms simulated in {cpu:.2f} CPU s, {wall:.2f} s ({how})",
            flush=True,
        )
        return Figures(hops / seconds, cpu)

    def theirs(self, job: Job, name: str, words: list[str], ours: Figures | None) -> None:
        try:
            runs, how = self.repeated(words)
            peak = median(runs, lambda each: each.number(r"peak_kib (\d+)")) * 1024 / 1e6
            simulated = runs[0].number(r"simulated_picos (\d+)") / 1e9
        except NotFinishedError as error:
            print(f"{job.name} {name} {error}", flush=True)
            return
        cpu = median(runs, lambda each: each.cpu_seconds)
        hops = runs[0].number(r"packet_hops (\d+)") if "packet_hops" in runs[0].text else 0
        speed = f"{hops / cpu / 1e6:.2f} M packet-hops/s" if hops else "no packets"
        line = f"{job.name} {name} {speed}, {peak:.0f} MB; {simulated:.3f} ms simulated in {cpu:.2f} CPU s ({how})"
        if ours is not None:
            of_hops = f"ours/{name} {ours.hops_a_second / (hops / cpu):.2f} in packet-hops/s, " if hops else f"ours/{name} "
            line += f": {of_hops}{cpu / ours.cpu_seconds:.3g} in speed of the whole job"
        print(line, flush=True)

    def floor(self, ours: Figures | None) -> None:
        for way, speed in floor():
            ratio = f": ours/floor {ours.hops_a_second / 1e6 / speed:.3f} ({JOBS[FLOOR_JOB].name}, one core)" if ours else ""
            print(f"bare-events {way} {speed:.1f} M packet-hops/s{ratio}", flush=True)


def simulated_milliseconds(done: Run) -> float:
    unit = next((unit for unit in UNITS if f" {unit}\n" in done.text.split("completion time", 1)[-1][:40]), "s")
    return done.number(r"completion time\s+([\d.]+)") * UNITS[unit]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", default=",".join(USUAL), help=f"of {','.join(JOBS)} (default: {','.join(USUAL)}); " + "; ".join(f"{key}: {job.name}, {job.what}" for key, job in JOBS.items()))
    parser.add_argument("--threads", default="1,2", help="numbers of threads of softband model (default: 1,2)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each job that takes up to 20 s; the median is printed (default: 3)")
    parser.add_argument("--seconds", type=float, default=300.0, help="time that a run may take (default: 300)")
    parser.add_argument("--no-peers", action="store_true", help="without ns-3 and SimGrid")
    parser.add_argument("--no-floor", action="store_true", help="without bare events")
    parser.add_argument("--before", metavar="PROGRAM", help="an earlier build's `softband`, in its tree: runs in turns with the present one")
    parser.add_argument("--compare", action="store_true", help="also a run with --packet-by-packet, in turns with the present one")
    parser.add_argument("--growth", action="store_true", help="instead: time and memory of full fat trees by their hosts, and what 100,000 hosts would need")
    options = parser.parse_args()
    unknown = [key for key in options.jobs.split(",") if key not in JOBS]
    if unknown:
        parser.error(f"no job {unknown[0]}: the jobs are {', '.join(JOBS)}")
    return options


def main() -> int:
    options = parse()
    if not SOFTBAND.is_file():
        print(f"{SOFTBAND} is not there: run `make build`", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        if options.growth:
            engine_growth.table(SOFTBAND, Path(folder), options.seconds, int(memory_available_bytes() * 0.9))
            return 0
        bench = Bench(options, Path(folder))
        done = {key: bench.job(JOBS[key]) for key in options.jobs.split(",")}
        if not options.no_floor:
            bench.floor(done.get(FLOOR_JOB))
    return 0


if __name__ == "__main__":
    sys.exit(main())
