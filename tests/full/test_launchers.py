"""Launchers of MPI start ranks on several hosts by `softband-rsh`, in both paces."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))
LIMIT_SECONDS = 150
RANKS = ["0 of 4 on a: 6", "1 of 4 on a: 6", "2 of 4 on b: 6", "3 of 4 on b: 6"]


@pytest.fixture(scope="module")
def hello(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mpi")
    for stack in ("mpich", "openmpi"):
        command = [f"mpicc.{stack}", "-o", str(folder / stack), str(ROOT / "conformance" / "mpi" / "hello.c")]
        subprocess.run(command, check=True, timeout=120)
    return folder


def launched(stack: str, hello: Path, pace: str, out: Path) -> str:
    rsh = SOFTBAND.parent / "softband-rsh"
    launchers = {
        "mpich": f"mpiexec.hydra -launcher ssh -launcher-exec {rsh} -hosts a:2,b:2",
        "openmpi": f"mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent {rsh} --host a:2,b:2",
    }
    command = f"HWLOC_COMPONENTS=-gl {launchers[stack]} -n 4 {hello / stack}"
    words = [SOFTBAND, "run", ROOT / "fabrics" / "two-hosts.toml", "--pace", pace, "--out", out, "--on", "a", command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return (out / "a-0.out").read_text()


@pytest.mark.parametrize("stack", ["mpich", "openmpi"])
@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_four_ranks_meet_on_two_hosts(tmp_path: Path, hello: Path, stack: str, pace: str) -> None:
    output = launched(stack, hello, pace, tmp_path / "first")
    assert sorted(output.splitlines()) == RANKS
    if pace == "virtual":
        assert launched(stack, hello, pace, tmp_path / "second") == output
