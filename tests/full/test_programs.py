"""Every entry of conformance/programs: Debian's perftest and ibverbs-utils with all of their flags, in both paces."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import programs


@programs.each()
def test_a_command_ends_as_its_entry_says(entry: programs.Entry, pace: str) -> None:
    programs.check(entry, pace)
