"""The progress of a campaign: a bar on a terminal, elsewhere plain lines on standard error."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

# Seconds between plain lines; 0 turns them off. `softband model` reads the same variable.
VARIABLE = "SOFTBAND_PROGRESS"
_EVERY_SECONDS = 10.0


class Progress:
    """Shows the progress of `total` runs. A quiet console shows nothing."""

    def __init__(self, console: Console, total: int) -> None:
        self._total = total
        self._done = 0
        self._text = "runs"
        self._is_plain = not console.is_terminal and not console.quiet
        self._every = plain_interval_seconds()
        self._begun = self._last = time.monotonic()
        # Runs that were finished at the start. They cost no time.
        self._free = 0
        self._bar = None if self._is_plain else _bar(console)
        self._task = None if self._bar is None else self._bar.add_task(self._text, total=total)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, is_free: bool = False) -> None:
        """Counts a finished run. A free run was finished at the start."""
        self._done += 1
        self._free += is_free
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task)
        self.tick()

    def describe(self, text: str) -> None:
        self._text = text
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=text)

    def tick(self) -> None:
        """Prints a plain line if its time has come."""
        now = time.monotonic()
        if not self._is_plain or self._every is None or now - self._last < self._every:
            return
        self._last = now
        print(f"softband: {self._line(now - self._begun)}", file=sys.stderr, flush=True)

    def _line(self, seconds: float) -> str:
        ran, left = self._done - self._free, self._total - self._done
        rest = f", about {seconds * left / ran:.0f} s left" if ran and left else ""
        return f"{self._text}: {self._done} of {self._total} after {seconds:.0f} s{rest}"


def plain_interval_seconds() -> float | None:
    """Returns the seconds between plain lines, or None for no lines. Ignores a value that is not a number."""
    try:
        seconds = float(os.environ.get(VARIABLE, ""))
    except ValueError:
        return _EVERY_SECONDS
    if not 0 <= seconds < 1e6:
        return _EVERY_SECONDS
    return seconds or None


def _bar(console: Console) -> Bar:
    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )
