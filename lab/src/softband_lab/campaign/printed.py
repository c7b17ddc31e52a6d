"""Reads the table that a program of a run printed, whichever program it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from softband_lab.campaign import perftest
from softband_lab.campaign.mpi_programs import is_mpibench, is_report, parse_mpibench, parse_report
from softband_lab.campaign.perftest import Measurement
from softband_lab.campaign.socket_programs import (
    is_iperf3,
    is_netpipe,
    is_rfio,
    parse_iperf3,
    parse_netpipe,
    parse_rfio,
)
from softband_lab.campaign.trace_step import is_trace, parse_trace

_READERS: list[tuple[Callable[[str], bool], Callable[[str, Path], list[Measurement]]]] = [
    (is_netpipe, lambda text, _: parse_netpipe(text)),
    (is_rfio, lambda text, _: parse_rfio(text)),
    (is_iperf3, parse_iperf3),
    (is_mpibench, parse_mpibench),
    (is_report, parse_report),
    (is_trace, parse_trace),
]


def has_table(text: str) -> bool:
    """Returns whether an output has the table of a program that the lab can read."""
    return perftest.has_table(text) or any(is_own(text) for is_own, _ in _READERS)


def parse_table(text: str, source: Path) -> list[Measurement]:
    """Returns the measurements of an output, in printed order. Fails if the output has none."""
    for is_own, parse in _READERS:
        if is_own(text):
            return parse(text, source)
    return perftest.parse_table(text, source)
