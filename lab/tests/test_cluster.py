"""Where runs run: threads of this process without any package, clusters with Dask where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import Tree

from softband_lab.base.errors import LabError
from softband_lab.campaign.cluster import Cluster
from softband_lab.campaign.scratch import Scratch

WITHOUT_DASK = """
import sys
for name in ("dask", "distributed", "polars", "altair"):
    sys.modules[name] = None  # as if it were not installed
from softband_lab.cli import main
sys.argv[0] = "softband"
main()
"""


def without_dask(tree: Tree, *words: str) -> subprocess.CompletedProcess[str]:
    ours = {"SOFTBAND_BIN": str(tree.softband.binary), "SOFTBAND_HOME": str(tree.home)}
    source = {"PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    command = [sys.executable, "-c", WITHOUT_DASK, *words]
    environment = {**os.environ, **ours, **source}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_a_study_on_this_machine_needs_no_dask(tree: Tree) -> None:
    done = without_dask(tree, "study", "mini", "--quick", "--out", str(tree.out), "--jobs", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "runs: 3 finished" in done.stdout


@pytest.mark.parametrize(
    "words", [("study", "mini", "--cluster", "tcp://127.0.0.1:1"), ("dask", "worker", "tcp://x:1")]
)
def test_a_cluster_without_dask_is_an_error_that_says_how_to_install_it(tree: Tree, words: tuple[str, ...]) -> None:
    done = without_dask(tree, *words, *(("--out", str(tree.out)) if words[0] == "study" else ()))
    assert done.returncode == 2
    text = " ".join(done.stderr.split())
    assert "needs the packages dask and distributed help: " in text
    assert "-m pip install dask distributed" in text


def test_threads_leave_no_folder_behind(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    assert tree.run(quick=True)[0] == 0
    assert list((tmp_path / "scratch").iterdir()) == []


def test_what_a_killed_process_left_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name in (f"softband-runs-{gone.pid}-x", f"softband-runs-{os.getpid()}-y", "softband-runs-z"):
        (tmp_path / name / "run-1").mkdir(parents=True)
    scratch = Scratch()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"softband-runs-{os.getpid()}-y", "softband-runs-z", scratch.folder.name}


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(LabError, match=r"--cluster there: is not a cluster\n  help: the address"):
        Cluster("there")
