from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from softband_lab.base.errors import LabError
from softband_lab.campaign.perftest import Measurement
from softband_lab.campaign.printed import has_table, parse_table

SOURCE = Path("b-0.out")
NETPIPE = """Send and receive buffers are 16384 and 131072 bytes
Now starting the main loop
  0:      64 bytes      5 times -->     32.55 Mbps in      15.00 usec
  1:      96 bytes      5 times -->     48.83 Mbps in      15.00 usec
 36: 8388608 bytes      5 times -->   3000.12 Mbps in   21332.48 usec
"""


def iperf3(**received: float) -> str:
    document: dict[str, Any] = {
        "start": {"test_start": {"protocol": "TCP", "num_streams": 1, "blksize": 8192}},
        "end": {"sum_sent": {"bytes": 1}, "sum_received": received},
    }
    return json.dumps(document, indent="\t")


def test_netpipe_prints_sizes_halfway_between_powers_and_binary_megabits() -> None:
    rows = parse_table(NETPIPE, SOURCE)
    assert [row.size_bytes for row in rows] == [64, 96, 8388608]
    assert rows[0] == Measurement(64, 5, bw_average_gbit_s=32.55 * 2**20 / 1e9, latency_typical_us=15.0)
    # The time of one way and the rate agree: NetPIPE counts 2^20 bits as a megabit.
    assert rows[2].bw_average_gbit_s == pytest.approx(8 * 8388608 / 21332.48e-6 / 1e9, rel=1e-4)


def test_iperf3_counts_the_bytes_that_the_server_received() -> None:
    (row,) = parse_table(iperf3(bytes=81920, bits_per_second=3.2e9), SOURCE)
    assert row == Measurement(8192, 10, bw_average_gbit_s=3.2)


def test_a_failed_iperf3_is_refused_with_its_own_words() -> None:
    text = json.dumps({"start": {}, "end": {}, "error": "unable to connect to server"})
    with pytest.raises(LabError, match=r"b-0\.out: iperf3 failed: unable to connect to server"):
        parse_table(text, SOURCE)


@pytest.mark.parametrize("end", [{}, {"sum_received": None}, {"sum_received": {"bytes": "many"}}])
def test_an_iperf3_without_received_bytes_is_refused(end: dict[str, Any]) -> None:
    text = json.dumps({"start": {"test_start": {"blksize": 8192}}, "end": end})
    with pytest.raises(LabError, match="has no sum of received bytes"):
        parse_table(text, SOURCE)


def test_the_json_of_iperf3_may_be_cut() -> None:
    with pytest.raises(LabError, match=r"the JSON of iperf3 is cut"):
        parse_table(iperf3(bytes=1, bits_per_second=8)[:40], SOURCE)


@pytest.mark.parametrize(
    ("text", "has"),
    [(NETPIPE, True), (iperf3(bytes=1, bits_per_second=8), True), (" #bytes #iterations\n", True), ("hello\n", False)],
)
def test_outputs_without_a_table_are_left_alone(text: str, has: bool) -> None:
    assert has_table(text) is has
