"""How programs end, in virtual pace."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Softband


@pytest.mark.parametrize("how", ["", " quick"])
def test_who_ends_in_good_order_is_not_said_to_have_crashed(softband: Softband, c_programs: Path, how: str) -> None:
    done = softband.run("two-hosts", ("a", f"{c_programs / 'thread_left_behind'}{how}")).assert_ok()
    assert done.program("a-0") == "done\n"
    assert done.stderr == ""
    for status, end in ((3, "exit 3"), (134, "kill -ABRT $$")):
        done = softband.run("two-hosts", ("a", f"sh -c '{end}'"))
        assert done.status == status
        assert ("killed or crashed" in done.stderr) == (status > 128)
