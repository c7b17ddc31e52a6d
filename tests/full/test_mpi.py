"""MPI on 2 to 16 ranks over four hosts: conformance of both MPIs, hpcc, NetPIPE and mpi4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import mpi_jobs
from mpi_jobs import MPIS, PACES

RANKS = (2, 4, 8, 16)
# Debian's interpreter has Debian's mpi4py, over Open MPI.
PYTHON = "/usr/bin/python3"
MPI4PY = "3.1.4"
EXCEPTIONS = mpi_jobs.ROOT / "conformance" / "mpi4py" / "exceptions.txt"
EXAMPLE = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")


def needs(*commands: str) -> None:
    for command in commands:
        if not shutil.which(command):
            pytest.skip(f"no {command}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mpi")


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("mpi", MPIS)
def test_every_check_of_mpi_holds(mpi: str, pace: str, ranks: int, folder: Path) -> None:
    job = mpi_jobs.run(mpi, ranks, [str(mpi_jobs.conformance(mpi, folder))], folder, pace, timeout=500)
    failed = [line for line in job.lines() if line.startswith("FAILED")]
    assert failed == [], job.text[-3000:]
    checks = [line for line in job.lines() if re.match("ok    |FAILED", line)]
    assert len(checks) == 83
    assert job.status == 0


def test_mpich_loses_parts_of_numbers_without_softband_too(folder: Path) -> None:
    """UCX may cut a message anywhere. docs/mpi-benchmarks.md names the sizes for `rc_verbs`."""
    needs("mpiexec.hydra")
    program = mpi_jobs.compiled("mpich", [mpi_jobs.CONFORMANCE.parent / "into_vector.c"], folder / "into_vector")
    lost, whole = (
        mpi_jobs.alone(["mpiexec.hydra", "-n", "2", str(program)], UCX_TLS="posix,self", UCX_MM_SEG_SIZE=size).stdout for size in ("8252", "8256")
    )
    assert "numbers are missing: Message truncated" in lost
    assert "all numbers came" in whole


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("mpi", MPIS)
def test_nonblocking_files_of_mpi_arrive(mpi: str, pace: str, folder: Path) -> None:
    program = mpi_jobs.compiled(mpi, [mpi_jobs.CONFORMANCE.parent / "files.c"], folder / f"files.{mpi}")
    job = mpi_jobs.run(mpi, 4, [str(program), str(folder / f"{mpi}.{pace}")], folder, pace)
    assert job.status == 0, job.text[-3000:]
    assert job.text.count("all numbers came") == 4


@pytest.mark.parametrize("mpi", MPIS)
def test_all_benchmarks_print_the_same_times_in_each_run(mpi: str, folder: Path) -> None:
    command = [str(mpi_jobs.benchmarks(mpi, folder)), "--sizes", "0,8,1024,65536", "--iterations", "10", "--warmup", "3"]
    first, second = (mpi_jobs.run(mpi, 4, command, folder, timeout=250) for _ in range(2))
    assert first.status == 0, first.text[-3000:]
    assert sum(line.startswith("# ") for line in first.lines()) == 20
    assert first.lines() == second.lines()


@pytest.mark.parametrize(("mpi", "program"), [("openmpi", "NPopenmpi"), ("mpich", "NPmpich2")])
def test_netpipe_gives_the_same_table_in_each_run(mpi: str, program: str, folder: Path) -> None:
    needs(program)
    command = [program, "-l", "1", "-u", "65536", "-n", "20"]
    first, second = (mpi_jobs.run(mpi, 2, command, folder) for _ in range(2))
    assert first.status == 0, first.text[-3000:]
    table = [line for line in first.text.splitlines() if "Mbps" in line]
    assert table == [line for line in second.text.splitlines() if "Mbps" in line]
    assert len(table) > 60
    # One way takes less than 20 us for all these sizes.
    assert all(0.3 < float(line.split()[-2]) < 20 for line in table)


@pytest.mark.parametrize("pace", PACES)
def test_hpcc_verifies_its_own_results(pace: str, tmp_path: Path) -> None:
    needs("hpcc")
    example = EXAMPLE.read_text().replace("1000         Ns", "400          Ns").replace("80           NBs", "40           NBs")
    (tmp_path / "hpccinf.txt").write_text(example)
    job = mpi_jobs.run("openmpi", 4, ["hpcc"], tmp_path, pace, timeout=500)
    assert job.status == 0, job.text[-3000:]
    report = (tmp_path / "hpccoutf.txt").read_text()
    assert "Success=1" in report
    assert re.search(r"\b1 tests completed and passed residual checks", report)
    assert re.search(r"\b0 tests completed and failed residual checks", report)


@pytest.mark.parametrize("command", [["helloworld"], ["ringtest", "-q", "-n", "1000"]])
def test_the_benchmarks_of_mpi4py_run(command: list[str], folder: Path) -> None:
    needs(PYTHON)
    job = mpi_jobs.run("openmpi", 4, [PYTHON, "-m", "mpi4py.bench", *command], folder)
    assert job.status == 0, job.text[-3000:]
    if command[0] == "helloworld":
        hosts = sorted(re.findall(r"I am process (\d) of 4 on (\w)", job.text))
        assert hosts == [("0", "a"), ("1", "b"), ("2", "c"), ("3", "d")]


@pytest.fixture(scope="module")
def mpi4py_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the source distribution that belongs to Debian's mpi4py."""
    return mpi_jobs.mpi4py_source(MPI4PY, tmp_path_factory.mktemp("mpi4py"))


@pytest.fixture(scope="module")
def interpreters(mpi4py_tests: Path) -> dict[str, str]:
    """Returns Debian's interpreter with mpi4py over Open MPI, and one with mpi4py over MPICH, built here."""
    needs(PYTHON, "mpicc.mpich")
    place = mpi4py_tests.parent / "mpich"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, timeout=120)
    pip = [str(place / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    # This version of mpi4py needs setuptools of its time.
    subprocess.run([*pip, "setuptools<69", "wheel"], check=True, timeout=300)
    environment = os.environ | {"MPICC": "mpicc.mpich", "CFLAGS": "-O0"}
    subprocess.run([*pip, "--no-build-isolation", "--no-deps", str(mpi4py_tests)], env=environment, check=True, timeout=900)
    return {"openmpi": PYTHON, "mpich": str(place / "bin" / "python")}


def exceptions(mpi: str) -> list[str]:
    """Returns the modules of mpi4py's tests that conformance/mpi4py excepts for an MPI."""
    rows = [line.split("\t") for line in EXCEPTIONS.read_text().splitlines() if not line.startswith("#")]
    return [module for library, module, _ in rows if library in (mpi, "*")]


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("mpi", MPIS)
def test_the_tests_of_mpi4py_pass_on_four_ranks(mpi: str, pace: str, mpi4py_tests: Path, interpreters: dict[str, str]) -> None:
    words = [interpreters[mpi], "test/runtests.py", "--no-builddir", "--verbose"]
    for module in exceptions(mpi):
        words += ["--exclude", module]
    job = mpi_jobs.mpirun(mpi, 4, words, mpi4py_tests, pace, timeout=3000)
    assert job.status == 0, job.text[-3000:]
    # Each rank prints its own summary.
    assert len(re.findall(r"^\[[0-3]\] Ran \d{3,4} tests", job.text, re.MULTILINE)) == 4
    assert not re.search(r"\.\.\. (FAIL|ERROR)$", job.text, re.MULTILINE)
