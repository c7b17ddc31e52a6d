"""At wall pace, the end of a connection overtakes no completion, also on a busy machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))
RUNS = 300
PROGRAM = "fi_pingpong -p 'verbs;ofi_rxm' -e rdm -I 10 -S 64"
# RxM's thread for connections and the thread that polls compete for the processors.
LOAD = 3 * (os.cpu_count() or 1)


@pytest.mark.skipif(not shutil.which("fi_pingpong"), reason="no libfabric-bin")
def test_a_ping_pong_over_connections_ends_under_load() -> None:
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOAD)]
    command = [SOFTBAND, "run", "modern-pair", "--pace", "wall", "--timeout", "60", "--on", "a", PROGRAM]
    command += ["--on", "b", f"sleep 1; exec {PROGRAM} a"]
    try:
        for _ in range(RUNS):
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 0, done.stderr
    finally:
        for one in load:
            one.kill()
            one.wait()
