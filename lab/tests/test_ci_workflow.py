"""The workflow of the hosted CI parses, runs only targets of the Makefile, and needs no secret."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml  # Dask, which the tests need, brings it.

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / ".github" / "workflows" / "ci.yml"
# A workflow may run these programs beside `make`: they bring what `make` and the Makefile need.
INSTALLERS = {"apt-get", "cargo"}


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def commands(workflow: dict[Any, Any]) -> list[list[str]]:
    lines = [part for step in steps(workflow) for part in re.split(r"&&|\n", step.get("run", "")) if part.strip()]
    return [shlex.split(line) for line in lines]


def test_the_commands_are_targets_of_the_makefile(workflow: dict[Any, Any]) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    words = [word for program, *words in commands(workflow) if program == "make" for word in words]
    made = {word for word in words if re.fullmatch(r"[\w-]+", word)}
    assert {"test", "demo"} <= made <= targets
    assert {program for program, *_ in commands(workflow)} <= INSTALLERS | {"make"}


def test_the_workflow_only_reads_the_repository_and_needs_no_secret(workflow: dict[Any, Any]) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets" not in FILE.read_text(encoding="utf-8")
    assert not any("permissions" in job for job in workflow["jobs"].values())


def test_each_job_ends_by_itself_and_each_action_has_a_version(workflow: dict[Any, Any]) -> None:
    assert all(job["timeout-minutes"] <= 120 for job in workflow["jobs"].values())
    uses = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert uses
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", action) for action in uses)


def test_debian_12_and_ubuntu_run_the_tests(workflow: dict[Any, Any]) -> None:
    systems = workflow["jobs"]["test"]["strategy"]["matrix"]["include"]
    images = [system.get("container", {}).get("image") for system in systems]
    assert images == ["debian:12", None]
    assert workflow["jobs"]["test"]["runs-on"].startswith("ubuntu-")


def test_an_ordinary_user_runs_the_end_to_end_tests_on_each_system(workflow: dict[Any, Any]) -> None:
    systems = workflow["jobs"]["test"]["strategy"]["matrix"]["include"]
    # A job without a container has an ordinary user already.
    assert all("E2E_USER=" in system.get("user", "") for system in systems if "container" in system)
    assert any(step.get("run") == "make test ${{ matrix.user }}" for step in steps(workflow))
    assert "make test E2E_USER=" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_cache_depends_on_files_that_exist(workflow: dict[Any, Any]) -> None:
    caches = [step["with"] for step in steps(workflow) if step.get("uses", "").startswith("actions/cache@")]
    named = [name for cache in caches for name in re.findall(r"'([^']+)'", cache["key"])]
    assert named
    assert all((ROOT / name).is_file() for name in named)
    assert all("~/.cargo/registry/cache" in cache["path"] for cache in caches)
