"""Programs see the same with trains and packet by packet, and so do the counters."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Outcome, Softband

Programs = tuple[tuple[str, str], ...]
PLAIN = ("--packet-by-packet",)


def pair(command: str) -> Programs:
    return (("a", command), ("b", f"{command} a"))


COMBINATIONS: list[tuple[str, Programs]] = [
    ("qdr-through-switch", pair("ib_send_bw -s 65536 -n 300")),
    ("qdr-through-switch", pair("ib_write_bw -b -s 200000 -n 60")),
    ("modern-pair", pair("ib_read_bw -s 65536 -n 200")),
    ("modern-pair", pair("ib_send_bw -c UC -s 100000 -n 60")),
    ("ddr-through-switch", pair("ib_send_bw -s 65536 -n 200 -q 3")),
    ("fat-tree-16", (("h0", "ib_write_bw -s 65536 -n 200"), ("h15", "ib_write_bw -s 65536 -n 200 h0"))),
    (
        "three-hosts",
        (
            ("a", "ib_send_bw -s 100000 -n 60 -p 18600"),
            ("b", "ib_write_bw -s 100000 -n 60 -p 18601"),
            ("c", "ib_send_bw -s 100000 -n 60 -p 18600 a"),
            ("c", "ib_write_bw -s 100000 -n 60 -p 18601 b"),
        ),
    ),
]


def seen(outcome: Outcome) -> tuple[str, dict[str, bytes]]:
    outcome.assert_ok()
    assert outcome.out is not None
    left = sorted(outcome.out.glob("*.out")) + [outcome.out / "counters.json"]
    return outcome.stdout, {file.name: file.read_bytes() for file in left}


@pytest.mark.parametrize(("fabric", "programs"), COMBINATIONS, ids=[f"{f}-{p[0][1]}" for f, p in COMBINATIONS])
def test_programs_and_counters_see_no_trains(softband: Softband, fabric: str, programs: Programs) -> None:
    assert seen(softband.run(fabric, *programs)) == seen(softband.run(fabric, *programs, options=PLAIN))


def model(softband: Softband, out: Path, *words: str) -> tuple[int, dict[str, bytes]]:
    done = softband.command("model", "fat-tree-16", *words, "--out", str(out))
    assert done.returncode == 0, done.stderr
    events = next(line for line in done.stdout.splitlines() if line.strip().startswith("events"))
    return int(events.split()[1]), {name: (out / name).read_bytes() for name in ("flows.csv", "ports.csv", "hot.svg")}


@pytest.mark.parametrize("workload", ["shift", "permutation", "uniform-random", "stream"])
def test_workloads_have_the_same_results_and_fewer_events(softband: Softband, tmp_path: Path, workload: str) -> None:
    words = (workload, "--bytes", "1MiB", "--messages", "2")
    events, results = model(softband, tmp_path / "trains", *words)
    events_plain, results_plain = model(softband, tmp_path / "plain", *words, *PLAIN)
    assert results == results_plain
    assert events <= events_plain
    if workload == "shift":
        assert events < 0.7 * events_plain, "no two flows of a shift meet"
