"""softband-multirail on both ports of an HCA: striping, binding and latencies, in both paces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import FABRICS, Outcome, Softband, table

SMALL = "-n 3 -q 16 -s 131072"
# The first process to finish sends another window or two until the others finish. With 15 windows
# that is a small part.
MORE = "-n 15 -q 16 -s 131072"
LATENCIES = ("send_lat", "write_lat", "read_lat", "cmp_swap_lat", "fetch_add_lat")


def multirail(softband: Softband, options: str, pace: str = "virtual", fabric: str | Path = "two-rails") -> Outcome:
    program = f"{softband.binary.with_name('softband-multirail')} {options}"
    return softband.pair(fabric, program, options=("--pace", pace))


def average(outcome: Outcome) -> float:
    """Returns the average of a table, in MB/s or us: its last column, except the message rate."""
    text = outcome.assert_ok().program("b-0")
    rows = table(text)
    assert len(rows) == 1, text
    return rows[0][3]


def peak(outcome: Outcome) -> float:
    return table(outcome.assert_ok().program("b-0"))[0][2]


def loads(outcome: Outcome, host: str) -> list[float]:
    """Returns the data sent by each port of a host, as a share of the fabric's busiest port."""
    assert outcome.out is not None
    ports = json.loads((outcome.out / "counters.json").read_text())["ports"]
    most = max(port["port_xmit_data"] for port in ports)
    return [port["port_xmit_data"] / most for port in ports if port["node"].startswith(f"{host}/")]


@pytest.mark.parametrize("procs", [1, 2])
@pytest.mark.parametrize("direction", ["", "-b"])
def test_striping_uses_both_ports_in_any_case(softband: Softband, procs: int, direction: str) -> None:
    outcome = multirail(softband, f"{MORE} --policy striping --procs {procs} {direction}").assert_ok()
    senders = ("a", "b") if direction else ("b",)
    for host in senders:
        assert min(loads(outcome, host)) > 0.9


def test_binding_uses_one_port_for_one_process_in_one_direction(softband: Softband) -> None:
    outcome = multirail(softband, f"{SMALL} --policy binding").assert_ok()
    first, second = loads(outcome, "b")
    assert (first, second) == (1.0, 0.0)


def test_binding_with_one_process_gives_each_direction_a_port(softband: Softband) -> None:
    outcome = multirail(softband, f"{MORE} --policy binding -b").assert_ok()
    forward, back = loads(outcome, "b"), loads(outcome, "a")
    assert min(forward[0], back[1]) > 0.9
    assert max(forward[1], back[0]) < 0.1
    assert average(outcome) == pytest.approx(average(multirail(softband, f"{SMALL} --ports 1 -b")), rel=0.01)


@pytest.mark.parametrize("direction", ["", "-b"])
def test_binding_gives_each_of_two_processes_a_port(softband: Softband, direction: str) -> None:
    outcome = multirail(softband, f"{MORE} --policy binding --procs 2 {direction}")
    assert min(loads(outcome, "b")) > 0.9
    assert average(outcome) > 1.3 * average(multirail(softband, f"{SMALL} --ports 1 {direction}"))


@pytest.mark.parametrize("options", ["-b", "--policy binding --procs 2 -b", "--policy striping --procs 3 -b"])
def test_the_peak_is_no_more_than_the_bus_carries(softband: Softband, tmp_path: Path, options: str) -> None:
    # Both directions share 64 bits at 100 MHz. The senders reach their peaks at different times.
    text = (FABRICS / "two-rails.toml").read_text(encoding="utf-8").replace("se7520jr23d", "osu-em64t-pci-x")
    fabric = tmp_path / "pci-x-100.toml"
    fabric.write_text(text.replace('"voltaire-sdr"', '"mt23108"\nslot = "pci-x-100"'), encoding="utf-8")
    outcome = multirail(softband, f"-s 65536 -n 10 {options}", fabric=fabric)
    assert 0.8 * 800 < average(outcome) <= peak(outcome) <= 800


def test_a_process_alone_on_its_port_sends_until_the_others_are_done(softband: Softband) -> None:
    # The slot's full bandwidth. Two of the three processes alone would not reach it.
    full = average(multirail(softband, f"{SMALL} --policy striping"))
    three = multirail(softband, "-n 10 -q 16 -s 131072 --policy binding --procs 3")
    assert average(three) == pytest.approx(full, rel=0.02)
    assert peak(three) == pytest.approx(full, rel=0.02)


def test_reads_and_atomics_take_a_whole_round_trip_and_longer_than_writes(softband: Softband) -> None:
    found = {test: average(multirail(softband, f"-n 20 -t {test}")) for test in LATENCIES}
    assert found["write_lat"] < found["send_lat"] < found["read_lat"] < found["cmp_swap_lat"]


@pytest.mark.parametrize("options", [*(f"-n 50 -t {test}" for test in LATENCIES), f"{SMALL} -b --procs 2", f"{SMALL} -b --policy binding"])
def test_in_wall_pace_it_runs_as_well(softband: Softband, options: str) -> None:
    assert average(multirail(softband, options, pace="wall")) > 0


@pytest.mark.parametrize("test", ["write_bw -q 4", "send_lat", "write_lat", "read_lat"])
def test_a_range_of_sizes_gives_a_row_for_each(softband: Softband, test: str) -> None:
    outcome = multirail(softband, f"-n 2 -s 2:1024 -t {test}").assert_ok()
    assert [row[0] for row in table(outcome.program("b-0"))] == [2**power for power in range(1, 11)]


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ("-t speed", 2, "-t: `speed` is not write_bw, send_lat"),
        ("--policy both", 2, "--policy: `both` is not striping or binding"),
        ("--ports 0", 2, "--ports: `0` is not a number from 1 to 8"),
        ("-m 1000", 2, "-m: `1000` is not 256, 512"),
        ("-i 1,1", 2, "-i: `1,1` is not a list of different ports"),
        ("-t read_lat -b", 2, "-b: `bidirectional` is not for a latency test"),
        ("--window", 2, "try: softband-multirail --help"),
        ("--ports 3", 1, "mthca0 has 2 active ports, and --ports asks for 3"),
        ("-i 1,3", 1, "mthca0 has no port 3: it has 2"),
        ("-d mlx5_0", 1, "there is no HCA `mlx5_0` on this host: it has mthca0"),
        ("-m 4096", 1, "port 1 has an active MTU of 2048: -m 4096 is too much"),
    ],
)
def test_what_does_not_work_is_said(softband: Softband, options: str, status: int, message: str) -> None:
    outcome = multirail(softband, options)
    assert outcome.status == status
    assert message in outcome.stdout + outcome.stderr


def test_different_options_on_the_two_sides_are_named(softband: Softband) -> None:
    program = str(softband.binary.with_name("softband-multirail"))
    outcome = softband.run("two-rails", ("a", f"{program} -q 8"), ("b", f"{program} -q 16 a"))
    assert outcome.status == 1
    assert "the server has another -q than this client (8, not 16)" in outcome.stdout + outcome.stderr
