"""Runs jobs on several cores, keeps what is finished, and goes on where an earlier campaign stopped.

A job's folder appears under its name only when it is complete (a rename), so a folder that exists is a result;
its fingerprint says of what.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from softband_lab.errors import LabError
from softband_lab.perftest import Measurement, parse_table
from softband_lab.softband import Cancelled, Program, RunFailed, Softband, run_arguments

_SIGNAL_CHECK_SECONDS = 0.5
_FORMAT = 2  # of cell.json; a change makes every cell run again


@dataclass(frozen=True)
class Step:
    """One engine run; the last program's table is read."""

    programs: list[Program]


@dataclass(frozen=True)
class Job:
    """One or more engine runs on one fabric whose tables together are one result."""

    id: str
    fabric: Path
    fabric_label: str
    steps: list[Step]
    seed: int
    timeout_seconds: float
    expected_sizes: list[int]

    def fingerprint(self, softband: Softband) -> str:
        parts = [
            _FORMAT,
            softband.version,
            softband.build_digest,
            self.fabric.read_text(encoding="utf-8"),
            [[asdict(program) for program in step.programs] for step in self.steps],
            self.seed,
            self.expected_sizes,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def command(self, step: Step) -> str:
        return shlex.join(["softband", *run_arguments(self.fabric_label, step.programs, self.seed, "OUT")])


@dataclass(frozen=True)
class Row:
    """One measurement with the run it came from."""

    measurement: Measurement
    command: str
    versions: str
    virtual_seconds: float
    wall_seconds: float


@dataclass(frozen=True)
class JobResult:
    id: str
    fingerprint: str
    rows: list[Row]


@dataclass(frozen=True)
class Failure:
    id: str
    command: str
    reason: str
    last_lines: list[str]


@dataclass
class Outcome:
    """What a campaign left."""

    results: dict[str, JobResult] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    reused: int = 0
    interrupted: bool = False


@contextmanager
def exclusive(out: Path) -> Iterator[None]:
    """Two campaigns in one folder would take each other's half-written cells for leftovers."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(
                out, "is in use by another campaign", "wait for it to end, or choose another --out"
            ) from None
        yield


def run_jobs(jobs: list[Job], softband: Softband, out: Path, workers: int, console: Console) -> Outcome:
    """Run every job whose result is not there already. Ctrl-C keeps the finished ones."""
    store = Store(out / "cells")
    store.remove_leftovers()
    outcome = Outcome()
    waiting: list[tuple[Job, str]] = []
    for job in jobs:
        fingerprint = job.fingerprint(softband)
        known = store.load(job.id, fingerprint)
        if known is None:
            waiting.append((job, fingerprint))
        else:
            outcome.results[job.id] = known
            outcome.reused += 1
    with _progress(console) as progress:
        bar = progress.add_task("cells", total=len(jobs), completed=outcome.reused)
        _run_waiting(waiting, softband, store, workers, outcome, progress, lambda: progress.advance(bar))
    return outcome


def _run_waiting(
    waiting: list[tuple[Job, str]],
    softband: Softband,
    store: Store,
    workers: int,
    outcome: Outcome,
    progress: Progress,
    advance: Callable[[], None],
) -> None:
    with ThreadPoolExecutor(max_workers=workers) as pool, _signals_interrupt():
        futures: dict[Future[JobResult], Job] = {}
        try:
            for job, fingerprint in waiting:
                futures[pool.submit(run_job, job, fingerprint, softband, store)] = job
            for future in _as_completed(set(futures)):
                _collect(future, futures[future], outcome, progress)
                advance()
        except KeyboardInterrupt:
            outcome.interrupted = True
            pool.shutdown(wait=False, cancel_futures=True)
            softband.stop()


def _collect(future: Future[JobResult], job: Job, outcome: Outcome, progress: Progress) -> None:
    try:
        outcome.results[job.id] = future.result()
    except Cancelled:
        outcome.interrupted = True
    except RunFailed as failed:
        failure = Failure(job.id, failed.command, failed.reason, failed.last_lines)
        outcome.failures[job.id] = failure
        progress.console.print(describe_failure(failure))
    except LabError as error:
        failure = Failure(job.id, job.command(job.steps[0]), str(error), [])
        outcome.failures[job.id] = failure
        progress.console.print(describe_failure(failure))


def describe_failure(failure: Failure) -> str:
    lines = [
        f"[bold red]failed[/] {escape(failure.id)}: {escape(failure.reason)}",
        f"  {escape(failure.command)}",
    ]
    return "\n".join([*lines, *(f"  | {escape(line)}" for line in failure.last_lines)])


def run_job(job: Job, fingerprint: str, softband: Softband, store: Store) -> JobResult:
    with store.writing(job.id) as folder:
        rows: list[Row] = []
        for number, step in enumerate(job.steps):
            rows += _run_step(job, step, softband, folder / f"run-{number}")
        _check_sizes(job, rows)
        result = JobResult(job.id, fingerprint, rows)
        store.write(folder, result)
    return result


def _run_step(job: Job, step: Step, softband: Softband, out: Path) -> list[Row]:
    command = job.command(step)
    try:
        run = softband.run(job.fabric, step.programs, out, job.seed, job.timeout_seconds)
    except RunFailed as failed:
        # As a person would type it, not with this campaign's folders.
        raise RunFailed(command, failed.reason, failed.last_lines) from None
    reader = step.programs[-1]
    number = sum(program.host == reader.host for program in step.programs) - 1
    output = out / f"{reader.host}-{number}.out"
    try:
        text = output.read_text(encoding="utf-8", errors="replace")
    except OSError:
        raise RunFailed(command, f"the run left no {output.name}", []) from None
    try:
        table = parse_table(text, output)
    except LabError as error:
        raise RunFailed(command, str(error), text.rstrip().splitlines()[-12:]) from None
    return [
        Row(
            measurement,
            command,
            describe_versions(run.get("versions")),
            float(run.get("virtual_seconds", 0.0)),
            float(run.get("wall_seconds", 0.0)),
        )
        for measurement in table
    ]


def _check_sizes(job: Job, rows: list[Row]) -> None:
    got = [row.measurement.size_bytes for row in rows]
    if got != job.expected_sizes:
        raise RunFailed(
            job.command(job.steps[0]),
            f"the program reported the sizes {_brief(got)}, the study expects {_brief(job.expected_sizes)}",
            [],
        )


def _brief(sizes: list[int]) -> str:
    return f"{sizes[0]}..{sizes[-1]} ({len(sizes)} of them)" if sizes else "none"


def describe_versions(versions: Any) -> str:
    """`softband 0.1.0; perftest 4.5` from whatever table the engine wrote."""
    if isinstance(versions, dict):
        return "; ".join(f"{name} {versions[name]}" for name in sorted(versions))
    return "" if versions is None else str(versions)


class Store:
    """Finished jobs on disk, one folder each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def remove_leftovers(self) -> None:
        for path in self.folder.glob(".writing-*"):
            shutil.rmtree(path, ignore_errors=True)

    def load(self, job_id: str, fingerprint: str) -> JobResult | None:
        try:
            content = json.loads((self.folder / job_id / "cell.json").read_text(encoding="utf-8"))
            if content["fingerprint"] != fingerprint:
                return None
            rows = [Row(**{**row, "measurement": Measurement(**row["measurement"])}) for row in content["rows"]]
        except (OSError, ValueError, KeyError, TypeError):
            return None  # absent or unreadable: the cell runs again
        return JobResult(job_id, fingerprint, rows)

    @contextmanager
    def writing(self, job_id: str) -> Iterator[Path]:
        """A folder that takes the job's name when all went well; else it stays to be looked at until the next time."""
        partial = self.folder / f".writing-{job_id}"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        final = self.folder / job_id
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)

    def write(self, folder: Path, result: JobResult) -> None:
        path = folder / "cell.json"
        path.write_text(json.dumps(asdict(result), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _as_completed(pending: set[Future[JobResult]]) -> Iterator[Future[JobResult]]:
    """As the library's, but never waits for long: a wait without end may sleep through a signal."""
    while pending:
        done, pending = wait(pending, timeout=_SIGNAL_CHECK_SECONDS, return_when=FIRST_COMPLETED)
        yield from done


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Ctrl-C and SIGTERM raise KeyboardInterrupt, whatever handler a library has put in its place."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


def default_workers() -> int:
    return len(os.sched_getaffinity(0))
