"""Runs one random plan on the direct path, in the engine and in simulated time.

Every completion must be equal.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FABRIC = "modern-pair"
PATIENCE_SECONDS = 300
# This fault hits practically no packet, but its presence still forbids the direct path.
RARE_FAULT = '[[faults]]\nkind = "bit_errors"\nlink = "sw/1"\nrate = 1e-18\n'


def fabric_without_direct_path(folder: Path) -> Path:
    """Writes the same fabric with a fault that hits no packet."""
    file = folder / "engine.toml"
    file.write_text(f"{(ROOT / 'fabrics' / FABRIC).with_suffix('.toml').read_text()}\n{RARE_FAULT}")
    return file


def trace_of(softband: Path, program: Path, folder: Path, fabric: str | Path, pace: str, seed: int, rounds: int) -> tuple[list[list[str]], dict[str, int]]:
    """Returns the lines of both sides by queue pair and direction, and the counts of fallbacks."""
    folder.mkdir()
    command = f"{program} {seed} {rounds}"
    words = [str(softband), "run", "--pace", pace, str(fabric), "--out", str(folder / "out"), "--on", "a", command, "--on", "b", f"{command} a"]
    environment = {**os.environ, "DATA_PATH_TRACE": str(folder / "trace")}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, f"seed {seed}, {pace}, {fabric}\n{done.stdout}\n{done.stderr}"
    sides = [(folder / f"trace.{side}").read_text().splitlines() for side in range(2)]
    report = json.loads((folder / "out" / "run.json").read_text())
    return [sorted(side, key=lambda line: line.split()[:2]) for side in sides], report.get("fallbacks", {})


def compare(softband: Path, program: Path, folder: Path, seed: int, rounds: int) -> None:
    """Compares the three runs. Fails with the first line that differs."""
    direct, few = trace_of(softband, program, folder / "direct", FABRIC, "wall", seed, rounds)
    engine, many = trace_of(softband, program, folder / "engine", fabric_without_direct_path(folder), "wall", seed, rounds)
    simulated, _ = trace_of(softband, program, folder / "simulated", FABRIC, "virtual", seed, rounds)
    sent = sum(" send " in line for side in direct for line in side)
    # Requests with deliberate errors go to the engine in both runs.
    assert "fault_plan" not in few and sum(few.values()) < sum(many.values()) / 2, f"the first run has gone through the engine: {few}"
    assert many["fault_plan"] > sent / 2, "the second run has not gone through the engine"
    for name, other in (("the engine", engine), ("simulated time", simulated)):
        for side, (lines, others) in enumerate(zip(direct, other, strict=True)):
            assert len(lines) > rounds, "the trace is not complete"
            differing = next((pair for pair in zip(lines, others, strict=False) if pair[0] != pair[1]), None)
            assert differing is None, f"seed {seed}, side {side}: the direct path and {name} differ:\n  {differing[0]}\n  {differing[1]}"
            assert len(lines) == len(others), f"seed {seed}, side {side}: {name} has {len(others)} completions, not {len(lines)}"
