"""Runs the program on two hosts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_softband import Fabric

# Debian's python3 has pyverbs. The Python of a virtual environment has not.
PYTHON = "/usr/bin/python3"
WORDS = [PYTHON, str(Path(__file__).with_name("words.py"))]
MANY = [str(number) for number in range(500)]
BROKEN = '[[faults]]\nkind = "link_down"\nlink = "b/mlx5_0/1"\nat = "700 us"\n'
PACES = [pytest.param(pace, marks=pytest.mark.softband(pace=pace)) for pace in ("virtual", "wall")]


@pytest.mark.parametrize("_pace", PACES)
def test_words_come_back_in_capitals(softband: Fabric, _pace: str) -> None:
    run = softband.run({"a": [*WORDS, "serve", "2"], "b": [*WORDS, "ask", "a", "one", "two"]})
    assert run.output("b") == "ONE\nTWO\n"


@pytest.mark.softband(faults="lost.toml")
def test_a_lost_word_is_sent_again(softband: Fabric) -> None:
    run = softband.run({"a": [*WORDS, "serve", "9"], "b": [*WORDS, "ask", "a", *MANY[:9]]})
    assert run.output("b").split() == MANY[:9]
    assert [found["kind"] for found in run.report["bottlenecks"]] == ["retransmission"]


@pytest.mark.softband(faults=BROKEN)
def test_a_broken_link_is_reported(softband: Fabric) -> None:
    run = softband.run({"a": [*WORDS, "serve", "500"], "b": [*WORDS, "ask", "a", *MANY]}, check=False)
    # The sender of the lost message reports it: the client or the server.
    assert "words: send: retry exceeded" in run.errors("a") + run.errors("b")


def test_a_fabric_that_stays_takes_a_fault(softband: Fabric) -> None:
    softband.up()
    softband.fault("link-down", "b/mlx5_0/1")
    devices = softband.spawn("b", ["ibv_devinfo"])
    assert devices.wait() == 0
    assert "PORT_DOWN" in devices.output()
