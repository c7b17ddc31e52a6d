"""A program that calls `syscall(SYS_execve, ...)` stays in its fabric."""

from __future__ import annotations

import pytest
from conftest import Softband

PROGRAM = r"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
words = (ctypes.c_char_p * 3)(b"date", b"+%Y", None)
environment = (ctypes.c_char_p * (len(os.environ) + 1))(*[f"{name}={value}".encode() for name, value in os.environ.items()], None)
number, before = (59, ()) if sys.argv[1] == "execve" else (322, (-100,))
libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, before), b"/bin/date", words, environment, ctypes.c_long(0))
sys.exit(f"errno {ctypes.get_errno()}")
"""


@pytest.mark.parametrize("call", ["execve", "execveat"])
def test_the_new_image_has_the_simulated_clock(softband: Softband, call: str) -> None:
    program = softband.folder / "replaced.py"
    program.write_text(PROGRAM)
    outcome = softband.run("two-hosts", ("a", f"/usr/bin/python3 {program} {call}"), options=("--start-date", "2031-05-01")).assert_ok()
    assert outcome.program("a-0").strip() == "2031"
