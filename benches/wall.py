#!/usr/bin/env python3
"""How fast wall pace is, size by size, beside memcpy, UCX and libfabric over shared memory, and TCP over loopback.

Prints figures and ratios, asserts nothing. Medians over several runs; all of it in one run of this script, since machines differ and
are noisy.
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
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOFTBAND = ROOT / "target" / "dist" / "bin" / "softband"
RUNS = 3
FABRIC = "modern-pair"
SIZES = (2, 64, 1024, 8192, 65536, 1 << 20)
MIB = 1.048576  # perftest's and UCX's megabytes, in millions of bytes


def perftest(command: str, column: int) -> dict[int, float]:
    """A column of perftest's lines, counted from 0, by size, as the client prints it."""
    words = [str(SOFTBAND), "run", "--pace", "wall", FABRIC, "--on", "a", command, "--on", "b", f"{command} a"]
    for _ in range(3):  # perftest's calibration of the processor's clock fails now and then on a busy machine
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
        rows = [line.split()[1:] for line in done.stdout.splitlines() if re.match(r"b:\s+\d", line)]
        found = {int(row[0]): float(row[column]) for row in rows if len(row) > column}
        if found:
            return found
    raise SystemExit(f"{command}: no result\n{done.stdout}{done.stderr}")


def two_processes(words: list[str], environment: dict[str, str]) -> str:
    """What the client of a benchmark prints that is started twice, the second time with the server's address."""
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        time.sleep(0.5)
        done = subprocess.run([*words, "127.0.0.1"], env=environment, capture_output=True, text=True, check=False, timeout=120)
        server.terminate()
    return done.stdout


def ucx(test: str, size: int, column: int) -> float:
    """A number of ucx_perftest's last line between two processes over shared memory."""
    environment = {**os.environ, "UCX_TLS": "posix,sysv,cma,self", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    count = 20000 if size <= 65536 else 2000
    printed = two_processes(["ucx_perftest", "-t", test, "-s", str(size), "-n", str(count), "-p", "18811"], environment)
    final = re.search(r"^Final:\s+(.*)$", printed, re.MULTILINE)
    return float(final[1].split()[column]) if final else float("nan")


def libfabric(size: int) -> float:
    """Half a round trip in microseconds of libfabric's own ping-pong over its shared-memory provider."""
    printed = two_processes(["fi_pingpong", "-p", "shm", "-e", "rdm", "-I", "5000", "-S", str(size)], dict(os.environ))
    rows = [line.split() for line in printed.splitlines() if re.match(r"\d", line)]
    return float(rows[-1][6]) if rows else float("nan")


def median(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(RUNS))


def by_size(command: str, column: int, scale: float = 1.0) -> dict[int, float]:
    runs = [perftest(command, column) for _ in range(RUNS)]
    return {size: scale * statistics.median(run[size] for run in runs if size in run) for size in SIZES}


def compiled(folder: Path, name: str, size: int) -> list[float]:
    """What a program of this folder prints for a size."""
    program = folder / name
    if not program.exists():
        subprocess.run(["cc", "-O2", "-o", str(program), str(ROOT / "benches" / f"{name}.c")], check=True)
    return [float(word) for word in subprocess.run([str(program), str(size)], check=True, capture_output=True, text=True).stdout.split()]


def table(title: str, columns: dict[str, dict[int, float]]) -> None:
    print(f"\n{title}")
    print(f"{'bytes':>8}" + "".join(f"{name:>16}" for name in columns))
    for size in SIZES:
        print(f"{size:>8}" + "".join(f"{figures[size]:>16.3f}" for figures in columns.values()))


def main() -> int:
    if not SOFTBAND.is_file():
        print(f"{SOFTBAND} is not there: run `make build`", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tcp = {size: [compiled(folder, "tcp", size) for _ in range(RUNS)] for size in SIZES}
        copy = {size: median(lambda: compiled(folder, "memcpy", size)[0]) for size in SIZES}  # noqa: B023
    latency = {"ib_send_lat": by_size("ib_send_lat -F -a -n 1000", 4), "ib_write_lat": by_size("ib_write_lat -F -a -n 1000", 4)}
    latency["ib_read_lat"] = by_size("ib_read_lat -F -a -n 1000", 4)
    bandwidth = {"ib_send_bw": by_size("ib_send_bw -F -a -n 1000", 3, MIB / 1e3), "ib_write_bw": by_size("ib_write_bw -F -a -n 1000", 3, MIB / 1e3)}
    if shutil.which("ucx_perftest"):
        latency["UCX shm"] = {size: median(lambda: ucx("tag_lat", size, 1)) for size in SIZES}  # noqa: B023
        bandwidth["UCX shm"] = {size: MIB / 1e3 * median(lambda: ucx("tag_bw", size, 4)) for size in SIZES}  # noqa: B023
    else:
        print("ucx_perftest is not installed (package ucx-utils): not compared")
    if shutil.which("fi_pingpong"):
        latency["libfabric shm"] = {size: median(lambda: libfabric(size)) for size in SIZES}  # noqa: B023
    else:
        print("fi_pingpong is not installed (package libfabric-bin): not compared")
    latency["TCP"] = {size: statistics.median(run[0] for run in tcp[size]) for size in SIZES}
    bandwidth["TCP"] = {size: statistics.median(run[1] for run in tcp[size]) for size in SIZES}
    bandwidth["memcpy"] = copy
    table("Typical latency one way in us", latency)
    table("Average bandwidth one way in GB/s", bandwidth)
    rate = statistics.median(perftest("ib_write_bw -F -s 8 -n 1000000", 4)[8] for _ in range(RUNS))
    print(f"\nib_write_bw -s 8: {rate:.2f} M writes a second on one queue pair")
    print(f"ib_write_bw -s 65536: {bandwidth['ib_write_bw'][65536] / copy[65536]:.2f} of memcpy")
    if "UCX shm" in latency:
        for what, ours, better in (("send latency", latency, 1), ("send bandwidth", bandwidth, -1)):
            name = "ib_send_lat" if better == 1 else "ib_send_bw"
            ratios = [(ours[name][size] / ours["UCX shm"][size]) ** better for size in SIZES]
            print(f"{what}, ours by UCX's (below 1 is faster): " + ", ".join(f"{size}: {ratio:.2f}" for size, ratio in zip(SIZES, ratios, strict=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
