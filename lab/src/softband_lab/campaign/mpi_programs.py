"""Reads the output of MPI programs: the CSV of softband-mpibench, and the reports of whole programs.

softband-npb, softband-lattice and softband-weather have no message size. The only line has the size 1, the number of
iterations or steps, and the execution time in microseconds.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

from softband_lab.base.errors import LabError
from softband_lab.campaign.perftest import Measurement

# The time and the number of iterations or steps, of softband-npb, softband-lattice and softband-weather.
_NAMES = [("Time in seconds", "Iterations"), (r"Solver time \(s\)", "Iterations"), (r"Run time \(s\)", "Steps")]
_REPORTS = [
    (re.compile(rf"^ {time} *= +([\d.]+)$", re.MULTILINE), re.compile(rf"^ {count} *= +(\d+)$", re.MULTILINE))
    for time, count in _NAMES
]
_VERIFIED = re.compile(r"^ Verification +=  *SUCCESSFUL$", re.MULTILINE)
_HEAD = re.compile(r"^benchmark,ranks,bytes,repetitions,.*$", re.MULTILINE)


def is_mpibench(text: str) -> bool:
    """Returns whether an output has the head of softband-mpibench's CSV."""
    return _HEAD.search(text) is not None


def parse_mpibench(text: str, source: Path) -> list[Measurement]:
    """Returns the lines of softband-mpibench: times in microseconds, and rates in 10^6 bytes a second."""
    match = _HEAD.search(text)
    table = text[match.start() if match else 0 :]
    try:
        return [_measurement(row) for row in csv.DictReader(io.StringIO(table))]
    except (KeyError, TypeError, ValueError):
        raise LabError(source, "a line of softband-mpibench's CSV is cut", "see the program's output there") from None


def is_report(text: str) -> bool:
    """Returns whether an output has the report of a whole program."""
    return any(time.search(text) for time, _ in _REPORTS)


def parse_report(text: str, source: Path) -> list[Measurement]:
    """Returns the execution time of a whole program. Fails if the program did not verify its result."""
    for time, count in _REPORTS:
        seconds, iterations = time.search(text), count.search(text)
        if seconds and iterations and _VERIFIED.search(text):
            return [Measurement(1, int(iterations[1]), latency_max_us=float(seconds[1]) * 1e6)]
    raise LabError(source, "the program did not verify its result", "see the program's output there")


def _measurement(row: dict[str, str]) -> Measurement:
    rate, messages = row["mbytes_per_s"], row["messages_per_s"]
    return Measurement(
        int(row["bytes"]),
        int(row["repetitions"]),
        bw_average_mb_s=float(rate) if rate else None,
        message_rate_mpps=float(messages) / 1e6 if messages else None,
        latency_min_us=float(row["t_min_us"]),
        latency_avg_us=float(row["t_avg_us"]),
        latency_max_us=float(row["t_max_us"]),
    )
