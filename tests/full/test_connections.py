"""Many connections by rdma_cm: all of them at once, and memory that stays flat."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))
CONNECTIONS = 10_000
needs_cmtime = pytest.mark.skipif(not shutil.which("cmtime"), reason="no rdmacm-utils")


@needs_cmtime
def test_ten_thousand_connections_leave_the_engine_s_memory_flat() -> None:
    """The second and the third 10,000 connections take hardly any memory that the first did not.

    The servers of all three live until the end, and so does what the engine keeps for a process.
    """
    words = [sys.executable, str(ROOT / "benches" / "cmtime.py"), str(CONNECTIONS), "3"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{CONNECTIONS} connections a run, 3 runs" in done.stdout
    ratio = re.search(r"KiB after 30,000: ratio ([\d.]+)", done.stdout)
    assert ratio and float(ratio[1]) < 1.2, done.stdout


@needs_cmtime
def test_ten_thousand_connections_at_once_in_simulated_time(tmp_path: Path) -> None:
    """More requests than the listener's backlog come at once. They are repeated until they find room."""
    server, client = f"cmtime -c {CONNECTIONS} & sleep 100; kill $!", f"sleep 1; cmtime -c {CONNECTIONS} -s a"
    words = [str(SOFTBAND), "run", "modern-pair", "--on", "a", f"sh -c '{server}'", "--on", "b", f"sh -c '{client}'"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^b: destroy +:", done.stdout, re.MULTILINE), done.stdout + done.stderr
