#!/usr/bin/env python3
"""The speed of wall pace by size, beside memcpy, UCX and libfabric over shared memory, and TCP.

Prints figures and ratios, asserts nothing. Each round measures all candidates one after another.
Ratios are medians over the rounds' own ratios. The processors of a virtual machine are near each
other in one second and far apart in the next, which changes all latencies threefold (see line.c).
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOFTBAND = ROOT / "target" / "dist" / "bin" / "softband"
ROUNDS = 5
FABRIC = "modern-pair"
SIZES = (2, 64, 1024, 8192, 65536, 1 << 20)
MIB = 1.048576  # perftest's and UCX's megabytes, in millions of bytes
ENDS = ("taskset -c 0 ", "taskset -c 1 ") if (os.cpu_count() or 1) > 1 and shutil.which("taskset") else ("", "")
Round = dict[str, float]


def repeats(size: int) -> int:
    return 100000 if size <= 1024 else 20000 if size <= 8192 else 2000


def repeats_of_a_stream(size: int) -> int:
    """Returns more repeats for small messages.

       100,000 of them last only some milliseconds, and perftest includes the first ones.
       """
    return 1000000 if size <= 1024 else repeats(size)


def perftest(command: str, column: int) -> float:
    """Returns a column of the perftest client's line, counted from 0."""
    server, client = ENDS
    words = [str(SOFTBAND), "run", "--pace", "wall", FABRIC, "--on", "a", f"{server}{command}", "--on", "b", f"{client}{command} a"]
    for _ in range(3):  # perftest's calibration of the processor's clock fails now and then on a busy machine
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
        rows = [line.split()[1:] for line in done.stdout.splitlines() if re.match(r"b:\s+\d", line)]
        if rows and len(rows[-1]) > column:
            return float(rows[-1][column])
    raise SystemExit(f"{command}: no result\n{done.stdout}{done.stderr}")


def two_processes(command: list[str], environment: dict[str, str]) -> str:
    """Starts a benchmark's server, then its client. Returns the client's output."""
    server, client = (end.split() for end in ENDS)
    with subprocess.Popen([*server, *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(0.5)
        done = subprocess.run([*client, *command, "127.0.0.1"], env=environment, capture_output=True, text=True, check=False, timeout=120)
        process.terminate()
    return done.stdout


def ucx(test: str, size: int, count: int, column: int) -> float:
    """Returns a column of ucx_perftest's last line, for two processes by shared memory."""
    environment = {**os.environ, "UCX_TLS": "posix,sysv,cma,self", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    printed = two_processes(["ucx_perftest", "-t", test, "-s", str(size), "-n", str(count), "-p", "18811"], environment)
    final = re.search(r"^Final:\s+(.*)$", printed, re.MULTILINE)
    return float(final[1].split()[column]) if final else float("nan")


def libfabric(size: int) -> float:
    """Returns half a round trip of libfabric's ping-pong over shared memory, in microseconds."""
    printed = two_processes(["fi_pingpong", "-p", "shm", "-e", "rdm", "-I", "5000", "-S", str(size)], dict(os.environ))
    rows = [line.split() for line in printed.splitlines() if re.match(r"\d", line)]
    return float(rows[-1][6]) if rows else float("nan")


def compiled(folder: Path, name: str, *arguments: int) -> list[float]:
    """Compiles and runs a program of this folder. Returns the printed numbers."""
    program = folder / name
    if not program.exists():
        subprocess.run(["cc", "-O2", "-pthread", "-o", str(program), str(ROOT / "benches" / f"{name}.c")], check=True)
    return [float(word) for word in subprocess.check_output([str(program), *map(str, arguments)], text=True).split()]


def one_round(folder: Path, size: int) -> tuple[Round, Round]:
    """Returns one-way latencies in microseconds, and bandwidths in GB/s."""
    many = f"-F -s {size} -n {repeats(size)}"
    latency = {"ib_send_lat": perftest(f"ib_send_lat {many}", 4), "ib_write_lat": perftest(f"ib_write_lat {many}", 4)}
    latency["ib_read_lat"] = perftest(f"ib_read_lat -F -s {size} -n {repeats(size)}", 4)
    stream = f"-F -s {size} -n {repeats_of_a_stream(size)}"
    bandwidth = {name: perftest(f"{name} {stream}", 3) * MIB / 1e3 for name in ("ib_send_bw", "ib_write_bw")}
    if shutil.which("ucx_perftest"):
        latency["UCX shm"] = ucx("tag_lat", size, repeats(size), 1)
        bandwidth["UCX shm"] = ucx("tag_bw", size, repeats_of_a_stream(size), 5) * MIB / 1e3
    if shutil.which("fi_pingpong"):
        latency["libfabric shm"] = libfabric(size)
    latency["TCP"], bandwidth["TCP"] = compiled(folder, "tcp", size)
    bandwidth["memcpy"] = compiled(folder, "memcpy", size)[0]
    if ENDS[0]:
        latency["cache line"] = compiled(folder, "line")[0] / 1e3
    return latency, bandwidth


def median(rounds: list[Round], name: str) -> float:
    return statistics.median(figures[name] for figures in rounds)


def table(title: str, by_size: dict[int, list[Round]]) -> None:
    names = list(by_size[SIZES[0]][0])
    print(f"\n{title}\n{'bytes':>8}" + "".join(f"{name:>15}" for name in names))
    for size, rounds in by_size.items():
        print(f"{size:>8}" + "".join(f"{median(rounds, name):>15.3f}" for name in names))


def ratios(what: str, by_size: dict[int, list[Round]], other: str, sign: int) -> None:
    """Prints the median ratio of our figure to the other's, over the rounds."""
    if other not in by_size[SIZES[0]][0]:
        print(f"{other}: not installed, not compared")
        return
    for name in (name for name in by_size[SIZES[0]][0] if name.startswith("ib_")):
        shown = [f"{size}: {statistics.median((figures[name] / figures[other]) ** sign for figures in rounds):.2f}" for size, rounds in by_size.items()]
        print(f"{what}, {name} by {other} (below 1 is faster): " + ", ".join(shown))


def main() -> int:
    if not SOFTBAND.is_file():
        print(f"{SOFTBAND} is not there: run `make build`", file=sys.stderr)
        return 1
    latency: dict[int, list[Round]] = {size: [] for size in SIZES}
    bandwidth: dict[int, list[Round]] = {size: [] for size in SIZES}
    with tempfile.TemporaryDirectory() as name:
        for size in SIZES:
            for _ in range(ROUNDS):
                of_latency, of_bandwidth = one_round(Path(name), size)
                latency[size].append(of_latency)
                bandwidth[size].append(of_bandwidth)
    table("Typical latency one way in us", latency)
    table("Average bandwidth one way in GB/s", bandwidth)
    print()
    ratios("time of a message", latency, "UCX shm", 1)
    ratios("time of a message in a stream", bandwidth, "UCX shm", -1)
    print(f"ib_write_bw -s 65536: {median(bandwidth[65536], 'ib_write_bw') / median(bandwidth[65536], 'memcpy'):.2f} of memcpy")
    rate = statistics.median(perftest("ib_write_bw -F -s 8 -n 1000000", 4) for _ in range(ROUNDS))
    print(f"ib_write_bw -s 8: {rate:.2f} M writes a second on one queue pair")
    return 0


if __name__ == "__main__":
    sys.exit(main())
