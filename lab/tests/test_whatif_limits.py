"""How many messages a what-if question takes, and which limit it names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Tree
from test_whatif import what_if

from softband_lab.sweep.bottleneck import Bottleneck, find_bottleneck, longest_wait, lost_to, peers_of
from softband_lab.sweep.in_flight import (
    is_bandwidth_test,
    link_bytes_per_second,
    messages_needed,
    number_of,
    says_how_many,
)


def test_messages_follow_from_what_the_link_holds_in_flight() -> None:
    assert messages_needed(2e9, 300, 65536) == 1000
    ndr = messages_needed(50e9, 1000, 65536)
    # 50 GB/s for 20 us are a megabyte, 15.3 messages; 15,300 are a thousand times as many.
    assert ndr == 16000
    assert 50e9 * 20e-6 / (ndr * 65536) < 0.001
    # perftest keeps no more than 128 messages under way, however small they are.
    assert messages_needed(50e9, 1000, 2) == 128_000


def test_the_fastest_link_counts() -> None:
    shown = "port 1 --[ cx4, 8 m, 4X DDR, VL0-7 ]-- sw/1\nport 1 --[ aoc, 30 m, 4X NDR, VL0-3 ]-- sw/2"
    assert link_bytes_per_second(shown) == 50e9
    assert link_bytes_per_second("[ fibre, 10 m, 100GbE, MTU 1500 ]") == 12.5e9
    assert link_bytes_per_second("nothing") == 0.0


@pytest.mark.parametrize(
    ("command", "count"),
    [("ib_send_bw -s 8 -n 20", 20), ("ib_write_bw -n20", 20), ("ib_read_bw --iters=7", 7), ("ib_send_bw -D 5", None)],
)
def test_a_command_that_says_how_long_it_lasts_is_left_alone(command: str, count: int | None) -> None:
    assert says_how_many(command)
    assert number_of(command) == count


def test_only_bandwidth_tests_of_perftest_count_messages() -> None:
    assert is_bandwidth_test("ib_send_bw -s 65536")
    assert is_bandwidth_test("/opt/bin/ib_write_bw")
    assert not is_bandwidth_test("ib_send_lat -s 2")
    assert not is_bandwidth_test("softband-multirail --ports 2")
    assert not says_how_many("ib_send_bw -s 65536")


def counters(busy: float = 0.0, stall: float = 0.0, **hca: float) -> dict[str, Any]:
    """Of a transfer of a second from b: shares of it."""
    second = 10**12
    ports = [
        {"node": "a/x", "port": 1, "xmit_busy_picos": 10**9, "credit_stall_picos": [0, 0]},
        {"node": "b/x", "port": 1, "xmit_busy_picos": busy * second, "credit_stall_picos": [0, stall * second]},
    ]
    names = (
        "slot_read_picos", "slot_write_picos", "shared_bus_picos", "memory_picos", "read_wait_picos",
        "message_gap_picos",
    )  # fmt: skip
    limits = dict.fromkeys(names, 0.0) | {f"{name}_picos": share * second for name, share in hca.items()}
    return {"ports": ports, "hcas": [{"node": "b/x", **limits}]}


PEERS = {"b/x/1": "sw/2", "sw/2": "b/x/1"}


@pytest.mark.parametrize(
    ("left", "kind", "words"),
    [
        (counters(busy=0.99), "link", "the link b/x/1 to sw/2"),
        (counters(busy=0.6, stall=0.39), "credits", "credits of sw/2 on VL 1, for which b/x/1 waits"),
        (counters(busy=0.7, slot_read=0.99), "bus", "reads over the slot of b/x"),
        (counters(busy=0.5, stall=0.45, slot_read=0.98), "bus", "reads over the slot of b/x"),
        (counters(busy=0.5, read_wait=0.97), "bus", "the latency of memory at b/x"),
        (counters(busy=0.1, message_gap=0.98), "HCA", "the message rate of b/x"),
        (counters(busy=0.3, stall=0.1, slot_read=0.4), "program", "the program"),
    ],
)
def test_the_limit_that_was_at_work_all_the_time_is_named(left: dict[str, Any], kind: str, words: str) -> None:
    found = find_bottleneck(left, 1.0, PEERS)
    assert found.kind == kind
    assert found.words.startswith(words)


def test_what_is_lost_first_is_lost_to_the_credits_that_are_waited_for_longer() -> None:
    def measured(stall: float) -> tuple[Bottleneck, Bottleneck | None]:
        left = counters(busy=0.98, stall=stall)
        return find_bottleneck(left, 1.0, PEERS), longest_wait(left, 1.0, PEERS)

    assert lost_to(measured(0.0), measured(0.015), 0.012).kind == "credits"
    assert lost_to(measured(0.015), measured(0.016), 0.012).kind == "link"


def test_peers_are_the_cables_other_ends() -> None:
    assert peers_of({"cables": [{"from": "b/x/1", "to": "sw/2"}]}) == PEERS
    assert peers_of({"generate": {"hosts": 4}}) == {}


def test_a_question_counts_its_messages_and_says_so(tree: Tree) -> None:
    done = what_if(tree, "--command", "ib_send_bw -F -s 65536", "--cable-length", "1m,1000m", "--vls", "1")
    assert done.returncode == 0, done.stderr
    assert "Measured with `ib_send_bw -F -s 65536 -n 1000`" in done.stdout
    (tree.home / "fabrics/switch.toml").write_text(
        (tree.home / "fabrics/switch.toml").read_text().replace('rate = "DDR"', 'rate = "NDR"')
    )
    far = ("--cable-length", "1m,1000m", "--vls", "1")
    fast = what_if(tree, "--command", "ib_send_bw -F -s 65536", *far)
    assert "-n 16000`" in fast.stdout, fast.stdout + fast.stderr
    own = what_if(tree, "--command", "ib_send_bw -F -s 65536 -n 77", *far)
    assert "Measured with `ib_send_bw -F -s 65536 -n 77`" in own.stdout


def test_limits_stand_in_the_answer_and_on_the_page(tree: Tree) -> None:
    """The counters of a run, here of a fake one, decide the words."""
    path = Path(tree.home / "bin/softband")
    text = path.read_text().replace('json.dumps({"ports": ports})', f"json.dumps({json.dumps(FAKE)})")
    path.write_text(text)
    done = what_if(tree, "--cable-length", "1m,2m", "--vls", "1")
    assert "limited by the program: its processor, or too few messages under way" in done.stdout, done.stdout
    page = (tree.out / "report.html").read_text()
    assert "the program: its processor" in page


FAKE = {"ports": [{"node": "a/mthca0", "port": 1, "xmit_busy_picos": 1, "credit_stall_picos": [0]}], "hcas": []}
