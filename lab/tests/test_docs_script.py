"""`make docs` tells its steps, and the remedy where it cannot install mdBook."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The documentation in a folder of its own, with a folder `commands` for programs."""
    for name in ("docs", "scripts", "catalog", "lab", "recipes", "examples", "crates/test"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("tests", "src", "target", ".*"))
    for page in (*ROOT.glob("*.md"), ROOT / "Cargo.toml"):
        shutil.copy(page, tmp_path)
    commands = tmp_path / "commands"
    commands.mkdir()
    for name in ("bash", "dirname"):
        found = shutil.which(name)
        assert found is not None
        (commands / name).symlink_to(found)
    # A link to the interpreter would lose its virtual environment.
    program(tmp_path, "python3", f'exec "{sys.executable}" "$@"')
    return tmp_path


def program(project: Path, name: str, text: str) -> None:
    path = project / "commands" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def docs(project: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": str(project / "commands"), "HOME": str(project)}
    return subprocess.run(
        [project / "scripts" / "docs.sh"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_steps_are_printed_and_mdbook_gets_all_pages(project: Path) -> None:
    program(project, "mdbook", 'echo "mdbook $*"')
    done = docs(project)
    assert done.returncode == 0, done.stderr
    steps = [line for line in done.stdout.splitlines() if line.startswith("docs: ")]
    assert [step.split()[1] for step in steps] == ["copying", "building", "read"]
    assert f"mdbook build target/book-pages --dest-dir {project}/target/book" in done.stdout
    assert (project / "target" / "book-pages" / "LIMITATIONS.md").is_file()


def test_a_failed_installation_names_the_network_and_a_way_without(project: Path) -> None:
    program(project, "cargo", "echo 'error: failed to download' >&2; exit 101")
    done = docs(project)
    assert done.returncode == 1
    assert "docs: installing mdbook" in done.stdout
    assert "needs a network" in done.stderr and "put mdbook" in done.stderr
    assert not (project / "target").exists()


def test_without_cargo_the_remedy_is_named(project: Path) -> None:
    done = docs(project)
    assert done.returncode == 1 and "Run `make setup`" in done.stderr
