"""The progress of a campaign: a bar on a terminal, elsewhere plain lines on standard error."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
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
        # The estimated time until the end, as a text.
        self._left: str | None = None
        self._bar = None if self._is_plain else _bar(console)
        self._task = None if self._bar is None else self._bar.add_task(self._text, total=total, left="")

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self) -> None:
        """Counts a finished run."""
        self._done += 1
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task)
        self.tick()

    def describe(self, text: str, left: str | None = None) -> None:
        """Changes the text, and the time until the end if it is known."""
        self._text, self._left = text, left
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=text, left=f"about {left} left" if left else "")

    def tick(self) -> None:
        """Prints a plain line if its time has come."""
        now = time.monotonic()
        if not self._is_plain or self._every is None or now - self._last < self._every:
            return
        self._last = now
        print(f"softband: {self._line(now - self._begun)}", file=sys.stderr, flush=True)

    def _line(self, seconds: float) -> str:
        rest = f", about {self._left} left" if self._left and self._done < self._total else ""
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
        TextColumn("{task.fields[left]}"),
        console=console,
    )
