"""What a claim may look at: measured curves, fabric files, and questions to the engine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from softband_lab.campaign import JobResult
from softband_lab.errors import LabError, MissingEvidence
from softband_lab.fabricfile import load_toml, with_cable, with_rate, write_toml
from softband_lab.places import fabric_path
from softband_lab.softband import Answer, Softband
from softband_lab.study import Study

Series = dict[int, float]
At = int | str  # a size in bytes, or "peak"


class Prober(Protocol):
    """Runs that no figure shows: fabrics changed for one claim."""

    def longest_m(self, fabric: str, cables: list[int], low_m: float, high_m: float) -> float: ...

    def bandwidth(self, fabric: str, cables: list[int], length_m: float, data_vls: int, options: str) -> float: ...


@dataclass
class Evidence:
    study: Study
    home: Path
    softband: Softband
    results: dict[str, JobResult]
    failed: set[str]
    quick: bool
    prober: Prober | None = None
    _shown: dict[str, Answer] = field(default_factory=dict)

    def series(self, curve: str, test: str) -> Series:
        """A curve as a figure shows it: message size to value."""
        cell = self.study.cell_of(curve, test)
        if cell is None:
            raise LabError(
                self.study.folder / "claims.toml",
                f"no figure has a curve `{curve}` with the test `{test}`",
                "a curve that some figure of study.toml shows",
            )
        result = self.results.get(cell.id)
        if result is None:
            self._explain_missing(cell.id)
        column = self.study.tests[test].column
        values = {row.measurement.size_bytes: getattr(row.measurement, column) for row in self.results[cell.id].rows}
        return {size: value for size, value in values.items() if value is not None}

    def value(self, curve: str, test: str, at: At) -> float:
        series = self.series(curve, test)
        if at == "peak":
            return max(series.values())
        try:
            return series[int(at)]
        except (ValueError, KeyError):
            raise LabError(
                self.study.folder / "claims.toml",
                f"`{curve}` has no value at `{at}`",
                f'"peak" or one of the sizes {sorted(series)}',
            ) from None

    def document(self, file: str) -> dict[str, Any]:
        """A TOML file of the tree, such as fabrics/cables/sdr-cx4.toml or a part below catalog/."""
        path = self.home / file
        if not path.is_file():
            raise MissingEvidence(f"this tree has no {file}")
        return load_toml(path)

    def shown(self, fabric: str) -> Answer:
        """What `softband fabric show` says, asked once."""
        if fabric not in self._shown:
            self._shown[fabric] = self.softband.show(fabric_path(self.home, fabric))
        return self._shown[fabric]

    def check(self, fabric: str) -> Answer:
        return self.softband.check(fabric_path(self.home, fabric))

    def check_with_cable(self, fabric: str, part: str, rate: str, length_m: float) -> Answer:
        """Would the engine accept this fabric with its first cable replaced?"""
        return self._with_cable(self.softband.check, fabric, part, rate, length_m)

    def show_with_cable(self, fabric: str, part: str, rate: str, length_m: float) -> Answer:
        return self._with_cable(self.softband.show, fabric, part, rate, length_m)

    def _with_cable(self, ask: Callable[[Path], Answer], fabric: str, part: str, rate: str, length_m: float) -> Answer:
        document = load_toml(fabric_path(self.home, fabric))
        document = with_cable(with_rate(document, rate), [0], length_m, part)
        with tempfile.TemporaryDirectory(prefix="softband-lab-") as folder:
            path = Path(folder) / "fabric.toml"
            write_toml(document, path)
            answer = ask(path)
        # The name of a temporary file would make two runs of a study differ.
        return Answer(
            answer.exit_status,
            answer.stdout.replace(str(path), path.name),
            answer.stderr.replace(str(path), path.name),
        )

    def probe(self) -> Prober:
        if self.quick or self.prober is None:
            raise MissingEvidence("runs on changed fabrics are not part of --quick; run the whole study")
        return self.prober

    def _explain_missing(self, cell_id: str) -> None:
        if cell_id in self.failed:
            raise MissingEvidence(f"the cell {cell_id} failed in this run")
        if self.quick:
            raise MissingEvidence(f"the cell {cell_id} is not part of --quick; run the whole study")
        raise MissingEvidence(f"the cell {cell_id} was not run: the study was interrupted")
