"""The stages of a study, each on its own: plan, run, evaluate, render."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from conftest import Tree
from rich.console import Console

from softband_lab.base.errors import LabError
from softband_lab.campaign.cluster import Cluster
from softband_lab.campaign.inputs import InputFile, derived_fabric, leave_derived
from softband_lab.campaign.jobs import content_key
from softband_lab.study.evaluate import evaluate
from softband_lab.study.plan import StudyOptions, plan
from softband_lab.study.render import render
from softband_lab.study.run import run


def left(tree: Tree) -> set[str]:
    return {path.name for path in tree.out.iterdir()} if tree.out.exists() else set()


def test_each_stage_takes_the_value_of_the_stage_before_it(tree: Tree) -> None:
    console = Console(file=io.StringIO())
    with Cluster(None, 2) as cluster:
        options = StudyOptions(tree.home, tree.out, True, cluster, "softband study mini --quick")
        planned = plan(tree.study(), [], options)
        ids = [job.id for job in planned.jobs]
        assert ids == ["ddr-rc-bandwidth", "switch-rc-bandwidth", "switch-vl1-rc-bandwidth"]
        assert (tree.runs(), left(tree)) == ([], set())
        measured = run(planned, tree.softband, options, console)
        assert set(measured.outcome.results) == set(ids)
        assert {"results.csv", "results.parquet", "data", "runs", "checksums"} == left(tree)
        evaluated = evaluate(measured, tree.softband, options, {})
        assert [row.judgement.verdict for row in evaluated.claims if row.published.id == "M2"] == ["reproduced"]
        assert "claims.csv" not in left(tree)
        render(evaluated, tree.softband, options)
    assert {"claims.csv", "claims_notes.csv", "figures", "drawings", "report.html"} <= left(tree)


def test_a_study_that_cannot_run_fails_in_its_plan(tree: Tree) -> None:
    (tree.home / "fabrics/switch.toml").unlink()
    with Cluster(None, 1) as cluster, pytest.raises(LabError, match=r"there is no .*switch\.toml"):
        plan(tree.study(), [], StudyOptions(tree.home, tree.out, False, cluster, ""))


def test_the_key_of_a_run_follows_the_text_of_its_fabric_and_not_its_label(tree: Tree) -> None:
    with Cluster(None, 1) as cluster:
        options = StudyOptions(tree.home, tree.out, True, cluster, "")
        before = {job.id: content_key(job, tree.softband) for job in plan(tree.study(), [], options).jobs}
        tree.append("ddr.toml", "note = 1")
        after = {job.id: content_key(job, tree.softband) for job in plan(tree.study(), [], options).jobs}
    assert {run_id for run_id in before if before[run_id] != after[run_id]} == {"ddr-rc-bandwidth"}


def test_an_input_file_is_written_under_its_label_and_messages_name_the_label(tmp_path: Path) -> None:
    fabric = derived_fabric("x_vls-1", {"subnet": {"max_op_vls": 1}})
    laid = fabric.lay(tmp_path / "run", ".toml")
    assert laid.read_text() == fabric.text == "[subnet]\nmax_op_vls = 1\n"
    assert fabric.in_own_words(f"{laid}:2: wrong", laid) == "fabrics/x_vls-1.toml:2: wrong"
    leave_derived([fabric, fabric, InputFile("mine.toml", "")], tmp_path / "out")
    assert [path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.toml")] == [
        fabric.label
    ]
