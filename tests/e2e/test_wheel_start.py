"""The Python package `softband` of the wheel, over the tree of a build."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Softband

PACKAGE = ROOT / "packaging" / "python" / "softband"


@pytest.fixture
def scripts(softband: Softband, tmp_path: Path) -> Path:
    """Returns a folder with scripts as pip writes them."""
    site, scripts = tmp_path / "site", tmp_path / "bin"
    shutil.copytree(PACKAGE, site / "softband")
    (site / "softband" / "tree").symlink_to(softband.binary.resolve().parents[1])
    scripts.mkdir()
    for name in ("softband", "softband-rfio", "softband-absent"):
        script = scripts / name
        script.write_text(f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(site)!r})\nfrom softband import main\nmain()\n")
        script.chmod(0o755)
    return scripts


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **environment})


def test_a_script_becomes_the_command_and_keeps_its_status(scripts: Path) -> None:
    assert run(scripts / "softband", "--version").stdout.startswith("softband ")
    wrong = run(scripts / "softband", "parts", "no-such-part")
    assert (wrong.returncode, wrong.stdout) == (2, "")


def test_a_script_of_another_name_becomes_that_program(scripts: Path) -> None:
    own = run(scripts / "softband-rfio", "--help")
    assert "usage: softband-rfio" in own.stdout + own.stderr


def test_commands_beside_the_script_are_found_without_a_path(scripts: Path) -> None:
    """The lab's wheel puts softband-study beside the script of the other wheel."""
    other = scripts / "softband-greet"
    other.write_text("#!/bin/sh\necho hello\n")
    other.chmod(0o755)
    assert run(scripts / "softband", "greet", PATH="/usr/bin:/bin").stdout == "hello\n"


def test_the_package_runs_two_hosts(scripts: Path) -> None:
    done = run(scripts / "softband", "run", "two-hosts", "--on", "a", "ibv_rc_pingpong", "--on", "b", "ibv_rc_pingpong a")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("1000 iters in") == 2
