"""Debian's ibverbs-utils, unmodified."""

from __future__ import annotations

import pytest
from conftest import Softband


def test_a_program_sees_the_hcas_of_its_own_host(softband: Softband) -> None:
    outcome = softband.run("cables/ddr-switch-cx4-cx4", ("a", "ibv_devices"), ("b", "ibv_devices")).assert_ok()
    first, second = outcome.program("a-0"), outcome.program("b-0")
    assert "mthca0" in first and "mthca0" in second
    assert first != second, "each host's HCA has its own GUID"


def test_devinfo_tells_what_the_fabric_file_says(softband: Softband) -> None:
    text = softband.run("cables/ddr-switch-cx4-cx4", ("a", "ibv_devinfo -v")).assert_ok().program("a-0")
    for wanted in ("PORT_ACTIVE", "vendor_part_id:\t\t\t25208", "active_mtu:\t\t2048", "5.0 Gbps", "4X", "InfiniBand", "GID[  0]"):
        assert wanted in text, f"{wanted!r} not in\n{text}"


@pytest.mark.parametrize("program", ["ibv_rc_pingpong -c", "ibv_rc_pingpong -e", "ibv_uc_pingpong", "ibv_ud_pingpong"])
def test_pingpong(softband: Softband, program: str) -> None:
    outcome = softband.pair("cables/sdr-10m", f"{program} -n 200").assert_ok()
    assert "200 iters in" in outcome.program("a-0")
    assert "invalid data" not in outcome.program("a-0")
