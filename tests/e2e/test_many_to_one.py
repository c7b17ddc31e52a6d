"""Several senders to one receive queue, and datagrams, at wall pace.

The messages go with and without the engine. Some senders end or stop.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from conftest import WAIT_SECONDS, Fabrics, Softband, line_of

WALL = ("--pace", "wall")


def test_messages_to_shared_queues_and_datagrams_need_no_engine(softband: Softband, c_programs: Path) -> None:
    program = str(c_programs / "without_engine")
    stopped = softband.run("modern-pair", ("a", f"{program} stopped"), options=WALL).assert_ok()
    assert "all parts hold" in stopped.program("a-0")
    # The engine completes the same.
    for pace in ("wall", "virtual"):
        outcome = softband.run("modern-pair", ("a", program), options=("--pace", pace)).assert_ok()
        assert outcome.program("a-0") == stopped.program("a-0")


def test_datagrams_with_a_global_route_need_no_engine(softband: Softband, c_programs: Path) -> None:
    program = str(c_programs / "global_route")
    stopped = softband.run("modern-pair", ("a", program), ("b", f"{program} a stopped"), options=WALL).assert_ok()
    assert stopped.stdout.count("as it should be") == 2
    # The engine writes and completes the same.
    for pace in ("wall", "virtual"):
        outcome = softband.run("modern-pair", ("a", program), ("b", f"{program} a"), options=("--pace", pace)).assert_ok()
        for host in ("a-0", "b-0"):
            assert outcome.program(host) == stopped.program(host)


@pytest.mark.parametrize(("pace", "argument"), [("virtual", ""), ("wall", ""), ("wall", " stopped")])
def test_every_member_of_a_group_gets_its_copy(softband: Softband, c_programs: Path, pace: str, argument: str) -> None:
    outcome = softband.run("modern-pair", ("a", f"{c_programs / 'group'}{argument}"), options=("--pace", pace)).assert_ok()
    assert "every member got its copy" in outcome.program("a-0")


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_every_message_to_a_queue_of_many_comes_once_and_in_order(softband: Softband, c_programs: Path, pace: str) -> None:
    program = f"{c_programs / 'many_senders'} {20000 if pace == 'wall' else 500} 3"
    senders = [(host, f"{program} a") for host in ("a", "b", "b")]
    outcome = softband.run("modern-pair", ("a", program), *senders, options=("--pace", pace)).assert_ok()
    assert "none wrong" in outcome.program("a-0")


def test_senders_that_stand_still_or_are_killed_hurt_nobody_else(fabrics: Fabrics, c_programs: Path) -> None:
    fabrics.up("modern-pair")
    program, count, senders = str(c_programs / "many_senders"), "40000", 4
    receiver = fabrics.on("a", program, count, str(senders), "mortal")
    assert line_of(receiver) == "listens\n"
    alive = [fabrics.on(host, program, count, str(senders), "a") for host in ("a", "b", "b", "b")]
    chance = random.Random(20261121)
    killed = 0
    for _ in range(8):
        time.sleep(chance.uniform(0.05, 0.2))
        sender = chance.choice(alive)
        if sender.poll() is not None:
            continue
        sender.send_signal(signal.SIGSTOP)
        time.sleep(chance.choice([0.01, 0.1, 0.5]))
        if chance.random() < 0.3 and killed < 2:
            killed += 1
            os.kill(sender.pid, signal.SIGKILL)
            alive.remove(sender)
        else:
            sender.send_signal(signal.SIGCONT)
    out, errors = receiver.communicate(timeout=2 * WAIT_SECONDS)
    assert receiver.returncode == 0 and "none wrong" in out, out + errors
    for sender in alive:
        out, errors = sender.communicate(timeout=WAIT_SECONDS)
        assert sender.returncode == 0 and "all sent" in out, out + errors

