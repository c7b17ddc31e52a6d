"""Every entry of conformance/programs: Debian's perftest and ibverbs-utils with all of their flags, in both paces."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "conformance" / "programs"))

import run as programs

CASES = [(entry, pace) for table in programs.tables() for entry in programs.entries(table) for pace in entry.paces]


@pytest.mark.parametrize(("entry", "pace"), CASES, ids=[f"{pace}: {entry.name}" for entry, pace in CASES])
def test_a_command_ends_as_its_entry_says(entry: programs.Entry, pace: str) -> None:
    result = programs.run(entry, pace)
    if result.skipped:
        pytest.skip("the machine is too busy, or not what the entry is for")
    assert not result.fault, f"{result.fault}\n{' '.join(result.words)}\n{result.text[-3000:]}"
