"""The spread of deviations: their median, and the value that nine tenths of them do not exceed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The spread of absolute deviations in percent. `ninth`: the smallest that at least 90 % do not exceed."""

    numbers: int
    median: float
    ninth: float
    worst: float

    @staticmethod
    def of(deviations: Iterable[float]) -> Spread:
        """Fails without a deviation."""
        found = sorted(abs(deviation) for deviation in deviations)
        return Spread(len(found), statistics.median(found), found[math.ceil(0.9 * len(found)) - 1], found[-1])
