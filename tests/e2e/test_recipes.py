"""The recipes for CI services: their shell steps run here, with a stand-in for the services."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, Softband

RECIPES = ROOT / "recipes"
ACTION = RECIPES / "github" / "action.yml"
WORKFLOW = RECIPES / "github" / "example-workflow.yml"
GITLAB = RECIPES / "gitlab" / "softband.gitlab-ci.yml"
BASH = ("bash", "--noprofile", "--norc", "-euo", "pipefail", "-c")


def loaded(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


def scripts() -> list[str]:
    steps = [*loaded(ACTION)["runs"]["steps"], *loaded(WORKFLOW)["jobs"]["test"]["steps"]]
    return [step["run"] for step in steps if "run" in step] + loaded(GITLAB)[".softband"]["before_script"]


@pytest.mark.parametrize("script", scripts())
def test_each_step_is_a_script_of_bash(script: str) -> None:
    subprocess.run(["bash", "-n", "-c", script], check=True)
    # A value inside the script could contain commands.
    assert "${{" not in script


def test_each_input_is_used_and_each_used_input_exists() -> None:
    text, inputs = ACTION.read_text(), set(loaded(ACTION)["inputs"])
    used = {word.split("}")[0].split()[0] for word in text.replace("!=", " ").split("inputs.")[1:]}
    assert used == inputs
    given = next(step for step in loaded(WORKFLOW)["jobs"]["test"]["steps"] if "softband" in step.get("uses", ""))
    assert set(given["with"]) <= inputs
    for step in loaded(ACTION)["runs"]["steps"]:
        assert step["shell"] == "bash"


@pytest.fixture
def machine(tmp_path: Path, softband: Softband) -> dict[str, str]:
    """Returns the environment of a job: commands that record themselves, and a folder with a wheel."""
    commands, wheels = tmp_path / "commands", tmp_path / "wheels"
    commands.mkdir()
    wheels.mkdir()
    for name in ("apt-get", "curl", "sudo"):
        (commands / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{tmp_path}/commands.txt\n')
        (commands / name).chmod(0o755)
    wheel(wheels, softband.binary)
    path = f"{commands}:/usr/bin:/bin"
    return {"PATH": path, "HOME": str(tmp_path), "WHEELS": str(wheels), "RECORD": f"{tmp_path}/commands.txt"}


def wheel(folder: Path, binary: Path) -> None:
    """Makes a wheel whose command is that of the tree."""
    info = "softband-0.0.1.dist-info"
    files = {
        "softband-0.0.1.data/scripts/softband": f'#!/bin/sh\nexec {binary} "$@"\n',
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: softband\nVersion: 0.0.1\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / "softband-0.0.1-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)
            # pip keeps the right to execute a script.
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            archive.writestr(entry, text)


def bash(script: str, environment: dict[str, str], folder: Path) -> str:
    done = subprocess.run([*BASH, script], check=False, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def steps_of_action(inputs: dict[str, str], machine: dict[str, str], folder: Path) -> str:
    """Runs the steps as the service does: with inputs in the environment, and with the file of new paths."""
    paths, out = folder / "paths", ""
    paths.touch()
    given = {name: inputs.get(name, str(entry["default"])) for name, entry in loaded(ACTION)["inputs"].items()}
    for step in loaded(ACTION)["runs"]["steps"]:
        condition = step.get("if")
        if condition and not given[condition.removeprefix("inputs.").removesuffix(" != ''")]:
            continue
        environment = {**machine, "RUNNER_TEMP": str(folder), "GITHUB_PATH": str(paths)}
        environment["PATH"] = ":".join([*paths.read_text().split(), machine["PATH"]])
        for name, value in step["env"].items():
            environment[name] = given[value.removeprefix("${{ inputs.").removesuffix(" }}")]
        out += bash(step["run"], environment, folder)
    return out


def test_the_action_installs_a_wheel_and_runs_the_command(machine: dict[str, str], tmp_path: Path) -> None:
    inputs = {"find-links": machine["WHEELS"], "version": "0.0.1", "packages": "cmake g++"}
    inputs["run"] = "softband run -n 2 -- sh -c 'echo rank $SOFTBAND_RANK'"
    out = steps_of_action(inputs, machine, tmp_path)
    assert sorted(out.splitlines()) == ["a: rank 0", "b: rank 1"]
    assert Path(machine["RECORD"]).read_text().splitlines()[1].endswith("--no-install-recommends cmake g++")


def test_the_action_installs_a_debian_package(machine: dict[str, str], tmp_path: Path) -> None:
    assert steps_of_action({"deb": "https://example.org/softband.deb"}, machine, tmp_path) == ""
    assert Path(machine["RECORD"]).read_text().splitlines() == [
        f"curl -fsSL -o {tmp_path}/softband.deb https://example.org/softband.deb",
        f"sudo apt-get install -y -qq {tmp_path}/softband.deb",
    ]


@pytest.mark.parametrize("deb", [False, True])
def test_the_template_installs_softband_and_runs_the_script(machine: dict[str, str], tmp_path: Path, deb: bool) -> None:
    job = loaded(GITLAB)[".softband"]
    variables = {**job["variables"], "CI_PROJECT_DIR": str(tmp_path), "SOFTBAND_FIND_LINKS": machine["WHEELS"]}
    if deb:
        variables["SOFTBAND_DEB"] = "https://example.org/softband.deb"
    script = "true" if deb else "softband run -n 2 -- sh -c 'echo rank $SOFTBAND_RANK'"
    # The service runs before_script and script in one shell.
    out = bash("\n".join([*job["before_script"], script]), {**machine, **variables}, tmp_path)
    assert sorted(out.splitlines()) == ([] if deb else ["a: rank 0", "b: rank 1"])
    record = Path(machine["RECORD"]).read_text()
    assert ("apt-get install -y -qq /tmp/softband.deb" in record) == deb


def test_a_command_that_fails_fails_the_job(machine: dict[str, str], softband: Softband, tmp_path: Path) -> None:
    machine["PATH"] = f"{softband.binary.parent}:{machine['PATH']}"
    inputs = {"deb": "https://example.org/softband.deb", "run": "softband run -n 2 -- sh -c 'echo fails; exit 3'; echo later"}
    with pytest.raises(AssertionError, match="a: fails") as failure:
        steps_of_action(inputs, machine, tmp_path)
    assert "later\n" not in str(failure.value).split("args=")[0]
