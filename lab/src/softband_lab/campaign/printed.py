"""Reads the table that a program of a run printed, whichever program it was."""

from __future__ import annotations

from pathlib import Path

from softband_lab.campaign import perftest
from softband_lab.campaign.mpi_programs import is_mpibench, is_report, parse_mpibench, parse_report
from softband_lab.campaign.perftest import Measurement
from softband_lab.campaign.socket_programs import is_iperf3, is_netpipe, parse_iperf3, parse_netpipe


def has_table(text: str) -> bool:
    """Returns whether an output has the table of a program that the lab can read."""
    return perftest.has_table(text) or is_netpipe(text) or is_iperf3(text) or is_mpibench(text) or is_report(text)


def parse_table(text: str, source: Path) -> list[Measurement]:
    """Returns the measurements of an output, in printed order. Fails if the output has none."""
    if is_netpipe(text):
        return parse_netpipe(text)
    if is_iperf3(text):
        return parse_iperf3(text, source)
    if is_mpibench(text):
        return parse_mpibench(text, source)
    if is_report(text):
        return parse_report(text, source)
    return perftest.parse_table(text, source)
