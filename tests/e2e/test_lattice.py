"""softband-lattice: the same fields on each number of ranks, a verified solver, and errors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from conftest import FULL, ROOT, Softband

sys.path.insert(0, str(ROOT / "tests"))
import mpi_jobs

SMALL = ["--lattice", "8x4x4x8"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lattice")


def lattice(folder: Path, mpi: str = "mpich") -> str:
    return mpi_jobs.own_program("lattice", mpi, folder)


def solved(folder: Path, ranks: int, *arguments: str, mpi: str = "mpich") -> dict[str, str]:
    job = mpi_jobs.mpirun(mpi, ranks, [lattice(folder, mpi), *arguments], folder)
    assert job.status == 0, job.text
    return mpi_jobs.report(job.text)


# Eight ranks that spin take long on few processors.
RANKS = (1, 2, 4, 8) if FULL else (1, 2, 4)


def test_each_number_of_ranks_has_the_same_fields_and_solution(folder: Path) -> None:
    reports = [solved(folder, ranks, *SMALL, "--verify") for ranks in RANKS]
    for name in ("Checksum", "Plaquette", "Iterations"):
        assert len({report[name] for report in reports}) == 1, name
    assert {report["One rank agrees"] for report in reports} == {"YES"}
    assert {report["Verification"] for report in reports} == {"SUCCESSFUL"}
    assert [report["Grid of ranks"] for report in reports] == ["1x1x1x1", "1x1x1x2", "2x1x1x2", "2x1x2x2"][: len(RANKS)]
    assert all(0 < float(report["Residual"]) <= 1e-10 for report in reports)
    assert all(float(report["Residual"]) == pytest.approx(float(reports[0]["Residual"]), rel=1e-4) for report in reports)


# The test above divides x, z and t in halves, where the upper and lower partner are the same rank.
GRIDS = [(2, "1x2x1x1"), (4, "1x1x1x4"), *([(8, "2x2x2x1"), (8, "4x2x1x1")] if FULL else [])]


@pytest.mark.parametrize(("ranks", "grid"), GRIDS)
def test_each_axis_can_be_divided(ranks: int, grid: str, folder: Path) -> None:
    report = solved(folder, ranks, *SMALL, "--grid", grid, "--antiperiodic", "--iterations", "6", "--verify")
    assert (report["Grid of ranks"], report["One rank agrees"], report["Iterations"]) == (grid, "YES", "6")
    assert (report["Convergence"], report["Verification"]) == ("NOT CHECKED", "SUCCESSFUL")


def test_the_plaquette_is_one_for_unit_links_and_the_same_after_a_gauge_transformation(folder: Path) -> None:
    command = [lattice(folder), *SMALL, "--antiperiodic", "--field"]
    outputs = [mpi_jobs.alone([*command, field]).stdout for field in ("unit", "random", "transformed")]
    unit, random, turned = map(mpi_jobs.report, outputs)
    assert unit["Plaquette"] == "1"
    assert float(turned["Plaquette"]) == pytest.approx(float(random["Plaquette"]), abs=1e-13)
    assert random["Checksum"] != turned["Checksum"] and abs(float(random["Plaquette"])) < 0.1


def test_single_precision_and_overlap_solve_the_same_system(folder: Path) -> None:
    double = solved(folder, 2, *SMALL, "--overlap", "--verify")
    single = solved(folder, 2, *SMALL, "--precision", "single", "--verify")
    assert (double["One rank agrees"], single["One rank agrees"]) == ("YES", "YES")
    assert double["Checksum"] == single["Checksum"] and int(single["Iterations"]) < int(double["Iterations"])
    assert 1e-7 < float(single["Residual"]) <= 2e-5


@pytest.mark.parametrize("mpi", mpi_jobs.MPIS if FULL else ["mpich"])
def test_simulated_time_is_the_same_in_each_run(mpi: str, folder: Path) -> None:
    first, second = (mpi_jobs.mpirun(mpi, 4, [lattice(folder, mpi), *SMALL], folder) for _ in range(2))
    assert first.text == second.text and first.status == 0
    assert float(mpi_jobs.report(first.text)["Solver time (s)"]) > 1e-5


def test_halos_are_half_spinors_at_the_sites_of_one_parity(softband: Softband, folder: Path) -> None:
    out = softband.folder / "lattice.rec"
    starter = ["mpiexec.mpich", "-n", "4", lattice(folder), *SMALL, "--iterations", "2"]
    done = softband.command("record", "run", "--out", str(out), "--mpicc", "mpicc.mpich", "--", *starter)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    end = next(at for at, line in enumerate(lines) if line.keys() == {"end"})
    calls = Counter((line["c"], line.get("b")) for line in lines[:end] if "c" in line)
    # Two axes of 8 sites are split. Each operator has two halves; 2 + 2 are before and after, and 2
    # for the check.
    halves = 2 * 2 * 2 + 2 + 1 + 1 + 2
    assert calls["MPI_Isend", 4 * 4 * 4 // 2 * 12 * 8] == 4 * halves, calls
    assert calls["MPI_Allreduce", 16] >= 3 and calls["MPI_Allreduce", 8] >= 2


def test_a_recording_adds_the_time_of_computation(folder: Path) -> None:
    recording = folder / "lattice.rec"
    command = [str(mpi_jobs.SOFTBAND), "mpirun", "-n", "2", "--mpi", "mpich", "--mpicc", "mpicc.mpich"]
    program = [lattice(folder), *SMALL, "--iterations", "4"]
    made = mpi_jobs.alone([*command, "--pace", "wall", "--record", str(recording), *program])
    assert made.returncode == 0, made.stderr
    first, second = (mpi_jobs.alone([*command, "--compute", f"recorded={recording}", *program]) for _ in range(2))
    assert (first.returncode, first.stdout) == (0, second.stdout), first.stderr
    with_computation, free = mpi_jobs.report(first.stdout), solved(folder, 2, *program[1:])
    assert float(with_computation["Solver time (s)"]) > 2 * float(free["Solver time (s)"])
    assert float(with_computation["Halo time (%)"]) < float(free["Halo time (%)"])


def test_a_residual_above_the_tolerance_fails(folder: Path) -> None:
    # Beyond the critical hopping parameter of unit links, 1/8, the free operator has a zero mode.
    words = [lattice(folder), "--lattice", "4x4x4x4", "--field", "unit", "--kappa", "0.125", "--tolerance", "1e-14"]
    done = mpi_jobs.alone(words)
    report = mpi_jobs.report(done.stdout)
    assert (done.returncode, report["Convergence"], report["Verification"]) == (1, "NOT REACHED", "UNSUCCESSFUL")


@pytest.mark.parametrize(
    ("arguments", "ranks", "wanted"),
    [
        (["--nope"], 1, "--nope: unknown argument\nusage: softband-lattice"),
        (["--kappa"], 1, "--kappa: a value is missing"),
        (["--kappa", "nan"], 1, "--kappa nan: give a number from 0 to 1"),
        (["--lattice", "8x8x8"], 1, "--lattice 8x8x8: give four numbers from 1 to 1024, such as 8x8x8x16"),
        (["--lattice", "8x8x8x-8"], 1, "--lattice 8x8x8x-8: give four numbers"),
        (["--lattice", "8x8x8x99999999999999999999"], 1, "give four numbers"),
        (["--lattice", "1024x1024x1024x1024"], 1, "give a smaller --lattice, or more ranks"),
        (["--lattice", "8x8x8x7"], 1, "7 sites in t do not fit 1 ranks: each rank needs an even number"),
        (["--grid", "2x2x1x1"], 2, "--grid has 4 ranks, and the job has 2\n  give a grid whose product is 2"),
        (["--grid", "1x1x1x2", "--lattice", "8x8x8x6"], 2, "6 sites in t do not fit 2 ranks"),
        ([], 3, "16 sites in t do not fit 3 ranks"),
        (["--iterations", "0"], 1, "--iterations 0: give a whole number from 1 to 1000000"),
        (["--iterations", "5", "--tolerance", "1e-5"], 1, "--iterations and --tolerance exclude each other"),
        (["--precision", "half"], 1, "--precision half: unknown value\nusage"),
        (["--precision", "single", "--tolerance", "1e-9"], 1, "single precision reaches 1e-6"),
        (["--seed", "-1"], 1, "--seed -1: give a whole number from 0"),
    ],
)
def test_wrong_use_has_one_clear_error(arguments: list[str], ranks: int, wanted: str, folder: Path) -> None:
    starter = ["mpiexec.mpich", "-n", str(ranks)] if ranks > 1 else []
    words = [*starter, lattice(folder), *arguments]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert wanted in done.stderr
    assert done.stderr.count("softband-lattice:") == 1


@pytest.mark.parametrize("mpi", mpi_jobs.MPIS if FULL else ["mpich"])
def test_the_sources_compile_without_warnings(mpi: str, folder: Path) -> None:
    mpi_jobs.compile_strictly(mpi, ROOT / "apps" / "lattice", folder)
