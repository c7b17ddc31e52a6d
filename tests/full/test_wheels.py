"""Unmodified Python packages from PyPI that call verbs directly, in their own environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))
WHEELS = ROOT / "conformance" / "wheels"
# The build without CUDA needs no GPU.
MOONCAKE = "mooncake-transfer-engine-non-cuda==0.3.13.post1"


@pytest.fixture(scope="session")
def mooncake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns an interpreter that has Mooncake's transfer engine."""
    folder = tmp_path_factory.mktemp("mooncake")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", MOONCAKE], check=True, timeout=600)
    return folder / "bin" / "python"


def move_memory(python: Path, folder: Path, pace: str) -> str:
    """Returns what both hosts print. Each side must have chosen the HCA."""
    command = f"{python} {WHEELS / 'mooncake_pair.py'}"
    words = [str(SOFTBAND), "run", "modern-pair", "--pace", pace, "--timeout", "280", "--on", "a", command, "--on", "b", f"{command} a"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    text = done.stdout + done.stderr
    assert done.returncode == 0, text[-3000:]
    assert "4 writes arrived" in text
    assert "4 reads arrived" in text
    # The engine falls back to TCP if it finds no device.
    for host in "ab":
        assert re.search(rf"^{host}: .*installTransport, type=rdma$", text, re.MULTILINE), text
    assert "TcpTransport" not in text
    return text


def test_mooncake_moves_memory_between_hosts_over_rdma(mooncake: Path, tmp_path: Path) -> None:
    move_memory(mooncake, tmp_path, "wall")


def test_mooncake_moves_memory_in_simulated_time_alike_each_time(mooncake: Path, tmp_path: Path) -> None:
    # Its log lines name threads by the system's numbers, and pad these to five digits.
    first, second = (re.sub(r"^([ab]: [IW]\d{4} [\d:.]+) +\d+", r"\1", move_memory(mooncake, tmp_path, "virtual"), flags=re.MULTILINE) for _ in range(2))
    assert first == second
    assert re.search(r"^b: I0101 00:00:00.00\d+ .*removeSegmentDesc", first, re.MULTILINE), "the transfers take milliseconds"
