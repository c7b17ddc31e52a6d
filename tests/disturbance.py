"""Runs programs on a machine that is disturbed on purpose, and compares all that they leave.

The disturbance is work beside the run, stops of the engine and of its programs for moments, fewer
processors, and other nice values. In simulated time nothing of it may change a byte. A number seeds
all choices, so that a failure can be repeated: SOFTBAND_DISTURBANCE_SEED=7. The moments of the stops
are the machine's, so a repetition may need several tries.

    python3 tests/disturbance.py [--seed N] [--tries N] FABRIC --on HOST COMMAND [--on HOST COMMAND ...]
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))
SEED = int(os.environ.get("SOFTBAND_DISTURBANCE_SEED", "1"))
# Longer than the longest pause that a run could take for something else.
HANG_SECONDS = 240
HOG = "while True: pass"
# Seconds between two stops, and of a stop. A few stops are longer than the engine's own short waits.
BETWEEN = (0.001, 0.040)
STOPPED = (0.0002, 0.030)
LONG_STOP = (0.05, 0.4)
# Part of the stops that are long.
LONG_PART = 0.06


@dataclass(frozen=True)
class Way:
    """A way to disturb a run."""

    name: str
    hogs: int = 0
    # Kinds of processes that stop for moments: "engine", "programs".
    stops: tuple[str, ...] = ()
    # Number of processors that the run may use at all; 0 for all.
    machine: int = 0
    options: tuple[str, ...] = ()
    nice: int = 0


CALM = Way("calm")
WAYS = (
    CALM,
    Way("a hog for each processor, and stops", hogs=os.cpu_count() or 1, stops=("engine", "programs")),
    Way("one processor, with a hog", machine=1, hogs=1, stops=("programs",)),
    Way("--processors 1, at a low priority", options=("--processors", "1"), nice=4, stops=("engine", "programs")),
    Way("two processors, and stops of the engine", machine=2, nice=3, stops=("engine",)),
)
FEW_WAYS = (CALM, WAYS[1], WAYS[2])


def family_of(pid: int) -> Iterator[int]:
    """Returns the ids of all descendants of a process."""
    with contextlib.suppress(OSError):
        for thread in (Path("/proc") / str(pid) / "task").iterdir():
            for child in (thread / "children").read_text().split():
                yield int(child)
                yield from family_of(int(child))


class Disturbance:
    """Disturbs a run until `end`."""

    def __init__(self, way: Way, pid: int, seed: int) -> None:
        self.way, self.pid, self.random = way, pid, random.Random(seed)
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.stop_and_go, daemon=True)
        if way.stops:
            self.thread.start()

    def stop_and_go(self) -> None:
        while not self.is_over.wait(self.random.uniform(*BETWEEN)):
            programs = list(family_of(self.pid))
            candidates = [self.pid] * ("engine" in self.way.stops) + programs * ("programs" in self.way.stops)
            if not candidates:
                continue
            chosen = self.random.choice(candidates)
            span = LONG_STOP if self.random.random() < LONG_PART else STOPPED
            with contextlib.suppress(ProcessLookupError):
                os.kill(chosen, signal.SIGSTOP)
                try:
                    time.sleep(self.random.uniform(*span))
                finally:
                    os.kill(chosen, signal.SIGCONT)

    def end(self) -> None:
        self.is_over.set()
        if self.way.stops:
            self.thread.join()


@contextlib.contextmanager
def hogs(count: int) -> Iterator[None]:
    running = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(count)]
    try:
        yield
    finally:
        for hog in running:
            hog.kill()
            hog.wait()


def wrapper(way: Way, seed: int) -> list[str]:
    words = ["nice", "-n", str(way.nice)] if way.nice else []
    if way.machine:
        allowed = sorted(os.sched_getaffinity(0))
        chosen = random.Random(seed).sample(allowed, min(way.machine, len(allowed)))
        words += ["taskset", "-c", ",".join(map(str, chosen))]
    return words


def without(text: str, folder: Path) -> str:
    """Returns a text without the name of the folder of its run."""
    return text.replace(str(folder), "FOLDER")


def results(out: Path) -> dict[str, str]:
    """Returns what a run has left in its folder, without wall-clock times."""
    found = {path.name: path.read_text(errors="replace") for path in sorted(out.glob("*.out")) + sorted(out.glob("*.err"))}
    found["counters"] = (out / "counters.json").read_text() if (out / "counters.json").exists() else ""
    if (out / "run.json").exists():
        report = json.loads((out / "run.json").read_text())
        keys = ("virtual_seconds", "programs", "warnings", "failure", "exit_status", "bottlenecks")
        found["report"] = json.dumps({key: report.get(key) for key in keys}, indent=1, sort_keys=True)
    return found


def once(words: list[str], way: Way, seed: int) -> dict[str, str]:
    """Runs a command of Softband in a way. Returns its output, its status and its results."""
    with tempfile.TemporaryDirectory(prefix="softband-disturbed-") as folder, hogs(way.hogs):
        out = Path(folder) / "out"
        command = [*wrapper(way, seed), str(SOFTBAND), words[0], "--out", str(out), *way.options, *words[1:]]
        # Each run has a folder of its own, so that it cannot see files of another run.
        run = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
        disturbance = Disturbance(way, run.pid, seed)
        try:
            printed, errors = run.communicate(timeout=HANG_SECONDS)
        except subprocess.TimeoutExpired:
            disturbance.end()
            run.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(timeout=10)
            run.kill()
            raise AssertionError(f"the run hangs: {way.name}, seed {seed}\n{' '.join(command)}") from None
        finally:
            disturbance.end()
        all_results = {"status": str(run.returncode), "stdout": printed, "stderr": errors, **results(out)}
        return {name: without(text, Path(folder)) for name, text in all_results.items()}


def differences(calm: dict[str, str], disturbed: dict[str, str]) -> str:
    lines = []
    for name in sorted({*calm, *disturbed}):
        pair = (calm.get(name, "").splitlines(), disturbed.get(name, "").splitlines())
        lines += list(difflib.unified_diff(*pair, f"{name}, calm", f"{name}, disturbed", n=0, lineterm=""))[:12]
    return "\n".join(lines)


def check(words: list[str], ways: tuple[Way, ...] = WAYS, seed: int = SEED, fails: bool = False) -> None:
    """Runs a command of Softband in each way. Fails if a byte differs, or if the run does not end well."""
    calm: dict[str, str] = {}
    for number, way in enumerate(ways):
        began = time.monotonic()
        found = once(words, way, seed * 100 + number)
        print(f"{time.monotonic() - began:5.1f} s: {way.name}", flush=True)
        if not calm:
            calm = found
            assert fails or found["status"] == "0", f"status {found['status']}\n{found['stdout'][-2000:]}\n{found['stderr'][-2000:]}"
        elif found != calm:
            text = differences(calm, found)
            raise AssertionError(f"a run differs: {way.name}, seed {seed}\n{' '.join(words)}\n{text}")


def on(fabric: str, *programs: tuple[str, str], options: tuple[str, ...] = ()) -> list[str]:
    """Returns the words of a run of programs on hosts."""
    return ["run", *options, fabric, *(word for host, command in programs for word in ("--on", host, command))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--tries", type=int, default=1)
    parser.add_argument("--fails", action="store_true", help="the run may end with an error")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="the words after `softband run`")
    arguments = parser.parse_args()
    for offset in range(arguments.tries):
        check(["run", *arguments.words], seed=arguments.seed + offset, fails=arguments.fails)
        print(f"seed {arguments.seed + offset}: the same bytes", flush=True)


if __name__ == "__main__":
    main()
