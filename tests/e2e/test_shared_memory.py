"""Processes of a host hand words over through memory that they share, in simulated time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import FABRICS, ROOT, Softband, line_of, which

ROUNDS = 50
# A hand-over takes at least the transfer of a cache line, on the hosts of this fabric.
LINE_NS = 254
# A loop of process_vm_readv sees a write after the cost of its call.
CALL_NS = 200
LAST_NS = 1_000
KINDS = ("file", "memfd", "shm_open", "sysv", "inherited")
# Ways to map by which a library passes the linker's functions: it has replaced them itself.
BESIDE_THE_LINKER = (
    "by_library",
    "sysv_by_library",
    "remapped_by_library",
    "by_syscall",
    "by_instruction",
)
WAYS = (
    "cq",
    "cqs",
    "twice",
    "yield",
    "clock",
    "counted",
    "limited",
    "remainder",
    "semaphore",
    "named",
    "mutex",
    "condition",
    "barrier",
    "futex",
    "readv",
    "writev",
)


def hand_over(softband: Softband, programs: Path, kind: str, way: str) -> float:
    """Returns the nanoseconds of a hand-over."""
    outcome = softband.run(
        "modern-pair", ("a", f"{programs / 'shared_memory'} {kind} {way} {ROUNDS}")
    ).assert_ok()
    name, used, nanos = outcome.program("a-0").split()
    assert (name, used) == (kind, way)
    return float(nanos)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["spin", "cq"])
def test_a_word_in_a_mapping_of_each_kind_arrives_after_a_cache_line(
    softband: Softband, c_programs: Path, kind: str, way: str
) -> None:
    assert LINE_NS <= hand_over(softband, c_programs, kind, way) <= LAST_NS


@pytest.mark.parametrize("kind", BESIDE_THE_LINKER)
@pytest.mark.parametrize("way", ["cq", "clock"])
def test_a_word_in_a_mapping_made_beside_the_linker_arrives_after_a_cache_line(
    softband: Softband, c_programs: Path, kind: str, way: str
) -> None:
    assert LINE_NS <= hand_over(softband, c_programs, kind, way) <= LAST_NS


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_wait_sees_a_word_at_once(
    softband: Softband, c_programs: Path, way: str
) -> None:
    least = CALL_NS if way == "readv" else LINE_NS
    assert least <= hand_over(softband, c_programs, "memfd", way) <= LAST_NS


@pytest.mark.parametrize("way", ["spin", "counted", "limited", "cqs", "yield", "clock", "condition"])
def test_hand_overs_take_the_same_time_beside_other_work(
    softband: Softband, c_programs: Path, way: str
) -> None:
    alone = hand_over(softband, c_programs, "memfd", way)
    hogs = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)
    ]
    try:
        assert hand_over(softband, c_programs, "memfd", way) == alone
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


# The transport between ranks of a host: UCX by default, or Open MPI's own (vader).
RANKS = [
    ("mpicc.mpich", {}),
    ("mpicc.openmpi", {}),
    ("mpicc.openmpi", {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "vader,self"}),
]
MPI = [
    pytest.param(
        *case,
        marks=pytest.mark.skipif(which(case[0]) is None, reason=f"no {case[0]}"),
    )
    for case in RANKS
]


@pytest.mark.parametrize(("compiler", "environment"), MPI)
def test_a_message_between_ranks_of_a_host_takes_a_fraction_of_a_microsecond(
    softband: Softband,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compiler: str,
    environment: dict[str, str],
) -> None:
    program = tmp_path / "mpibench"
    sources = sorted(map(str, (ROOT / "tools" / "mpibench").glob("*.c")))
    subprocess.run(
        [compiler, "-O1", "-o", str(program), *sources, "-lm"],
        check=True,
        timeout=120,
        capture_output=True,
    )
    for name in [
        name for name in os.environ if name.startswith(("UCX_", "OMPI_", "MPICH_"))
    ]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    words = ("mpirun", "-n", "2", "--ppn", "2", "--timeout", "120", str(program))
    outputs = {
        softband.command(
            *words,
            "--benchmarks",
            "PingPong",
            "--sizes",
            "8",
            "--iterations",
            "50",
            "--csv",
        ).stdout
        for _ in range(2)
    }
    assert len(outputs) == 1
    head, row = [
        line.partition("] ")[2].split(",") for line in outputs.pop().splitlines()
    ][-2:]
    times = dict(zip(head, row, strict=True))
    # Ranks count their calls between the two clock reads of a round in part.
    assert 0.9 * LINE_NS <= 1_000 * float(times["t_avg_us"]) <= LAST_NS


@pytest.mark.parametrize("end", ["exit", "kill"])
def test_a_robust_mutex_of_a_process_that_has_ended_is_free(
    softband: Softband, c_programs: Path, end: str
) -> None:
    command = (str(c_programs / "robust_mutex"), end)
    native = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60
    )
    assert native.stdout == "the owner has died\n", native.stderr
    outcome = softband.run("modern-pair", ("a", " ".join(command))).assert_ok()
    assert outcome.program("a-0") == native.stdout


def test_a_thread_that_reads_from_outside_fills_memory_of_two_processes(
    softband: Softband, c_programs: Path, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    program = f"{c_programs / 'shared_read'} {fifo}"
    words = ["run", str(FABRICS / "modern-pair.toml"), "--on", "a", program]
    with subprocess.Popen(
        [str(softband.binary), *words], stdout=subprocess.PIPE, text=True
    ) as run:
        try:
            assert line_of(run).endswith("it waits\n")
            fifo.write_text("data")
            assert line_of(run).endswith("data\n")
            assert run.wait(60) == 0
        finally:
            run.kill()
