"""`softband doctor` names limits of the machine, each with its remedy."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest
from conftest import Softband

STATUSES = {"ok", "limited", "broken"}
# Filters one system call: x86-64, `EPERM` for the number in the argument, everything else passes.
FILTER = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
denied = [int(word) for word in sys.argv[1].split(",")]
rules = [(0x20, 0, 0, 0)]
for number in denied:
    rules += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | 1)]
rules.append((0x06, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(code)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""
READV, WRITEV, MEMFD, PERSONALITY = 310, 311, 319, 135


def checks(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str]]:
    """Returns the checks by name, after a look at their form."""
    report = json.loads(done.stdout)
    found = {check["name"]: check for check in report["checks"]}
    for check in found.values():
        assert check["status"] in STATUSES and check["value"], check
        assert (check["status"] == "ok") == (check["consequence"] == "") == (check["remedy"] == ""), check
    for status in STATUSES:
        assert report[status] == sum(check["status"] == status for check in found.values())
    assert done.returncode == (1 if report["broken"] else 0)
    return found


def limited(softband: Softband, script: str) -> dict[str, dict[str, str]]:
    return checks(softband.command("doctor", "--json", wrapper=("bash", "-c", f'{script}; exec "$@"', "bash")))


def filtered(softband: Softband, *calls: int) -> dict[str, dict[str, str]]:
    numbers = ",".join(map(str, calls))
    return checks(softband.command("doctor", "--json", wrapper=(sys.executable, "-c", FILTER, numbers)))


def test_a_machine_that_runs_these_tests_has_nothing_broken(softband: Softband) -> None:
    found = checks(softband.command("doctor", "--json"))
    assert {"kernel", "memory access", "locked memory", "open files", "processors", "simulated run", "wall-pace run"} <= set(found)
    assert not [check for check in found.values() if check["status"] == "broken"]
    assert "the names of two hosts" in found["simulated run"]["value"]


def test_the_text_has_a_line_for_each_check_and_a_sum(softband: Softband) -> None:
    done = softband.command("doctor")
    *lines, last = done.stdout.splitlines()
    assert re.fullmatch(r"\d+ ok, \d+ limited, 0 broken", last) and done.stderr == ""
    assert all(re.match(r"(ok|limited|broken) +\S|         (effect|remedy): \S", line) for line in lines)


def test_few_open_files_are_named_with_the_command_that_raises_them(softband: Softband) -> None:
    files = limited(softband, "ulimit -Sn 100")["open files"]
    assert (files["status"], files["value"]) == ("limited", "100") and files["remedy"].startswith(("ulimit -Sn ", "sudo prlimit"))


@pytest.mark.parametrize(("limit", "name"), [("ulimit -f 1000", "file size"), ("ulimit -v 1000000", "address space")])
def test_limits_that_stop_every_run_are_broken(softband: Softband, limit: str, name: str) -> None:
    found = limited(softband, limit)
    assert {found[check]["status"] for check in (name, "simulated run", "wall-pace run")} == {"broken"}
    assert found[name]["remedy"].startswith(("ulimit -S", "sudo prlimit"))


def test_no_locked_memory_is_no_limit(softband: Softband) -> None:
    found = limited(softband, "ulimit -l 0")
    assert found["locked memory"]["value"].startswith("0 KiB") and found["locked memory"]["status"] == "ok"
    # The proof: a megabyte is registered and sent.
    done = softband.run("two-hosts", ("a", "ib_send_bw -s 1048576 -n 5"), ("b", "ib_send_bw -s 1048576 -n 5 a"),
                        wrapper=("bash", "-c", 'ulimit -l 0; exec "$@"', "bash"))
    done.assert_ok()


def test_a_sandbox_without_memory_access_is_broken_and_runs_say_the_same(softband: Softband) -> None:
    found = filtered(softband, READV, WRITEV)
    assert found["memory access"]["status"] == "broken" and "SYS_PTRACE" in found["memory access"]["remedy"]
    assert found["simulated run"]["status"] == "ok"  # `uname` sends nothing
    sent = softband.run("two-hosts", ("a", "ib_send_bw -n 5"), ("b", "ib_send_bw -n 5 a"), wrapper=(sys.executable, "-c", FILTER, f"{READV},{WRITEV}"))
    assert sent.status != 0 and "process_vm_readv" in sent.stderr


def test_a_sandbox_without_sealed_memory_is_broken(softband: Softband) -> None:
    found = filtered(softband, MEMFD)
    assert found["shared memory"]["status"] == "broken" and found["simulated run"]["status"] == "broken"


def test_a_sandbox_without_personality_is_limited(softband: Softband) -> None:
    found = filtered(softband, PERSONALITY)
    assert found["fixed addresses"]["status"] == "limited" and found["simulated run"]["status"] == "ok"


def test_one_processor_is_limited(softband: Softband) -> None:
    found = checks(softband.command("doctor", "--json", wrapper=("taskset", "-c", "0")))
    assert (found["processors"]["status"], found["processors"]["value"][0]) == ("limited", "1")


def test_a_network_without_loopback_concerns_wall_pace_only(softband: Softband) -> None:
    apart = ("unshare", "-Urn")
    if subprocess.run([*apart, "true"], capture_output=True, timeout=60, check=False).returncode:
        pytest.skip("no namespaces here")
    found = checks(softband.command("doctor", "--json", wrapper=apart))
    assert found["loopback"]["status"] == "limited" and found["simulated run"]["status"] == "ok"


def test_folders_that_cannot_be_written_are_named(softband: Softband, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/no/such/folder")
    found = checks(softband.command("doctor", "--json"))
    assert found["temporary folder"]["status"] == "broken" and "TMPDIR" in found["temporary folder"]["remedy"]


def test_missing_programs_are_hints(softband: Softband, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = softband.folder / "bin"
    folder.mkdir()
    (folder / "uname").symlink_to(shutil.which("uname") or "")
    monkeypatch.setenv("PATH", str(folder))
    found = checks(softband.command("doctor", "--json"))
    assert found["perftest"]["status"] == "limited" and found["perftest"]["remedy"] == "sudo apt install perftest"
    assert found["Python"]["status"] == "limited" and found["simulated run"]["status"] == "ok"
