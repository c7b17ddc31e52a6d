"""Plan: the runs, claims and rules of a study, checked before the first run starts."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from softband_lab.base.errors import LabError
from softband_lab.base.places import fabric_path
from softband_lab.base.toml_lines import place
from softband_lab.campaign.cluster import Cluster
from softband_lab.campaign.engine_job import AnyStep, EngineJob, MpiStep, Requirement, Step
from softband_lab.campaign.inputs import InputFile, fabric_file
from softband_lab.campaign.subnet_manager import SubnetManager, managed_by
from softband_lab.campaign.trace_step import TraceStep
from softband_lab.rules.claims import check_calibrated, check_claims, load_rules
from softband_lab.rules.evaluators import AnyRule
from softband_lab.spec.published import Published, load_published
from softband_lab.spec.study import Computation, Figure, Run, Study, Test, Transport
from softband_lab.spec.study_file import check_fabrics


@dataclass(frozen=True)
class StudyOptions:
    """The command line of a study."""

    home: Path
    out: Path
    quick: bool
    cluster: Cluster
    command: str
    manager: SubnetManager = SubnetManager.BUILTIN


@dataclass(frozen=True)
class Plan:
    """A checked study: its runs as jobs, and the published claims with a rule for each."""

    study: Study
    figures: list[Figure]
    jobs: list[EngineJob]
    published: list[Published]
    rules: dict[str, AnyRule]


def plan(study: Study, included: Sequence[Study], options: StudyOptions) -> Plan:
    """Checks a study and makes its jobs. `included`: the studies that its rules may name.

    Fails with a `LabError` that names what cannot run, and each claim that no rule can judge.
    """
    published, rules = check_study(study, included, options.home)
    jobs = [managed_by(options.manager, _job(study, run, options.home)) for run in study.runs(options.quick)]
    return Plan(study, study.chosen_figures(options.quick), jobs, published, rules)


def check_study(study: Study, included: Sequence[Study], home: Path) -> tuple[list[Published], dict[str, AnyRule]]:
    """Returns the published claims of a study and its rules. Fails if a run or a judgement is impossible."""
    check_fabrics(study, home)
    reference = study.claims_path(home)
    published = load_published(reference)
    rules = load_rules(study, published, reference)
    check_claims(study, published, rules, list(included), home)
    check_calibrated(home)
    return published, rules


def _job(study: Study, run: Run, home: Path) -> EngineJob:
    fabric = fabric_file(fabric_path(home, run.fabric), f"fabrics/{run.fabric}")
    test = study.tests[run.test]
    sizes = test.expected_sizes(run.transport)
    of_steps: list[int | None] = [*sizes] if test.run_per_size else [None]
    steps = [_step(study, test, run, size) for size in of_steps]
    return EngineJob(
        run.id, fabric, steps, study.head.seed, study.head.timeout_seconds, sizes, _requirement(test, run.transport)
    )


def _step(study: Study, test: Test, run: Run, size: int | None) -> AnyStep:
    if test.trace is not None:
        work, ranks = test.trace.computation, test.trace.ranks_per_host
        recording = _recording(study, ["tests", run.test, "trace", "computation", "recording"], work)
        options = ("--timed", *work.options(), "--compute-ranks", str(ranks))
        return TraceStep(recording, options, ranks, test.trace.operations)
    if test.mpi is not None:
        work_of = test.mpi.computation
        where = ["tests", run.test, "mpi", "computation", "recording"]
        recorded = _recording(study, where, work_of) if work_of else None
        return MpiStep(test.job(test.mpi, run.transport, size), recorded)
    return Step(test.programs(run.transport, size, run.client_host))


def _recording(study: Study, where: list[str], work: Computation) -> InputFile:
    """Returns the recording of a job's computation. Fails if the study's folder lacks it."""
    path = study.folder / work.recording
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        problem = f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        raise LabError(
            place(study.folder / "study.toml", where), problem, "a file of `softband mpirun --record`"
        ) from None
    return InputFile(f"studies/{study.head.name}/{work.recording}", text)


def _requirement(test: Test, transport: Transport) -> Requirement | None:
    if test.needs is None or transport not in test.needs.transports:
        return None
    return Requirement(test.needs.name, test.server_host, test.needs.command)
