#!/usr/bin/env python3
"""The cost of one post and one poll at wall pace, in nanoseconds, without waiting for a peer.

Prints figures. Asserts nothing.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "post_poll"
        subprocess.run(["cc", "-O2", "-o", str(program), str(ROOT / "benches" / "post_poll.c"), "-libverbs"], check=True)
        softband = ROOT / "target" / "dist" / "bin" / "softband"
        words = [str(softband), "run", "--pace", "wall", "modern-pair", "--out", f"{name}/out", "--on", "a", str(program)]
        done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=120)
        print(done.stdout, end="")


if __name__ == "__main__":
    main()
