"""The Python side of the command line: `run`, `model` and `sweep` return Polars data frames."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from softband_lab.base.errors import LabError
from softband_lab.base.frames import data_frame, require_polars
from softband_lab.base.places import find_fabric, find_home, find_softband
from softband_lab.base.softband import Program, RunFailed, Softband
from softband_lab.base.tables import joined
from softband_lab.campaign.cluster import Cluster
from softband_lab.campaign.model_job import Value, model_tables
from softband_lab.campaign.run_tables import run_tables
from softband_lab.sweep.question import ask
from softband_lab.sweep.run import Swept
from softband_lab.sweep.run import sweep as run_combinations

if TYPE_CHECKING:
    import polars as pl

Programs = Mapping[str, str] | Iterable[tuple[str, str]]
Option = Value | Path | None


@dataclass(frozen=True)
class RunResult:
    """The results of `run`.

    - `summary`: the content of `run.json`.
    - `programs`: a row for each program: host, command, exit status, end in seconds, output and errors as text.
    - `measurements`: a row for each line of the tables that perftest's programs print; units end the column names.
    - `bottlenecks`: the limits that held transfers up, largest first; `share_percent` of the transfer time.
    - `ports`, `hcas`: a row for each port and HCA; `..._picos` are picoseconds, `..._data` words of 4 bytes.
    """

    summary: dict[str, Any]
    programs: pl.DataFrame
    measurements: pl.DataFrame
    bottlenecks: pl.DataFrame
    ports: pl.DataFrame
    hcas: pl.DataFrame

    @property
    def seconds(self) -> float:
        """The duration in seconds: of simulated time, or of the machine's clock in wall pace."""
        return float(self.summary["virtual_seconds"])


@dataclass(frozen=True)
class ModelResult:
    """The results of `model`.

    - `summary`: the content of `model.json`.
    - `flows`: a row for each flow; `..._ps` are picoseconds.
    - `ports`: a row for each port; utilisations are shares of the run, `..._data` words of 4 bytes.
    - `hot_ports`: the congestion trees; `depth` 0 is a hot port, and `feeds` names the port or part that it feeds.
    """

    summary: dict[str, Any]
    flows: pl.DataFrame
    ports: pl.DataFrame
    hot_ports: pl.DataFrame

    @property
    def completion_seconds(self) -> float:
        """The simulated seconds from the start to the end of the last message."""
        return float(self.summary["completion_picos"]) / 1e12


def run(
    fabric: str | Path,
    programs: Programs,
    *,
    pace: Literal["virtual", "wall"] = "virtual",
    seed: int | None = None,
    timeout_seconds: float | None = None,
    out: str | Path | None = None,
    **options: Option,
) -> RunResult:
    """Runs programs on the hosts of a fabric, as `softband run` does.

    `fabric` is a file, or the name of a fabric of the installation. `programs` has a command for each host, or
    (host, command) pairs in the order of their starts. `pace` is the clock of the programs: simulated time, or the
    machine's clock. The run ends after `timeout_seconds` of the machine's time. Its files stay in `out`, if given.
    `options` are further options of `softband run`, with `_` in place of `-`: `time_limit="10 ms"`.

    Fails with a `LabError` for a wrong input, and with `RunFailed` if a program or the run fails.
    """
    require_polars()
    listed = list(programs.items() if isinstance(programs, Mapping) else programs)
    if not listed:
        raise LabError(
            "programs", "is empty", 'a command for each host, as in {"a": "ib_send_bw", "b": "ib_send_bw a"}'
        )
    chosen = [Program(host, command) for host, command in listed]
    words = _words({"pace": pace, **options})
    with _door(fabric) as (softband, path), _folder(out) as folder:
        summary = softband.run(path, chosen, folder, seed, timeout_seconds, words)
        frames = {name: data_frame(table) for name, table in run_tables(summary, folder).items()}
    return RunResult(summary, **frames)


def model(
    fabric: str | Path,
    workload: str | Path,
    *,
    timeout_seconds: float | None = None,
    out: str | Path | None = None,
    **options: Option,
) -> ModelResult:
    """Drives a fabric by a workload instead of programs, as `softband model` does.

    `workload` is the name of a pattern, a TOML file or a GOAL trace. `options` are options of `softband model`, with
    `_` in place of `-`: `bytes="64KiB"`, `ranks_per_host=2`, `from_="a"`. The run ends after `timeout_seconds` of the
    machine's time. Its files stay in `out`, if given.

    Fails with a `LabError` for a wrong input, and with `RunFailed` if `softband model` refuses the workload or fails.
    """
    require_polars()
    with _door(fabric) as (softband, path), _folder(out) as folder:
        summary = softband.model([str(path), str(workload), *_words(options)], folder, timeout_seconds)
        frames = {name: data_frame(table) for name, table in model_tables(summary, folder).items()}
    return ModelResult(summary, **frames)


def sweep(
    fabric: str | Path,
    workload: str | Path,
    keys: Mapping[str, Value | Sequence[Value]],
    *,
    out: str | Path | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    progress: bool = False,
    **options: Option,
) -> pl.DataFrame:
    """Runs a workload once for each combination of values, as `softband model --sweep` does.

    `keys` has the values of each key: options of the workload (`bytes`), `vls`, `rate`, `cable-length`, or a key of
    the fabric file by its path (`subnet.max_op_vls`). Other `options` are the same in all runs, as in `model`.
    `jobs` runs happen at the same time, by default one for each processor; `cluster` names a Dask scheduler or
    `slurm`. `progress` shows a bar. The data set stays in `out`, if given; later calls reuse its finished runs.

    Returns a row for each run: the keys as columns, the completion time in picoseconds, the rates of flows in bytes
    per second, sums of counters, and the command that repeats the run. Fails with a `LabError` for a wrong input, and
    with `RunFailed` if a run fails; the other runs finish first.
    """
    require_polars()
    sweeps = [f"{key}={','.join(_listed(key, values))}" for key, values in keys.items()]
    if not sweeps:
        raise LabError("keys", "is empty", 'values for a key at least, as in {"bytes": ["4KiB", "64KiB"]}')
    with _door(fabric) as (softband, _), _folder(out) as folder:
        question = ask(find_home(), Path(fabric), str(workload), tuple(_words(options)), sweeps)
        with Cluster(cluster, jobs) as place:
            swept = run_combinations(question, softband, folder, place, Console(stderr=True, quiet=not progress))
        _raise_failures(swept)
        return data_frame(joined(swept.heads))


def _raise_failures(swept: Swept) -> None:
    if swept.outcome.interrupted:
        raise KeyboardInterrupt
    failures = list(swept.outcome.failures.values())
    if failures:
        first = failures[0]
        count = f"{len(failures)} of {len(failures) + len(swept.heads)} runs failed, first {first.id}"
        raise RunFailed(first.command, f"{count}: {first.reason}", first.last_lines)


@contextmanager
def _door(fabric: str | Path) -> Iterator[tuple[Softband, Path]]:
    """Yields `softband` and the path of the fabric. An exception, such as Ctrl-C, ends the run."""
    home = find_home()
    path = find_fabric(home, Path(fabric))
    beside = path.resolve().parent / "catalog"
    own = beside if beside.is_dir() and beside != home.resolve() / "catalog" else None
    softband = Softband(find_softband(), home, own)
    try:
        yield softband, path
    except BaseException:
        softband.stop()
        raise


@contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    """Yields the results folder: `out`, or a folder that goes with the end of the call."""
    if out is not None:
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="softband-") as name:
        yield Path(name)


def _words(options: Mapping[str, Option]) -> list[str]:
    """Returns options as the command line has them: `ranks_per_host=2` becomes `--ranks-per-host 2`."""
    words = []
    for name, value in options.items():
        option = f"--{name.rstrip('_').replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words


def _listed(key: str, values: Value | Sequence[Value]) -> list[str]:
    listed = [values] if isinstance(values, str | int | float) else list(values)
    texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in listed]
    for text in texts:
        if "," in text:
            raise LabError(f"keys: {key}", f"`{text}` has a comma", "values without commas")
    return texts
