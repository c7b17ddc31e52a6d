"""The built-in subnet manager at work by packets, as unmodified tools and programs see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import FABRICS, Softband, which

TOOLS = "ibnetdiscover; dump_lfts; smpquery portinfo 2 1; smpquery sl2vl 3; smpquery pkeys 2 1; smpquery switchinfo 3; saquery -p"


def by_packets(folder: Path, fabric: str, more: str = "") -> Path:
    """Writes a copy of a fabric file whose built-in manager works by packets."""
    text = (FABRICS / f"{fabric}.toml").read_text()
    head = "" if "[subnet]" in text else "[subnet]\n\n"
    path = folder / "by-packets.toml"
    path.write_text((head + text).replace("[subnet]", '[subnet]\nmanager = "builtin-by-packets"', 1) + more)
    return path


@pytest.mark.skipif(not which("ibnetdiscover"), reason="no infiniband-diags")
def test_tools_find_the_same_subnet(softband: Softband, tmp_path: Path) -> None:
    fabric = "qdr-through-switch"
    before, after = (
        softband.run(path, ("a", f"sleep 1; {TOOLS}")).assert_ok().program("a-0") for path in (FABRICS / f"{fabric}.toml", by_packets(tmp_path, fabric))
    )
    assert "Switch\t36" in after and "PathRecord" in after
    assert after == before


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_ports_become_active_and_carry_data(softband: Softband, tmp_path: Path, pace: str) -> None:
    state = "cat /sys/class/infiniband/mlx4_0/ports/1/{state,lid,sm_lid} | xargs; "
    server = f"{state}sleep 1; {state}ibv_rc_pingpong -n 100 | grep -c iters"
    fabric = by_packets(tmp_path, "qdr-through-switch")
    outcome = softband.run(fabric, ("a", f"bash -c '{server}'"), ("b", "sleep 2; ibv_rc_pingpong -n 100 a"), options=("--pace", pace)).assert_ok()
    first, second, pingpong = outcome.program("a-0").splitlines()
    if pace == "virtual":
        assert first == "2: INIT 0x0 0x0"
    assert (second, pingpong) == ("4: ACTIVE 0x1 0x1", "1")


def test_it_routes_around_a_link_that_goes_down(softband: Softband, tmp_path: Path) -> None:
    """A ring of switches has two ways. The trap of a switch makes the manager sweep at once."""
    fault = '\n[[faults]]\nkind = "link_down"\nlink = "s1/2"\nat = "3 s"\n'
    fabric = by_packets(tmp_path, "ring-of-five", fault)
    outcome = softband.run(fabric, ("a", "sleep 1; ibv_rc_pingpong -n 100 | grep -c iters"), ("b", "sleep 4; ibv_rc_pingpong -n 100 a")).assert_ok()
    assert outcome.program("a-0").split() == ["1"]
