"""Credit loops and deadlocks: the commands name them before and during a run, and no run hangs."""

from __future__ import annotations

import json
from typing import Any

from conftest import FABRICS, Softband

RING = (FABRICS / "ring-of-five.toml").read_text()
HOSTS = "abcde"


def two_hops_each(softband: Softband, fabric: str) -> tuple[int, str, dict[str, Any]]:
    """Runs a ring. Every host writes to the host two switches further on, all at the same time."""
    file = softband.folder / "ring.toml"
    file.write_text(fabric)
    out = softband.folder / "out"
    arguments = [str(file), "--out", str(out)]
    for host in HOSTS:
        arguments += ["--on", host, "ib_write_bw -F -s 65536 -n 500"]
    for index, host in enumerate(HOSTS):
        arguments += ["--on", host, f"ib_write_bw -F -s 65536 -n 500 {HOSTS[(index + 2) % 5]}"]
    done = softband.command("run", *arguments)
    return done.returncode, done.stderr, json.loads((out / "run.json").read_text())


def test_a_ring_is_warned_of_and_is_no_fault(softband: Softband) -> None:
    file = softband.folder / "ring.toml"
    file.write_text(RING)
    done = softband.command("fabric", "check", str(file))
    assert done.returncode == 0
    assert "warning: credit loop: s1/2 -> s2/2 -> s3/2 -> s4/2 -> s5/2 -> s1/2 (VL0-7)" in done.stderr
    assert done.stderr.count("credit loop:") == 2


def test_a_deadlock_without_limits_ends_the_run(softband: Softband) -> None:
    fabric = RING.replace("= 18", "= 20").replace("[subnet]", "[subnet]\nleaf_head_of_queue_lifetime = 20")
    status, errors, run = two_hops_each(softband, fabric)
    assert status != 0
    waits = "s1/2 waits for credits of s2/3 (VL0), s2/2 waits for credits of s3/3 (VL0)"
    assert f"softband: deadlock in the fabric: {waits}" in errors
    assert "Deadlock" in run["failure"]


def test_a_deadlock_with_limits_is_told_and_broken_up(softband: Softband) -> None:
    _, errors, run = two_hops_each(softband, RING)
    assert "softband: deadlock in the fabric: s1/2 waits for credits of s2/3 (VL0)" in errors
    assert run["failure"] is None
    counters = json.loads((softband.folder / "out" / "counters.json").read_text())
    assert sum(port["port_xmit_discards"] for port in counters["ports"]) > 0
