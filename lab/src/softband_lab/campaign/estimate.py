"""The remaining time of a campaign, from the expected durations of its runs and from the finished ones."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping


class Estimate:
    """Counts the expected seconds of runs that wait, that are under way, and that have finished.

    A run without an expected duration has the median of the others. The ratio of measured to expected durations
    corrects for the speed of this machine.
    """

    def __init__(self, runs: Iterable[str], expected: Mapping[str, float]) -> None:
        usual = statistics.median(expected.values()) if expected else 1.0
        self._knows = bool(expected)
        self._expected = {run: expected.get(run, usual) for run in runs}
        self._begun: dict[str, float] = {}
        self._measured = 0.0
        self._planned = 0.0

    def start(self, run: str, now: float) -> None:
        self._begun[run] = now

    def finish(self, run: str, now: float) -> None:
        begun = self._begun.pop(run, now)
        self._measured += now - begun
        self._planned += self._expected.pop(run, 0.0)

    def seconds_left(self, now: float, slots: int) -> float | None:
        """Returns the seconds until the last run ends, or None if nothing is known yet or nothing is left."""
        if not self._expected or slots < 1 or not (self._planned or self._knows):
            return None
        factor = self._measured / self._planned if self._planned else 1.0
        rest = {run: factor * seconds - (now - self._begun.get(run, now)) for run, seconds in self._expected.items()}
        left = [max(0.0, seconds) for seconds in rest.values()]
        return max(sum(left) / slots, max(left))


def describe_seconds(seconds: float) -> str:
    """Returns `40 s`, `12 min` or `1 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
