"""Reads the output of MPI programs: the CSV of softband-mpibench, and the report of softband-npb.

A kernel of NPB has no message size. Its only line has the size 1, and its execution time in microseconds.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

from softband_lab.base.errors import LabError
from softband_lab.campaign.perftest import Measurement

_NPB_TIME = re.compile(r"^ Time in seconds = +([\d.]+)$", re.MULTILINE)
_NPB_ITERATIONS = re.compile(r"^ Iterations +=  *(\d+)$", re.MULTILINE)
# A kernel with fewer iterations than its class has cannot verify its result.
_NPB_VERIFIED = re.compile(r"^ Verification +=  *(?:SUCCESSFUL|NOT PERFORMED)$", re.MULTILINE)
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


def is_npb(text: str) -> bool:
    """Returns whether an output has the report of a kernel of NPB."""
    return _NPB_TIME.search(text) is not None


def parse_npb(text: str, source: Path) -> list[Measurement]:
    """Returns the execution time of a kernel of NPB. Fails if its result is wrong, or the report cut."""
    seconds, iterations = _NPB_TIME.search(text), _NPB_ITERATIONS.search(text)
    if seconds is None or iterations is None or not _NPB_VERIFIED.search(text):
        raise LabError(source, "the kernel's result is wrong, or its report is cut", "see the program's output there")
    return [Measurement(1, int(iterations[1]), latency_max_us=float(seconds[1]) * 1e6)]


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
