"""Where something stands in a TOML file: what is parsed has no lines any more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

Step = str | int

# An array's line within an array is none: `["a", "b"],`.
_HEADER = re.compile(r"""\s*(\[\[?)([\w.\s"'-]+)\]\]?\s*(#.*)?$""")
_KEY = re.compile(r"""\s*([\w.-]+|"[^"]*"|'[^']*')\s*=""")


def place(path: Path, steps: Sequence[Step]) -> str:
    """`study.toml:12: tests.latency.unit`; inside of an array or inline table the line is that of its key."""
    dotted = ".".join(str(step) for step in steps)
    return at(path, steps) + (f": {dotted}" if dotted else "")


def at(path: Path, steps: Sequence[Step]) -> str:
    """The file and the line, without the name of what stands there."""
    line = _line_of(path, tuple(steps))
    return f"{path}:{line}" if line else str(path)


def _line_of(path: Path, steps: tuple[Step, ...]) -> int | None:
    """The line of what has most of the steps: the key itself, what it is in, or, of a table, the first thing in it."""
    best, deepest = None, 0
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    for number, found in _places(text):
        depth = min(len(found), len(steps))
        if depth > deepest and found[:depth] == steps[:depth]:
            best, deepest = number, depth
    return best


def _places(text: str) -> Iterator[tuple[int, tuple[Step, ...]]]:
    """Each header and each key at the beginning of a line."""
    table: tuple[Step, ...] = ()
    counts: dict[tuple[Step, ...], int] = {}
    in_text = False
    for number, line in enumerate(text.splitlines(), start=1):
        if not in_text and (match := _HEADER.match(line)):
            table = _split(match[2])
            if match[1] == "[[":
                index = counts.get(table, 0)
                counts[table] = index + 1
                table = (*table, index)
            yield number, table
        elif not in_text and (match := _KEY.match(line)):
            yield number, (*table, *_split(match[1]))
        # Text over several lines may hold what looks like a key.
        if (line.count('"""') + line.count("'''")) % 2:
            in_text = not in_text


def _split(name: str) -> tuple[Step, ...]:
    if name[:1] in ("'", '"'):
        return (name[1:-1],)
    return tuple(part.strip().strip("\"'") for part in name.split("."))
