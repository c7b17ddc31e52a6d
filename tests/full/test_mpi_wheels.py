"""MPI by wheels of PyPI: Open MPI 5, MPICH 5 and Intel MPI, each with mpi4py, in both paces."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import mpi_jobs
from mpi_jobs import PACES, SOFTBAND

MPIS = tuple(mpi_jobs.WHEELS)
# Intel MPI also comes with a launcher of its own.
HYDRA = "intelmpi by hydra"
LAUNCHES = (*MPIS, HYDRA)
FABRICS = {"infiniband": "modern-pair", "roce": "roce-100g"}
EXCEPTIONS = mpi_jobs.ROOT / "conformance" / "mpi4py" / "exceptions.txt"
# Each line is one write: a launcher joins the output of its ranks.
SUM = r"""
import os
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(bytes([world.rank]) * 100_000, op=lambda a, b: bytes(x + y for x, y in zip(a[:9], b)) + a[9:])
world.Barrier()
os.write(1, f"{world.rank} of {world.size} on {MPI.Get_processor_name()} {total[0]}\n".encode())
"""
# Each rank works long enough that the jobs run side by side.
LONG_SUM = SUM.replace("world.Barrier()", "for _ in range(2000): world.Barrier()")


def python_of(mpi: str) -> str:
    return str(mpi_jobs.ROOT / "target" / mpi.removesuffix(" by hydra") / "bin" / "python")


def environment(mpi: str) -> dict[str, str]:
    folder = mpi_jobs.wheels(mpi.removesuffix(" by hydra"))
    if folder is None:
        pytest.skip(f"no wheels of {mpi}")
    # `softband mpirun` starts no further processes.
    return os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "MPI4PY_TEST_SPAWN": "no"}


def command(mpi: str, pace: str, fabric: str, ranks: tuple[int, int], words: list[str], limit: int = 280) -> list[str]:
    """Returns the command of a job with `ranks` in all and on each host."""
    count, each = ranks
    softband = [str(SOFTBAND), "run" if mpi == HYDRA else "mpirun", "--pace", pace, "--timeout", str(limit)]
    if mpi != HYDRA:
        return [*softband, "-n", str(count), "--ppn", str(each), fabric, *words]
    launcher = f"mpiexec.hydra -launcher ssh -launcher-exec {SOFTBAND.parent / 'softband-rsh'} -hosts a,b -ppn {each} -n {count}"
    return [*softband, "--quiet", fabric, "--on", "a", f"{launcher} {' '.join(words)}"]


def lines_of_ranks(text: str) -> list[str]:
    return sorted(re.sub(r"^\[\d+\] ", "", line) for line in text.splitlines() if " of " in line)


def expected(count: int, each: int) -> list[str]:
    total = sum(range(count))
    return [f"{rank} of {count} on {'ab'[rank // each % 2]} {total}" for rank in range(count)]


@pytest.mark.parametrize("ranks", [(2, 1), (4, 2)], ids=["one-a-host", "two-a-host"])
@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("mpi", LAUNCHES)
def test_ranks_of_two_hosts_add_their_numbers(mpi: str, pace: str, fabric: str, ranks: tuple[int, int], tmp_path: Path) -> None:
    (tmp_path / "sum.py").write_text(SUM)
    around = environment(mpi)
    words = command(mpi, pace, FABRICS[fabric], ranks, [python_of(mpi), str(tmp_path / "sum.py")])
    runs = [subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env=around, cwd=tmp_path) for _ in range(1 + (pace == "virtual"))]
    for done in runs:
        assert done.returncode == 0, done.stdout + done.stderr
        assert lines_of_ranks(done.stdout) == expected(*ranks)
        assert "failed to get interface index" not in done.stdout + done.stderr
    assert runs[0].stdout == runs[-1].stdout


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("mpi", LAUNCHES)
def test_jobs_side_by_side_do_not_meet(mpi: str, pace: str, tmp_path: Path) -> None:
    """The ranks of a host share memory by the name of their job."""
    (tmp_path / "sum.py").write_text(LONG_SUM)
    around = environment(mpi)
    words = command(mpi, pace, "modern-pair", (2, 2), [python_of(mpi), str(tmp_path / "sum.py")])
    for output in mpi_jobs.side_by_side([words] * 3, around, tmp_path):
        assert lines_of_ranks(output) == expected(2, 2)


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("mpi", MPIS)
def test_a_job_after_a_killed_job_starts_afresh(mpi: str, pace: str, tmp_path: Path) -> None:
    """The ranks of the first job leave files of shared memory behind."""
    (tmp_path / "sum.py").write_text(SUM)
    (tmp_path / "wait.py").write_text(SUM + "import time\nwhile True: time.sleep(0.01)\n")
    (tmp_path / "temporary").mkdir()
    around = environment(mpi) | {"TMPDIR": str(tmp_path / "temporary")}
    killed = command(mpi, pace, "modern-pair", (2, 2), [python_of(mpi), str(tmp_path / "wait.py")])
    with subprocess.Popen(killed, stdout=subprocess.PIPE, text=True, env=around, cwd=tmp_path) as job:
        assert job.stdout is not None and " of 2 on a" in job.stdout.readline()
        names = [path.name.removesuffix("-files") for path in (tmp_path / "temporary").glob("softband-*-files")]
        assert len(names) == 1 and Path(f"/dev/shm/{names[0]}-shm").exists()
        job.kill()
    words = command(mpi, pace, "modern-pair", (2, 2), [python_of(mpi), str(tmp_path / "sum.py")])
    (output,) = mpi_jobs.side_by_side([words], around, tmp_path)
    assert lines_of_ranks(output) == expected(2, 2)
    assert not Path(f"/dev/shm/{names[0]}-shm").exists()


@pytest.fixture(scope="module")
def mpi4py_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the source distribution that belongs to the wheels of mpi4py."""
    return mpi_jobs.mpi4py_source(mpi_jobs.MPI4PY, tmp_path_factory.mktemp("mpi4py"))


def words_of_tests(mpi: str, tests: Path) -> list[str]:
    """Returns the command of mpi4py's tests, without the modules that conformance/mpi4py excepts."""
    rows = [line.split("\t") for line in EXCEPTIONS.read_text().splitlines() if not line.startswith("#")]
    excepted = [module for library, module, _ in rows if library in (mpi, "*")]
    return [python_of(mpi), str(tests / "test" / "main.py"), "-v", *(word for module in excepted for word in ("-e", module))]


def failures(text: str) -> set[str]:
    """Returns the names of the tests that a rank says failed."""
    return set(re.findall(r"(\w+ \(test_[\w.]+\))[^\n]*? \.\.\. (?:FAIL|ERROR)$", text, re.MULTILINE))


# Jobs of Softband run over UCX. Open MPI's own choice without InfiniBand, ob1, can revoke communicators, and `pml/ucx`
# cannot.
COMPONENTS = {
    "openmpi5": {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_pml": "ucx",
        "OMPI_MCA_pml_ucx_tls": "any",
        "OMPI_MCA_pml_ucx_devices": "any",
        "UCX_TLS": "tcp,self,sm",
    }
}


@functools.cache
def failures_without_softband(mpi: str, ranks: int, tests: Path) -> frozenset[str]:
    """Returns the tests that fail with the launcher of the wheel on this machine, outside of any fabric."""
    around = environment(mpi) | COMPONENTS.get(mpi, {})
    more = ["--oversubscribe"] if mpi == "openmpi5" else []
    words = ["mpiexec", *more, "-n", str(ranks), *words_of_tests(mpi, tests)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=3000, check=False, env=around, cwd=tests)
    assert re.search(r"\bRan \d{3,5} tests", done.stdout + done.stderr), done.stdout[-3000:] + done.stderr[-3000:]
    return frozenset(failures(done.stdout + done.stderr))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("mpi", MPIS)
def test_each_test_of_mpi4py_passes_that_plain_mpiexec_passes(mpi: str, pace: str, ranks: int, mpi4py_tests: Path) -> None:
    around = environment(mpi)
    allowed = failures_without_softband(mpi, ranks, mpi4py_tests)
    words = command(mpi, pace, "modern-pair", (ranks, (ranks + 1) // 2), words_of_tests(mpi, mpi4py_tests), limit=3500)
    done = subprocess.run(words, capture_output=True, text=True, timeout=3600, check=False, env=around, cwd=mpi4py_tests)
    text = done.stdout + done.stderr
    counts = re.findall(r"\bRan (\d{3,5}) tests", text)
    print(f"{mpi}, {pace}, {ranks} ranks: {', '.join(counts)} tests; without Softband {len(allowed)} fail")
    assert failures(text) <= allowed, sorted(failures(text) - allowed)
    assert len(counts) == ranks, text[-3000:]
    assert allowed or done.returncode == 0, text[-3000:]
