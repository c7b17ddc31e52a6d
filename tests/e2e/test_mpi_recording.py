"""Recordings of MPI programs: native runs, traces, and time for computation in simulated time."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, Outcome, Softband, which

PMI_SERVER = Path(__file__).with_name("pmi_server.py")
SOURCE = ROOT / "conformance" / "mpi" / "patterns.c"
STACKS = ("mpich", "openmpi")
# What MPICH needs on a fabric: no look for displays, and verbs only.
SETTINGS = "HWLOC_COMPONENTS=-gl UCX_TLS=rc_verbs,ud_verbs,sm,self PMI_PORT=a:5000 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1"


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if not which(f"mpicc.{name}"):
        pytest.skip(f"mpicc.{name} is not installed")
    return name


def compiled(folder: Path, stack: str) -> Path:
    program = folder / f"patterns-{stack}"
    subprocess.run([f"mpicc.{stack}", "-O2", "-w", "-o", str(program), str(SOURCE)], check=True)
    return program


def record(softband: Softband, stack: str, *arguments: str, ranks: int = 2, repeat: int = 1) -> tuple[Path, subprocess.CompletedProcess[str]]:
    program, out = compiled(softband.folder, stack), softband.folder / "app.rec"
    starter = [f"mpiexec.{stack}", *(["--oversubscribe", "--allow-run-as-root"] if stack == "openmpi" else []), "-n", str(ranks)]
    words = ["record", "run", "--out", str(out), "--repeat", str(repeat), "--mpicc", f"mpicc.{stack}", "--", *starter, str(program), *arguments]
    return out, softband.command(*words)


def calls_of(recording: Path, rank: int) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in recording.read_text().splitlines()]
    starts = [index for index, line in enumerate(lines) if line.keys() == {"rank"}] + [len(lines)]
    return [line for line in lines[starts[rank] : starts[rank + 1]] if "c" in line]


def completion(softband: Softband, trace: Path) -> float:
    out = softband.folder / f"{trace.stem}-model"
    done = softband.command("model", "default", str(trace), "--ranks-per-host", "2", "--out", str(out))
    assert done.returncode == 0, done.stderr
    return float(json.loads((out / "model.json").read_text())["completion_picos"])


def test_a_native_run_becomes_a_recording_and_a_trace_that_plays(softband: Softband, stack: str) -> None:
    recording, done = record(softband, stack, "cg", "3", "40000", ranks=4, repeat=2)
    assert done.returncode == 0, done.stderr
    assert "4 ranks" in done.stderr and "2 repetitions" in done.stderr
    calls = calls_of(recording, 1)
    names = [call["c"] for call in calls]
    assert names[:3] == ["MPI_Init", "MPI_Barrier", "MPI_Wtime"] and names[-1] == "MPI_Finalize"
    assert "at" not in calls[0], "the machine's load decides when a rank of a native run starts"
    receive = next(call for call in calls if call["c"] == "MPI_Irecv")
    wait = next(call for call in calls if call["c"] == "MPI_Wait")
    # Rank 1 meets rank 3 in its row, and ranks are those of MPI_COMM_WORLD.
    assert (receive["from"], receive["rb"]) == (3, 40000)
    assert wait["done"] == [[receive["rq"], 3, receive["rtag"], 40000]]
    with_time, without = softband.folder / "with.goal", softband.folder / "without.goal"
    assert softband.command("record", "goal", str(recording), "--out", str(with_time)).returncode == 0
    assert softband.command("record", "goal", str(recording), "--out", str(without), "--compute-factor", "0").returncode == 0
    longest = max(sum(int(str(call["t"])) for call in calls_of(recording, rank)) for rank in range(4))
    played = completion(softband, with_time)
    assert longest * 1000 <= played <= longest * 1000 * 4 + completion(softband, without)


@pytest.mark.parametrize("pattern", ["ring", "alltoall", "persistent", "collectives"])
def test_each_pattern_becomes_a_trace_that_a_run_completes(softband: Softband, stack: str, pattern: str) -> None:
    recording, done = record(softband, stack, pattern, "2", "20000", ranks=3)
    assert done.returncode == 0, done.stderr
    trace = softband.folder / "app.goal"
    made = softband.command("record", "goal", str(recording), "--out", str(trace))
    assert made.returncode == 0, made.stderr
    assert completion(softband, trace) > 0


def test_a_call_that_no_trace_can_express_is_named(softband: Softband, stack: str) -> None:
    recording, done = record(softband, stack, "other")
    assert done.returncode == 0, done.stderr
    made = softband.command("record", "goal", str(recording), "--out", str(softband.folder / "app.goal"))
    assert made.returncode == 2
    assert "rank 0, call 3: a trace cannot express MPI_Ibarrier" in made.stderr


PAIR = """{"format":"softband-mpi-record","version":1,"ranks":4,"repetitions":1,"library":"MPICH","rates":{"integer":5320000000}}
""" + "".join(
    f'''{{"rank":{rank}}}
{{"comm":0,"inter":0,"members":[0,1,2,3]}}
{{"c":"MPI_Sendrecv","t":1000,"comm":0,"to":{(rank + 1) % 4},"tag":5,"b":8,"from":{(rank + 3) % 4},"rtag":5,"rb":8,"got":[{(rank + 3) % 4},5,8]}}
{{"end":1}}
''' for rank in range(4))


def goal(softband: Softband, *options: str) -> tuple[subprocess.CompletedProcess[str], str]:
    (softband.folder / "ring.rec").write_text(PAIR)
    trace = softband.folder / "ring.goal"
    done = softband.command("record", "goal", str(softband.folder / "ring.rec"), "--out", str(trace), *options)
    return done, trace.read_text() if done.returncode == 0 else ""


def test_a_rule_multiplies_the_ranks_and_names_a_call_that_does_not_fit(softband: Softband) -> None:
    done, text = goal(softband, "--ranks", "16", "--rule", "periodic-1d")
    assert done.returncode == 0, done.stderr
    assert text.startswith("// softband: protocol ucx\nnum_ranks 16\n") and "send 8b to 15 tag" in text
    played = softband.command("model", "default", str(softband.folder / "ring.goal"), "--ranks-per-host", "8", "--out", str(softband.folder / "played"))
    assert played.returncode == 0, played.stderr
    done, _ = goal(softband, "--ranks", "16", "--rule", "open-1d")
    assert done.returncode == 2 and "rank 15 of the larger grid, call 0: MPI_Sendrecv sends 8 bytes to rank 12" in done.stderr


def test_rates_of_a_kind_of_work_turn_the_time_into_that_of_a_host_part(softband: Softband) -> None:
    # 5.32 Gop/s of the recording machine, and 2.66 of the host.
    done, text = goal(softband, "--compute-kind", "integer", "--compute-host", "s5000xal-dual")
    assert done.returncode == 0 and "calc 2000\n" in text, done.stderr
    done, text = goal(softband, "--compute-kind", "memory", "--compute-host", "s5000xal-dual", "--compute-rate", "10500", "--compute-factor", "3")
    assert done.returncode == 0 and "calc 6000\n" in text, done.stderr
    done, _ = goal(softband, "--compute-kind", "memory", "--compute-host", "s5000xal-dual")
    assert done.returncode == 2 and "the recording has no rate of memory work" in done.stderr
    assert "in MB/s, or record again" in done.stderr
    # No measurement has this rate.
    done, _ = goal(softband, "--compute-kind", "matrix-product", "--compute-host", "s5000xal-dual")
    assert done.returncode == 2 and "the recording has no rate of matrix-product work" in done.stderr
    assert done.stderr.endswith("with --compute-rate, in Gflop/s\n")
    done, _ = goal(softband, "--compute-kind", "integer", "--compute-host", "qdr-host")
    assert done.returncode == 2 and "catalog/host/qdr-host.toml has no `compute_integer`" in done.stderr
    done, _ = goal(softband, "--compute-kind", "integer", "--compute-host", "s5000xal-dua")
    assert done.returncode == 2 and "no host part is called `s5000xal-dua`" in done.stderr


def test_amounts_of_several_kinds_of_work_add_up(softband: Softband) -> None:
    host = ("--compute-host", "osu-em64t")
    # Here 2 / 13.6 Gflop/s + 6.4 / 12.8 GB/s; there 2 / 6.8 + 6.4 / 6.4: twice as long.
    done, text = goal(softband, *host, "--compute-kind", "floating-point=2,memory=6.4", "--compute-rate", "floating-point=13.6,memory=12800")
    assert done.returncode == 0 and "calc 2000\n" in text, done.stderr
    for mix, rate, problem in (
        ("floating-point=2,memory", "1", "write KIND=an amount above 0"),
        ("memory=2,memory=3", "1", "`memory` appears twice"),
        ("memory=-1", "1", "write an amount above 0"),
        ("mind=1", "1", "`mind` is no kind of work"),
        ("floating-point=2,memory=6.4", "12", "several kinds of work need a rate for each"),
        ("memory", "integer=1", "--compute-kind has no integer work"),
    ):
        done, _ = goal(softband, *host, "--compute-kind", mix, "--compute-rate", rate)
        assert done.returncode == 2 and problem in done.stderr, done.stderr


def test_processes_of_a_host_share_its_memory(softband: Softband) -> None:
    work = ("--compute-kind", "memory", "--compute-rate", "6400")
    # The front-side bus has 6.4 GB/s for both processors. Each Opteron has memory of its own.
    for host, ranks, time in (("osu-em64t", 1, 1000), ("osu-em64t", 2, 2000), ("sun-v20z", 1, 1200), ("sun-v20z", 2, 1200)):
        done, text = goal(softband, *work, "--compute-host", host, "--compute-ranks", str(ranks))
        assert done.returncode == 0 and f"calc {time}\n" in text, done.stderr


def test_without_a_compiler_or_with_another_mpi_one_error_says_so(softband: Softband) -> None:
    missing = softband.command("record", "run", "--out", "x", "--mpicc", "no-such-mpicc", "--", "true")
    assert missing.returncode == 2 and "cannot run no-such-mpicc" in missing.stderr
    if not all(which(f"mpicc.{stack}") for stack in STACKS):
        pytest.skip("both MPIs are needed")
    program = compiled(softband.folder, "mpich")
    other = softband.command("record", "run", "--out", "x", "--mpicc", "mpicc.openmpi", "--", "mpiexec.mpich", "-n", "1", str(program))
    assert other.returncode == 2 and "another MPI (MPICH Version) than the layer was compiled for (Open MPI)" in other.stderr


def simulated(softband: Softband, program: Path, arguments: str, *options: str) -> Outcome:
    """Runs two ranks of MPICH on two hosts, and a server that they meet at."""
    ranks = [(host, f"env {SETTINGS} PMI_ID={rank} {program} {arguments}") for rank, host in enumerate("ab")]
    return softband.run("default", ("a", f"python3 {PMI_SERVER} 2 5000"), *ranks, options=("--timeout", "100", *options))


def test_a_replay_takes_the_recorded_time_in_each_run(softband: Softband) -> None:
    if not which("mpicc.mpich"):
        pytest.skip("mpicc.mpich is not installed")
    recording, done = record(softband, "mpich", "alltoall", "4", "1024")
    assert done.returncode == 0, done.stderr
    program = softband.folder / "patterns-mpich"
    # The factor makes computation the longest part.
    options = ("--compute", f"recorded={recording}", "--compute-factor", "1000", "--mpicc", "mpicc.mpich")
    one, two = (simulated(softband, program, "alltoall 4 1024", *options).assert_ok().program("a-1") for _ in range(2))
    assert one == two
    took = float(one.split(": ")[1].split()[0]) / 1e6
    # Between both looks at the clock. Each alltoall waits for the later rank.
    names = [call["c"] for call in calls_of(recording, 0)]
    between = slice(names.index("MPI_Wtime") + 1, len(names) - names[::-1].index("MPI_Wtime"))
    inner = [sum(int(str(call["t"])) for call in calls_of(recording, rank)[between]) for rank in range(2)]
    assert max(inner) * 1e-6 <= took <= sum(inner) * 1e-6 + 0.01


def test_a_replay_of_other_calls_names_rank_and_both_calls(softband: Softband) -> None:
    if not which("mpicc.mpich"):
        pytest.skip("mpicc.mpich is not installed")
    recording, _ = record(softband, "mpich", "ring", "2", "64")
    program = softband.folder / "patterns-mpich"
    options = ("--compute", f"recorded={recording}", "--mpicc", "mpicc.mpich")
    outcome = simulated(softband, program, "ring 2 128", *options)
    assert outcome.status != 0
    wanted = "rank 0: call 3 is `MPI_Irecv comm 0 from 1 rtag 7 rb 128`, and the record has `MPI_Irecv comm 0 from 1 rtag 7 rb 64`"
    assert wanted in outcome.stderr


def test_a_recording_in_simulated_time_replays_alike_on_each_fabric(softband: Softband, stack: str) -> None:
    program, recording = compiled(softband.folder, stack), softband.folder / "app.rec"
    job = (str(program), "cg", "3", "2000")
    limit = ("--timeout", "200")
    done = softband.command("mpirun", "-n", "4", "--record", str(recording), "--repeat", "2", *limit, *job)
    assert done.returncode == 0, done.stderr
    assert "4 ranks" in done.stderr and "2 repetitions" in done.stderr
    stretches = [int(str(call["t"])) for rank in range(4) for call in calls_of(recording, rank)]
    # The program computes between its calls, and a recording shows the machine's time for it.
    assert 10_000 < max(stretches) < 10**9
    starts = [int(str(calls_of(recording, rank)[0]["at"])) for rank in range(4)]
    assert min(starts) == 0 < max(starts) < 10**9
    softband.command("record", "goal", str(recording), "--out", str(trace := softband.folder / "app.goal"), "--compute-factor", "0")
    assert f"calc {max(starts)}\n" in trace.read_text()
    took = {}
    for fabric in ("fat-tree-16", "ddr-through-switch"):
        replay = ("mpirun", "-n", "4", "--ppn", "2", "--compute", f"recorded={recording}", *limit, fabric, "--", *job)
        first, second = (softband.command(*replay) for _ in range(2))
        assert first.returncode == 0, first.stderr
        assert (first.stdout, first.stderr) == (second.stdout, second.stderr)
        took[fabric] = first.stdout
    assert took["fat-tree-16"] != took["ddr-through-switch"]


def test_measured_computation_advances_the_clock_and_says_that_results_vary(softband: Softband) -> None:
    script = "import time; start = time.monotonic(); sum(range(3000000)); print(time.monotonic() - start)"
    took = {}
    for way in ("free", "measured"):
        done = softband.command("run", "-n", "1", "--compute", way, "--", "python3", "-c", script)
        assert done.returncode == 0, done.stderr
        took[way] = float(done.stdout.split()[-1])
        assert ("results vary" in done.stderr) == (way == "measured")
    assert took["free"] < 0.001
    assert took["measured"] > 0.005
    wall = softband.command("run", "-n", "1", "--pace", "wall", "--compute", "measured", "--", "true")
    assert wall.returncode == 2 and "--compute has no effect with --pace wall" in wall.stderr
