#!/usr/bin/env python3
"""Ten processes run random operations between all pairs and check every byte and completion.
`make soak` runs them for an hour.

SOAK_SECONDS, SOAK_SEED and SOAK_PACE change the run. A printed seed repeats its operations.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOFTBAND = ROOT / "target" / "dist" / "bin" / "softband"
HOSTS = ["a", "b", "c", "a", "b", "c", "a", "b", "c", "a"]
GROWTH_MAX = 1.1


def resident_kib(pid: int) -> int:
    """Returns the resident memory of a process, in KiB."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4
    except (OSError, IndexError):
        return 0


def main() -> int:
    seconds = float(os.environ.get("SOAK_SECONDS", "3600"))
    seed = int(os.environ.get("SOAK_SEED", str(secrets.randbits(32))), 0)
    pace = os.environ.get("SOAK_PACE", "wall")
    print(f"soak: SOAK_SEED={seed} SOAK_SECONDS={seconds:g} SOAK_PACE={pace}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "soak"
        source = ROOT / "conformance" / "c" / "soak.c"
        subprocess.run(["cc", "-O2", "-o", str(program), str(source), "-libverbs"], check=True)
        words = [str(SOFTBAND), "run", "three-hosts", "--pace", pace]
        for rank, host in enumerate(HOSTS):
            words += ["--on", host, f"{program} {seed} {seconds} {rank} {' '.join(HOSTS)}"]
        engine = subprocess.Popen(words)
        sizes: list[int] = []
        watch = threading.Event()

        def look() -> None:
            while not watch.wait(max(seconds / 20, 1.0)):
                sizes.append(resident_kib(engine.pid))

        threading.Thread(target=look, daemon=True).start()
        started = time.monotonic()
        status = engine.wait()
        watch.set()
    flat = [size for size in sizes if size][2:]
    grown = len(flat) > 3 and flat[-1] > flat[0] * GROWTH_MAX + 4096
    print(f"soak: status {status} after {time.monotonic() - started:.0f} s; engine's memory {flat[:1]} to {flat[-1:]} KiB")
    if grown:
        print("soak: the engine's memory grew", file=sys.stderr)
    return status or int(grown)


if __name__ == "__main__":
    sys.exit(main())
