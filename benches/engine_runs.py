"""Runs of a process with their processor time and memory, and the median of several runs."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Longer jobs run only once.
REPEATED_UP_TO_SECONDS = 20.0


class NotFinishedError(Exception):
    """The reason why a run has no figures."""


@dataclass(frozen=True)
class Run:
    wall_seconds: float
    cpu_seconds: float
    text: str

    def number(self, pattern: str) -> float:
        found = re.search(pattern, self.text)
        if found is None:
            raise NotFinishedError(f"no {pattern!r} in what it says: {self.text[-300:]}")
        return float(found[1])


def memory_available_bytes() -> int:
    found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    return int(found[1]) * 1024 if found else 1 << 40


def run(words: list[str], seconds: float, memory_bytes: int) -> Run:
    """Runs a process, and ends it if it exceeds its time or memory."""
    words = ["prlimit", f"--as={memory_bytes}", *words]
    with tempfile.TemporaryFile("w+") as output:
        begun = time.monotonic()
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        status, usage = wait(process, begun + seconds)
        wall = time.monotonic() - begun
        output.seek(0)
        text = output.read()
    if status is None:
        raise NotFinishedError(f"not finished in {seconds:.0f} s")
    if status != 0 and ("memory allocation" in text or "bad_alloc" in text):
        raise NotFinishedError(f"not finished: it needs more than the {memory_bytes / 1e6:.0f} MB that it may have")
    if status != 0:
        raise NotFinishedError(f"failed with status {status}: {text.strip()[:300]}")
    return Run(wall, usage.ru_utime + usage.ru_stime, text)


def wait(process: subprocess.Popen[bytes], until: float) -> tuple[int | None, resource.struct_rusage]:
    """Returns the exit status, or `None` after a timeout, and the resources used."""
    in_time = True
    while True:
        found, status, usage = os.wait4(process.pid, os.WNOHANG if in_time else 0)
        if found:
            process.returncode = os.waitstatus_to_exitcode(status)
            return (process.returncode if in_time else None), usage
        if time.monotonic() >= until:
            in_time = False
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.01)


def repeated(rounds: int, once: Callable[[], Run]) -> tuple[list[Run], str]:
    """Returns the runs, and a label for their figures."""
    runs = [once()]
    if runs[0].wall_seconds <= REPEATED_UP_TO_SECONDS:
        runs += [once() for _ in range(rounds - 1)]
    return runs, f"median of {len(runs)}" if len(runs) > 1 else "one run"


def median(runs: list[Run], what: Callable[[Run], float]) -> float:
    return statistics.median(what(each) for each in runs)
