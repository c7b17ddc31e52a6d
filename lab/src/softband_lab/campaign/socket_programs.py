"""Reads the output of programs that move data: the lines of NetPIPE and softband-rfio, and the JSON of iperf3.

NetPIPE counts 2^20 bits a second as Mbps, and prints the time of one way. iperf3 counts the bytes that the server
received, so none that are still under way.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from softband_lab.base.errors import LabError
from softband_lab.campaign.perftest import Measurement

# NetPIPE.c: bits / (seconds * 1024 * 1024).
_NETPIPE_MBPS_IN_GBIT_S = 1_048_576 / 1e9
_NETPIPE = re.compile(r"^\s*\d+:\s+(\d+) bytes\s+(\d+) times -->\s+([\d.]+) Mbps in\s+([\d.]+) usec", re.MULTILINE)
_RFIO = re.compile(r"^(\d+) bytes in ([\d.]+) s, ([\d.]+) MB/s", re.MULTILINE)
_IPERF3 = re.compile(r'^\{\s*"start":', re.MULTILINE)


def is_netpipe(text: str) -> bool:
    """Returns whether an output has a line of NetPIPE."""
    return _NETPIPE.search(text) is not None


def is_iperf3(text: str) -> bool:
    """Returns whether an output has the JSON of iperf3."""
    return _IPERF3.search(text) is not None


def is_rfio(text: str) -> bool:
    """Returns whether an output has the line of a copy, by softband-rfio or in its words."""
    return _RFIO.search(text) is not None


def parse_rfio(text: str) -> list[Measurement]:
    """Returns the rate of each copy."""
    return [Measurement(int(size), 1, bw_average_mb_s=float(rate)) for size, _, rate in _RFIO.findall(text)]


def parse_netpipe(text: str) -> list[Measurement]:
    """Returns the lines of NetPIPE: bandwidth, and the time of one way."""
    return [
        Measurement(
            int(size),
            int(times),
            bw_average_gbit_s=float(mbps) * _NETPIPE_MBPS_IN_GBIT_S,
            latency_typical_us=float(usec),
        )
        for size, times, mbps, usec in _NETPIPE.findall(text)
    ]


def parse_iperf3(text: str, source: Path) -> list[Measurement]:
    """Returns the measurement of an iperf3 client: the bytes of a write, their count, and the rate of all streams."""
    match = _IPERF3.search(text)
    try:
        document, _ = json.JSONDecoder().raw_decode(text[match.start() if match else 0 :])
    except ValueError as error:
        raise LabError(source, f"the JSON of iperf3 is cut: {error}", "see the program's output there") from None
    if "error" in document:
        raise LabError(source, f"iperf3 failed: {document['error']}", "see the program's output there")
    try:
        size, received = _numbers(document)
    except (LookupError, TypeError, ValueError):
        raise LabError(source, "the JSON of iperf3 has no sum of received bytes", "a client with `-J`") from None
    return [
        Measurement(
            size,
            round(received["bytes"] / size),
            bw_average_gbit_s=received["bits_per_second"] / 1e9,
        )
    ]


def _numbers(document: dict[str, Any]) -> tuple[int, dict[str, float]]:
    received = document["end"]["sum_received"]
    numbers = {name: float(received[name]) for name in ("bytes", "bits_per_second")}
    return int(document["start"]["test_start"]["blksize"]), numbers
