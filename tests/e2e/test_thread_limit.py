"""Simulated time limits the threads of a process. The call for a further thread fails."""

from __future__ import annotations

import re
import sys

from conftest import ROOT, Softband

THREADS_MAX = int(re.findall(r"THREADS_MAX: usize = ([\d_]+)", (ROOT / "crates" / "ipc" / "src" / "layout.rs").read_text())[0])
MANY = """
import sys, threading, time
go = threading.Event()
started = []
def wait():
    go.wait()
    time.sleep(0.001)
def start(count):
    for _ in range(count):
        thread = threading.Thread(target=wait)
        try:
            thread.start()
        except RuntimeError as error:
            print(len(started), error)
            break
        started.append(thread)
def end():
    go.set()
    for thread in started:
        thread.join()
    print("joined", len(started))
    started.clear()
    go.clear()
for word in sys.argv[1:]:
    start(int(word))
    end()
"""


def many(softband: Softband, *counts: int) -> str:
    program = softband.folder / "many.py"
    program.write_text(MANY)
    return f"{sys.executable} {program} {' '.join(map(str, counts))}"


def test_a_python_program_has_two_hundred_threads(softband: Softband) -> None:
    done = softband.run("two-hosts", ("a", many(softband, 200))).assert_ok()
    assert done.program("a-0") == "joined 200\n"
    assert "softband" not in done.stderr, done.stderr


def test_one_thread_too_many_is_an_error_and_the_program_goes_on(softband: Softband) -> None:
    done = softband.run("two-hosts", ("a", many(softband, THREADS_MAX + 50, 20))).assert_ok()
    # The limit includes the first thread.
    most = THREADS_MAX - 1
    assert done.program("a-0") == f"{most} can't start new thread\njoined {most}\njoined 20\n"
    lines = [line for line in done.stderr.splitlines() if line.startswith("softband:")]
    assert lines == [f"softband: pthread_create: EAGAIN, because a process in simulated time has at most {THREADS_MAX} threads at a time"]


def test_a_program_that_cannot_do_with_fewer_ends_with_its_own_status(softband: Softband) -> None:
    program = softband.folder / "needs.py"
    text = "import os, threading, time\n"
    text += "try:\n    for _ in range(5_000):\n        threading.Thread(target=time.sleep, args=(1e9,)).start()\nexcept RuntimeError:\n    os._exit(3)\n"
    program.write_text(text)
    done = softband.run("two-hosts", ("a", f"{sys.executable} {program}"), options=("--timeout", "60"))
    assert done.status == 3, done
