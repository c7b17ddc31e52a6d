"""Executes a run: in this process, or in a worker on another machine."""

from __future__ import annotations

import importlib
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softband_lab.base.errors import LabError
from softband_lab.base.places import find_home, find_softband
from softband_lab.base.softband import RunFailed, Softband
from softband_lab.campaign.jobs import Failure, Finished, Job


@dataclass(frozen=True)
class Order:
    """A job with the version and build of `softband` that must execute it."""

    campaign: str
    job: Job[Any]
    version: str
    build_digest: str
    # The `softband` of the campaign's own process. Workers on other machines find theirs.
    binary: Path | None = None
    home: Path | None = None
    own_parts: Path | None = None
    # The temporary folder of the campaign's own process. Workers on other machines have their own.
    scratch: Path | None = None


_lock = threading.Lock()
_softbands: dict[str, Softband] = {}


def carry_out(order: Order) -> Finished | Failure:
    """Executes a run. Returns a Failure if the run fails. Raises a LabError if no run is possible here."""
    softband, job = _softband(order), order.job
    try:
        # Dask removes the folders of killed workers.
        with tempfile.TemporaryDirectory(prefix="run-", dir=order.scratch or _worker().local_directory) as name:
            return _carry_out(job, softband, Path(name))
    except OSError as error:
        here = "this machine" if order.scratch else _here()
        place = f"{here}: {error.filename}" if error.filename else here
        return Failure(job.id, job.command(), f"{place}: {error.strerror or error}", [])


def _carry_out(job: Job[Any], softband: Softband, folder: Path) -> Finished | Failure:
    try:
        tables = job.run(softband, folder)
    except RunFailed as failed:
        return Failure(job.id, failed.command, failed.reason, failed.last_lines, _files(folder), str(folder))
    except LabError as error:
        return Failure(job.id, job.command(), str(error), [], _files(folder), str(folder))
    return Finished(tables, _files(folder) if job.keeps_files else {})


def stop(campaign: str) -> None:
    """Ends the campaign's runs in this process, and refuses further ones."""
    with _lock:
        softband = _softbands.get(campaign)
    if softband is not None:
        softband.stop()


def forget(campaign: str) -> None:
    with _lock:
        _softbands.pop(campaign, None)


def _softband(order: Order) -> Softband:
    with _lock:
        known = _softbands.get(order.campaign)
        if known is None:
            known = Softband(order.binary, order.home, order.own_parts) if order.binary else _look_for_softband(order)
            _softbands[order.campaign] = known
        return known


def _look_for_softband(order: Order) -> Softband:
    here = _here()
    try:
        binary = find_softband()
        try:
            home = find_home()
        except LabError:
            home = None  # The worker needs no studies.
        softband = Softband(binary, home)
        version, digest = softband.version, softband.build_digest
    except LabError as error:
        raise LabError(f"{here}: {error.where}", error.problem, f"there, {error.remedy}") from None
    if version != order.version:
        problem = f"{binary} is {version}, the campaign's is {order.version}"
    elif digest != order.build_digest:
        problem = f"{binary} is {version} of another build ({digest}) than the campaign's ({order.build_digest})"
    else:
        return softband
    raise LabError(here, problem, "the same tree of Softband on every machine, or SOFTBAND_BIN set to it there")


def _here() -> str:
    return f"worker {_worker().address}"


def _worker() -> Any:
    """Returns Dask's worker. Without a cluster no worker exists, and Dask may be missing."""
    return importlib.import_module("distributed").get_worker()


def _files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
