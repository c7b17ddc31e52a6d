"""The run of a study or a what-if question: programs on a fabric, and the tables that they print."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from softband_lab.base.errors import LabError
from softband_lab.base.softband import MpiJob, Program, RunFailed, Softband, mpirun_arguments, run_arguments
from softband_lab.base.tables import Kind, Table
from softband_lab.campaign.inputs import InputFile
from softband_lab.campaign.jobs import Tables
from softband_lab.campaign.perftest import Measurement
from softband_lab.campaign.printed import parse_table
from softband_lab.campaign.trace_step import TcpTraceStep, TraceStep

MEASURED: dict[str, Kind] = {item.name: Kind.INT if item.type == "int" else Kind.FLOAT for item in fields(Measurement)}
SCHEMA: dict[str, Kind] = {
    **MEASURED,
    "virtual_seconds": Kind.FLOAT,
    "wall_seconds": Kind.FLOAT,
    "command": Kind.STRING,
    "versions": Kind.STRING,
    # The reason, in the only row of a run that did not start because it lacks what it needs.
    "lacks": Kind.STRING,
}
# In the engine's warning of a program without its library, such as one that a busy machine starts too late.
_OUTSIDE = "runs outside simulated time"
_NO_MEASUREMENT = Measurement(0, 0)
_THERE, _NOT_THERE = "there", "not there"


@dataclass(frozen=True)
class Step:
    """One command of a run. The lab reads the table of its last program."""

    programs: list[Program]

    @property
    def output_name(self) -> str:
        reader = self.programs[-1]
        number = sum(program.host == reader.host for program in self.programs) - 1
        return f"{reader.host}-{number}.out"

    def inputs(self) -> Any:
        return [asdict(program) for program in self.programs]

    def command(self, fabric: str, seed: int) -> str:
        return shlex.join(["softband", *run_arguments(fabric, self.programs, seed, "OUT")])

    def run(self, softband: Softband, fabric: Path, out: Path, seed: int, timeout_seconds: float) -> dict[str, Any]:
        return softband.run(fabric, self.programs, out, seed, timeout_seconds)


@dataclass(frozen=True)
class MpiStep:
    """One MPI job of a run. The lab reads the table of rank 0."""

    job: MpiJob
    recording: InputFile | None = None
    output_name: ClassVar[str] = "rank-0.out"

    def inputs(self) -> Any:
        return [asdict(self.job), self.recording.text if self.recording else ""]

    def command(self, fabric: str, seed: int) -> str:
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.job.environment]
        program = f'"$({self.job.program} --path)"'
        label = self.recording.label if self.recording else ""
        words = mpirun_arguments(fabric, self.job, program, seed, "OUT", label)
        return " ".join([*variables, "softband", *(word if word == program else shlex.quote(word) for word in words)])

    def run(self, softband: Softband, fabric: Path, out: Path, seed: int, timeout_seconds: float) -> dict[str, Any]:
        recording = self.recording.lay(out.parent, ".rec") if self.recording else None
        try:
            return softband.mpirun(fabric, self.job, out, seed, timeout_seconds, recording)
        finally:
            if recording is not None:
                recording.unlink(missing_ok=True)


AnyStep = Step | MpiStep | TraceStep | TcpTraceStep


@dataclass(frozen=True)
class Requirement:
    """A property of the model, or programs of the machine, that a run needs. A command on the host finds out."""

    name: str
    host: str
    command: str
    programs: tuple[str, ...] = ()
    # The programs that this machine has. With others, the run asks again.
    found: tuple[str, ...] = ()

    def lacking(self) -> str:
        """Returns the reason for a run that does not start."""
        return f"{'the machine of the run' if self.programs else 'the model'} has no {self.name}"

    def probe(self) -> Program:
        """Returns a program that prints the answer and never fails, so that a failure means another fault."""
        return Program(self.host, f"({self.command}) >/dev/null 2>&1 && echo {_THERE} || echo {_NOT_THERE}")


@dataclass(frozen=True)
class Row:
    """One measurement with its command, versions and durations in seconds."""

    measurement: Measurement
    command: str
    versions: str
    virtual_seconds: float
    wall_seconds: float


@dataclass(frozen=True)
class JobResult:
    """The rows of a run. `lacks`: the reason if it did not start because it lacks what it needs, else empty."""

    id: str
    key: str
    rows: list[Row]
    lacks: str = ""


@dataclass(frozen=True)
class EngineJob:
    """A run: one or more steps on one fabric, whose tables together are one result."""

    id: str
    fabric: InputFile
    steps: Sequence[AnyStep]
    seed: int
    timeout_seconds: float
    expected_sizes: list[int]
    requirement: Requirement | None = None

    tables: ClassVar[tuple[str, ...]] = ("measurements",)
    head_columns: ClassVar[dict[str, Kind]] = SCHEMA
    keeps_files: ClassVar[bool] = True

    def inputs(self) -> Any:
        steps = [step.inputs() for step in self.steps]
        needs = asdict(self.requirement) if self.requirement else None
        return [self.fabric.text, steps, self.seed, self.expected_sizes, needs]

    def command(self) -> str:
        return self.command_of(self.steps[0])

    def command_of(self, step: AnyStep) -> str:
        return step.command(self.fabric.label, self.seed)

    def run(self, softband: Softband, folder: Path) -> Tables:
        fabric = self.fabric.lay(folder)
        if self.requirement is not None and not self._has(self.requirement, softband, fabric, folder / "requirement"):
            return {"measurements": Table.of([self._lacking(self.requirement)], SCHEMA)}
        rows: list[dict[str, Any]] = []
        for number, step in enumerate(self.steps):
            rows += self._run_step(step, softband, fabric, folder / f"step-{number}")
        got = [row["size_bytes"] for row in rows]
        if got != self.expected_sizes:
            problem = f"the program reported the sizes {_brief(got)}, the study expects {_brief(self.expected_sizes)}"
            raise RunFailed(self.command(), problem, [])
        return {"measurements": Table.of(rows, SCHEMA)}

    def read(self, key: str, head: Table) -> JobResult:
        found = list(head.rows())
        lacks = next((row["lacks"] for row in found if row["lacks"]), "")
        rows = [
            Row(
                Measurement(**{name: row[name] for name in MEASURED}),
                row["command"],
                row["versions"],
                row["virtual_seconds"],
                row["wall_seconds"],
            )
            for row in found
            if not lacks
        ]
        return JobResult(self.id, key, rows, lacks)

    def _has(self, requirement: Requirement, softband: Softband, fabric: Path, out: Path) -> bool:
        """Returns whether a run has what it needs. Raises RunFailed if the probe gives no answer."""
        step = Step([requirement.probe()])
        self._execute(step, softband, fabric, out)
        answer = _output(step, self.command_of(step), out)
        if answer.strip() not in (_THERE, _NOT_THERE):
            raise RunFailed(self.command_of(step), "the probe gave no answer", answer.rstrip().splitlines()[-12:])
        return answer.strip() == _THERE

    def _lacking(self, requirement: Requirement) -> dict[str, Any]:
        return {
            **asdict(_NO_MEASUREMENT),
            "virtual_seconds": 0.0,
            "wall_seconds": 0.0,
            "command": self.command_of(Step([requirement.probe()])),
            "versions": "",
            "lacks": requirement.lacking(),
        }

    def _execute(self, step: AnyStep, softband: Softband, fabric: Path, out: Path) -> dict[str, Any]:
        try:
            run = step.run(softband, fabric, out, self.seed, self.timeout_seconds)
            if escaped := [str(line) for line in run.get("warnings") or () if _OUTSIDE in str(line)]:
                raise RunFailed("", "a program ran outside simulated time", escaped)
            return run
        except RunFailed as failed:
            # The command as a user types it, without the temporary folders of the run.
            lines = [self.fabric.in_own_words(line, fabric) for line in failed.last_lines]
            raise RunFailed(self.command_of(step), failed.reason, lines) from None

    def _run_step(self, step: AnyStep, softband: Softband, fabric: Path, out: Path) -> list[dict[str, Any]]:
        command, run = self.command_of(step), self._execute(step, softband, fabric, out)
        return [
            {
                **asdict(measurement),
                "virtual_seconds": float(run.get("virtual_seconds", 0.0)),
                "wall_seconds": float(run.get("wall_seconds", 0.0)),
                "command": command,
                "versions": describe_versions(run.get("versions")),
                "lacks": "",
            }
            for measurement in _printed(step, command, out)
        ]


def _printed(step: AnyStep, command: str, out: Path) -> list[Measurement]:
    text = _output(step, command, out)
    try:
        return parse_table(text, Path(step.output_name))
    except LabError as error:
        raise RunFailed(command, str(error), text.rstrip().splitlines()[-12:]) from None


def _output(step: AnyStep, command: str, out: Path) -> str:
    """Returns the output with the table of a step."""
    name = step.output_name
    try:
        return (out / name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        raise RunFailed(command, f"the run left no {name}", []) from None


def _brief(sizes: list[int]) -> str:
    return f"{sizes[0]}..{sizes[-1]} ({len(sizes)} of them)" if sizes else "none"


def describe_versions(versions: Any) -> str:
    """Returns `softband 0.2.0; perftest 4.5` for the table of versions that the engine wrote."""
    if isinstance(versions, dict):
        return "; ".join(f"{name} {versions[name]}" for name in sorted(versions))
    return "" if versions is None else str(versions)
