"""Executes jobs on a cluster, keeps finished runs, and continues an earlier campaign.

Workers send results back to this process, which alone writes. A run is finished when the data set has it.
"""

from __future__ import annotations

import fcntl
import queue
import signal
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from rich.console import Console
from rich.markup import escape

from softband_lab.base.errors import LabError
from softband_lab.base.softband import Cancelled, Softband
from softband_lab.campaign.cluster import Cluster, is_killed_worker
from softband_lab.campaign.dataset import Store
from softband_lab.campaign.estimate import Estimate, describe_seconds
from softband_lab.campaign.jobs import Failure, Finished, Job, content_key
from softband_lab.campaign.progress import Progress
from softband_lab.campaign.worker import Order

_SIGNAL_CHECK_SECONDS = 0.5

ResultT = TypeVar("ResultT")


@dataclass
class Outcome(Generic[ResultT]):
    """The results and failures of a campaign by run."""

    results: dict[str, ResultT] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    reused: int = 0
    interrupted: bool = False


class Pool(Protocol):
    """The source of runs that other campaigns finished, or in which they failed."""

    def finished(self, job: Job[Any], key: str) -> Finished | None: ...

    def failure(self, job: Job[Any], key: str) -> Failure | None: ...


@contextmanager
def exclusive(out: Path) -> Iterator[None]:
    """Locks a results folder: two campaigns would remove each other's half-written runs as leftovers."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("w")
    except OSError as error:
        raise LabError(out, f"cannot be written to: {error.strerror}", "another --out") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(
                out, "is in use by another campaign", "wait for it to end, or choose another --out"
            ) from None
        yield


def run_jobs(
    jobs: Sequence[Job[ResultT]],
    softband: Softband,
    out: Path,
    cluster: Cluster,
    console: Console,
    *,
    pool: Pool | None = None,
    expected: Mapping[str, float] | None = None,
) -> Outcome[ResultT]:
    """Executes every job without a finished run here or in the pool. Ctrl-C keeps the finished runs.

    `expected`: seconds of runs by the id of the job, for the estimate of the remaining time.
    """
    store = Store(out)
    store.remove_leftovers()
    outcome: Outcome[ResultT] = Outcome()
    waiting: deque[tuple[Job[ResultT], str]] = deque()
    with Progress(console, len(jobs)) as progress:
        for job in jobs:
            key = content_key(job, softband)
            known = store.load(job, key)
            if known is None and pool is not None and (finished := pool.finished(job, key)) is not None:
                known = store.write(job, key, finished)
            if known is not None:
                outcome.results[job.id] = job.read(key, known)
                outcome.reused += 1
                progress.advance()
            elif pool is not None and (failure := pool.failure(job, key)) is not None:
                outcome.failures[job.id] = failure
                progress.advance()
            else:
                waiting.append((job, key))
        store.print_restarts()
        if waiting:
            cluster.connect()
            estimate = Estimate([job.id for job, _ in waiting], expected or {})
            _Campaign(softband, store, cluster, outcome, progress, console, waiting, estimate).run()
    return outcome


@dataclass
class _Campaign(Generic[ResultT]):
    softband: Softband
    store: Store
    cluster: Cluster
    outcome: Outcome[ResultT]
    progress: Progress
    console: Console
    waiting: deque[tuple[Job[ResultT], str]]
    estimate: Estimate
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    under_way: dict[Any, tuple[Job[ResultT], str]] = field(default_factory=dict)
    done: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)

    def run(self) -> None:
        ended_well = False
        try:
            with _signals_interrupt():
                while self.waiting or self.under_way:
                    self._hand_out()
                    self._take_one()
            ended_well = True
        except KeyboardInterrupt:
            self.outcome.interrupted = True
            while not self.done.empty():
                self._take_one()
        finally:
            if not ended_well:
                for future in self.under_way:
                    future.cancel()
                self.cluster.stop(self.id)
            self.cluster.forget(self.id)

    def _hand_out(self) -> None:
        """Hands out as many jobs as there are threads. The others wait here, where a lost worker loses none."""
        slots = self.cluster.slots()
        left = self.estimate.seconds_left(time.monotonic(), slots)
        self.progress.describe(
            "runs" if slots else "waiting for workers", None if left is None else describe_seconds(left)
        )
        self.progress.tick()
        while self.waiting and len(self.under_way) < slots:
            job, key = self.waiting.popleft()
            order = Order(self.id, job, self.softband.version, self.softband.build_digest)
            if self.cluster.is_local:
                there = self.softband
                order = replace(order, binary=there.binary, home=there.home, own_parts=there.own_parts)
            future = self.cluster.submit(order)
            self.under_way[future] = (job, key)
            self.estimate.start(job.id, time.monotonic())
            future.add_done_callback(self.done.put)

    def _take_one(self) -> None:
        # An endless wait may miss a signal.
        try:
            future = self.done.get(timeout=_SIGNAL_CHECK_SECONDS)
        except queue.Empty:
            return
        job, key = self.under_way.pop(future)
        try:
            came_out = future.result()
        except Cancelled:
            raise KeyboardInterrupt from None
        except CancelledError:
            raise self.cluster.lost() from None
        except LabError:
            raise
        except OSError:
            raise self.cluster.lost() from None  # a Failure holds an OSError of a run
        except Exception as error:
            if not is_killed_worker(error):
                if self.cluster.is_local:
                    raise
                raise LabError(
                    self.cluster.name,
                    f"a worker cannot take runs: {type(error).__name__}: {error}",
                    "the same Python and the same Softband on every machine (`softband dask worker`)",
                ) from error
            came_out = _lost_workers(job, error)
        self._keep(job, key, came_out)
        self.estimate.finish(job.id, time.monotonic())
        self.progress.advance()

    def _keep(self, job: Job[ResultT], key: str, came_out: Finished | Failure) -> None:
        if isinstance(came_out, Finished):
            self.outcome.results[job.id] = job.read(key, self.store.write(job, key, came_out))
            return
        try:
            came_out = self.store.keep_failure(came_out)
        finally:
            # Also if the disk has no room for its files.
            self.outcome.failures[job.id] = came_out
            self.console.print(describe_failure(came_out), soft_wrap=True, highlight=False)


def _lost_workers(job: Job[Any], lost: Any) -> Failure:
    where = getattr(lost.last_worker, "address", lost.last_worker)
    reason = f"the worker that ran it was lost {lost.allowed_failures + 1} times, last {where}: out of memory there?"
    return Failure(job.id, job.command(), reason, [])


def describe_failure(failure: Failure) -> str:
    lines = [
        f"[bold red]failed[/] {escape(failure.id)}: {escape(failure.reason)}",
        f"  {escape(failure.command)}",
    ]
    lines += [f"  | {escape(line)}" for line in failure.last_lines]
    if failure.folder and not any(failure.folder in line for line in failure.last_lines):
        lines.append(f"  what it left: {escape(failure.folder)}")
    return "\n".join(lines)


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Makes Ctrl-C and SIGTERM raise KeyboardInterrupt, even if a library has installed another handler."""
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
