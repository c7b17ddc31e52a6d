#!/usr/bin/env python3
"""The cost of 10,000 queue pairs on one device at wall pace, beside that of 10 queue pairs.

Prints figures and ratios, asserts nothing. The runs alternate, because machines are noisy. Figures
are medians over several runs.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOFTBAND = ROOT / "target" / "dist" / "bin" / "softband"
RUNS = 5
FEW, MANY = 10, 10_000


def measure(program: Path, count: int) -> dict[str, float]:
    words = [str(SOFTBAND), "run", "--pace", "wall", "modern-pair", "--on", "a", f"{program} {count}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"{program} {count}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}


def main() -> int:
    if not SOFTBAND.is_file():
        print(f"{SOFTBAND} is not there: run `make build`", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "queue_pairs"
        subprocess.run(["cc", "-O2", "-o", str(program), str(ROOT / "benches" / "queue_pairs.c"), "-libverbs"], check=True)
        runs = [(measure(program, FEW), measure(program, MANY)) for _ in range(RUNS)]
    few, many = ({name: statistics.median(pair[side][name] for pair in runs) for name in runs[0][side]} for side in (0, 1))
    first, last = many["setup_first_us"], many["setup_last_us"]
    print(f"{MANY} queue pairs: {many['setup_us']:.1f} us each to make and connect (the first 500: {first:.1f}, the last 500: {last:.1f})")
    print(f"memory of each: {many['program_kib']:.2f} KiB in the program, {many['engine_kib']:.2f} KiB in the engine; {many['destroy_us']:.1f} us to destroy it")
    for name, what in (("empty_poll_us", "an empty poll"), ("write_10_us", "a write and its poll, on ten of them"), ("write_all_us", "the same, on all in turn")):
        print(f"{what}: {few[name]:.3f} us with {FEW}, {many[name]:.3f} us with {MANY}: ratio {many[name] / few[name]:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
