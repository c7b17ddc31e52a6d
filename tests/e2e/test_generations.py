"""Two hosts of every generation: the link that programs see, and the bandwidth that they get."""

from __future__ import annotations

import re

import pytest
from conftest import Softband, table

# By fabric: width and speed in `ibv_devinfo`, and the MB/s of the link with packets of 4,096 B
# and 34 B of headers.
GENERATIONS = {
    "fdr": ("4X", "14.0 Gbps", 6_818.2),
    "fdr-connect-ib": ("4X", "14.0 Gbps", 6_818.2),
    "edr": ("4X", "25.0 Gbps", 12_500.0),
    "edr-connectx5": ("4X", "25.0 Gbps", 12_500.0),
    "hdr": ("4X", "50.0 Gbps", 25_000.0),
    "hdr-epyc": ("4X", "50.0 Gbps", 25_000.0),
    "ndr": ("4X", "100.0 Gbps", 50_000.0),
    "ndr-epyc": ("4X", "100.0 Gbps", 50_000.0),
    # rdma-core 44 does not know XDR, whose code does not fit in the field that it reads.
    "xdr": ("4X", "invalid speed", 100_000.0),
}


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("way", ["", "-switch"])
def test_a_link_is_shown_and_filled_as_its_generation_has_it(softband: Softband, generation: str, way: str) -> None:
    width, speed, link = GENERATIONS[generation]
    fabric = f"generations/{generation}{way}"
    shown = softband.run(fabric, ("a", "ibv_devinfo -v")).assert_ok().program("a-0")
    assert re.search(rf"active_width:\s+{width} ", shown) and re.search(rf"active_speed:\s+{re.escape(speed)} ", shown), shown
    outcome = softband.pair(fabric, "ib_write_bw -F -s 1048576 -n 100").assert_ok()
    megabytes = table(outcome.program("b-0"))[0][3] * 1.048576
    # The bus of an FDR host with eight lanes carries a little less than the link.
    assert 0.96 * link * 4_096 / 4_130 < megabytes < link, megabytes


def test_small_messages_take_less_than_a_microsecond(softband: Softband) -> None:
    latency = softband.pair("generations/edr", "ib_write_lat -F -s 2 -n 100").assert_ok()
    assert 0.6 < table(latency.program("b-0"))[0][4] < 0.9


def test_an_hca_sends_small_messages_of_four_programs_as_fast_as_each_alone(softband: Softband) -> None:
    def rate(programs: int) -> float:
        each = [f"ib_write_bw -F -s 2 -n 2000 -p {18_515 + who}" for who in range(programs)]
        outcome = softband.run(
            "generations/edr", *(("a", command) for command in each), *(("b", f"{command} a") for command in each)
        ).assert_ok()
        return sum(table(outcome.program(f"b-{who}"))[0][4] for who in range(programs))

    assert rate(4) > 3 * rate(1)
