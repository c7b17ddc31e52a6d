"""The entries of conformance/programs as test cases. `tests/e2e` runs a few of them, `tests/full` all."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance" / "programs"))

import run
from run import Entry, entries, tables

__all__ = ["Entry", "check", "each", "entries", "tables"]


def each(pattern: str = "") -> pytest.MarkDecorator:
    """Returns a case for each pace of each entry whose command starts with the pattern."""
    found = [entry for table in tables() for entry in entries(table) if re.match(pattern, entry.name)]
    cases = [(entry, pace) for entry in found for pace in entry.paces]
    return pytest.mark.parametrize(("entry", "pace"), cases, ids=[f"{pace}: {entry.name}" for entry, pace in cases])


def check(entry: Entry, pace: str) -> None:
    """Runs an entry. Fails if it does not end as its table states."""
    result = run.run(entry, pace)
    if result.skipped:
        pytest.skip("the machine is too busy, or not what the entry is for")
    assert not result.fault, f"{result.fault}\n{' '.join(result.words)}\n{result.text[-3000:]}"
