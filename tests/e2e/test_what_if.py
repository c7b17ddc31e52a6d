"""What-if questions on the built tree: fast links, and the limit that the answer names."""

from __future__ import annotations

import csv
import subprocess
from pathlib import Path

from conftest import DIST

QUESTION = ("accuracy/connectx7-ndr", "--part", "optical-active", "--cable", "direct-attach")


def ask(out: Path, *arguments: str) -> str:
    command = [str(DIST / "bin/softband"), "what-if", *arguments, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join(done.stdout.split())


def test_a_kilometre_of_one_lane_is_full_bandwidth_at_400_gigabits(tmp_path: Path) -> None:
    """A thousand 64 KiB messages take 1.3 ms. The start of the transfer must not cost a percent."""
    said = ask(tmp_path, *QUESTION, "--cable-length", "1m,669m,1000m", "--vls", "1")
    assert "up to 1000 m, the longest tested (limited by the link b/mlx5_0/1 to a/mlx5_0/1" in said
    with (tmp_path / "surface.csv").open() as file:
        values = [float(row["bw_average_mib_s"]) for row in csv.DictReader(file)]
    assert min(values) > 0.99 * max(values)


def test_a_cable_that_is_too_long_for_its_lanes_waits_for_credits_and_a_short_one_for_the_slot(tmp_path: Path) -> None:
    said = ask(tmp_path, "cables/ddr-switch-cx4-100m", "--cable-length", "10m,100m", "--vls", "8")
    assert "(limited by reads over the slot of b/mthca0, at work" in said
    assert "falls short (limited by credits of sw/2 on VL 0, for which b/mthca0/1 waits" in said
    # The runs name no bottleneck themselves. Their logs hold the output of their programs.
    logs = list(tmp_path.rglob("softband.log"))
    assert logs and not any("of the transfer time" in log.read_text() for log in logs)
