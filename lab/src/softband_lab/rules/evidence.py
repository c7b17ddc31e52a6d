"""The evidence for claims: measured curves, fabric files, and answers of the engine."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from softband_lab.base.errors import LabError, MissingEvidence, NotRun
from softband_lab.base.fabricfile import load_toml, with_cable, with_rate, write_toml
from softband_lab.base.places import fabric_path
from softband_lab.base.softband import Answer, Softband
from softband_lab.base.units import COLUMN_UNITS, DECIMAL_MEGABYTE, column_factor, in_base_units, units_of
from softband_lab.campaign.engine_job import JobResult
from softband_lab.spec.published import Published
from softband_lab.spec.study import Run, Study

Series = dict[int, float]
At = int | str  # a size in bytes, or "peak"


class Prober(Protocol):
    """Makes runs on changed fabrics for a single claim. No figure shows them."""

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
    runs: Path
    published: dict[str, Published]
    prober: Prober | None = None
    # Results of runs at other rates of the host, by the rate's word and by the run's id.
    other_hosts: dict[str, dict[str, JobResult]] = field(default_factory=dict)
    # The fabrics of all evidence since the last `clear`.
    touched: set[str] = field(default_factory=set)
    _shown: dict[str, Answer] = field(default_factory=dict)

    def on_other_host(self, word: str, curves: Iterable[tuple[str, str]]) -> Evidence | None:
        """Returns the evidence of a host that computes at another rate, or None if one of its runs is missing."""
        found = [self.study.run_of(curve, test) for curve, test in curves]
        others = self.other_hosts.get(word, {})
        computing = [run for run in found if run is not None and self.study.tests[run.test].computation is not None]
        if not computing or any(run.id not in others for run in computing):
            return None
        return replace(self, results={**self.results, **others}, touched=set())

    def series(self, curve: str, test: str) -> Series:
        """Returns a curve of a figure: message size in bytes to value, in the unit of the test's column."""
        result = self.results[self._finished(curve, test).id]
        if result.lacks:
            raise MissingEvidence(result.lacks)
        rows, column = result.rows, self.study.tests[test].column
        values = {row.measurement.size_bytes: getattr(row.measurement, column) for row in rows}
        found = {size: value for size, value in values.items() if value is not None}
        if not found:
            raise MissingEvidence(f"the programs of the test {test} print no `{column}`")
        return found

    def factor(self, test: str, claim: Published) -> float:
        """Returns the factor from the unit of a test to the unit of a claim."""
        return factor_of(self.study, test, claim)

    def port_words(self, curve: str, test: str, host: str) -> list[int]:
        """Returns the words of 4 bytes that each cabled port of a host sent and received, in all steps of a run."""
        run = self._finished(curve, test)
        words: dict[tuple[str, int], int] = {}
        for path in sorted((self.runs / run.id).glob("step-*/counters.json")):
            for port in json.loads(path.read_text(encoding="utf-8"))["ports"]:
                key = (port["node"], port["port"])
                if port["node"].startswith(f"{host}/"):
                    words[key] = words.get(key, 0) + port["port_xmit_data"] + port["port_rcv_data"]
        if not words:
            raise MissingEvidence(f"the run {run.id} left no counters of ports of {host}")
        return list(words.values())

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
        """Reads a TOML file of the tree, such as fabrics/cables/sdr-cx4.toml or a part below catalog/."""
        path = self.home / file
        if not path.is_file():
            raise MissingEvidence(f"this tree has no {file}")
        return load_toml(path)

    def shown(self, fabric: str) -> Answer:
        """Returns the answer of `softband fabric show`, which runs once for each fabric."""
        if fabric not in self._shown:
            self._shown[fabric] = self.softband.show(fabric_path(self.home, fabric))
        return self._shown[fabric]

    def check(self, fabric: str) -> Answer:
        return self.softband.check(fabric_path(self.home, fabric))

    def check_with_cable(self, fabric: str, part: str, rate: str, length_m: float) -> Answer:
        """Returns the answer of `fabric check` for the fabric with another first cable."""
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
        # The name of the temporary file would differ in each campaign.
        return Answer(
            answer.exit_status,
            answer.stdout.replace(str(path), path.name),
            answer.stderr.replace(str(path), path.name),
        )

    def probe(self, fabric: str) -> Prober:
        """Returns the prober, and counts the fabric as evidence. Raises NotRun in a quick study."""
        self.touched.add(fabric)
        if self.quick or self.prober is None:
            raise NotRun("runs on changed fabrics are not part of --quick; run the whole study")
        return self.prober

    def _finished(self, curve: str, test: str) -> Run:
        run = self.study.run_of(curve, test)
        if run is None:
            raise LabError(
                self.study.folder / "claims.toml",
                f"no figure has a curve `{curve}` with the test `{test}`",
                "a curve that some figure of study.toml shows",
            )
        self.touched.add(run.fabric)
        if run.id not in self.results:
            self._explain_missing(run.id)
        return run

    def _explain_missing(self, run_id: str) -> None:
        if run_id in self.failed:
            raise NotRun(f"the run {run_id} failed")
        if self.quick:
            raise NotRun(f"the run {run_id} is not part of --quick; run the whole study")
        raise NotRun(f"the run {run_id} did not start: the study was interrupted")


def factor_of(study: Study, test: str, claim: Published) -> float:
    column = study.tests[test].column
    factor = column_factor(column, claim.unit, study.head.megabyte)
    if factor is None:
        kind, _ = in_base_units(COLUMN_UNITS[column], DECIMAL_MEGABYTE) or ("number", 1.0)
        measured = f"`{column}` of the test `{test}`"
        raise LabError(
            claim.where,
            f"is in `{claim.unit}`, which {measured} does not convert into"
            if claim.unit
            else f"`{claim.value}` has no unit, and its rule compares with {measured}",
            f"a unit of {kind}, one of {', '.join(units_of(kind))}; or a test of another quantity in "
            f"{study.folder / 'claims.toml'}",
        )
    return factor
