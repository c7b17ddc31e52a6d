#!/usr/bin/env python3
"""The sweep of OpenSM over large fabrics, beside ibsim: prints figures and ratios, asserts nothing.

    benches/sweep.py [HOSTS ...]

A fat tree of 1,008 hosts and of 10,044 hosts, unless other numbers are given. The sweep is
`opensm -o` from its start to its end, which follows SUBNET UP. Softband's time is that of a run
without the time of the same run of `true`. ibsim has loaded its net file before OpenSM starts.
Memory is the most that the simulating process had, divided by hosts and switches.
It needs Debian's opensm, ibsim-utils and libumad2sim0.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))
ROUNDS = int(os.environ.get("SOFTBAND_BENCH_ROUNDS", "3"))
SIZES = (1_008, 10_044)
WRAPPER = next(Path("/usr/lib").glob("*/umad2sim/libumad2sim.so"), None)
PATIENCE_SECONDS = 1_800
# Links that both simulators know, so that OpenSM asks both for the same.
PARTS = ("--host", "qdr-host", "--hca", "connectx2-qdr", "--device", "mlx4_0", "--switch", "infiniscale-iv", "--host-cable", "copper-4x", "--host-cable-length", "1 m")


class Sweep(NamedTuple):
    seconds: float
    kibibytes: int


class Fabric(NamedTuple):
    file: Path
    net: Path
    nodes: int
    limits: list[str]
    """The options of ibsim for a fabric of this size."""


def softband(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SOFTBAND, *words], check=True, stdout=subprocess.PIPE, text=True)


def fabric(hosts: int, folder: Path) -> Fabric:
    """Writes the fabric file, which waits for a subnet manager, and the net file of ibsim."""
    file, net = folder / f"{hosts}.toml", folder / f"{hosts}.net"
    ports = "18" if hosts <= 1_458 else "36"
    words = ["--hosts", str(hosts), "--levels", "3", "--ports", ports, *PARTS]
    text = softband("fabric", "generate", "fat-tree", *words).stdout
    file.write_text(text)
    softband("fabric", "export", "--format", "ibsim", file, "-o", net)
    file.write_text(f'[subnet]\nmanager = "opensm"\n\n{text}')
    limits = re.search(r"ibsim( -N (\d+) -S \d+ -P \d+)", net.read_text()[:400])
    # Small fabrics need no options.
    nodes = int(limits[2]) if limits else hosts
    return Fabric(file, net, nodes, limits[1].split() if limits else [])


def peak_of(pid: int, end: threading.Event, peaks: list[int]) -> None:
    """Notes the largest resident memory of a process, in KiB, until it ends."""
    while not end.wait(0.05):
        try:
            found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        except OSError:
            return
        if found:
            peaks.append(int(found[1]))


def watched(process: subprocess.Popen[bytes], work: subprocess.Popen[bytes]) -> Sweep:
    """Waits for the end of `work`. Returns its time and the peak memory of `process`."""
    began, end, peaks = time.monotonic(), threading.Event(), [0]
    watcher = threading.Thread(target=peak_of, args=(process.pid, end, peaks))
    watcher.start()
    status = work.wait(PATIENCE_SECONDS)
    seconds = time.monotonic() - began
    end.set()
    watcher.join()
    if status != 0:
        sys.exit(f"{work.args} ended with status {status}")
    return Sweep(seconds, max(peaks))


def under_softband(of: Fabric, pace: str, folder: Path) -> Sweep:
    log, out = folder / "softband.log", folder / "out"
    sweeps = []
    for command in ("true", f"opensm -o -f {log}"):
        words = [SOFTBAND, "run", of.file, "--pace", pace, "--out", out, "--on", "h0", command]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        sweeps.append(watched(process, process))
    check(log)
    return Sweep(sweeps[1].seconds - sweeps[0].seconds, sweeps[1].kibibytes)


def under_ibsim(of: Fabric, folder: Path) -> Sweep:
    log, name = folder / "ibsim.log", f"softband-bench-{os.getpid()}"
    environment = os.environ | {"IBSIM_SOCKNAME": name, "SIM_HOST": "h0 mlx4_0", "OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder)}
    words = ["ibsim", *of.limits, "-n", "-s", of.net]
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as simulator:
        while name not in Path("/proc/net/unix").read_text():
            if simulator.poll() is not None:
                sys.exit(f"ibsim ended with status {simulator.returncode}")
            time.sleep(0.01)
        words = ["opensm", "-o", "-f", str(log)]
        manager = subprocess.Popen(words, env=environment | {"LD_PRELOAD": str(WRAPPER)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        sweep = watched(simulator, manager)
        simulator.kill()
    check(log)
    return sweep


def check(log: Path) -> None:
    """Ends the benchmark if OpenSM has not brought the subnet up, and removes the log."""
    if "SUBNET UP" not in log.read_text(errors="replace"):
        sys.exit(f"{log}: no SUBNET UP")
    log.unlink()


def compare(hosts: int) -> None:
    """Prints the medians of all kinds of sweeps of a fabric."""
    with tempfile.TemporaryDirectory(prefix="softband-sweep-") as name:
        folder = Path(name)
        of = fabric(hosts, folder)
        kinds = {
            "simulated time": lambda: under_softband(of, "virtual", folder),
            "wall pace": lambda: under_softband(of, "wall", folder),
            "ibsim": lambda: under_ibsim(of, folder),
        }
        rounds = [{kind: measure() for kind, measure in kinds.items()} for _ in range(ROUNDS)]
    peer = statistics.median(each["ibsim"].seconds for each in rounds)
    for kind in kinds:
        seconds = statistics.median(each[kind].seconds for each in rounds)
        kibibytes = statistics.median(each[kind].kibibytes for each in rounds)
        ratio = "" if kind == "ibsim" else f", {seconds / peer:.2f} of ibsim's time"
        print(f"{hosts} hosts, {of.nodes} nodes, {kind}: {seconds:.2f} s{ratio}, {kibibytes / of.nodes:.1f} KiB a node", flush=True)


def main() -> int:
    sizes = [int(word) for word in sys.argv[1:]] or list(SIZES)
    if not SOFTBAND.is_file():
        print(f"{SOFTBAND} is not there: run `make build`", file=sys.stderr)
        return 1
    if not shutil.which("opensm") or not shutil.which("ibsim") or not WRAPPER:
        print("opensm, ibsim or libumad2sim.so is not there: install opensm, ibsim-utils and libumad2sim0", file=sys.stderr)
        return 1
    for hosts in sizes:
        compare(hosts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
