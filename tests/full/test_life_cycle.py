"""Random verbs against a model of their objects, longer than in tests/e2e and with new seeds."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))
SECONDS = 30
# SOFTBAND_LIFE_CYCLE_SEED repeats a failed test with the seed that it printed.
GIVEN = os.environ.get("SOFTBAND_LIFE_CYCLE_SEED")
SEEDS = [int(GIVEN)] if GIVEN else [random.randrange(1 << 32) for _ in range(4)]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("programs") / "life_cycle"
    subprocess.run(["cc", "-O1", "-Wall", "-o", str(file), str(ROOT / "conformance" / "c" / "life_cycle.c"), "-libverbs"], check=True, timeout=120)
    return file


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fabric", ["modern-pair", "two-hosts"])
def test_random_verbs_answer_what_the_model_of_their_objects_says(program: Path, tmp_path: Path, fabric: str, seed: int) -> None:
    command = f"{program} {seed} {SECONDS}"
    words = [str(SOFTBAND), "run", "--pace", "wall", fabric, "--on", "a", command, "--on", "b", f"{command} a"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS + 120, check=False)
    assert done.returncode == 0, f"SOFTBAND_LIFE_CYCLE_SEED={seed}\n{done.stdout}\n{done.stderr}"
    assert "not a byte has changed" in done.stdout
    assert "answered as the model says" in done.stdout
