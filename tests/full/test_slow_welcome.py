"""The late welcome of a slow engine does not kill the program that joins the fabric."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))
# If programs do not wait for the engine, this many watchers make a fifth of the rounds end by
# SIGKILL.
ROUNDS, WATCHERS = "60", "19000"


def test_nobody_is_killed_by_its_welcome(tmp_path: Path) -> None:
    program = tmp_path / "slow_welcome"
    source = ROOT / "conformance" / "c" / "slow_welcome.c"
    subprocess.run(["cc", "-O1", "-Wall", "-static", "-o", str(program), str(source)], check=True, timeout=120)
    command = f"{program} {ROUNDS} {WATCHERS}"
    words = [str(SOFTBAND), "run", "--pace", "wall", "two-hosts", "--on", "a", command, "--on", "b", "true"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert f"{ROUNDS} of {ROUNDS} well, 0 killed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
