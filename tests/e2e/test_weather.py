"""softband-weather: the same bits on each number of ranks, sums that stay, and errors."""

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

SMALL = ["--grid", "25x22", "--levels", "8", "--steps", "4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("weather")


def weather(folder: Path, mpi: str = "mpich") -> str:
    return mpi_jobs.own_program("weather", mpi, folder)


def computed(folder: Path, ranks: int, *arguments: str) -> dict[str, str]:
    job = mpi_jobs.mpirun("mpich", ranks, [weather(folder), *arguments], folder)
    assert job.status == 0, job.text
    return mpi_jobs.report(job.text)


# Eight ranks that spin take long on few processors.
RANKS = (1, 2, 4, 8) if FULL else (1, 2, 4)


def test_each_number_of_ranks_has_the_same_weather(folder: Path) -> None:
    reports = [computed(folder, ranks, *SMALL, "--verify") for ranks in RANKS]
    for name in ("Checksum", "Mass (kg)", "Wind (m/s)", "Drift of mass", "Drift of water"):
        assert len({report[name] for report in reports}) == 1, name
    assert {report["One rank agrees"] for report in reports} == {"YES"}
    assert [report["Decomposition"] for report in reports] == ["1x1", "2x1", "2x2", "4x2"][: len(RANKS)]
    assert {report["Verification"] for report in reports} == {"SUCCESSFUL"}


@pytest.mark.parametrize("decomposition", ["3x1", "1x3"])
def test_unequal_parts_have_the_same_weather(decomposition: str, folder: Path) -> None:
    report = computed(folder, 3, *SMALL, "--decomposition", decomposition, "--verify")
    assert (report["Decomposition"], report["One rank agrees"]) == (decomposition, "YES")


def test_an_hour_of_weather_keeps_mass_and_water_and_stays_calm(folder: Path) -> None:
    report = mpi_jobs.report(mpi_jobs.alone([weather(folder), "--grid", "25x22", "--levels", "10"]).stdout)
    assert (report["Steps"], report["Small steps"], report["Weather (s)"]) == ("225", "1796", "3600")
    assert abs(float(report["Drift of mass"])) <= 1e-12 and abs(float(report["Drift of water"])) <= 1e-12
    assert 5 < float(report["Wind (m/s)"]) < 30
    short = mpi_jobs.report(mpi_jobs.alone([weather(folder), "--grid", "25x22", "--levels", "10", "--steps", "1"]).stdout)
    assert short["Checksum"] != report["Checksum"] and float(short["Mass (kg)"]) == pytest.approx(float(report["Mass (kg)"]), rel=1e-14)


@pytest.mark.parametrize("mpi", mpi_jobs.MPIS if FULL else ["mpich"])
def test_simulated_time_is_the_same_in_each_run(mpi: str, folder: Path) -> None:
    first, second = (mpi_jobs.mpirun(mpi, 4, [weather(folder, mpi), *SMALL], folder) for _ in range(2))
    assert first.text == second.text and first.status == 0
    assert float(mpi_jobs.report(first.text)["Run time (s)"]) > 1e-5


# 2x2 parts of 24x20 columns with 8 levels. The messages to north and south contain the corners.
EAST, NORTH = 2 * 10 * 8 * 8, 2 * (12 + 4) * 8 * 8


def test_a_long_step_exchanges_all_variables_and_a_small_one_wind_and_mass(softband: Softband, folder: Path) -> None:
    out = softband.folder / "weather.rec"
    starter = ["mpiexec.mpich", "-n", "4", weather(folder), "--grid", "24x20", "--levels", "8", "--steps", "3", "--diagnostics", "2"]
    done = softband.command("record", "run", "--out", str(out), "--mpicc", "mpicc.mpich", "--", *starter)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    end = next(at for at, line in enumerate(lines) if line.keys() == {"end"})
    calls = Counter((line["c"], line.get("b")) for line in lines[:end] if "c" in line)
    small = 4 + 8 + 8
    assert [calls["MPI_Isend", variables * EAST] for variables in (7, 2, 1)] == [1 + 3, small, small], calls
    assert [calls["MPI_Isend", variables * NORTH] for variables in (7, 2, 1)] == [1 + 3, small, small], calls
    # Before the first step, after the second and the last.
    assert calls["MPI_Allreduce", 4 * 8] == calls["MPI_Allreduce", 3 * 8] == 3


def test_a_recording_adds_the_time_of_computation(folder: Path) -> None:
    recording = folder / "weather.rec"
    command = [str(mpi_jobs.SOFTBAND), "mpirun", "-n", "2", "--mpi", "mpich", "--mpicc", "mpicc.mpich"]
    program = [weather(folder), *SMALL]
    made = mpi_jobs.alone([*command, "--pace", "wall", "--record", str(recording), *program])
    assert made.returncode == 0, made.stderr
    first, second = (mpi_jobs.alone([*command, "--compute", f"recorded={recording}", *program]) for _ in range(2))
    assert (first.returncode, first.stdout) == (0, second.stdout), first.stderr
    with_computation, free = mpi_jobs.report(first.stdout), computed(folder, 2, *SMALL)
    assert float(with_computation["Run time (s)"]) > 2 * float(free["Run time (s)"])
    assert with_computation["Checksum"] == free["Checksum"]


@pytest.mark.parametrize(
    ("arguments", "ranks", "wanted"),
    [
        (["--nope"], 1, "--nope: unknown argument\nusage: softband-weather"),
        (["--grid"], 1, "--grid: a value is missing"),
        (["--grid", "241"], 1, "--grid 241: give two numbers from 1 to 10000, such as 241x261"),
        (["--grid", "0x5"], 1, "--grid 0x5: give two numbers"),
        (["--grid", "3x10"], 1, "3 columns for 1 ranks from west to east: each rank needs 4 or more"),
        (["--grid", "20x7", "--decomposition", "1x2"], 2, "7 columns for 2 ranks from south to north"),
        (["--grid", "10000x10000", "--levels", "200"], 1, "give a smaller --grid, or more ranks"),
        (["--levels", "2"], 1, "--levels 2: give a whole number from 3 to 200"),
        (["--hours", "inf"], 1, "--hours inf: give a number up to 240, of one step (16 s) at least"),
        (["--hours", "-1"], 1, "--hours -1: give a number"),
        (["--hours", "1", "--steps", "5"], 1, "--hours and --steps exclude each other"),
        (["--steps", "5x"], 1, "--steps 5x: give a whole number from 1 to 100000"),
        (["--diagnostics", "0"], 1, "--diagnostics 0: give a whole number"),
        (["--decomposition", "2x2"], 2, "--decomposition 2x2 has 4 ranks, and the job has 2\n  give numbers whose product is 2"),
    ],
)
def test_wrong_use_has_one_clear_error(arguments: list[str], ranks: int, wanted: str, folder: Path) -> None:
    starter = ["mpiexec.mpich", "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run([*starter, weather(folder), *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert wanted in done.stderr
    assert done.stderr.count("softband-weather:") == 1


@pytest.mark.parametrize("mpi", mpi_jobs.MPIS if FULL else ["mpich"])
def test_the_sources_compile_without_warnings(mpi: str, folder: Path) -> None:
    mpi_jobs.compile_strictly(mpi, ROOT / "apps" / "weather", folder)
