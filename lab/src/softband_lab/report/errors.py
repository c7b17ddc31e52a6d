"""The deviations of claims from published numbers, in numbers: median, 90th percentile, worst."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from softband_lab.rules.claims import ClaimRow
from softband_lab.rules.judgement import Basis

_UNJUDGED = ("not run", "not testable")


@dataclass(frozen=True)
class Errors:
    """The absolute deviations in percent of the rows with a number. None if no row has one."""

    numbers: int
    median: float | None
    p90: float | None
    worst: float | None
    worst_id: str

    @staticmethod
    def of(rows: Iterable[ClaimRow], basis: Basis) -> Errors:
        found = {
            row.published.id: abs(row.judgement.deviation_percent)
            for row in rows
            if row.basis == basis
            and row.judgement.deviation_percent is not None
            and row.judgement.verdict not in _UNJUDGED
        }
        if not found:
            return Errors(0, None, None, None, "")
        worst = max(found, key=lambda claim: found[claim])
        values = sorted(found.values())
        return Errors(len(values), statistics.median(values), percentile(values, 90.0), found[worst], worst)


def percentile(ordered: list[float], percent: float) -> float:
    """Returns the smallest value that at least so many percent of the values do not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(percent / 100.0 * len(ordered)) - 1)]
