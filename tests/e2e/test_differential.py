"""The direct path and the engine complete a random plan alike. tests/full has more seeds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import ROOT, Softband

sys.path.insert(0, str(ROOT / "tests"))
import differential


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_direct_path_and_the_engine_complete_a_random_plan_alike(softband: Softband, c_programs: Path, tmp_path: Path, seed: int) -> None:
    differential.compare(softband.binary, c_programs / "data_path", tmp_path, seed, rounds=40)
