"""The original Intel MPI Benchmarks beside softband-mpibench, in simulated time.

Intel's wheel of its MPI carries IMB-MPI1. The program needs `libmpi.so.12`, an interface that MPICH
has as well, so it runs on Debian's MPICH.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import mpi_jobs
from mpi_jobs import SOFTBAND

WHEEL = "impi-rt==2021.19.0"
MPICH = Path("/usr/lib/x86_64-linux-gnu/libmpich.so.12")
SIZES = (0, 8, 1024, 65536)
# IMB synchronizes ranks between repetitions of collectives in another way, which small messages show.
PAIRS = {"PingPong": (SIZES, 0.02), "Exchange": (SIZES, 0.03), "Sendrecv": ((1024, 65536), 0.05)}
COLLECTIVES = {name: ((65536,), 0.05) for name in ("Allreduce", "Allgather", "Alltoall")}
# Exchange of 0 B takes 1.14 to 1.19 us in both programs with 40 to 80 iterations, by their course.
# From 160 to 640 its times do not change any more: 1.15 us (IMB) and 1.17 us.
ITERATIONS = 160


@pytest.fixture(scope="module")
def imb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of IMB-MPI1, with MPICH under the name that it needs."""
    if not MPICH.exists():
        pytest.skip("no MPICH")
    folder = tmp_path_factory.mktemp("imb")
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", WHEEL]
    subprocess.run(words, cwd=folder, check=True, timeout=600)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/bin/IMB-MPI1"))
        (folder / "IMB-MPI1").write_bytes(archive.read(name))
    (folder / "IMB-MPI1").chmod(0o755)
    (folder / "libmpi.so.12").symlink_to(MPICH)
    (folder / "lengths").write_text("".join(f"{size}\n" for size in SIZES))
    return folder


def run(folder: Path, *words: str) -> str:
    command = [str(SOFTBAND), "mpirun", "-n", "4", "--mpi", "mpich", "--timeout", "300", *words]
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=330, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return "\n".join(line.removeprefix("[0] ") for line in done.stdout.splitlines() if line.startswith("[0] "))


def tables(text: str) -> dict[tuple[str, int], float]:
    """Returns the times of IMB by benchmark and size: of a row's times, the last. PingPong has only one."""
    found, name, times = {}, "", 0
    for line in text.splitlines():
        if head := re.match(r"# Benchmarking (\w+)", line):
            name = head[1]
        elif "#bytes" in line:
            times = line.count("usec")
        elif re.match(r"\s+\d+\s+\d+\s+[\d.]+", line):
            words = line.split()
            found[name, int(words[0])] = float(words[1 + times])
    return found


# The course of a benchmark depends on the state in which the one before leaves the connections.
@pytest.mark.parametrize("wanted", [PAIRS, COLLECTIVES], ids=["pairs", "collectives"])
def test_softband_mpibench_measures_what_imb_measures(imb: Path, wanted: dict[str, tuple[tuple[int, ...], float]]) -> None:
    names = list(wanted)
    options = ["-npmin", "4", "-iter", str(ITERATIONS), "-iter_policy", "off", "-msglen", "lengths"]
    first, again = (run(imb, str(imb / "IMB-MPI1"), *names, *options) for _ in range(2))
    assert first == again
    theirs = tables(first)
    program = mpi_jobs.benchmarks("mpich", imb)
    sizes = ",".join(str(size) for size in SIZES)
    text = run(imb, str(program), "--benchmarks", ",".join(names), "--sizes", sizes, "--iterations", str(ITERATIONS), "--csv")
    ours = {(row["benchmark"], int(row["bytes"])): float(row["t_avg_us"]) for row in csv.DictReader(text.splitlines())}
    for name, (compared, tolerance) in wanted.items():
        for size in compared:
            assert ours[name, size] == pytest.approx(theirs[name, size], rel=tolerance, abs=0.02), f"{name} of {size} bytes"
