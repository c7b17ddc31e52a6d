from __future__ import annotations

from pathlib import Path

import pytest

from softband_lab.base.errors import LabError
from softband_lab.campaign.perftest import parse_table

SOURCE = Path("b-0.out")
RULE = "-" * 87
BANDWIDTH = f"""{RULE}
                    Send BW Test
 Connection type : RC\t\tUsing SRQ      : OFF
 CQ Moderation   : 100
 local address: LID 0x01 QPN 0x0048 PSN 0x2e4b1c
{RULE}
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 2          200              5.17               5.03   \t\t     2.638711
 8388608    200              937.70             937.68 \t\t     0.000117
{RULE}
"""
LATENCY = """ #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 2       100          4.02           4.88         4.04     \t       4.06        \t0.09   \t\t4.40    \t\t4.88
"""  # noqa: E501


def test_a_bandwidth_table_gives_one_row_a_size() -> None:
    rows = parse_table(BANDWIDTH, SOURCE)
    assert [row.size_bytes for row in rows] == [2, 8388608]
    assert (rows[0].iterations, rows[0].bw_peak_mib_s, rows[0].bw_average_mib_s) == (200, 5.17, 5.03)
    assert rows[1].message_rate_mpps == 0.000117
    assert rows[1].latency_avg_us is None


def test_later_versions_say_mib_and_mean_the_same() -> None:
    assert parse_table(BANDWIDTH.replace("MB/sec", "MiB/sec"), SOURCE) == parse_table(BANDWIDTH, SOURCE)


def test_a_latency_table_keeps_its_columns_apart() -> None:
    (row,) = parse_table(LATENCY, SOURCE)
    assert (row.latency_min_us, row.latency_max_us) == (4.02, 4.88)
    assert (row.latency_typical_us, row.latency_avg_us) == (4.04, 4.06)


def test_output_without_a_table_is_refused_by_name() -> None:
    with pytest.raises(LabError, match=r"b-0\.out: holds no perftest table"):
        parse_table("Couldn't connect to a:18515\n", SOURCE)


def test_a_cut_line_is_refused_with_its_number() -> None:
    with pytest.raises(LabError, match=r"b-0\.out:2: the line has 2 columns"):
        parse_table(LATENCY.splitlines()[0] + "\n 2   100\n", SOURCE)
