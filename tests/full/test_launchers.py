"""Launchers of MPI start ranks on several hosts by `softband-rsh`, in both paces."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from mpi_jobs import open_mpi_5

SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))
LIMIT_SECONDS = 150
RANKS = ["0 of 4 on a: 6", "1 of 4 on a: 6", "2 of 4 on b: 6", "3 of 4 on b: 6"]


@pytest.fixture(scope="module")
def hello(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mpi")
    for stack in ("mpich", "openmpi"):
        command = [f"mpicc.{stack}", "-o", str(folder / stack), str(ROOT / "conformance" / "mpi" / "hello.c")]
        subprocess.run(command, check=True, timeout=120)
    if wheels := open_mpi_5():
        subprocess.run([str(wheels / "mpicc"), "-o", str(folder / "openmpi5"), str(ROOT / "conformance" / "mpi" / "hello.c")], check=True, timeout=120)
    return folder


def launched(stack: str, hello: Path, pace: str, out: Path) -> str:
    rsh = SOFTBAND.parent / "softband-rsh"
    launchers = {
        "mpich": f"mpiexec.hydra -launcher ssh -launcher-exec {rsh} -hosts a:2,b:2",
        "openmpi": f"mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent {rsh} --host a:2,b:2",
    }
    variables = "HWLOC_COMPONENTS=-gl,-pci,-linuxio"
    if (wheels := open_mpi_5()) and stack == "openmpi5":
        # The wheel's programs look for prted where they were built, unless --prefix names another folder.
        launchers[stack] = f"{wheels}/prterun --prefix {wheels.parent} --allow-run-as-root --prtemca plm_ssh_agent {rsh} --host a:2,b:2"
        scratch = out.parent / f"{out.name}-scratch"
        scratch.mkdir()
        variables += f" TMPDIR={scratch} OMPI_MCA_pml=ucx UCX_MODULES=^rdmacm UCX_TLS=rc_verbs,ud_verbs,self UCX_MEM_MMAP_HOOK_MODE=reloc UCX_FENCE_MODE=weak"
    command = f"{variables} {launchers[stack]} -n 4 {hello / stack}"
    words = [SOFTBAND, "run", ROOT / "fabrics" / "two-hosts.toml", "--pace", pace, "--out", out, "--on", "a", command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return (out / "a-0.out").read_text()


@pytest.mark.parametrize("stack", ["mpich", "openmpi", "openmpi5"])
@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_four_ranks_meet_on_two_hosts(tmp_path: Path, hello: Path, stack: str, pace: str) -> None:
    if not (hello / stack).exists():
        pytest.skip(f"no {stack}")
    output = launched(stack, hello, pace, tmp_path / "first")
    assert sorted(output.splitlines()) == RANKS
    if pace == "virtual":
        assert launched(stack, hello, pace, tmp_path / "second") == output
