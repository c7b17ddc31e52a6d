"""softband-npb: kernels of the NAS Parallel Benchmarks, verified by the specification's values."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import FULL, ROOT, Softband

sys.path.insert(0, str(ROOT / "tests"))
import mpi_jobs

SOURCES = sorted((ROOT / "apps" / "npb").glob("*.c"))
KERNELS = ("ep", "is", "ft", "cg")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("npb")


def npb(mpi: str, folder: Path) -> str:
    return mpi_jobs.own_program("npb", mpi, folder)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mpi", mpi_jobs.MPIS if FULL else ["mpich"])
def test_each_kernel_is_verified_in_simulated_time(mpi: str, kernel: str, folder: Path) -> None:
    job = mpi_jobs.mpirun(mpi, 4, [npb(mpi, folder), kernel], folder)
    assert job.status == 0, job.text
    assert "Verification    =               SUCCESSFUL" in job.text
    if kernel == "cg" or FULL:
        assert mpi_jobs.mpirun(mpi, 4, [npb(mpi, folder), kernel], folder).text == job.text


OTHER_RANKS = [("is", 2), ("cg", 8), *([("is", 8), ("ft", 1), ("ft", 8), ("cg", 1), ("cg", 2), ("ep", 3)] if FULL else [])]


@pytest.mark.parametrize(("kernel", "ranks"), OTHER_RANKS)
def test_other_numbers_of_ranks_give_the_same_result(kernel: str, ranks: int, folder: Path) -> None:
    """Ranks of CG form a grid with as many columns as rows, or twice as many."""
    job = mpi_jobs.mpirun("mpich", ranks, [npb("mpich", folder), kernel], folder)
    assert "Verification    =               SUCCESSFUL" in job.text, job.text


@pytest.mark.parametrize(
    ("arguments", "ranks", "wanted"),
    [
        ([], 1, "no kernel\nusage: softband-npb"),
        (["mg"], 1, "mg: unknown or second kernel"),
        (["--class", "Z", "cg"], 1, "--class Z: give one of S, W, A, B and C"),
        (["--iterations", "0", "cg"], 1, "--iterations 0: give a number from 1 to 1000"),
        (["cg", "--class"], 1, "--class: a value is missing"),
        (["--iterations", "11", "is"], 1, "is: 11 iterations\n  give at most 10"),
        (["cg"], 3, "cg: 3 ranks\n"),
        (["is"], 3, "is: 3 ranks\n"),
        (["ft"], 3, "ft: class S takes no 3 ranks\n"),
    ],
)
def test_wrong_use_has_one_clear_error(arguments: list[str], ranks: int, wanted: str, folder: Path) -> None:
    words = ["mpiexec.mpich", "-n", str(ranks), npb("mpich", folder), *arguments]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert wanted in done.stderr
    assert done.stderr.count("softband-npb:") == 1


def test_fewer_steps_are_not_verified(folder: Path) -> None:
    done = mpi_jobs.alone([npb("mpich", folder), "--iterations", "2", "cg"])
    assert done.returncode == 0
    assert "NOT PERFORMED" in done.stdout


# Calls of rank 0 on four ranks that the original programs (version 3.4) make as well: name, bytes and number.
# CG has a grid of two columns: 700 of 1,400 numbers, for 16 solutions of 26 products each.
MESSAGES = {
    "ep": [("MPI_Allreduce", 8, 2), ("MPI_Allreduce", 80, 1)],
    "is": [("MPI_Allreduce", (512 + 5) * 4, 11), ("MPI_Alltoall", 4, 11)],
    "ft": [("MPI_Alltoall", 64**3 * 16 // 16, 8), ("MPI_Reduce", 16, 6)],
    "cg": [("MPI_Send", 700 * 8, 16 * 26 * 2)],
}


def calls_of_the_first_rank(softband: Softband, ranks: int, kernel: str, folder: Path, *options: str) -> list[dict[str, Any]]:
    out = softband.folder / "npb.rec"
    starter = ["mpiexec.mpich", "-n", str(ranks), npb("mpich", folder), *options, kernel]
    done = softband.command("record", "run", "--out", str(out), "--mpicc", "mpicc.mpich", "--", *starter)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    end = next(at for at, line in enumerate(lines) if line.keys() == {"end"})
    return [line for line in lines[:end] if "c" in line]


@pytest.mark.parametrize("kernel", KERNELS)
def test_messages_have_the_sizes_of_the_original_programs(softband: Softband, kernel: str, folder: Path) -> None:
    calls = Counter((line["c"], line.get("b")) for line in calls_of_the_first_rank(softband, 4, kernel, folder))
    for name, size, count in MESSAGES[kernel]:
        assert calls[name, size] == count, calls


def test_cg_sends_in_the_order_of_the_original(softband: Softband, folder: Path) -> None:
    """On 8 ranks: single numbers to the farthest partner first, vectors to the nearest first, then to the opposite."""
    calls = calls_of_the_first_rank(softband, 8, "cg", folder, "--iterations", "1")
    sends = [(line["to"], line["b"]) for line in calls if line["c"] == "MPI_Send"]
    assert sends[:7] == [(2, 8), (1, 8), (1, 2800), (2, 2800), (0, 2800), (2, 8), (1, 8)]
    # Two products of an iteration, and the residual before them.
    assert sends[-4:] == [(2, 8), (1, 8), (2, 16), (1, 16)]
