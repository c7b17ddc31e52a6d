"""A step of a run that plays a recorded MPI program by `softband model`, without the program."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from softband_lab.base.errors import LabError
from softband_lab.base.softband import RunFailed, Softband
from softband_lab.campaign.inputs import InputFile
from softband_lab.campaign.perftest import Measurement

_HEAD = "trace_seconds,operations"


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
        made = ["softband", "record", "goal", self.recording.label, "--out", "app.goal", *self.goal_options]
        return f"{shlex.join(made)} && {shlex.join(['softband', *self._model(fabric, 'app.goal', seed)])}"

    def run(self, softband: Softband, fabric: Path, out: Path, seed: int, timeout_seconds: float) -> dict[str, Any]:
        began = time.monotonic()
        out.mkdir(parents=True, exist_ok=True)
        trace, recording = out / "app.goal", self.recording.lay(out, ".rec")
        words = ["record", "goal", str(recording), "--out", str(trace), *self.goal_options]
        made = softband.ask(words)
        recording.unlink()
        if made.exit_status != 0:
            raise RunFailed(shlex.join(["softband", *words]), "no trace", made.stderr.rstrip().splitlines()[-12:])
        summary = softband.model(self._model(str(fabric), str(trace), seed)[1:], out / "model", timeout_seconds)
        trace.unlink()
        seconds = summary["completion_picos"] * 1e-12
        (out / self.output_name).write_text(f"{_HEAD}\n{seconds!r},{self.operations!r}\n", encoding="utf-8")
        return {
            "virtual_seconds": seconds,
            "wall_seconds": time.monotonic() - began,
            "versions": {"softband": summary["softband_version"]},
        }

    def _model(self, fabric: str, trace: str, seed: int) -> list[str]:
        return ["model", fabric, trace, "--ranks-per-host", str(self.ranks_per_host), "--seed", str(seed)]


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
