"""Programs that sleep until an event and then take a part of their completions."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from conftest import Softband

# Type, order of arming and polling, queues, interface, completions that a poll takes, bytes.
SHAPES = [
    *(("rc", *shape, "64", "4096") for shape in product(("arm", "poll"), ("one", "two"), ("plain", "extended"))),
    ("rc", "arm", "one", "plain", "1024", "65536"),
    ("rc", "arm", "one", "plain", "16", "8"),
    ("rc", "poll", "one", "plain", "1", "8"),
    ("uc", "arm", "one", "plain", "64", "4096"),
]


@pytest.mark.parametrize("pace", ["virtual", "wall"])
@pytest.mark.parametrize("shape", SHAPES, ids=" ".join)
def test_a_program_that_takes_a_part_of_its_completions_goes_on(
    softband: Softband, c_programs: Path, shape: tuple[str, ...], pace: str
) -> None:
    program = " ".join((str(c_programs / "partial_polls"), *shape))
    outcome = softband.pair("modern-pair", program, options=("--pace", pace)).assert_ok()
    assert [outcome.program(name) for name in ("a-0", "b-0")] == ["ok\n", "ok\n"]
