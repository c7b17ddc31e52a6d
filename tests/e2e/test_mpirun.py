"""MPI jobs by `softband mpirun`: MPICH 4, Open MPI 4 and 5, in both paces."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import FULL, ROOT, Softband, left_behind, until, which

sys.path.insert(0, str(ROOT / "tests"))

from mpi_jobs import open_mpi_5

SOURCES = ROOT / "conformance" / "mpi"
COMPILERS = {"mpich": "mpicc.mpich", "openmpi4": "mpicc.openmpi", "openmpi5": "mpicc"}
STACKS = list(COMPILERS)
PACES = ["virtual", "wall"]
SOME = [("mpich", "virtual"), ("openmpi4", "wall"), ("openmpi5", "virtual")]
STACKS_AND_PACES = [(stack, pace) for stack in STACKS for pace in PACES] if FULL else SOME
# Ends a job that hangs before the test does.
LIMIT = ("--timeout", "120")


@pytest.fixture(scope="session")
def mpi_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiles the programs of conformance/mpi with each MPI library, as NAME-LIBRARY."""
    folder = tmp_path_factory.mktemp("mpi")
    for library, name in COMPILERS.items():
        wheel = open_mpi_5() if library == "openmpi5" else None
        if compiler := str(wheel / name) if wheel else which(name) if library != "openmpi5" else None:
            for source in SOURCES.glob("*.c"):
                subprocess.run([compiler, "-O1", "-Wall", "-o", str(folder / f"{source.stem}-{library}"), str(source)], check=True, timeout=120)
    return folder


def is_mapped(path: Path) -> bool:
    """Returns whether a living process maps the file. Other MPI jobs of the machine use /dev/shm too."""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            if str(path) in maps.read_text():
                return True
    return not path.exists()


@pytest.fixture
def library(request: pytest.FixtureRequest, mpi_programs: Path) -> str:
    """Returns the name of an MPI library that this machine has."""
    if not (mpi_programs / f"ring-{request.param}").exists():
        pytest.skip(f"no {COMPILERS[request.param]} of {request.param}")
    return str(request.param)


@pytest.fixture(autouse=True)
def nothing_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setenv("SOFTBAND_TEST_MARK", str(tmp_path))
    before = set(Path("/dev/shm").iterdir())
    yield
    assert until(lambda: not left_behind(tmp_path), 10), left_behind(tmp_path)
    assert [path for path in scratch.iterdir() if "softband" in path.name or "ompi" in path.name] == []
    abandoned = [path for path in set(Path("/dev/shm").iterdir()) - before if "mpi" in path.name and not is_mapped(path)]
    assert abandoned == []


def own_lines(output: str) -> list[str]:
    return sorted(line for line in output.splitlines() if " of " in line)


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("library", STACKS, indirect=True)
def test_ranks_on_hosts_of_their_own(softband: Softband, mpi_programs: Path, library: str, pace: str) -> None:
    done = softband.command("mpirun", "-n", "3", "--pace", pace, *LIMIT, str(mpi_programs / f"ring-{library}"))
    assert done.returncode == 0, done.stderr
    assert own_lines(done.stdout) == [f"[{rank}] rank {rank} of 3 on {host}: sum 3" for rank, host in enumerate("abc")]


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("library", STACKS, indirect=True)
def test_ranks_meet_over_roce(softband: Softband, mpi_programs: Path, library: str, pace: str) -> None:
    words = ("-n", "4", "--ppn", "2", "--pace", pace, *LIMIT, "roce-100g", str(mpi_programs / f"ring-{library}"))
    done = softband.command("mpirun", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert own_lines(done.stdout) == [f"[{rank}] rank {rank} of 4 on {host}: sum 6" for rank, host in enumerate("aabb")]


@pytest.mark.parametrize("library", STACKS, indirect=True)
def test_output_in_simulated_time_repeats(softband: Softband, mpi_programs: Path, library: str) -> None:
    def run(number: int) -> tuple[subprocess.CompletedProcess[str], bytes]:
        file = softband.folder / f"{number}.pcap"
        words = ("-n", "2", "--counters", "--capture", str(file), *LIMIT, str(mpi_programs / f"ring-{library}"))
        return softband.command("mpirun", *words), file.read_bytes()

    (first, packets), (second, others) = (run(number) for number in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("] time 0.0") == 2
    assert "port_xmit_data" in first.stderr
    assert len(packets) > 1000
    assert (first.stdout, first.stderr, packets) == (second.stdout, second.stderr, others)


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("library", STACKS, indirect=True)
def test_a_run_folder_has_the_output_of_each_rank(softband: Softband, mpi_programs: Path, library: str, pace: str) -> None:
    out = softband.folder / "out"
    seed = () if pace == "wall" else ("--seed", "7")
    words = ("-n", "3", "--pace", pace, "--out", str(out), *LIMIT, str(mpi_programs / f"ring-{library}"))
    done = softband.command("mpirun", *seed, *words)
    assert done.returncode == 0, done.stderr
    for rank, host in enumerate("abc"):
        assert f"rank {rank} of 3 on {host}: sum 3" in (out / f"rank-{rank}.out").read_text()
    run = json.loads((out / "run.json").read_text())
    assert (run["exit_status"], run["failure"]) == (0, None)
    assert run["seed"] == 7 or pace == "wall"
    assert [program["host"] for program in run["programs"]] == ["a", "b", "c"]
    assert (out / "fabric.toml").exists() and (out / "counters.json").exists()
    again = softband.command("mpirun", "--record", str(out / "rec"), *words)
    assert again.returncode == 2 and "--record" in again.stderr


def test_a_seed_at_wall_pace_is_refused(softband: Softband) -> None:
    done = softband.command("mpirun", "--pace", "wall", "--seed", "7", "-n", "2", "true")
    assert done.returncode == 2
    assert "--seed has no effect with --pace wall" in done.stderr


def test_counters_at_wall_pace_are_refused(softband: Softband) -> None:
    done = softband.command("mpirun", "-n", "2", "--pace", "wall", "--counters", "true")
    assert done.returncode != 0
    assert "--counters has no effect with --pace wall" in done.stderr


@pytest.mark.parametrize("library", STACKS, indirect=True)
def test_ranks_share_hosts_in_blocks(softband: Softband, mpi_programs: Path, library: str) -> None:
    words = ("-n", "3", "--hosts", "b:2,a", "--pace", "wall", "--verbose", *LIMIT, "two-hosts", str(mpi_programs / f"ring-{library}"))
    done = softband.command("mpirun", *words)
    assert done.returncode == 0, done.stderr
    assert own_lines(done.stdout) == [f"[{rank}] rank {rank} of 3 on {host}: sum 3" for rank, host in enumerate("bba")]
    assert "softband: rank 2 runs on a\n" in done.stderr
    assert "softband: UCX_TLS=" in done.stderr


ENDS = {
    "early": (1, "ended without MPI_Init, and other ranks wait for it there"),
    "early-failure": (3, "ended with status 3 before MPI_Finalize"),
    "abort": (7, "called MPI_Abort with code 7"),
    "signal": (137, "was ended by signal 9 (SIGKILL"),
    "exit": (5, "ended with status 5 before MPI_Finalize"),
    "leave": (1, "ended without MPI_Finalize"),
}


@pytest.mark.parametrize("way", ENDS)
@pytest.mark.parametrize(("library", "pace"), STACKS_AND_PACES, indirect=["library"])
def test_a_rank_that_leaves_ends_the_job(softband: Softband, mpi_programs: Path, library: str, way: str, pace: str) -> None:
    status, reason = ENDS[way]
    done = softband.command("mpirun", "-n", "2", "--pace", pace, *LIMIT, str(mpi_programs / f"misbehaves-{library}"), way)
    errors = [line for line in done.stderr.splitlines() if line.startswith("softband: error:")]
    assert len(errors) == 1, done.stderr
    assert errors[0].startswith("softband: error: rank 1 on b ('")
    assert reason in errors[0]
    assert "timeout" not in done.stderr
    assert done.returncode == status


@pytest.mark.parametrize("library", STACKS, indirect=True)
def test_a_status_after_finalize_is_the_status_of_the_job(softband: Softband, mpi_programs: Path, library: str) -> None:
    done = softband.command("mpirun", "-n", "2", "--pace", "wall", *LIMIT, str(mpi_programs / f"misbehaves-{library}"), "late")
    assert (done.returncode, "error" in done.stderr) == (2, False), done.stderr


@pytest.mark.parametrize(("library", "pace"), STACKS_AND_PACES[:2] if not FULL else STACKS_AND_PACES, indirect=["library"])
def test_a_job_that_hangs_names_its_ranks(softband: Softband, mpi_programs: Path, library: str, pace: str) -> None:
    program = mpi_programs / f"misbehaves-{library}"
    # A busy machine can take longer than 15 s to start the job, or a second to name a call.
    for seconds in ("15", "30", "60"):
        done = softband.command("mpirun", "-n", "2", "--pace", pace, "--timeout", seconds, str(program), "hang")
        assert done.returncode == 124, done.stderr
        assert f"softband: the run was ended after {seconds} s of wall-clock time:" in done.stderr
        waits = [line for line in done.stderr.splitlines() if line.endswith((", in MPI_Barrier", ", in MPI_Recv"))]
        if len(waits) >= 2:
            break
    for rank, (host, call) in enumerate((("a", "MPI_Barrier"), ("b", "MPI_Recv"))):
        of_rank = [line for line in waits if f"{host}: 'rank {rank}: {program} hang'" in line]
        assert [line for line in of_rank if line.endswith(f", in {call}")], done.stderr
    assert "server of the ranks" not in done.stderr


def test_programs_without_a_supported_library_are_refused(softband: Softband) -> None:
    def refused(*words: str) -> str:
        done = softband.command("mpirun", "-n", "2", *words)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert done.stderr.startswith("softband: error: ")
        assert "\n  help: " in done.stderr
        return done.stderr

    assert "'/bin/true' loads no MPI library" in refused("/bin/true")
    script = softband.folder / "script.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    script.chmod(0o755)
    assert "is a script of /bin/sh" in refused("./script.sh")
    assert "no program is named after the fabric" in refused("two-hosts.toml")
    assert "there is no program './absent'" in refused("./absent")
    library = softband.folder / "libmpi.so.1"
    subprocess.run(["cc", "-shared", "-o", str(library), "-Wl,-soname,libmpi.so.1", "-x", "c", "/dev/null"], check=True)
    source = ["-x", "c", "-", "-x", "none", str(library), "-Wl,--no-as-needed", f"-Wl,-rpath,{softband.folder}"]
    subprocess.run(["cc", "-Wl,--no-as-needed", "-o", str(softband.folder / "other"), *source], input=b"int main(void) { return 0; }", check=True)
    assert "uses libmpi.so.1, an MPI library without support" in refused("./other")


def test_hosts_that_do_not_fit_are_refused(softband: Softband) -> None:
    def refused(*words: str) -> str:
        return softband.command("mpirun", "--mpi", "mpich", *words, "two-hosts", "/bin/true").stderr

    assert "5 ranks are more than the 4 slots of 2 hosts" in refused("-n", "5", "--ppn", "2")
    assert "--hosts x: the fabric has no host of this name" in refused("--hosts", "x")
    assert "--hosts names a twice" in refused("--hosts", "a,a")


@pytest.mark.parametrize("python", ["of Debian", "with wheels"])
def test_the_library_of_mpi4py_is_recognized(softband: Softband, python: str) -> None:
    wheels = open_mpi_5() if python == "with wheels" else None
    interpreter = wheels / "python" if wheels else Path("/usr/bin/python3")
    if not wheels and (python == "with wheels" or not Path("/usr/lib/python3/dist-packages/mpi4py").is_dir()):
        pytest.skip(f"no mpi4py {python}")
    script = softband.folder / "gather.py"
    script.write_text("from mpi4py import MPI\nworld = MPI.COMM_WORLD\nprint(world.rank, world.allgather(world.rank * 2))\n")
    done = softband.command("mpirun", "-n", "2", *LIMIT, "--verbose", str(interpreter), "gather.py")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] 0 [0, 2]", "[1] 1 [0, 2]"]
    assert "softband: Open MPI 5: mpi4py of " in done.stderr or python == "of Debian"


def test_the_library_of_a_script_can_be_named(softband: Softband, mpi_programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = softband.folder / "job.sh"
    script.write_text(f"#!/bin/sh\nexec {mpi_programs}/ring-openmpi5\n")
    script.chmod(0o755)
    command = ("mpirun", "-n", "2", "--pace", "wall", "--mpi", "openmpi5", *LIMIT, "./job.sh")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    refused = softband.command(*command)
    assert "no Open MPI 5 is found, neither by './job.sh' nor by ompi_info on the PATH" in refused.stderr
    wheels = open_mpi_5()
    if not wheels:
        pytest.skip("no wheel of Open MPI 5")
    monkeypatch.setenv("PATH", f"{wheels}:/usr/bin:/bin")
    done = softband.command(*command)
    assert done.returncode == 0, done.stderr
    assert own_lines(done.stdout) == [f"[{rank}] rank {rank} of 2 on {host}: sum 1" for rank, host in enumerate("ab")]
    assert "UCX  ERROR" not in done.stdout + done.stderr


@pytest.mark.parametrize("library", STACKS if FULL else ["mpich", "openmpi4"], indirect=True)
def test_a_recorded_job_replays_alike(softband: Softband, mpi_programs: Path, library: str, tmp_path: Path) -> None:
    recording = tmp_path / "ring.rec"
    ring = (str(mpi_programs / f"patterns-{library}"), "ring", "3")
    done = softband.command("mpirun", "-n", "2", "--pace", "wall", "--record", str(recording), "--repeat", "2", *LIMIT, *ring, "1024")
    assert done.returncode == 0, done.stderr
    assert "2 ranks of" in done.stderr and "2 repetitions" in done.stderr
    replay = ("mpirun", "-n", "2", "--compute", f"recorded={recording}", "--compute-factor", "1000", *LIMIT, *ring)
    first, second = (softband.command(*replay, "1024") for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert (first.stdout, first.stderr) == (second.stdout, second.stderr)
    other = softband.command(*replay, "2048")
    assert other.returncode == 2
    assert "and the record has `MPI_Irecv" in other.stderr
