"""Files below /dev/shm belong to a host of a run: hosts, runs and jobs never meet there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import FABRICS, Softband, until

PACES = ("virtual", "wall")
SHARED = Path("/dev/shm")


def of_runs() -> set[str]:
    return {path.name for path in SHARED.iterdir() if path.name.startswith("softband-")}


@pytest.mark.parametrize("pace", PACES)
def test_hosts_have_shared_memory_of_their_own(softband: Softband, c_programs: Path, pace: str) -> None:
    before = {path.name for path in SHARED.iterdir()} - of_runs()
    command = str(c_programs / "shared_names")
    outcome = softband.run("modern-pair", ("a", command), ("b", command), options=("--pace", pace)).assert_ok()
    # The segment, the semaphore, the file with its own name, and the renamed file.
    assert outcome.program("a-0") == outcome.program("b-0") == "4 entries\n"
    assert {path.name for path in SHARED.iterdir()} - of_runs() == before


@pytest.mark.parametrize("pace", PACES)
def test_runs_side_by_side_do_not_meet(softband: Softband, c_programs: Path, pace: str, tmp_path: Path) -> None:
    """All of these runs have the same seed, and make the same names."""
    command = f"{c_programs / 'shared_names'} 300"
    words = [str(softband.binary), "run", str(FABRICS / "modern-pair.toml"), "--quiet", "--pace", pace, "--on", "a", command]
    runs = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path) for _ in range(3)]
    assert [run.communicate(timeout=120)[0] for run in runs] == ["4 entries\n"] * 3


@pytest.mark.parametrize("pace", PACES)
def test_the_next_run_removes_the_files_of_a_killed_one(softband: Softband, pace: str, tmp_path: Path) -> None:
    code = "open('/dev/shm/left','w').write('x'); print('made', flush=True); import time; time.sleep(1e6)"
    words = [str(softband.binary), "run", str(FABRICS / "modern-pair.toml"), "--pace", pace, "--on", "a", f'{sys.executable} -c "{code}"']
    before = of_runs()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as run:
        # In simulated time the sleep is soon over, so the program may have ended.
        left = until(lambda: {name for name in of_runs() - before if list((SHARED / name).glob("*/left"))})
        run.send_signal(signal.SIGKILL)
    if pace == "wall":
        assert left
    softband.run("modern-pair", ("a", "true")).assert_ok()
    assert not {name for name in left if (SHARED / name).exists()}


def test_a_folder_of_the_machine_stays_what_it_is(softband: Softband) -> None:
    """Users keep projects in memory."""
    project = SHARED / f"softband-test-project-{os.getpid()}"
    project.mkdir()
    try:
        (project / "input").write_text("7\n")
        outcome = softband.run("modern-pair", ("a", f"cp {project}/input {project}/output"), ("b", f"cat {project}/input")).assert_ok()
        assert outcome.program("b-0") == "7\n"
        assert (project / "output").read_text() == "7\n"
    finally:
        for path in project.iterdir():
            path.unlink()
        project.rmdir()


def test_scripts_and_programs_use_the_folder(softband: Softband) -> None:
    script = "cd /dev/shm && cp /bin/echo tool && ./tool ran && /dev/shm/tool too && pwd && mv tool moved && ls && rm moved"
    outcome = softband.run("modern-pair", ("a", f"sh -c '{script}'")).assert_ok()
    assert outcome.program("a-0") == "ran\ntoo\n/dev/shm\nmoved\n"
