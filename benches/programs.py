#!/usr/bin/env python3
"""The speed of programs on the modelled hardware: prints figures and ratios, asserts nothing.

A figure is the simulated seconds of the busy part per wall-clock second. It excludes a run with one
iteration, so that the start of programs and their clock calibration do not count. All figures are
medians over several runs.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOFTBAND = ROOT / "target" / "dist" / "bin" / "softband"
RUNS = 5


def run(command: str, fabric: str = "cables/sdr-cx4") -> tuple[float, float]:
    """Runs a server and a client. Returns their simulated seconds and wall-clock seconds."""
    with tempfile.TemporaryDirectory() as out:
        words = [str(SOFTBAND), "run", fabric, "--out", out, "--on", "a", command, "--on", "b", f"{command} a"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        report = json.loads((Path(out) / "run.json").read_text())
    return report["virtual_seconds"], report["wall_seconds"]


def busy(command: str, idle: str) -> tuple[float, float]:
    """Returns the medians of the times that `command` takes beyond `idle`."""
    pairs = []
    for _ in range(RUNS):
        base, whole = run(idle), run(command)
        pairs.append((whole[0] - base[0], whole[1] - base[1]))
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def main() -> int:
    if not SOFTBAND.is_file():
        print(f"{SOFTBAND} is not there: run `make build`", file=sys.stderr)
        return 1
    virtual, wall = busy("ib_send_bw -s 65536 -n 20000", "ib_send_bw -s 65536 -n 5")
    whole = run("ib_send_bw -s 65536 -n 20000")
    print(f"ib_send_bw -s 65536 -n 20000, SDR: {virtual:.3f} virtual s in {wall:.3f} wall s: ratio {virtual / wall:.2f} "
          f"(whole run, start included: {whole[0]:.3f} in {whole[1]:.3f}: {whole[0] / whole[1]:.2f})")
    for program in ("ib_send_lat", "ib_write_lat", "ib_read_lat"):
        _, wall = busy(f"{program} -s 2 -n 20000", f"{program} -s 2 -n 5")
        print(f"{program} -s 2: {wall / 20000 * 1e6:.1f} us of wall time per round trip")
    return 0


if __name__ == "__main__":
    sys.exit(main())
