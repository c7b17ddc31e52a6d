"""Runs that several studies share. Each run lies in a store under its content key, whole or not at all.

Jobs of the same content have the same key, so they run once. A study takes its runs from here into its own folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from softband_lab.base.softband import Softband
from softband_lab.campaign.cluster import Cluster
from softband_lab.campaign.dataset import Store
from softband_lab.campaign.engine_job import EngineJob, JobResult
from softband_lab.campaign.jobs import Failure, Finished, Job, content_key
from softband_lab.campaign.runner import Outcome, run_jobs


@dataclass
class Shared:
    """The store of the runs of several studies, and the failures of the present campaign by key."""

    folder: Path
    softband: Softband
    _failures: dict[str, Failure] = field(default_factory=dict)

    def gather(
        self, jobs: Sequence[EngineJob], cluster: Cluster, console: Console, seconds: Mapping[str, float]
    ) -> Outcome[JobResult]:
        """Executes each content once, the longest runs first. `seconds`: expected durations by the id of a job."""
        unique: dict[str, EngineJob] = {}
        expected: dict[str, float] = {}
        for job in jobs:
            key = content_key(job, self.softband)
            unique.setdefault(key, replace(job, id=key))
            if job.id in seconds:
                expected[key] = seconds[job.id]
        # Short runs at the end keep all cores busy.
        ordered = sorted(unique.values(), key=lambda job: -expected.get(job.id, 0.0))
        outcome = run_jobs(ordered, self.softband, self.folder, cluster, console, expected=expected)
        self._failures = dict(outcome.failures)
        return outcome

    def finished(self, job: Job[Any], key: str) -> Finished | None:
        """Returns a finished run with its files, or None."""
        if not isinstance(job, EngineJob):
            return None
        return Store(self.folder).finished(replace(job, id=key), key)

    def failure(self, job: Job[Any], key: str) -> Failure | None:
        """Returns the failure of a run of the present campaign, under the name that the job has here."""
        known = self._failures.get(key)
        return None if known is None else replace(known, id=job.id)
