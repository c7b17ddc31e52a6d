"""Programs that look at several places in turn: an empty look costs its own time only."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Softband

ROUNDS = 40
# The cost of a look at a completion queue on the hosts of this fabric, in nanoseconds.
LOOK_NS = 100
# A message is found at the end of a cycle of looks, and each side has a cycle in a round.
SIDES = 2


def round_ns(softband: Softband, program: Path, kind: str, looks: int) -> float:
    outcome = softband.pair("two-hosts", f"{program} {kind} {looks} {ROUNDS}").assert_ok()
    return float(outcome.program("b-0").split()[1])


@pytest.mark.parametrize("kind", ["send", "write", "lazy"])
def test_a_round_takes_its_plain_time_and_that_of_its_empty_looks(softband: Softband, c_programs: Path, kind: str) -> None:
    program = c_programs / "empty_looks"
    plain = round_ns(softband, program, kind, 0)
    assert 4_000 < plain < 12_000
    for looks in (2, 100):
        assert plain <= round_ns(softband, program, kind, looks) <= plain + SIDES * (looks + 1) * LOOK_NS


def test_a_message_on_a_socket_wakes_a_thread_that_polls_a_queue(softband: Softband, c_programs: Path) -> None:
    program = c_programs / "empty_looks"
    few, many = (round_ns(softband, program, "socket", looks) for looks in (2, 100))
    assert few < 40_000
    assert few <= many <= few + SIDES * 98 * LOOK_NS


def test_empty_looks_give_the_same_times_in_each_run(softband: Softband, c_programs: Path) -> None:
    program = c_programs / "empty_looks"
    assert len({round_ns(softband, program, "write", 100) for _ in range(3)}) == 1


def test_yields_in_a_row_cost_more_and_more(softband: Softband, c_programs: Path) -> None:
    """The first yields cost less than a microsecond, and later ones ten."""
    outputs = {softband.run("two-hosts", ("a", f"{c_programs / 'yields'} 200")).assert_ok().program("a-0") for _ in range(2)}
    assert len(outputs) == 1
    yields, micros = map(float, outputs.pop().split())
    assert micros > 2_000
    assert micros / 20 < yields < micros / 10 + 10
