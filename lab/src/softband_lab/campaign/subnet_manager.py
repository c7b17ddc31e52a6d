"""The subnet manager of a run: the built-in one, or a real OpenSM as the run's first program."""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import replace
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

import tomli_w

from softband_lab.base.errors import LabError
from softband_lab.base.softband import Program
from softband_lab.campaign.engine_job import AnyStep, EngineJob, MpiStep, Step
from softband_lab.campaign.inputs import InputFile
from softband_lab.campaign.trace_step import TcpTraceStep, TraceStep

# Settings that OpenSM's configuration has under the same name, with the same codes.
_SAME = ("max_op_vls", "packet_life_time", "head_of_queue_lifetime", "leaf_head_of_queue_lifetime")
# Names of routing engines in fabric files and in OpenSM.
_ENGINES = {"minimum-hop": "minhop", "up-down": "updn", "fat-tree": "ftree", "dimension-order": "dor"}
# Softband gives each host a folder of its own in this variable. It ends with the run.
_CONFIGURATION = '"$OSM_CACHE_DIR/opensm.conf"'
# Simulated time in which OpenSM must have configured all ports. 10,000 nodes take it a few seconds.
_WAIT_SECONDS = 60
# A port that OpenSM has not reached yet refuses programs.
_WAIT = (
    "ticks=0; while grep -q -e INIT -e ARMED /sys/class/infiniband/*/ports/*/state; do "
    f'if [ "$ticks" -ge {_WAIT_SECONDS * 10} ]; then '
    f'echo "softband: OpenSM has not made the ports of this host Active in {_WAIT_SECONDS} s:'
    ' see its output" >&2; exit 1; fi; '
    "ticks=$((ticks + 1)); sleep 0.1; done; "
)


class SubnetManager(StrEnum):
    """Who gives the ports their LIDs and routes."""

    BUILTIN = "builtin"
    OPENSM = "opensm"

    @property
    def options(self) -> list[str]:
        """Returns the options of a command that choose this manager."""
        return [] if self is SubnetManager.BUILTIN else ["--sm", self.value]

    @property
    def suffix(self) -> str:
        """Returns the end of the name of a results folder, so that managers have folders of their own."""
        return "" if self is SubnetManager.BUILTIN else f"-{self.value}"


def check_manager(manager: SubnetManager) -> None:
    """Fails if this machine lacks the program of a manager."""
    if manager is SubnetManager.OPENSM and shutil.which("opensm") is None:
        raise LabError("--sm opensm", "there is no `opensm` in PATH", "install OpenSM, on Debian the package `opensm`")


def managed_by(manager: SubnetManager, job: EngineJob) -> EngineJob:
    """Returns the job under a manager. Raises LabError for a setting of its fabric that OpenSM does not have."""
    if manager is SubnetManager.BUILTIN:
        return job
    document = tomllib.loads(job.fabric.text)
    command = _opensm(_settings(document, job.fabric.label))
    document.setdefault("subnet", {})["manager"] = "opensm"
    return replace(
        job,
        fabric=_labelled(job.fabric, document),
        steps=[_with_opensm(command, step, job.fabric.label) for step in job.steps],
    )


def _settings(document: dict[str, Any], label: str) -> dict[str, str]:
    """Returns the lines of OpenSM's configuration that stand for the fabric's `[subnet]`."""
    subnet = {key: value for key, value in document.get("subnet", {}).items() if key != "manager"}
    settings = {key: str(subnet.pop(key)) for key in _SAME if key in subnet}
    engine = subnet.pop("routing", None)
    if engine is None and "generate" in document:
        raise LabError(f"{label}: [generate]", "chooses its routing engine by itself", "`routing` in [subnet]")
    if engine is not None and engine not in _ENGINES:
        raise LabError(
            f"{label}: subnet.routing",
            f"`{engine}` needs settings beside it in OpenSM",
            f"one of {', '.join(_ENGINES)}",
        )
    if engine is not None:
        settings["routing_engine"] = _ENGINES[engine]
    for key in subnet:
        raise LabError(f"{label}: subnet.{key}", "is no setting that `--sm opensm` hands over", "a fabric without it")
    return settings


def _opensm(settings: dict[str, str]) -> str:
    """Returns the commands that write OpenSM's configuration, change it, and configure the subnet once."""
    changes = [f"sed -i 's/^{key} .*/{key} {value}/' {_CONFIGURATION}" for key, value in settings.items()]
    # The configuration keeps the folder of dumps. By default it is the machine's, which only root can write.
    write = f'export OSM_TMP_DIR="$OSM_CACHE_DIR"; opensm -c {_CONFIGURATION} >/dev/null'
    return " && ".join([write, *changes, f"opensm -o -F {_CONFIGURATION} -f stdout"])


def _with_opensm(command: str, step: AnyStep, label: str) -> Step:
    """Returns a step whose programs wait for their ports. OpenSM runs beside the first of them."""
    if isinstance(step, TraceStep):
        raise LabError(label, "carries a replay, which has no programs and no manager", "`--sm builtin`")
    if isinstance(step, TcpTraceStep):
        raise LabError(label, "carries a replay over TCP, whose ranks do not wait for OpenSM", "`--sm builtin`")
    if isinstance(step, MpiStep):
        raise LabError(label, "carries an MPI job, whose ranks do not wait for OpenSM", "`--sm builtin`")
    programs = [Program(program.host, _WAIT + program.command) for program in step.programs]
    return Step([Program(step.programs[0].host, command), *programs])


def _labelled(fabric: InputFile, document: dict[str, Any]) -> InputFile:
    path = PurePosixPath(fabric.label)
    return InputFile(str(path.with_name(f"{path.stem}-opensm{path.suffix}")), tomli_w.dumps(document))
