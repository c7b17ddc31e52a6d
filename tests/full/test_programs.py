"""Every entry of conformance/programs, in both paces: perftest and ibverbs-utils with all flags."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import programs


@programs.each()
def test_a_command_ends_as_its_entry_says(entry: programs.Entry, pace: str) -> None:
    programs.check(entry, pace)
