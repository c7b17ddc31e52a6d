#!/usr/bin/env python3
"""Simulated TCP bytes a wall second through the whole engine, beside ns-3's TCP in the same run.

Two programs move bytes over 1 and over 64 connections of `fabrics/ipoib.toml`: programs, sockets,
kernels, HCAs and the link. ns-3 has TCP on a link of the same rate, without programs, kernels and
HCAs. The figure of Softband subtracts the time of a run with a single byte. Asserts nothing.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from engine_peers import Peer, build

ROOT = Path(__file__).resolve().parents[1]
BENCHES = ROOT / "benches"
SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))
FABRIC = ROOT / "fabrics" / "ipoib.toml"
ROUNDS = 3
# Bytes of all connections together.
TOTAL = 256 << 20
NS3 = Peer(
    "ns-3",
    "ns3_tcp.cc",
    tuple(f"-lns3-{module}" for module in ("applications", "internet", "point-to-point", "network", "core")),
    "/usr/include/ns3/internet-module.h",
    "libns3-dev",
    "TCP between two hosts on a point-to-point link; no programs, kernels or HCAs",
)


def softband(program: Path, connections: int, total: int) -> tuple[float, float]:
    """Returns the wall seconds of a run, and the simulated seconds of its transfer."""
    words = f"{program} 5001 {connections} {total // connections}"
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(
            [str(SOFTBAND), "run", str(FABRIC), "--out", f"{out}/run", "--on", "a", words, "--on", "b", f"{words} a-ib0"],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    found = re.search(r"a: +([\d.]+) (\d+)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or found is None or int(found[2]) != total:
        raise SystemExit(f"{words}: no result\n{done.stdout}{done.stderr}")
    return time.monotonic() - begin, float(found[1])


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "stream"
        subprocess.run(["cc", "-O2", "-o", str(program), str(BENCHES / "stream.c")], check=True)
        peer = build(NS3, folder)
        for connections in (1, 64):
            ours, theirs, gigabits = [], [], 0.0
            for _ in range(ROUNDS):
                least, _ = softband(program, connections, connections)
                wall, simulated = softband(program, connections, TOTAL)
                ours.append(TOTAL / max(wall - least, 1e-9) / 1e6)
                gigabits = TOTAL * 8e-9 / simulated
                if peer:
                    done = subprocess.run([str(peer), str(connections), str(TOTAL // connections)], capture_output=True, text=True, check=True, timeout=600)
                    theirs.append(TOTAL / float(done.stdout.split()[0]) / 1e6)
            line = f"{connections:>2} connections: {statistics.median(ours):.0f} MB of TCP a wall second at {gigabits:.2f} Gb/s of simulated time"
            if theirs:
                line += f"; ns-3 {statistics.median(theirs):.0f} MB, ratio {statistics.median(a / b for a, b in zip(ours, theirs, strict=True)):.2f}"
            print(line)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
