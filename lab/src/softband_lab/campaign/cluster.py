"""Executes the runs of a campaign: in threads of this process, on workers of a Dask scheduler, or in Slurm jobs.

Threads need no package. The other ways need Dask.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import shlex
import shutil
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from softband_lab.base.errors import LabError
from softband_lab.campaign import worker
from softband_lab.campaign.scratch import Scratch

# A running scheduler answers much sooner.
_CONNECT_SECONDS = 4.0
_WORKERLESS_SECONDS = 60.0
_COUNT_EVERY_SECONDS = 1.0
_GOES_ON = "the same command goes on with the runs that are finished"


def check_dask(wanted_by: str) -> None:
    """Fails if Dask is missing: an installation has it only if campaigns on several machines need it."""
    try:
        importlib.import_module("distributed")
    except ImportError:
        raise LabError(
            wanted_by, "needs the packages dask and distributed", how_to_install("dask", "distributed")
        ) from None


def _import_distributed(wanted_by: str) -> Any:
    check_dask(wanted_by)
    distributed = importlib.import_module("distributed")
    # The campaign reports lost workers itself. Dask sets a level for each of its loggers.
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return distributed


def is_killed_worker(error: BaseException) -> bool:
    """Returns whether Dask gave a run up because it killed several workers."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(error, distributed.KilledWorker)


def default_jobs() -> int:
    return len(os.sched_getaffinity(0))


class Cluster:
    """The place of runs. Connects before the first run. `jobs`: most runs at the same time, or the Slurm jobs."""

    def __init__(self, where: str | None = None, jobs: int | None = None) -> None:
        if where not in (None, "slurm") and not re.fullmatch(r"(tcp|tls|ucx|ws|wss)://.+:\d+", where):
            raise LabError(
                f"--cluster {where}", "is not a cluster", "the address of a Dask scheduler, tcp://HOST:PORT, or `slurm`"
            )
        self._where = where
        self._jobs = jobs
        self._made: Any = None
        self._client: Any = None
        self._threads: ThreadPoolExecutor | None = None
        self._scratch: Scratch | None = None
        self._counted = (0.0, 0)
        self._workers_seen = time.monotonic()

    @property
    def is_local(self) -> bool:
        return self._where is None

    @property
    def name(self) -> str:
        return f"--cluster {self._where}"

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        if self._scratch is not None:
            self._scratch.remove()
        with suppress(Exception):
            if self._client is not None:
                self._client.close(timeout=_CONNECT_SECONDS)
            if self._made is not None:
                self._made.close(timeout=_CONNECT_SECONDS)

    def connect(self) -> None:
        if self._client is not None or self._threads is not None:
            return
        if self._where is None:
            self._scratch = Scratch()
            self._threads = ThreadPoolExecutor(self._jobs or default_jobs(), thread_name_prefix="run")
            return
        client = _import_distributed(self.name).Client
        if self._where == "slurm":
            self._made = _slurm(self._jobs or default_jobs())
        self._client = client(self._made) if self._made is not None else _reach(client, str(self._where), self.name)
        self._workers_seen = time.monotonic()

    def submit(self, order: worker.Order) -> Any:
        """Starts a run. Returns a future of this process or of Dask; both have the same methods."""
        if self._threads is not None and self._scratch is not None:
            return self._threads.submit(worker.carry_out, replace(order, scratch=self._scratch.folder))
        assert self._client is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Dask warns of large fabrics, but each goes to one worker once.
            return self._client.submit(worker.carry_out, order, pure=False)

    def slots(self) -> int:
        """Returns the number of runs that may be under way, which is the number of threads.

        So a lost worker loses no waiting runs.
        """
        if self._where is None:
            return self._jobs or default_jobs()
        now = time.monotonic()
        if now - self._counted[0] >= _COUNT_EVERY_SECONDS:
            self._counted = (now, self._count())
        threads = self._counted[1]
        if threads > 0:
            self._workers_seen = now
        elif self._where != "slurm" and now - self._workers_seen > _WORKERLESS_SECONDS:
            raise LabError(
                self.name,
                f"has had no workers for {_WORKERLESS_SECONDS:g} s",
                f"start some (`softband dask worker {self._where}`); {_GOES_ON}",
            )
        return min(threads, self._jobs) if self._jobs and self._where != "slurm" else threads

    def lost(self) -> LabError:
        return LabError(
            self.name,
            "the scheduler is gone",
            f"start one again, with workers; {_GOES_ON}",
        )

    def stop(self, campaign: str) -> None:
        """Ends the runs of a campaign on this machine and on all workers that answer."""
        if self._where is None:
            worker.stop(campaign)
        elif self._client is not None and self._client.status == "running":
            with suppress(Exception):
                self._client.run(worker.stop, campaign, on_error="ignore")

    def forget(self, campaign: str) -> None:
        worker.forget(campaign)

    def _count(self) -> int:
        assert self._client is not None
        try:
            if self._client.status != "running":
                raise self.lost()
            return sum(self._client.nthreads().values())
        except (OSError, TimeoutError):
            raise self.lost() from None


def _reach(client: Any, address: str, name: str) -> Any:
    """Connects in a separate thread, because another server at the address may never answer."""
    found: list[Any] = []

    def reach() -> None:
        with suppress(Exception):
            found.append(client(address, timeout=_CONNECT_SECONDS, set_as_default=False))

    thread = threading.Thread(target=reach, daemon=True)
    thread.start()
    thread.join(_CONNECT_SECONDS + 1)
    if not found:
        raise LabError(
            name,
            "no Dask scheduler answers there",
            "the address that `softband dask scheduler` prints, reachable from here; without --cluster runs stay here",
        )
    return found[0]


def _slurm(jobs: int) -> Any:
    """Starts a worker in each Slurm job. Dask's jobqueue.yaml sets queue, account, cores and more."""
    try:
        jobqueue = importlib.import_module("dask_jobqueue")
    except ImportError:
        raise LabError("--cluster slurm", "needs the package dask-jobqueue", how_to_install("dask-jobqueue")) from None
    if shutil.which("sbatch") is None:
        raise LabError(
            "--cluster slurm", "there is no `sbatch` in PATH", "start the campaign on a machine that submits to Slurm"
        )
    settings = importlib.import_module("dask").config.get("jobqueue.slurm", {})
    cluster = jobqueue.SLURMCluster(
        cores=settings.get("cores") or 1,
        processes=settings.get("processes") or 1,
        memory=settings.get("memory") or "4GiB",
        job_script_prologue=[*(settings.get("job-script-prologue") or []), *_environment()],
        scheduler_options={"dashboard_address": ":0"},
    )
    cluster.scale(jobs=jobs)
    return cluster


def _environment() -> list[str]:
    """Returns shell commands with which a job finds the tree of this process."""
    names = ("SOFTBAND_BIN", "SOFTBAND_HOME", "SOFTBAND_CATALOG", "PYTHONPATH", "PATH")
    return [f"export {name}={shlex.quote(os.environ[name])}" for name in names if name in os.environ]


def how_to_install(*packages: str) -> str:
    folder, names = Path(__file__).resolve().parents[2], " ".join(packages)
    if folder.name == "python":
        return f"python3 -m pip install --target {folder} {names}"
    return f"{sys.executable} -m pip install {names}"
