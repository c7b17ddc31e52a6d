"""MPICH and Open MPI of Debian over Softband: self-checking programs, and our own benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import mpi_jobs
from mpi_jobs import MPIS, PACES

# One group for each part of MPI that takes another way through the transport.
GROUPS = ["point-to-point", "communicators", "synchronization"]
BENCHMARKS = ["--benchmarks", "PingPong,Exchange,MessageRate,Allreduce,Alltoallv", "--sizes", "0,8,20000", "--iterations", "5", "--warmup", "2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mpi")


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("mpi", MPIS)
def test_messages_communicators_and_windows_hold(mpi: str, pace: str, folder: Path) -> None:
    job = mpi_jobs.run(mpi, 4, [str(mpi_jobs.conformance(mpi, folder)), *GROUPS], folder, pace)
    assert job.status == 0, job.text[-3000:]
    assert job.lines()[-1] == "all checks hold on 4 ranks"
    assert "FAILED" not in job.text


def test_a_failed_check_ends_the_program_with_status_1_and_its_place(folder: Path) -> None:
    """Compiles a program whose only check is false."""
    broken = folder / "broken.c"
    broken.write_text('#include "check.h"\nstatic void wrong(void) { EXPECT(rank == 1); }\n'
                      + "".join(f'const struct check {name}[] = {{{{"a check", wrong}}, {{0}}}};\n' for name in NAMES))
    main = mpi_jobs.CONFORMANCE / "main.c"
    (folder / "check.h").write_text((mpi_jobs.CONFORMANCE / "check.h").read_text())
    program = mpi_jobs.compiled("mpich", [broken, main], folder / "broken.mpich")
    job = mpi_jobs.run("mpich", 2, [str(program), "windows"], folder, "wall")
    assert job.status != 0
    assert "a: FAILED windows: a check\n" in job.text
    assert "not true: rank == 1" in job.text
    assert "1 checks failed on 2 ranks" in job.lines()


NAMES = ("POINT_TO_POINT", "REQUESTS", "COLLECTIVES", "VECTORS", "NONBLOCKING", "DATATYPES", "COMMUNICATORS", "WINDOWS", "SYNCHRONIZATION")


@pytest.mark.parametrize("mpi", MPIS)
def test_benchmarks_print_the_same_times_in_each_run(mpi: str, folder: Path) -> None:
    command = [str(mpi_jobs.benchmarks(mpi, folder)), "--csv", *BENCHMARKS]
    first, second = (mpi_jobs.run(mpi, 4, command, folder) for _ in range(2))
    assert first.status == 0, first.text[-3000:]
    assert first.lines() == second.lines()
    head, *rows = [line.split(",") for line in first.lines()]
    assert len(rows) == 5 * 3
    pingpong = [dict(zip(head, row, strict=True)) for row in rows if row[0] == "PingPong"]
    # An answer takes longer than the switch and two cables alone, and no longer than some microseconds.
    assert 0.2 < float(pingpong[1]["t_avg_us"]) < 20
    # 20,000 bytes are faster than the link's rate never, and slower than a tenth of it never.
    assert 1000 < float(pingpong[2]["mbytes_per_s"]) < 50000


@pytest.mark.parametrize("pace", PACES)
def test_benchmarks_find_the_contents_that_they_sent(pace: str, folder: Path) -> None:
    command = [str(mpi_jobs.benchmarks("openmpi", folder)), "--check", "--sizes", "3,5000", "--iterations", "3", "--warmup", "1"]
    job = mpi_jobs.run("openmpi", 3, command, folder, pace)
    assert job.status == 0, job.text[-3000:]
    # One table for each benchmark.
    assert sum(line.startswith("# ") for line in job.lines()) == 20


@pytest.mark.parametrize(
    ("options", "status", "wanted"),
    [
        (["--sizes", "3x"], 2, "--sizes: `3x` is not a number from 0 to 1073741824"),
        (["--benchmarks", "PongPing"], 2, "--benchmarks: no benchmark `PongPing`\n  try: softband-mpibench --list"),
        (["--iterations"], 2, "--iterations: a value is missing"),
        (["--frobnicate"], 2, "--frobnicate: no such option"),
        (["--benchmarks", "PingPong"], 2, "PingPong: needs 2 ranks, and there is 1"),
    ],
)
def test_wrong_use_of_the_benchmarks_has_one_clear_error(options: list[str], status: int, wanted: str, folder: Path) -> None:
    """Runs the program alone, without Softband: a rank of its own is a job of MPI too."""
    done = mpi_jobs.alone([str(mpi_jobs.benchmarks("mpich", folder)), *options])
    assert done.returncode == status
    assert done.stderr.count("softband-mpibench:") == 1
    assert wanted in done.stderr


def test_the_wrapper_compiles_once_for_each_mpi_and_needs_a_compiler(folder: Path) -> None:
    wrapper = mpi_jobs.SOFTBAND.with_name("softband-mpibench")
    paths = {mpi: mpi_jobs.alone([str(wrapper), "--path"], MPICC=f"mpicc.{mpi}", XDG_CACHE_HOME=str(folder)) for mpi in MPIS}
    programs = {mpi: Path(done.stdout.strip()) for mpi, done in paths.items()}
    assert programs["mpich"] != programs["openmpi"]
    changed = programs["mpich"].stat().st_mtime_ns
    names = mpi_jobs.alone([str(wrapper), "--list"], MPICC="mpicc.mpich", XDG_CACHE_HOME=str(folder))
    assert names.stdout.split()[:2] == ["PingPong", "PingPing"]
    assert programs["mpich"].stat().st_mtime_ns == changed
    done = mpi_jobs.alone([str(wrapper), "--list"], MPICC="no-such-mpicc", XDG_CACHE_HOME=str(folder))
    assert done.returncode == 1
    assert done.stderr == ("softband-mpibench: no `no-such-mpicc`: install an MPI (Debian: apt-get install mpich libmpich-dev), "
                           "or set MPICC to its mpicc\n")
