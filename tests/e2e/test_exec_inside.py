"""`softband exec` and `softband rsh` inside a run: a program of the fabric starts programs on other hosts."""

from __future__ import annotations

import pytest
from conftest import Fabrics, Softband

PACES = pytest.mark.parametrize("pace", ["virtual", "wall"])


@PACES
def test_the_program_runs_there_and_its_output_and_status_come_back(softband: Softband, pace: str) -> None:
    command = (
        f"echo in | {softband.binary} exec b -- sh -c 'hostname; cat; ibv_devices; echo error >&2; exit 3'; echo status $?;"
        f" {softband.binary} exec b -- {softband.binary} exec a -- hostname"
    )
    outcome = softband.run("two-hosts", ("a", command), options=("--pace", pace)).assert_ok()
    lines = outcome.program("a-0").splitlines()
    assert lines[:2] == ["b", "in"] and lines[-2:] == ["status 3", "a"]
    assert "0002c90200000008" in lines[4]
    assert outcome.out is not None and (outcome.out / "a-0.err").read_text() == "error\n"


def test_the_outcome_is_the_same_each_time(softband: Softband) -> None:
    command = f"for n in 1 2 3; do {softband.binary} exec b -- sh -c 'sleep 0.5; hostname; date +%s.%N; echo $$' & done; wait; date +%s.%N"
    texts = {softband.run("two-hosts", ("a", command)).assert_ok().program("a-0") for _ in range(3)}
    assert len(texts) == 1
    text = texts.pop()
    assert text.count("b\n") == 3 and ".50" in text


@PACES
def test_a_program_there_has_no_descriptors_but_the_standard_ones(softband: Softband, pace: str) -> None:
    command = f"exec 7</etc/hostname; {softband.binary} exec b -- sh -c 'true <&7'"
    outcome = softband.run("two-hosts", ("a", command), options=("--pace", pace))
    assert outcome.status != 0 and "7" in (outcome.stderr + outcome.stdout)


@PACES
def test_programs_on_both_hosts_use_verbs(softband: Softband, pace: str) -> None:
    command = f"{softband.binary} exec b -- ib_send_lat -n 100 & sleep 0.3; ib_send_lat -n 100 b && wait"
    outcome = softband.run("two-hosts", ("a", command), options=("--pace", pace)).assert_ok()
    assert outcome.program("a-0").count("t_typical[usec]") == 2


@PACES
def test_rsh_joins_the_words_as_ssh_does(softband: Softband, pace: str) -> None:
    rsh = softband.binary.parent / "softband-rsh"
    command = f"{rsh} -x -o BatchMode=yes root@b echo '$(hostname)' \"'two  words'\""
    outcome = softband.run("two-hosts", ("a", command), options=("--pace", pace)).assert_ok()
    assert outcome.program("a-0") == "b two  words\n"


@PACES
def test_bad_input_gets_one_error(softband: Softband, pace: str) -> None:
    binary = softband.binary
    command = f"{binary} exec c -- hostname; echo $?; {binary} exec b -- /nowhere/program; echo $?; {binary} rsh b; echo $?"
    outcome = softband.run("two-hosts", ("a", command), options=("--pace", pace)).assert_ok()
    assert outcome.program("a-0").split() == ["2", "127", "2"]
    assert outcome.out is not None
    errors = (outcome.out / "a-0.err").read_text()
    assert "no host `c`" in errors and "/nowhere/program" in errors and "a command is missing" in errors


def test_a_fabric_that_is_up_moves_programs_too(fabrics: Fabrics) -> None:
    fabrics.up()
    fabrics.up("--name", "other")
    binary = str(fabrics.binary)
    assert fabrics.say("a", binary, "exec", "b", "--", "hostname") == "b"
    assert fabrics.say("a", binary, "exec", "b", "--name", "other", "--", "sh", "-c", "hostname; echo $SOFTBAND_FABRIC") == "b\nother"


def test_a_run_inside_a_fabric_has_its_own_hosts(fabrics: Fabrics) -> None:
    fabrics.up()
    words = ["run", "three-hosts", "--pace", "wall", "--on", "c", f"hostname; {fabrics.binary} exec a -- hostname"]
    assert [line.split()[-1] for line in fabrics.say("a", str(fabrics.binary), *words).splitlines()] == ["c", "a"]


def test_a_read_of_nothing_takes_no_time(softband: Softband) -> None:
    program = "import os, time; start = time.time(); os.read(0, 0); print(time.time() - start < 0.001)"
    outcome = softband.run("two-hosts", ("a", f"sleep 1 | python3 -c '{program}'")).assert_ok()
    assert outcome.program("a-0") == "True\n"
