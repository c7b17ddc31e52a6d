"""Runs under OpenSM: the commands that a study starts, and the settings that it hands over."""

from __future__ import annotations

import io
import shutil
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Tree
from rich.console import Console

from softband_lab.base.errors import LabError
from softband_lab.base.softband import Program
from softband_lab.campaign.cluster import Cluster
from softband_lab.campaign.engine_job import EngineJob, Step
from softband_lab.campaign.inputs import InputFile
from softband_lab.campaign.subnet_manager import _WAIT, SubnetManager, check_manager, managed_by
from softband_lab.study.pipeline import run_study
from softband_lab.study.plan import StudyOptions, plan


def job(text: str) -> EngineJob:
    programs = [Program("a", "ib_send_bw"), Program("b", "ib_send_bw a")]
    return EngineJob("x", InputFile("fabrics/folder/x.toml", text), [Step(programs)], 1, 10.0, [2])


def test_the_built_in_manager_changes_nothing() -> None:
    assert managed_by(SubnetManager.BUILTIN, job("[subnet]\n")) == job("[subnet]\n")


def test_opensm_is_the_first_program_and_gets_the_settings_of_the_fabric() -> None:
    changed = managed_by(SubnetManager.OPENSM, job('[subnet]\nmax_op_vls = 1\nrouting = "up-down"\n'))
    assert changed.fabric.label == "fabrics/folder/x-opensm.toml"
    assert tomllib.loads(changed.fabric.text)["subnet"]["manager"] == "opensm"
    (step,) = changed.steps
    assert isinstance(step, Step)
    first, server, client = step.programs
    assert (first.host, server.host, client.host) == ("a", "a", "b")
    lines = first.command.split(" && ")
    assert "; opensm -c " in lines[0] and " opensm -o " in f" {lines[-1]} "
    assert [line.split("'")[1] for line in lines[1:-1]] == [
        "s/^max_op_vls .*/max_op_vls 1/",
        "s/^routing_engine .*/routing_engine updn/",
    ]
    assert server.command.endswith("; done; ib_send_bw") and client.command.endswith("; done; ib_send_bw a")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[subnet]\nmtu = 512\n", "subnet.mtu: is no setting"),
        ('[subnet]\nrouting = "torus"\n', "`torus` needs settings"),
        ('[generate]\nform = "fat-tree"\n', "chooses its routing engine by itself"),
    ],
)
def test_a_setting_that_opensm_cannot_get_is_refused(text: str, problem: str) -> None:
    with pytest.raises(LabError, match=problem):
        managed_by(SubnetManager.OPENSM, job(text))


def test_a_machine_without_opensm_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    check_manager(SubnetManager.BUILTIN)
    with pytest.raises(LabError, match="no `opensm` in PATH"):
        check_manager(SubnetManager.OPENSM)


def test_a_study_leaves_the_fabrics_of_its_commands_in_the_results(tree: Tree) -> None:
    with Cluster(None, 2) as cluster:
        options = StudyOptions(tree.home, tree.out, False, cluster, "softband study mini", SubnetManager.OPENSM)
        keys = {job.id: job.inputs() for job in plan(tree.study(), [], options).jobs}
        assert keys != {
            job.id: job.inputs() for job in plan(tree.study(), [], replace(options, manager=SubnetManager.BUILTIN)).jobs
        }
        assert run_study(tree.study(), tree.softband, options, Console(file=io.StringIO())).status == 0
    assert (tree.out / "fabrics" / "switch-vl1-opensm.toml").is_file()
    assert list((tree.out / "claims" / "fabrics").glob("*-opensm.toml")), (
        "claims about other fabrics run under OpenSM too"
    )


def test_programs_wait_for_opensm_no_longer_than_a_bound(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("2: INIT\n")
    wait = _WAIT.replace("/sys/class/infiniband/*/ports/*/state", str(state)).replace("sleep 0.1", "true")
    done = subprocess.run(["sh", "-c", wait + "echo begins"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "OpenSM has not made the ports of this host Active in 60 s" in done.stderr
    state.write_text("4: ACTIVE\n")
    done = subprocess.run(["sh", "-c", wait + "echo begins"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "begins\n"
