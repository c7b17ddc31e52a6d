"""The bottlenecks that a run names at its end, read from standard error and run.json."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome, Softband

BANDWIDTH = "ib_send_bw -s 65536 -n 400"
LINE = re.compile(r"softband: (.*?)(\d+) % of the transfer time(.*)")


def lines(outcome: Outcome) -> list[tuple[str, int, str]]:
    """Returns each bottleneck line: the text before its share, the share, the text after it."""
    found = [LINE.fullmatch(line) for line in outcome.assert_ok().stderr.splitlines() if line.startswith("softband: ")]
    assert all(found), outcome.stderr
    return [(match[1].strip(), int(match[2]), match[3].strip()) for match in found if match]


def share(outcome: Outcome, before: str, after: str = "") -> int:
    """Returns the share of the only line with these words, or 0 if no line has them."""
    shares = [share for first, share, last in lines(outcome) if (first, last) == (before, after)]
    assert len(shares) <= 1, outcome.stderr
    return shares[0] if shares else 0


def bottlenecks(outcome: Outcome) -> list[dict[str, Any]]:
    found = outcome.report()["bottlenecks"]
    assert isinstance(found, list)
    return found


def test_a_long_cable_waits_for_credits_until_one_lane_has_the_whole_buffer(softband: Softband) -> None:
    long = softband.pair("cables/ddr-switch-cx4-100m", BANDWIDTH)
    wait = ("b/mthca0/1 waited", "for credits of sw/2 on VL 0")
    assert 45 <= share(long, *wait) <= 55
    one_lane = softband.pair("cables/ddr-switch-cx4-100m-vl1", BANDWIDTH)
    assert share(one_lane, *wait) == 0
    assert share(one_lane, "reads over the slot of b/mthca0 were under way for") >= 95


def test_two_senders_wait_for_the_switch_whose_receiver_is_full(softband: Softband) -> None:
    program = "ib_write_bw -s 65536 -n 600 -p {}"
    on = [("c", program.format(18601)), ("c", program.format(18602)), ("a", program.format("18601 c")), ("b", program.format("18602 c"))]
    outcome = softband.run("three-hosts", *on)
    assert share(outcome, "writes over the slot of c/mthca0 were under way for") >= 95
    both = [share(outcome, f"{host}/mthca0/1 waited", f"for credits of sw/{port} on VL 0") for host, port in (("a", 1), ("b", 2))]
    assert min(both) > 50 and max(both) - min(both) <= 2, outcome.stderr
    # Waits and full parts come first, then busy parts with spare time. Both groups start with the
    # largest share.
    found = [(share < 95 and "waited" not in text, -share) for text, share, _ in lines(outcome)]
    assert found == sorted(found) and len(found) == 5


def test_a_slow_link_is_busy_all_the_time(softband: Softband) -> None:
    outcome = softband.pair("cables/sdr-cx4", BANDWIDTH)
    assert lines(outcome)[0] == ("the link b/mthca0/1 to a/mthca0/1 was busy for", 100, "")
    first = bottlenecks(outcome)[0]
    assert (first["part"], first["kind"], first["share"]) == ("b/mthca0/1", "link", 100)


def test_a_pci_x_bus_and_a_full_slot_are_named(softband: Softband) -> None:
    bus = softband.pair("pcie/pci-x", "ib_write_bw -s 65536 -n 400")
    assert share(bus, "the bus of b/mthca0 was busy for") >= 80
    # If the slot itself is full, reads wait for the slot and not for the memory's latency.
    slot = softband.pair("cables/ddr-cx4", BANDWIDTH)
    assert lines(slot)[0] == ("reads over the slot of b/mthca0 were under way for", 100, "")
    assert "latency" not in slot.stderr
    memory = softband.pair("cables/woodcrest-dual-cx4", BANDWIDTH)
    assert share(memory, "all read requests of b/mthca0 waited for the latency of memory for") >= 95


def test_small_messages_show_the_message_rate_and_the_processor(softband: Softband) -> None:
    hca = softband.pair("two-hosts", "ib_send_bw -s 2 -n 3000")
    assert share(hca, "the message rate of b/mthca0 was at its limit for") >= 95
    processor = softband.pair("modern-pair", "ib_write_bw -s 8 -n 3000")
    thread = "b: 'ib_write_bw -s 8 -n 3000 a' (process 1001, thread 0)"
    assert share(processor, f"the processor of {thread} was busy with its calls for") >= 90
    (only,) = bottlenecks(processor)
    assert (only["part"], only["kind"]) == (thread, "program")


def test_a_late_receiver_and_a_noisy_cable_are_named_by_queue_pair(softband: Softband, c_programs: Path) -> None:
    late = softband.pair("two-hosts", str(c_programs / "late_receiver"))
    ((before, percent, after),) = lines(late)
    assert before == "queue pair 0x404 of b/mthca0 waited" and percent >= 95
    # The program posts the receive request after 20 ms. Each RNR NAK asks for a wait of 0.64 ms.
    naks = re.fullmatch(r"for receive requests of its peer \((\d+) RNR NAKs\)", after)
    assert naks and 28 <= int(naks[1]) <= 33
    noisy = softband.pair("faults/noisy-cable", "ib_write_bw -s 65536 -n 4000").assert_ok()
    (found,) = (found for found in bottlenecks(noisy) if found["kind"] == "retransmission")
    assert re.match(r"queue pair 0x404 of b/mlx5_0 sent again \d\d+ times ", found["text"]), found
    assert f"softband: {found['text']}\n" in noisy.stderr


@pytest.mark.parametrize("command", ["ibv_devinfo", "sleep 5"])
def test_a_run_that_sends_nothing_says_nothing(softband: Softband, command: str) -> None:
    outcome = softband.run("two-hosts", ("a", command)).assert_ok()
    assert (outcome.stderr, bottlenecks(outcome)) == ("", [])


def test_a_ping_pong_has_no_bottleneck_and_pauses_do_not_count(softband: Softband) -> None:
    outcome = softband.pair("two-hosts", "ib_send_lat -n 100").assert_ok()
    assert (outcome.stderr, bottlenecks(outcome)) == ("", [])
    # Connection and sleep take most of this run. The share still refers to the transfer.
    slept = softband.run("cables/sdr-cx4", ("a", BANDWIDTH), ("b", f"sh -c 'sleep 3; {BANDWIDTH} a'"))
    assert lines(slept)[0] == ("the link b/mthca0/1 to a/mthca0/1 was busy for", 100, "")


def test_every_run_of_a_seed_says_the_same(softband: Softband) -> None:
    words = ("faults/noisy-cable", "ib_write_bw -s 65536 -n 1000")
    one, two = (softband.pair(*words, options=("--seed", "5", "--counters", "--processors", count)).assert_ok() for count in "12")
    assert one.stderr == two.stderr and bottlenecks(one) == bottlenecks(two) != []
    assert all(found.keys() == {"part", "kind", "share", "text"} for found in bottlenecks(one))


def test_quiet_leaves_the_lines_out_and_run_json_as_it_is(softband: Softband, monkeypatch: pytest.MonkeyPatch) -> None:
    loud = softband.pair("cables/sdr-cx4", BANDWIDTH).assert_ok()
    quiet = softband.pair("cables/sdr-cx4", BANDWIDTH, options=("--quiet",)).assert_ok()
    assert quiet.stderr == "" and bottlenecks(quiet) == bottlenecks(loud) != []
    assert [f"softband: {found['text']}" for found in bottlenecks(loud)] == loud.stderr.splitlines()
    monkeypatch.setenv("SOFTBAND_QUIET", "1")
    assert softband.pair("cables/sdr-cx4", BANDWIDTH).assert_ok().stderr == ""
    monkeypatch.setenv("SOFTBAND_QUIET", "0")
    assert softband.pair("cables/sdr-cx4", BANDWIDTH).assert_ok().stderr == loud.stderr


def test_counters_are_a_table_of_all_that_the_run_counted(softband: Softband) -> None:
    outcome = softband.pair("cables/ddr-switch-cx4-100m", BANDWIDTH, options=("--counters", "--quiet")).assert_ok()
    head, ports, *rest = outcome.stderr.splitlines()
    assert re.fullmatch(r"softband: counters of the run; transfers were under way for \d+\.\d{3} ms", head)
    assert re.match(r"  ports \(data in words of 4 bytes\)  +credit_stall_vl0  ", ports)
    row = next(line for line in rest if line.startswith("  b/mthca0/1 to sw/2 "))
    assert re.search(r" \d+\.\d{3} ms \(\d+ %\)", row)
    assert any(line.startswith("    0 everywhere: ") and "port_xmit_discards" in line for line in rest)
    for node in ("HCAs", "a/mthca0", "b/mthca0", "threads, while something was sent", "b: "):
        assert any(line.startswith(f"  {node}") for line in rest), node
    # The file has the same counters, in picoseconds.
    assert outcome.out is not None
    assert '"credit_stall_picos"' in (outcome.out / "counters.json").read_text()


def of_model(softband: Softband, *words: str) -> list[str]:
    """Returns the bottlenecks in the report of a workload."""
    done = softband.command("model", *words, "--out", "out")
    assert done.returncode == 0, done.stderr
    _, _, rest = done.stdout.partition("  bottlenecks")
    return [line.strip() for line in rest.partition("\n  results ")[0].splitlines() if line.strip()]


def test_a_workload_has_the_same_lines_for_its_run_on_any_number_of_threads(softband: Softband) -> None:
    incast = [of_model(softband, "three-hosts", "incast", "--bytes", "1MiB", "--root", "c", "--threads", threads) for threads in "12"]
    assert incast[0] == incast[1]
    assert re.fullmatch(r"writes over the slot of c/mthca0 were under way for (9\d|100) % of the run", incast[0][0]), incast
    for host, port in (("a", 1), ("b", 2)):
        wait = rf"{host}/mthca0/1 waited \d\d % of the run for credits of sw/{port} on VL 0"
        assert sum(bool(re.fullmatch(wait, line)) for line in incast[0]) == 1, incast
    assert of_model(softband, "two-hosts", "ring-allreduce", "--bytes", "8") == ["no part was at its limit"]


def test_wall_pace_has_no_modelled_counters_and_says_nothing(softband: Softband) -> None:
    wall = softband.pair("cables/sdr-cx4", "ib_write_bw -s 65536 -n 200", options=("--pace", "wall")).assert_ok()
    assert "of the transfer time" not in wall.stderr and bottlenecks(wall) == []
    refused = softband.run("two-hosts", ("a", "true"), options=("--pace", "wall", "--counters"))
    assert refused.status == 2 and "--counters has no effect with --pace wall" in refused.stderr
