"""Finds the line of a key in a TOML file, because parsed documents have no lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

Step = str | int

# Not a header: the line `["a", "b"],` of an array in an array.
_HEADER = re.compile(r"""\s*(\[\[?)([\w.\s"'-]+)\]\]?\s*(#.*)?$""")
_KEY = re.compile(r"""\s*([\w.-]+|"[^"]*"|'[^']*')\s*=""")


def place(path: Path, steps: Sequence[Step]) -> str:
    """Returns `study.toml:12: tests.latency.unit`. A value in an array or inline table has the line of its key."""
    dotted = ".".join(str(step) for step in steps)
    return at(path, steps) + (f": {dotted}" if dotted else "")


def at(path: Path, steps: Sequence[Step]) -> str:
    """Returns the file and the line, without the name of the key."""
    line = _line_of(path, tuple(steps))
    return f"{path}:{line}" if line else str(path)


def _line_of(path: Path, steps: tuple[Step, ...]) -> int | None:
    """Returns the line that matches most steps: the key, the table around it, or the first key of a table."""
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
    """Yields each header and each key at the beginning of a line, with its line number."""
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
        # Lines of a multi-line text may look like keys.
        if (line.count('"""') + line.count("'''")) % 2:
            in_text = not in_text


def _split(name: str) -> tuple[Step, ...]:
    if name[:1] in ("'", '"'):
        return (name[1:-1],)
    return tuple(part.strip().strip("\"'") for part in name.split("."))
