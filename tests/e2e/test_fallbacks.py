"""The direct path of wall pace counts the requests that go to the engine instead, by reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conftest import WAIT_SECONDS, Fabrics, Softband, until

MESSAGES = 200


def counts_of(run: Path) -> dict[str, int]:
    counts: dict[str, int] = json.loads((run / "run.json").read_text())["fallbacks"]
    return counts


def test_a_run_without_anything_unusual_falls_back_hardly_ever(softband: Softband) -> None:
    counts = counts_of(softband.pair("modern-pair", f"ib_write_bw -s 64 -n {MESSAGES}", options=("--pace", "wall")).assert_ok().out)
    assert "fault_plan" not in counts
    assert sum(counts.values()) < MESSAGES / 10, counts


def test_simulated_time_has_no_direct_path_and_no_numbers_of_it(softband: Softband) -> None:
    run = softband.pair("modern-pair", "ib_write_bw -s 64 -n 5").assert_ok().out
    assert "fallbacks" not in json.loads((run / "run.json").read_text())


def test_status_shows_the_reasons_of_a_fabric_that_stays(fabrics: Fabrics) -> None:
    fabrics.up("modern-pair")
    assert fabrics.command("fault", "bit-errors", "1e-18", "a/mlx5_0/1").returncode == 0
    talk(fabrics)
    (fabric,) = fabrics.status()
    assert fabric["fallbacks"]["fault_plan"] >= MESSAGES, fabric["fallbacks"]
    text = fabrics.command("status", "--verbose").stdout
    assert f"{fabric['fallbacks']['fault_plan']} to the engine: packets may meet a fault, or the port is down (fault_plan)" in text
    assert "fault_plan" not in fabrics.command("status").stdout

    assert fabrics.command("fault", "bit-errors", "0", "a/mlx5_0/1").returncode == 0
    talk(fabrics)
    (later,) = fabrics.status()
    assert later["fallbacks"]["fault_plan"] == fabric["fallbacks"]["fault_plan"], "the direct path is not open again"


def test_status_shows_the_reasons_of_each_program(fabrics: Fabrics) -> None:
    fabrics.up("modern-pair")
    assert fabrics.command("fault", "bit-errors", "1e-18", "a/mlx5_0/1").returncode == 0
    server = fabrics.on("a", "ib_write_bw", "-s", "64", "--duration", "30")
    assert until(lambda: fabrics.programs("a"))
    client = fabrics.on("b", "ib_write_bw", "-s", "64", "--duration", "30", "a")

    def of_client() -> dict[str, Any]:
        return next(iter(fabrics.programs("b")), {}).get("fallbacks", {})

    assert until(lambda: of_client().get("fault_plan", 0) > MESSAGES), of_client()
    assert fabrics.programs("a")[0]["fallbacks"].get("fault_plan", 0) < MESSAGES, "the server only answered"
    client.kill()
    server.kill()
    client.wait(WAIT_SECONDS)
    server.wait(WAIT_SECONDS)


def talk(fabrics: Fabrics) -> None:
    server = fabrics.on("a", "ib_write_bw", "-s", "64", "-n", str(MESSAGES))
    assert until(lambda: fabrics.programs("a"))
    fabrics.say("b", "ib_write_bw", "-s", "64", "-n", str(MESSAGES), "a")
    assert server.wait(WAIT_SECONDS) == 0
