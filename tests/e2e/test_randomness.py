"""Random numbers from the system's files: repeatable only in simulated time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import Softband

DEVICES = ("/dev/urandom", "/dev/random")
UUID = "/proc/sys/kernel/random/uuid"
# The readers: a stream of the C library, system calls, an inherited descriptor, another language, and the
# bytes that the kernel gives each image (AT_RANDOM).
LOOKS = f"""
od -An -N24 -tx1 /dev/urandom
od -An -N24 -tx1 /dev/urandom
od -An -N8 -tx1 < /dev/random
head -c 100000 /dev/random | md5sum
tr -dc a-z < /dev/urandom | head -c 20; echo
cat {UUID} {UUID}
perl -e 'print rand(), "\\n"'
{sys.executable} -c 'print(open("/dev/urandom", "rb").read(8).hex(), __import__("os").urandom(8).hex())'
{sys.executable} -c 'import ctypes; give = ctypes.CDLL(None).getauxval; give.restype = ctypes.c_ulong; print(ctypes.string_at(give(25), 16).hex())'
stat -c %F /dev/urandom
exec 0<&-; exec < /dev/urandom; readlink /proc/$$/fd/0 | cut -d: -f1
"""
# The reads exceed the first size of the library's file. One call or many calls read it, in the
# program that opens the file and in one that inherits it.
MUCH = """
dd if=/dev/urandom bs=5000000 count=1 status=none | md5sum
head -c 5000000 /dev/urandom | wc -c
head -c 5000000 < /dev/urandom | wc -c
dd if=/dev/urandom bs=1000003 count=4 status=none | wc -c
od -An -v -N4000000 -tx1 /dev/urandom | wc -w
echo mine > /dev/urandom && echo taken
"""


def said(softband: Softband, script: Path, *options: str) -> list[str]:
    done = softband.run("two-hosts", ("a", f"sh {script}"), options=options).assert_ok()
    assert done.stderr == ""
    return done.program("a-0").splitlines()


def test_random_numbers_by_the_systems_files_are_the_same_in_every_run(softband: Softband) -> None:
    script = softband.folder / "looks.sh"
    script.write_text(LOOKS)
    lines = said(softband, script)
    assert said(softband, script) == lines
    assert len(set(lines)) == len(lines), "two openings gave the same numbers"
    assert "character special file" in lines
    assert "/memfd" in lines, "the lowest number, as for any other file"
    assert said(softband, script, "--seed", "7") != lines


def test_the_systems_files_of_random_numbers_do_not_end(softband: Softband) -> None:
    script = softband.folder / "much.sh"
    script.write_text(MUCH)
    first, *rest = said(softband, script)
    assert len(first.split()[0]) == 32
    assert rest == ["5000000", "5000000", "4000012", "4000000", "taken"]


@pytest.mark.parametrize("path", [*DEVICES, UUID])
def test_random_numbers_at_wall_pace_are_the_machines(softband: Softband, path: str) -> None:
    look = f"od -An -N16 -tx1 {path}"
    one, other = (softband.run("two-hosts", ("a", look), options=("--pace", "wall")).assert_ok().program("a-0") for _ in range(2))
    assert one != other
