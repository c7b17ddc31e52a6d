"""Steps of a run that play a recorded MPI program without the program: by `softband model`, or over TCP."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from softband_lab.base.errors import LabError
from softband_lab.base.softband import Program, RunFailed, Softband, run_arguments
from softband_lab.campaign.inputs import InputFile
from softband_lab.campaign.perftest import Measurement

_HEAD = "trace_seconds,operations"
_TRACE = "app.goal"


@dataclass(frozen=True)
class TraceStep:
    """The replay of a recording. `goal_options`: of `softband record goal`. `operations`: of the whole program."""

    recording: InputFile
    goal_options: tuple[str, ...]
    ranks_per_host: int
    operations: float

    output_name: ClassVar[str] = "trace.csv"

    def inputs(self) -> Any:
        return [self.recording.text, self.goal_options, self.ranks_per_host, self.operations]

    def command(self, fabric: str, seed: int) -> str:
        made = _goal(self.recording.label, _TRACE, self.goal_options)
        return f"{shlex.join(made)} && {shlex.join(['softband', *self._model(fabric, _TRACE, seed)])}"

    def run(self, softband: Softband, fabric: Path, out: Path, seed: int, timeout_seconds: float) -> dict[str, Any]:
        began = time.monotonic()
        trace = _make_trace(softband, self.recording, self.goal_options, out)
        summary = softband.model(self._model(str(fabric), str(trace), seed)[1:], out / "model", timeout_seconds)
        trace.unlink()
        seconds = summary["completion_picos"] * 1e-12
        _leave_table(out / self.output_name, seconds, self.operations)
        return {
            "virtual_seconds": seconds,
            "wall_seconds": time.monotonic() - began,
            "versions": {"softband": summary["softband_version"]},
        }

    def _model(self, fabric: str, trace: str, seed: int) -> list[str]:
        return ["model", fabric, trace, "--ranks-per-host", str(self.ranks_per_host), "--seed", str(seed)]


@dataclass(frozen=True)
class TcpTraceStep:
    """The replay of a recording by `softband-tcpplay`, a process for each rank, over an interface of the hosts.

    `hosts`: in the order of the fabric file. Each has the next `ranks_per_host` ranks.
    """

    recording: InputFile
    goal_options: tuple[str, ...]
    ranks_per_host: int
    operations: float
    ranks: int
    hosts: tuple[str, ...]
    interface: str

    output_name: ClassVar[str] = "trace.csv"

    def inputs(self) -> Any:
        placed = [self.ranks_per_host, self.ranks, self.hosts, self.interface]
        return ["tcp", self.recording.text, self.goal_options, placed, self.operations]

    def command(self, fabric: str, seed: int) -> str:
        made = _goal(self.recording.label, _TRACE, self.goal_options)
        played = ["softband", *run_arguments(fabric, self._programs(_TRACE), seed, "OUT")]
        return f"{shlex.join(made)} && {shlex.join(played)}"

    def run(self, softband: Softband, fabric: Path, out: Path, seed: int, timeout_seconds: float) -> dict[str, Any]:
        trace = _make_trace(softband, self.recording, self.goal_options, out)
        summary = softband.run(fabric, self._programs(str(trace.resolve())), out / "run", seed, timeout_seconds)
        trace.unlink()
        table = out / "run" / f"{self.hosts[0]}-0.out"
        _leave_table(out / self.output_name, self._seconds(table, fabric, seed), self.operations)
        return summary

    def _programs(self, trace: str) -> list[Program]:
        used = self.hosts[: -(-self.ranks // self.ranks_per_host)]
        names = ",".join(f"{host}-{self.interface}" for host in used)
        placed = ["--hosts", names, "--ranks-per-host", str(self.ranks_per_host), trace]
        return [
            Program(used[rank // self.ranks_per_host], shlex.join(["softband-tcpplay", "--rank", str(rank), *placed]))
            for rank in range(self.ranks)
        ]

    def _seconds(self, table: Path, fabric: Path, seed: int) -> float:
        try:
            return float(table.read_text(encoding="utf-8").splitlines()[1].split(",")[1])
        except (OSError, IndexError, ValueError):
            raise RunFailed(self.command(str(fabric), seed), "rank 0 left no table of softband-tcpplay", []) from None


def _goal(recording: str, trace: str, options: tuple[str, ...]) -> list[str]:
    return ["softband", "record", "goal", recording, "--out", trace, *options]


def _make_trace(softband: Softband, recording: InputFile, options: tuple[str, ...], out: Path) -> Path:
    """Writes the trace of a recording into the folder of a run. Raises RunFailed if the recording has none."""
    out.mkdir(parents=True, exist_ok=True)
    trace, laid = out / _TRACE, recording.lay(out, ".rec")
    words = _goal(str(laid), str(trace), options)
    made = softband.ask(words[1:])
    laid.unlink()
    if made.exit_status != 0:
        raise RunFailed(shlex.join(words), "no trace", made.stderr.rstrip().splitlines()[-12:])
    return trace


def _leave_table(path: Path, seconds: float, operations: float) -> None:
    path.write_text(f"{_HEAD}\n{seconds!r},{operations!r}\n", encoding="utf-8")


def is_trace(text: str) -> bool:
    """Returns whether a text is the table of a replay."""
    return text.startswith(_HEAD)


def parse_trace(text: str, source: Path) -> list[Measurement]:
    """Returns the time of a replay and its rate. A program has no message size, so its only line has the size 1."""
    try:
        seconds, operations = (float(number) for number in text.splitlines()[1].split(","))
        rate = operations / seconds * 1e-9 if operations else None
    except (IndexError, ValueError, ZeroDivisionError):
        raise LabError(source, "the table of the trace is cut", "run the study again") from None
    return [Measurement(1, 1, operations_gflop_s=rate, latency_max_us=seconds * 1e6)]
