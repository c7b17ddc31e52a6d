"""Bad input, and programs that crash, hang or lie: clear errors and no leftovers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import FABRICS, Softband

GOOD = (FABRICS / "cables" / "ddr-switch-cx4-10m.toml").read_text()


MARK = f"SOFTBAND_TEST_MARK={os.getpid()}"


@pytest.fixture(autouse=True)
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks all processes of these tests, so that they differ from other users' processes."""
    monkeypatch.setenv(*MARK.split("="))


def leftovers() -> list[str]:
    """Returns the programs of these tests that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environment = (entry / "environ").read_bytes()
                if b"SOFTBAND_ENGINE=" in environment and MARK.encode() in environment:
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found


def await_both_programs() -> None:
    deadline = time.monotonic() + 60
    while len(leftovers()) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(leftovers()) >= 2


def assert_nothing_left() -> None:
    deadline = time.monotonic() + 30
    while leftovers() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not leftovers()


def check(softband: Softband, text: str) -> str:
    file = softband.folder / "fabric.toml"
    file.write_text(text)
    done = softband.command("fabric", "check", str(file))
    assert done.returncode not in (0, 101), done.stdout
    assert "fabric.toml" in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ('part = "cx4"', 'part = "cx5"', ["cx5", "cx4"]),
        ('"sw/2"', '"sw/25"', ["25", "24"]),
        ('"sw/2"', '"sw/1"', ["sw/1"]),
        ('"b/mthca0/1"', '"b/mthca7/1"', ["mthca7", "mthca0"]),
        ('"b/mthca0/1"', '"z/mthca0/1"', ["z"]),
        ("[hosts.a]", "[hosts.a", []),
    ],
)
def test_a_faulty_fabric_file_is_named_with_line_and_remedy(softband: Softband, old: str, new: str, wanted: list[str]) -> None:
    assert old in GOOD
    message = check(softband, GOOD.replace(old, new, 1))
    line = next(number for number, text in enumerate(GOOD.replace(old, new, 1).splitlines(), 1) if new.split("\n")[0] in text)
    assert f":{line}" in message or f"line {line}" in message, message
    for word in wanted:
        assert word in message, message


def test_copper_too_long_for_its_rate_is_refused_with_the_source_and_runs_when_allowed(softband: Softband) -> None:
    text = (FABRICS / "cables" / "ddr-cx4.toml").read_text().replace('part = "cx4"', 'part = "copper-4x"\nlength = "12 m"', 1)
    message = check(softband, text)
    assert "10 m" in message and "table 1" in message.lower()
    file = softband.folder / "fabric.toml"
    done = softband.run(file, ("a", "ibv_devices"), options=("--allow-out-of-spec",))
    assert done.status == 0 and "10 m" in done.stderr


def test_a_program_that_is_not_there_is_named_before_anything_starts(softband: Softband) -> None:
    done = softband.run("two-hosts", ("a", "ib_send_bw"), ("b", "no_such_program a"))
    assert done.status == 2
    assert "no_such_program" in done.stderr and "--on b" in done.stderr
    assert_nothing_left()


def test_a_host_that_is_not_there_is_named_with_those_that_are(softband: Softband) -> None:
    done = softband.run("two-hosts", ("x", "ibv_devices"))
    assert done.status == 2 and "--on x" in done.stderr and "a, b" in done.stderr


def test_the_worst_exit_status_is_the_run_s(softband: Softband) -> None:
    assert softband.run("two-hosts", ("a", "true"), ("b", "sh -c 'exit 7'")).status == 7


def test_a_server_that_never_listens_refuses_its_client_and_is_named(softband: Softband) -> None:
    done = softband.run("two-hosts", ("a", "sleep 1000"), ("b", "ib_send_bw a"))
    assert done.status != 0
    assert "nothing listens" in done.stderr and "sleep 1000" in done.stderr
    done = softband.run("two-hosts", ("b", "ib_send_bw a"))
    assert done.status != 0 and "nothing listens" in done.stderr
    assert_nothing_left()


def test_a_client_that_never_comes_ends_the_run_and_says_who_waits(softband: Softband) -> None:
    done = softband.run("two-hosts", ("a", "ib_send_bw"))
    assert done.status != 0
    assert "ib_send_bw" in done.stderr and "waits" in done.stderr and "help: each program is a server" in done.stderr
    assert_nothing_left()


def test_a_shell_that_waits_for_a_program_without_end_does_not_keep_the_run_going(softband: Softband) -> None:
    outcome = softband.run("two-hosts", ("a", "sh -c 'ib_send_bw; echo done'"))
    assert outcome.status != 0
    assert "the run stands still" in outcome.stderr
    assert "waits for a child" in outcome.stderr
    # The run waits for a child that makes progress, however long it sleeps.
    assert softband.run("two-hosts", ("a", "sh -c 'sleep 300; true'")).assert_ok()
    outcome = softband.run("two-hosts", ("a", "sh -c 'ib_send_bw & wait; echo done'"))
    assert outcome.status != 0
    assert "the run stands still" in outcome.stderr
    assert softband.run("two-hosts", ("a", "sh -c 'sleep 300 & wait'")).assert_ok()


def test_a_time_limit_of_coreutils_ends_what_takes_longer_and_nothing_else(softband: Softband) -> None:
    command = "timeout 60 ib_write_bw -n 100{}; echo $?; timeout 2 sleep 5; echo $?; timeout 40 ib_send_lat; echo $?; date +%T"
    outcome = softband.run("two-hosts", ("a", command.format("")), ("b", command.format(" a")), options=("--quiet",)).assert_ok()
    assert outcome.stderr == ""
    for program in ("a-0", "b-0"):
        *_, first, second, third, clock = (line for line in outcome.program(program).splitlines() if re.fullmatch(r"\d+|[\d:]+", line))
        assert (first, second, third, clock) == ("0", "124", "124", "00:00:43")


def test_a_peer_that_crashes_costs_an_error_completion_in_virtual_time(softband: Softband, c_programs: Path) -> None:
    program = c_programs / "crash_peer"
    done = softband.run("two-hosts", ("a", f"{program}"), ("b", f"{program} a"))
    assert "retry exceeded" in done.program("b-0"), done.program("b-0") + done.stderr
    assert "killed or crashed" in done.stderr
    assert_nothing_left()


@pytest.mark.parametrize("victim", ["server", "client", "engine"])
def test_kill_9_of_any_one_process_leaves_nothing_and_hangs_nobody(softband: Softband, victim: str) -> None:
    command = [str(softband.binary), "run", str(FABRICS / "two-hosts.toml")]
    # The programs run far longer than the test. A server whose client died polls until its own end,
    # once a simulated millisecond.
    command += ["--on", "a", "ib_send_bw -s 65536 -D 400", "--on", "b", "ib_send_bw -s 65536 -D 400 a"]
    run = subprocess.Popen(command, cwd=softband.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    await_both_programs()
    time.sleep(1.0)
    target = run.pid
    if victim != "engine":
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        target = int(children[0 if victim == "server" else 1])
    os.kill(target, signal.SIGKILL)
    _, errors = run.communicate(timeout=60)
    assert run.returncode != 0
    if victim != "engine":
        assert "killed or crashed" in errors
    assert_nothing_left()


def test_ctrl_c_ends_everything(softband: Softband) -> None:
    command = [str(softband.binary), "run", str(FABRICS / "two-hosts.toml")]
    command += ["--on", "a", "ib_send_bw -s 65536 -D 400", "--on", "b", "ib_send_bw -s 65536 -D 400 a"]
    run = subprocess.Popen(command, cwd=softband.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    await_both_programs()
    time.sleep(1.0)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "interrupted" in errors
    assert_nothing_left()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="nothing here is always full")
@pytest.mark.parametrize(
    "words",
    [
        ("parts", "list"),
        ("parts", "show", "qdr-host"),
        ("fabric", "check", str(FABRICS / "two-hosts.toml")),
        ("fabric", "show", str(FABRICS / "two-hosts.toml")),
        ("fabric", "generate", "star", "--hosts", "3"),
        ("model", str(FABRICS / "two-hosts.toml"), "stream", "--messages", "1"),
        ("status",),
    ],
)
def test_an_answer_that_nobody_can_get_is_an_error(softband: Softband, words: tuple[str, ...]) -> None:
    done = softband.command(*words, wrapper=("sh", "-c", 'exec "$@" > /dev/full', "sh"))
    assert done.returncode == 2
    assert done.stderr.endswith("softband: error: cannot write to standard output: No space left on device (os error 28)\n")


def test_what_is_said_to_help_against_credit_loops_does(softband: Softband) -> None:
    def checked(dimensions: str, subnet: str) -> str:
        file = softband.folder / "torus.toml"
        torus = (FABRICS / "torus-4x4.toml").read_text().replace("[4, 4]", dimensions)
        file.write_text(f"{torus}\n[subnet]\n{subnet}\n")
        done = softband.command("fabric", "check", "torus.toml")
        assert done.returncode == 0
        return done.stderr

    nothing_else = '`routing = "up-down"` has no loops anywhere\n'
    said = checked("[5, 5]", 'routing = "dor"')
    why = "`dimension-order` leaves packets on one lane, where rings of switches close loops"
    assert f'  help: {why}; `routing = "torus"` changes lanes and has none here; {nothing_else}' in said
    assert checked("[5, 5]", 'routing = "torus"') == ""
    said = checked("[5, 5]", "max_op_vls = 1")
    assert f"  help: `torus` has too few virtual lanes to change between; `max_op_vls = 2` is enough; {nothing_else}" in said
    assert checked("[5, 5]", "max_op_vls = 2") == ""


def test_a_generated_fabric_that_is_too_large_is_refused_by_its_option(softband: Softband) -> None:
    done = softband.command("fabric", "generate", "torus", "--dimensions", "1000000,1000000")
    assert done.returncode != 0
    assert "softband: error: --dimensions: 1000000000000 hosts and their switches do not fit in a subnet\n" in done.stderr
    done = softband.command("fabric", "generate", "torus")
    assert done.returncode != 0 and "softband: error: --dimensions: this kind needs it\n" in done.stderr
    assert "generated:" not in done.stderr
