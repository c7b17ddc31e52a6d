"""Edge-triggered epoll in simulated time: the kernel's own sequence of reports, and no spin over unread bytes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from conftest import Softband
from test_conformance import shim_programs

__all__ = ["shim_programs"]


def test_edges_come_in_the_sequence_of_the_kernel(softband: Softband, shim_programs: Path) -> None:
    native = subprocess.run([str(shim_programs / "edges")], capture_output=True, text=True, timeout=120, check=True).stdout
    for _ in range(2):
        assert softband.run("two-hosts", ("a", str(shim_programs / "edges"))).assert_ok().program("a-0") == native


def test_a_loop_that_leaves_bytes_unread_is_parked(softband: Softband, c_programs: Path) -> None:
    """The program waits for the edges of a completion channel and of an asynchronous channel as well."""
    done = softband.run("two-hosts", ("a", str(c_programs / "verbs_edges"))).assert_ok()
    assert done.program("a-0").splitlines() == [
        "an event beside an unread one: 1 report",
        "no further event: 0 reports after 1000 ms",
        "a read event and a new one: 1 report",
        "asynchronous channel: 0 reports",
    ]
