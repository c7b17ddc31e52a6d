"""Other work keeps the machine busy: the engine mistakes no delay for a failure."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from conftest import Softband

# The engine once sent its signal before a program had a handler for it. That killed, on average,
# seven of this many programs at their start.
STARTS = 100
SCRIPT = f"""
i=0
while [ $i -lt {STARTS} ]; do
    /bin/true || {{ echo "number $i ended with $?"; exit 1; }}
    i=$((i + 1))
done
echo all {STARTS} well
"""


@contextmanager
def busy_processors() -> Iterator[None]:
    """Starts three processes for each processor. They only compute."""
    count = 3 * (os.cpu_count() or 1)
    burners = [subprocess.Popen(["timeout", "60", "sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.terminate()
        for burner in burners:
            burner.wait()


def test_programs_that_a_shell_starts_are_not_killed_while_they_begin(softband: Softband) -> None:
    script = softband.folder / "starts.sh"
    script.write_text(SCRIPT)
    with busy_processors():
        done = softband.run("two-hosts", ("a", f"sh {script}"), ("b", f"sh {script}")).assert_ok()
    assert [done.program(name).strip() for name in ("a-0", "b-0")] == [f"all {STARTS} well"] * 2
