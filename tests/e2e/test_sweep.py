"""The sweep script of the XT3 paper: it runs its two programs for one size at a time."""

from __future__ import annotations

import pytest
from conftest import ROOT, Softband

SCRIPT = ROOT / "studies" / "xt3" / "rdma_sweep.sh"


# At wall pace each row takes a second, so it has fewer of them. The programs print two decimals of
# MiB/s: a busy machine reaches 0.01 with 2 B only where a pause is spread over many iterations.
@pytest.mark.parametrize(("pace", "powers", "iterations"), [("virtual", (12, 8), 20), ("wall", (3, 2), 5000)])
def test_the_sweep_prints_a_row_for_each_size_of_each_test(softband: Softband, pace: str, powers: tuple[int, int], iterations: int) -> None:
    bandwidth, latency = powers
    command = f"ITERATIONS={iterations} BANDWIDTH_TO={2**bandwidth} LATENCY_TO={2**latency} {SCRIPT}"
    outcome = softband.pair("two-hosts", command, options=("--pace", pace)).assert_ok()
    text = outcome.program("b-0")
    titles = [line for line in text.splitlines() if line.endswith("Test")]
    assert titles == ["Bandwidth Test", "Bidirectional Bandwidth Test", "Latency Test"]
    rows = [line.split() for line in text.splitlines() if line[:1].isdigit()]
    sizes = [int(row[0]) for row in rows]
    assert sizes == [*(2**power for power in range(1, bandwidth + 1))] * 2 + [2**power for power in range(1, latency + 1)]
    for row in rows[: 2 * bandwidth]:
        assert float(row[1]) >= float(row[2]) > 0  # peak, average
    for row in rows[2 * bandwidth :]:
        typical, best, worst = map(float, row[1:])
        assert 0 < best <= typical <= worst


def test_the_sweep_ends_with_an_error_when_a_program_does(softband: Softband) -> None:
    outcome = softband.run("two-hosts", ("b", f"ITERATIONS=1 {SCRIPT} a"))
    assert outcome.status != 0
