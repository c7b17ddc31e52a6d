#!/usr/bin/env python3
"""How fast wall pace is, beside memcpy, UCX over shared memory and UCX over TCP on loopback: prints figures and ratios, asserts nothing.

Medians over several runs; all of it in one run of this script, since machines differ and are noisy.
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
RUNS = 5
FABRIC = "modern-pair"


def perftest(command: str, size: int, column: int) -> float:
    """A column of perftest's line for `size`, counted from 0, as the client prints it."""
    words = [str(SOFTBAND), "run", "--pace", "wall", FABRIC, "--on", "a", command, "--on", "b", f"{command} a"]
    for _ in range(3):  # perftest's calibration of the processor's clock fails now and then on a busy machine
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        lines = [line.split() for line in done.stdout.splitlines() if line.startswith("b: ")]
        rows = [line[1:] for line in lines if len(line) > column + 1 and line[1] == str(size)]
        if rows:
            return float(rows[-1][column])
    raise SystemExit(f"{command}: no result\n{done.stdout}{done.stderr}")


def ucx(test: str, size: int, transports: str) -> tuple[float, float]:
    """(typical latency in us, bandwidth in MB/s) of ucx_perftest between two processes."""
    environment = {**os.environ, "UCX_TLS": transports, "UCX_WARN_UNUSED_ENV_VARS": "n"}
    common = ["ucx_perftest", "-t", test, "-s", str(size), "-n", "20000", "-p", "18811"]
    with subprocess.Popen(common, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        time.sleep(0.5)
        done = subprocess.run([*common, "127.0.0.1"], env=environment, capture_output=True, text=True, check=False, timeout=120)
        server.terminate()
    final = re.search(r"^Final:\s+(.*)$", done.stdout, re.MULTILINE)
    if not final:
        raise SystemExit(f"ucx_perftest with {transports}: no result\n{done.stdout}{done.stderr}")
    numbers = [float(word) for word in final[1].split()]
    return numbers[1], numbers[4]


def median(measure: object) -> float:
    assert callable(measure)
    return statistics.median(measure() for _ in range(RUNS))


def memcpy(size: int) -> float:
    """MB/s of copies within one process."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "memcpy"
        subprocess.run(["cc", "-O2", "-o", str(program), str(ROOT / "benches" / "memcpy.c")], check=True)
        return 1e3 * float(subprocess.run([str(program), str(size)], check=True, capture_output=True, text=True).stdout)


def main() -> int:
    if not SOFTBAND.is_file():
        print(f"{SOFTBAND} is not there: run `make build`", file=sys.stderr)
        return 1
    write = median(lambda: perftest("ib_write_lat -F -s 2 -n 20000", 2, 4))
    send = median(lambda: perftest("ib_send_lat -F -s 2 -n 5000", 2, 4))
    read = median(lambda: perftest("ib_read_lat -F -s 2 -n 20000", 2, 4))
    stream = 1.048576 * median(lambda: perftest("ib_write_bw -F -s 65536 -n 20000", 65536, 3))
    rate = median(lambda: perftest("ib_write_bw -F -s 8 -n 200000", 8, 4))
    copy = memcpy(65536)
    print(f"ib_write_lat -s 2: {write:.2f} us; ib_read_lat -s 2: {read:.2f} us; ib_send_lat -s 2: {send:.2f} us (typical)")
    print(f"ib_write_bw -s 65536: {stream / 1e3:.2f} GB/s; memcpy of the same size {copy / 1e3:.2f} GB/s: ratio {stream / copy:.2f}")
    print(f"ib_write_bw -s 8: {rate:.2f} M writes a second on one queue pair")
    if shutil.which("ucx_perftest"):
        for name, transports in (("shared memory", "posix,sysv,cma,self"), ("TCP on loopback", "tcp,self")):
            latency = median(lambda: ucx("tag_lat", 2, transports)[0])  # noqa: B023
            bandwidth = 1.048576 * median(lambda: ucx("tag_bw", 65536, transports)[1])  # noqa: B023
            print(
                f"UCX over {name}: {latency:.2f} us at 2 bytes (ours: send {send / latency:.2f} times that, write {write / latency:.2f}), "
                f"{bandwidth / 1e3:.2f} GB/s at 64 KiB (ours: {stream / bandwidth:.2f} times that)"
            )
    else:
        print("ucx_perftest is not installed (package ucx-utils): not compared")
    return 0


if __name__ == "__main__":
    sys.exit(main())
