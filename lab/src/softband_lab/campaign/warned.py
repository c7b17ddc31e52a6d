"""The warnings of a sweep. Each appears once: runs of the same fabric do not repeat it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

# The first warnings of a sweep with many fabrics are enough to recognise the fault.
_MOST_SHOWN = 4
_MOST_LINES = 20
_MOST_NAMED = 4


def paragraphs(text: str) -> list[str]:
    """Splits a text into warnings. Indented and empty lines belong to the line before them."""
    found: list[str] = []
    for line in text.strip().splitlines():
        if found and (not line.strip() or line[0].isspace()):
            found[-1] += f"\n{line.rstrip()}"
        else:
            found.append(line.rstrip())
    return [paragraph.rstrip() for paragraph in found]


def is_of_inputs(paragraph: str) -> bool:
    """Returns whether a paragraph warns of the fabric or the workload, which is known before a run."""
    return ": warning: " in paragraph.partition("\n")[0]


@dataclass
class Warned:
    """Collects warnings by their subject, in words of the command line, and shows new ones."""

    # An empty subject stands for all runs.
    _heard: dict[str, dict[str, None]] = field(default_factory=dict)
    _shown: dict[str, set[str]] = field(default_factory=dict)

    def add(self, whom: str, warnings: Iterable[str]) -> None:
        known = self._heard.setdefault(whom, {})
        known.update(dict.fromkeys(warnings))

    def has_heard(self, whom: str) -> bool:
        return whom in self._heard

    def count(self, whom: str) -> int:
        return len(self._heard.get(whom, {}))

    def show(self, where_all_are: str) -> None:
        """Prints new warnings. Subjects with the same warnings share a paragraph."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for whom, warnings in self._heard.items():
            new = tuple(warning for warning in warnings if warning not in self._shown.get(whom, ()))
            if new:
                groups.setdefault(new, []).append(whom)
                self._shown.setdefault(whom, set()).update(new)
        for what, whose in list(groups.items())[:_MOST_SHOWN]:
            _print(whose, what)
        left = [whom for whose in list(groups.values())[_MOST_SHOWN:] for whom in whose]
        if left:
            print(f"and warnings of {len(left)} more, first {left[0]}: {where_all_are}", file=sys.stderr)


def _print(whose: Sequence[str], warnings: Sequence[str]) -> None:
    more = f"; and {len(whose) - _MOST_NAMED} more" if len(whose) > _MOST_NAMED else ""
    names = "; ".join(whom or "all runs" for whom in whose[:_MOST_NAMED])
    print(f"warnings of {names}{more}:", file=sys.stderr)
    for warning in warnings[:_MOST_LINES]:
        print(warning, file=sys.stderr)
    if len(warnings) > _MOST_LINES:
        print(f"and {len(warnings) - _MOST_LINES} more warnings", file=sys.stderr)
