"""Five runs of each program on a machine that is disturbed on purpose leave the same bytes.

SOFTBAND_DISTURBANCE_SEED selects other disturbances, and repeats those of a failure.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "conformance" / "programs")]

import disturbance
from disturbance import on
from mpi_jobs import open_mpi_5

SHIM = ROOT / "crates" / "shim" / "tests" / "c"
PROGRAMS = ROOT / "conformance" / "c"
FIO = ROOT / "tests" / "fio"
MPI = ROOT / "conformance" / "mpi"
LIBRARIES = ("-libverbs", "-lrdmacm", "-libumad", "-lpthread", "-lrt")
# Programs that run alone on a host, with their arguments.
ALONE = (
    "ended_by_signal",
    "forked_region",
    "forked_sharer",
    "interrupted_locks",
    "joined",
    "processor_set",
    "robust_mutex exit",
    "robust_mutex kill",
    "shared_memory inherited spin 100",
    "shared_memory memfd condition 100",
    "shared_memory memfd readv 100",
    "shared_memory shm_open yield 100",
    "shared_memory sysv cqs 100",
    "slow_ends",
    "verbs_errors",
    "verbs_threads",
)
# Pairs: a server, and a client with the server's name.
PAIRS = ("atomics", "read_before_reply", "verbs_optional")
PERFTEST = (
    "ib_send_bw -a -n 20",
    "ib_send_bw -b -s 256 -n 200",
    "ib_send_bw -e -s 65536 -n 50",
    "ib_send_bw -c UD -s 1024 -n 200 -q 2",
    "ib_send_bw -R -n 50",
    "ib_send_lat -n 200",
    "ib_send_lat -e -n 100",
    "ib_write_bw -s 8192 -n 200 -q 4",
    "ib_write_lat -n 200",
    "ib_read_bw -n 100",
    "ib_read_lat -n 100",
    "ib_atomic_bw -n 100",
    "ib_atomic_lat -n 100",
    "ibv_rc_pingpong -n 100",
    "ibv_ud_pingpong -e -n 100",
    "ibv_srq_pingpong -n 100",
    "rping -v -C 5",
)
# qperf measures for a second at least. Large messages over a slow fabric keep the number of events small.
QPERF = (
    "-m 64K rc_bw",
    "-m 64K rc_bi_bw",
    "-m 64K rc_rdma_write_bw",
    "-m 16K rc_lat",
    "-m 16K rc_rdma_read_lat",
    "-m 2K ud_lat",
    "-m 64K tcp_bw",
    "-m 16K tcp_lat",
)
UCX = ("tag_lat", "tag_bw", "put_lat", "am_lat", "stream_bw", "ucp_fadd")
SOCKETS = (
    "sh -c 'for i in 1 2 3; do date +%N; sleep 0.01; done | sort | cat'",
    "python3 -c 'import threading, time; [threading.Thread(target=lambda: print(time.time_ns())).start() for _ in range(5)]'",
    "python3 -c 'import multiprocessing as m, os, time; print(m.Pool(3).map(time.sleep, [0.01] * 6), time.time_ns(), os.cpu_count())'",
    "sh -c 'sleep 1 & kill $!; wait; date +%N; cat /proc/self/status | grep -E ^Pid:'",
)


def compiled(source: Path, folder: Path) -> Path:
    program = folder / source.stem
    if not program.exists():
        command = ["cc", "-O1", "-o", str(program), str(source), *LIBRARIES]
        subprocess.run(command, check=True, timeout=120)
    return program


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("disturbed")


def pair(command: str, fabric: str = "modern-pair") -> list[str]:
    return on(fabric, ("a", command), ("b", f"{command} a"))


def needs(program: str) -> None:
    if not shutil.which(program):
        pytest.skip(f"no {program}")


@pytest.mark.parametrize("name", sorted(source.stem for source in SHIM.glob("*.c")))
def test_processes_and_waits(folder: Path, name: str) -> None:
    disturbance.check(on("two-hosts", ("a", str(compiled(SHIM / f"{name}.c", folder)))))


@pytest.mark.parametrize("command", ALONE)
def test_programs_alone(folder: Path, command: str) -> None:
    name, _, arguments = command.partition(" ")
    program = compiled(PROGRAMS / f"{name}.c", folder)
    disturbance.check(on("modern-pair", ("a", f"{program} {arguments}".strip())))


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_programs(folder: Path, name: str) -> None:
    disturbance.check(pair(str(compiled(PROGRAMS / f"{name}.c", folder))))


@pytest.mark.parametrize("command", PERFTEST)
def test_perftest(command: str) -> None:
    needs(command.split()[0])
    if command.startswith("rping"):
        disturbance.check(on("modern-pair", ("a", "rping -s -C 5"), ("b", "rping -c -a a -v -C 5")))
        return
    disturbance.check(pair(command))


@pytest.mark.parametrize("verb", ["read", "write", "send"])
def test_fio(verb: str) -> None:
    needs("fio")
    disturbance.check(on("modern-pair", ("a", f"fio {FIO / 'serve.fio'}"), ("b", f"fio {FIO / f'{verb}.fio'}")))


@pytest.mark.parametrize("test", QPERF)
def test_qperf(test: str) -> None:
    needs("qperf")
    disturbance.check(on("two-hosts", ("a", "qperf"), ("b", f"sh -c 'qperf -t 1 a {test} && qperf a quit'")))


@pytest.mark.parametrize("name", UCX)
def test_ucx(name: str) -> None:
    needs("ucx_perftest")
    disturbance.check(on("modern-pair", ("a", "ucx_perftest -n 100"), ("b", f"ucx_perftest -t {name} -n 100 a")))


@pytest.mark.parametrize("command", SOCKETS)
def test_scripts(command: str) -> None:
    disturbance.check(on("two-hosts", ("a", command)))


SERVER = """
import socket, threading, time
listener = socket.create_server(("", 7000))
def serve(peer):
    while data := peer.recv(65536):
        peer.sendall(data.upper())
    print("served at", time.time_ns(), flush=True)
threads = [threading.Thread(target=serve, args=(listener.accept()[0],)) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
CLIENT = """
import select, socket, time
peers = [socket.create_connection(("a", 7000)) for _ in range(3)]
for round in range(20):
    for peer in peers: peer.sendall(b"x" * 1000 * (round + 1))
    left = {peer: 1000 * (round + 1) for peer in peers}
    while any(left.values()):
        for peer in select.select([peer for peer in peers if left[peer]], [], [])[0]: left[peer] -= len(peer.recv(4096))
    print(round, time.time_ns(), flush=True)
"""


@pytest.mark.parametrize("fabric", ["two-hosts", "ipoib"])
def test_sockets(folder: Path, fabric: str) -> None:
    for name, text in (("server", SERVER), ("client", CLIENT)):
        (folder / f"{name}.py").write_text(text)
    disturbance.check(on(fabric, ("a", f"{sys.executable} {folder / 'server.py'}"), ("b", f"{sys.executable} {folder / 'client.py'}")))


@pytest.mark.parametrize("library", ["mpich", "openmpi", "wheel"])
@pytest.mark.parametrize("ranks", [("-n", "2"), ("-n", "4", "--ppn", "2")])
def test_mpi_jobs(folder: Path, library: str, ranks: tuple[str, ...]) -> None:
    wheel = open_mpi_5() if library == "wheel" else None
    compiler = str(wheel / "mpicc") if wheel else shutil.which(f"mpicc.{library}")
    if not compiler:
        pytest.skip(f"no mpicc of {library}")
    program = folder / f"ring-{library}"
    subprocess.run([compiler, "-O1", "-o", str(program), str(MPI / "ring.c")], check=True, timeout=120)
    disturbance.check(["mpirun", *ranks, "three-hosts" if "--ppn" not in ranks else "modern-pair", str(program)])


def test_a_difference_is_found() -> None:
    """A program that prints the machine's own time is not the same in any two runs."""
    words = on("two-hosts", ("a", "sh -c 'cat /proc/uptime'"))
    with pytest.raises(AssertionError, match=re.escape("a run differs")):
        disturbance.check(words, (disturbance.CALM, disturbance.CALM))
