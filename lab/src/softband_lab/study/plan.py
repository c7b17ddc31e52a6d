"""Plan: the runs, claims and rules of a study, checked before the first run starts."""

from __future__ import annotations

import gzip
import json
import shutil
import tomllib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from softband_lab.base.errors import LabError
from softband_lab.base.places import fabric_path
from softband_lab.base.toml_lines import place
from softband_lab.campaign.cluster import Cluster
from softband_lab.campaign.engine_job import AnyStep, EngineJob, MpiStep, Requirement, Step
from softband_lab.campaign.inputs import InputFile, fabric_file
from softband_lab.campaign.runner import Pool
from softband_lab.campaign.subnet_manager import SubnetManager, managed_by
from softband_lab.campaign.trace_step import TcpTraceStep, TraceStep
from softband_lab.rules.claims import check_calibrated, check_claims, load_rules
from softband_lab.rules.evaluators import AnyRule
from softband_lab.spec.host_rules import load_host_logs
from softband_lab.spec.published import Published, load_published
from softband_lab.spec.study import HOST_RATES, TCP_TRANSPORTS, Computation, Figure, Run, Study, Test, Trace, Transport
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
    # Runs that several studies share.
    pool: Pool | None = None


@dataclass(frozen=True)
class Plan:
    """A checked study: its runs as jobs, and the published claims with a rule for each.

    `other_hosts`: for each of `HOST_RATES`, the jobs of runs whose host computes at this rate, by the run's id.
    """

    study: Study
    figures: list[Figure]
    jobs: list[EngineJob]
    published: list[Published]
    rules: dict[str, AnyRule]
    other_hosts: dict[str, dict[str, EngineJob]] = field(default_factory=dict)

    def all_jobs(self) -> list[EngineJob]:
        return [*self.jobs, *(job for jobs in self.other_hosts.values() for job in jobs.values())]


def plan(study: Study, included: Sequence[Study], options: StudyOptions) -> Plan:
    """Checks a study and makes its jobs. `included`: the studies that its rules may name.

    Fails with a `LabError` that names what cannot run, and each claim that no rule can judge.
    """
    published, rules = check_study(study, included, options.home)
    runs = study.runs(options.quick)
    jobs = [managed_by(options.manager, _job(study, run, options.home)) for run in runs]
    others = {} if options.quick else _other_hosts(study, runs, options.home)
    return Plan(study, study.chosen_figures(options.quick), jobs, published, rules, others)


def check_study(study: Study, included: Sequence[Study], home: Path) -> tuple[list[Published], dict[str, AnyRule]]:
    """Returns the published claims of a study and its rules. Fails if a run or a judgement is impossible."""
    check_fabrics(study, home)
    if study.head.host_rules:
        load_host_logs(home / "references" / study.head.host_rules)
    reference = study.claims_path(home)
    published = load_published(reference)
    rules = load_rules(study, published, reference)
    check_claims(study, published, rules, list(included), home)
    check_calibrated(home)
    return published, rules


def _other_hosts(study: Study, runs: list[Run], home: Path) -> dict[str, dict[str, EngineJob]]:
    """Returns the runs with computation once more for each rate of the host."""
    computing = [run for run in runs if study.tests[run.test].computation is not None]
    return {
        word: {run.id: replace(_job(study, run, home, rate), id=f"{run.id}-host-{word}") for run in computing}
        for word, rate in HOST_RATES.items()
        if computing
    }


def _job(study: Study, run: Run, home: Path, rate: float = 1.0) -> EngineJob:
    fabric = fabric_file(fabric_path(home, run.fabric), f"fabrics/{run.fabric}")
    test = study.tests[run.test]
    sizes = test.expected_sizes(run.transport)
    of_steps: list[int | None] = [*sizes] if test.run_per_size else [None]
    steps = [_step(study, run, size, rate, fabric) for size in of_steps]
    return EngineJob(
        run.id, fabric, steps, study.head.seed, study.head.timeout_seconds, sizes, _requirement(test, run.transport)
    )


def _step(study: Study, run: Run, size: int | None, rate: float, fabric: InputFile) -> AnyStep:
    test = study.tests[run.test]
    where = ["tests", run.test, "trace" if test.trace else "mpi", "computation"]
    work = test.computation
    host = _host_part(fabric, work, test, place(study.folder / "study.toml", where)) if work else ""
    recording = _recording(study, [*where, "recording"], work) if work else None
    if test.trace is not None and recording is not None:
        ranks = test.trace.ranks_per_host
        options = ("--timed", *test.trace.computation.options(host, rate), "--compute-ranks", str(ranks))
        if run.transport in TCP_TRANSPORTS:
            interface = test.trace.interfaces[run.transport]
            place_of_trace = place(study.folder / "study.toml", ["tests", run.test, "trace"])
            return _tcp_step(test.trace, interface, recording, options, fabric, place_of_trace)
        return TraceStep(recording, options, ranks, test.trace.operations)
    if test.mpi is not None:
        return MpiStep(test.job(test.mpi, run.transport, size, host, rate), recording)
    return Step(test.programs(run.transport, size, run.client_host))


def _tcp_step(
    trace: Trace, interface: str, recording: InputFile, options: tuple[str, ...], fabric: InputFile, where: str
) -> TcpTraceStep:
    """Returns the replay of a recording over TCP. Fails if the fabric lacks hosts or their interface."""
    document = tomllib.loads(fabric.text)
    tables, ranks = document.get("hosts", {}), _ranks_of(recording, where)
    needed = -(-ranks // trace.ranks_per_host)
    hosts = tuple(tables)[:needed]
    if len(hosts) < needed:
        problem = f"needs {needed} hosts for {ranks} ranks, and {fabric.label} names {len(hosts)}"
        raise LabError(where, problem, "more `ranks_per_host`, or a larger fabric")
    for host in hosts:
        found = {**document.get("interfaces", {}), **tables[host].get("nics", {}), **tables[host].get("interfaces", {})}
        if not found.get(interface):
            raise LabError(where, f"`{host}` has no interface `{interface}` in {fabric.label}", "one of its interfaces")
    return TcpTraceStep(recording, options, trace.ranks_per_host, trace.operations, ranks, hosts, interface)


def _ranks_of(recording: InputFile, where: str) -> int:
    """Returns the number of ranks in the first line of a recording."""
    try:
        return int(json.loads(recording.text.split("\n", 1)[0])["ranks"])
    except (LookupError, TypeError, ValueError):
        raise LabError(where, f"{recording.label} states no ranks", "a file of `softband mpirun --record`") from None


def _host_part(fabric: InputFile, work: Computation, test: Test, where: str) -> str:
    """Returns the host part whose processor computes: the one that the test names, or that of its first host."""
    if work.host:
        return work.host
    hosts = tomllib.loads(fabric.text).get("hosts", {})
    first = test.mpi.hosts[0] if test.mpi else next(iter(hosts), "")
    part = hosts.get(first, {}).get("part")
    if not isinstance(part, str):
        raise LabError(where, f"has no `host`, and `{first}` has no part in {fabric.label}", "add `host = ...`")
    return part


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
    if not test.needs.programs:
        return Requirement(test.needs.name, test.server_host, test.needs.command)
    programs = tuple(test.needs.programs)
    command = " && ".join(f"command -v {name}" for name in programs)
    found = tuple(filter(shutil.which, programs))
    return Requirement(test.needs.name, test.server_host, command, programs, found)
