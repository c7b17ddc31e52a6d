"""The examples of docs/python.md print the output that the page shows, from the installed tree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import DIST, ROOT, Softband
from tutorial import matches

PAGE = ROOT / "docs" / "python.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "----- next block"
SECONDS = 240


def python(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a script. The packages of the installed tree precede all others."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(DIST / "python"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": f"{DIST / 'bin'}:{os.environ['PATH']}",
    }
    return subprocess.run([sys.executable, "-c", script], check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS)


def test_the_examples_of_the_page_print_what_it_shows(softband: Softband, tmp_path: Path) -> None:
    assert softband.binary.is_file()
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert [language for language, _ in blocks] == ["python", "text"] * 4
    done = python(f"\nprint({MARK!r})\n".join(code for language, code in blocks if language == "python"), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for shown, printed in zip([text for language, text in blocks if language == "text"], done.stdout.split(f"{MARK}\n"), strict=True):
        assert matches(shown.splitlines(), printed.splitlines()), f"shown:\n{shown}\nprinted:\n{printed}"
    assert list(tmp_path.iterdir()) == []


def test_frames_have_the_numbers_of_the_command(softband: Softband, tmp_path: Path) -> None:
    words = ("model", "three-hosts", "incast", "--bytes", "4KiB", "--window", "8")
    assert softband.command(*words, "--out", "typed").returncode == 0
    assert softband.command(*words, "--sweep", "seed=1,2", "--out", "swept").returncode == 0
    script = f"""
import polars as pl, softband_lab as sb
options = dict(bytes="4KiB", window=8)
typed = pl.read_csv({str(softband.folder / "typed")!r} + "/flows.csv")
assert sb.model("three-hosts", "incast", **options).flows.rows() == typed.rows()
swept = pl.read_csv({str(softband.folder / "swept")!r} + "/runs.csv").drop("key", "command")
frame = sb.sweep("three-hosts", "incast", keys={{"seed": [1, 2]}}, out="kept", **options).drop("key", "command")
assert frame.rows() == swept.rows(), (frame, swept)
"""
    done = python(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "kept/runs.csv").is_file()


def test_a_run_in_wall_pace_has_the_same_frames(softband: Softband, tmp_path: Path) -> None:
    script = """
import softband_lab as sb
commands = [("a", "ib_send_bw -F -s 4096 -n 100"), ("b", "ib_send_bw -F -s 4096 -n 100 a"), ("b", "true")]
result = sb.run("cables/sdr-cx4", commands, pace="wall", timeout_seconds=60, out="kept")
assert result.summary["pace"] == "wall" and result.seconds > 0
assert result.programs["program"].to_list() == ["a-0", "b-0", "b-1"]
assert result.measurements["size_bytes"].to_list() == [4096, 4096]
assert result.ports["port"].to_list() == ["a/mthca0/1", "b/mthca0/1"]
"""
    done = python(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "kept/run.json").is_file()


def test_a_sweep_has_the_parts_beside_the_fabric(softband: Softband, tmp_path: Path) -> None:
    """The runs read a copy of the fabric file elsewhere."""
    part = (ROOT / "catalog/hca/voltaire-ddr.toml").read_text(encoding="utf-8")
    fabric = (ROOT / "fabrics/three-hosts.toml").read_text(encoding="utf-8")
    (tmp_path / "catalog/hca").mkdir(parents=True)
    (tmp_path / "catalog/hca/mine.toml").write_text(part)
    (tmp_path / "own.toml").write_text(re.sub(r'part = "voltaire-ddr"', 'part = "mine"', fabric))
    assert softband.binary.is_file()
    script = """
import softband_lab as sb
frame = sb.sweep("own.toml", "stream", {"vls": [1, 2]}, bytes=64, messages=10)
assert frame["fabric"].to_list() == ["fabrics/own_vls-1.toml", "fabrics/own_vls-2.toml"], frame["fabric"]
"""
    done = python(script, tmp_path)
    assert done.returncode == 0, done.stderr
