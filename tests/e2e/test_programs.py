"""A few entries of conformance/programs, and the completeness of its tables.

tests/full runs all entries.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import programs

# Quick cases that differ most from the other tests.
FEW = (
    r"ib_\w+ -n 100 -c XRC$|ib_send_bw -n 128 --recv_post_list=8 -l 8 -q 4 -b$|ib_send_lat -n 100 --use-srq$|ib_write_bw -n 128 -l 8 -q 4 -b$"
    r"|ib_send_bw .*--dlid|ib_read_lat -n 100 -o 1$|ib_send_bw -n 100 (-R|-c DC|-i 2)$|raw_ethernet_bw|ibv_xsrq_pingpong -c 2|ibv_rc_pingpong -n 100 -[oOtN]$"
)


@programs.each(FEW)
def test_a_command_ends_as_its_entry_says(entry: programs.Entry, pace: str) -> None:
    programs.check(entry, pace)


def words_of(table: str) -> dict[str, set[str]]:
    """Returns the words that the entries of a table pass to each program."""
    found: dict[str, set[str]] = {}
    for entry in programs.entries(table):
        for _, command in entry.on:
            words = re.split(r"[\s=']+", command)
            for program in words:
                found.setdefault(program, set()).update(words)
    return found


@pytest.mark.parametrize("package", programs.tables())
def test_no_program_of_a_package_is_left_out(package: str) -> None:
    listed = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=True).stdout
    there = {Path(line).name for line in listed.splitlines() if "/bin/" in line}
    assert there
    assert there <= words_of(package).keys()


@pytest.mark.parametrize("package", programs.tables())
def test_no_flag_is_left_out(package: str) -> None:
    """Each flag has an entry for its program. For a flag of all programs, any program will do."""
    words = words_of(package)
    everywhere = set().union(*words.values())
    missing = {}
    for program in words:
        if not re.match(r"ib_|ibv_", program):
            continue
        done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=30, check=False)
        for line in (done.stdout + done.stderr).splitlines():
            flags = re.match(r"\s+(-\w)?,?\s*(--[\w-]+)?", line)
            given = {flag for flag in flags.groups() if flag} if flags else set()
            if given and not given & everywhere:
                missing.setdefault(" ".join(sorted(given)), program)
    assert not missing
