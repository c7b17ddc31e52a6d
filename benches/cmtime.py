#!/usr/bin/env python3
"""Connections set up a second by cmtime in both paces, beside TCP over loopback: asserts nothing.

    benches/cmtime.py [CONNECTIONS [RUNS]]

One fabric serves all runs of cmtime, 1,000 connections in each of ten, unless other numbers are
given. The time of a run is that of cmtime's steps from the identifier to the established connection.
As many TCP connections follow each run, from a process to another. Figures are medians. The engine's
memory is that before the first run, after it, and after the last: all connections have ended then.
In simulated time 1,000 connections follow.
It needs cmtime (Debian's rdmacm-utils).
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))
FIRST_PORT = 20_000
PATIENCE_SECONDS = 300
DEFAULTS = (1_000, 10)
SIMULATED = 1_000
STEPS = ("create id", "resolve addr", "resolve route", "create qp", "connect")


def kibibytes_of(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) if found else 0


def wait_for(file: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise SystemExit(f"no {file.name}: softband ended with status {process.returncode}\n{process.communicate()[0]}")
        time.sleep(0.01)


def milliseconds_of(text: str) -> dict[str, float]:
    """Returns the time of each step in a report of cmtime."""
    rows = re.findall(r"^([a-z ]+?)\s*:\s+([\d.]+)", text, re.MULTILINE)
    return {name: float(total) for name, total in rows}


def tcp_seconds(program: Path, connections: int) -> float:
    return float(subprocess.run([program, str(connections)], check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS).stdout)


def simulated_steps(folder: Path) -> dict[str, float]:
    server, client = f"cmtime -c {SIMULATED} & sleep 10; kill $!", f"sleep 1; cmtime -c {SIMULATED} -s a"
    words = [str(SOFTBAND), "run", "modern-pair", "--out", str(folder / "simulated"), "--on", "a", f"sh -c '{server}'", "--on", "b", f"sh -c '{client}'"]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    return milliseconds_of(done.stdout.replace("b: ", ""))


def microseconds(steps: dict[str, float], connections: int) -> str:
    return ", ".join(f"{step} {1_000 * steps[step] / connections:.0f}" for step in STEPS)


def main() -> int:
    given = [int(word) for word in sys.argv[1:3]]
    connections, runs = (*given, *DEFAULTS[len(given) :])
    if not SOFTBAND.is_file() or not shutil.which("cmtime"):
        print(f"{SOFTBAND} or cmtime is not there: run `make build`, and install rdmacm-utils", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="softband-cmtime-") as name:
        folder = Path(name)
        program = folder / "connects"
        subprocess.run(["cc", "-O2", "-o", str(program), str(ROOT / "benches" / "connects.c")], check=True)
        server, client = folder / "server.sh", folder / "client.sh"
        # A server of cmtime goes on for ever, and has room for its connections only once.
        server.write_text(
            f"run=0; while [ $run -lt {runs} ]; do cmtime -c {connections} -p $(({FIRST_PORT} + run)) >{folder}/log.$run & "
            f"echo $! >>{folder}/pids; run=$((run + 1)); done\nwhile [ ! -e {folder}/end ]; do sleep 0.1; done; kill $(cat {folder}/pids)\n"
        )
        client.write_text(
            f"run=0; while [ $run -lt {runs} ]; do while [ ! -e {folder}/begin.$run ]; do sleep 0.01; done\n"
            f"cmtime -c {connections} -p $(({FIRST_PORT} + run)) -s a >{folder}/report.$run && touch {folder}/done.$run; run=$((run + 1)); done\n"
        )
        words = [SOFTBAND, "run", "modern-pair", "--pace", "wall", "--out", folder / "out", "--on", "a", f"sh {server}", "--on", "b", f"sh {client}"]
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_for(folder / "pids", process)
        times, peers, memory = [], [], [kibibytes_of(process.pid)]
        for run in range(runs):
            (folder / f"begin.{run}").touch()
            wait_for(folder / f"done.{run}", process)
            times.append(milliseconds_of((folder / f"report.{run}").read_text()))
            memory.append(kibibytes_of(process.pid))
            peers.append(tcp_seconds(program, connections))
        (folder / "end").touch()
        process.communicate(timeout=PATIENCE_SECONDS)
        simulated = simulated_steps(folder)
    steps = {step: statistics.median(each[step] for each in times) for step in STEPS}
    rate = connections / (statistics.median(sum(each[step] for step in STEPS) for each in times) / 1_000)
    peer = connections / statistics.median(peers)
    print(f"{connections} connections a run, {runs} runs: {rate:,.0f} set up a second, {rate / peer:.3f} of TCP over loopback ({peer:,.0f})")
    print(f"of these, us a connection: {microseconds(steps, connections)}")
    print(f"the engine's memory: {memory[0]:,} KiB before, {memory[1]:,} KiB after {connections:,} connections, {memory[-1]:,} KiB after {connections * runs:,}: ratio {memory[-1] / memory[1]:.2f}")
    print(f"{SIMULATED} connections in simulated time, us a connection: {microseconds(simulated, SIMULATED)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
