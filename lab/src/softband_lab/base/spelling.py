"""The name that somebody may have meant, by the rule of crates/catalog/src/spelling.rs."""

from __future__ import annotations

import re
from collections.abc import Iterable

# A word of so many letters stands for a name that begins with it.
_PREFIX_MIN = 3
_SEPARATORS = re.compile(r"[-_/.]")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that the word was probably meant to be.

    A name is near where a third of its letters or fewer have to be changed, added, dropped or swapped with their
    neighbour. Where no whole name is near, a name counts whose last part is, or that the word begins or is a part of.
    """
    found = [(rank, name) for name in known if (rank := _farness(word.lower(), name.lower())) is not None]
    return min(found, key=lambda one: one[0])[1] if found else None


def suggest(word: str, known: Iterable[str]) -> str:
    """Advice: the nearest name, then all of them."""
    names = list(known)
    near = nearest(word, names)
    all_of_them = f"one of {', '.join(names)}"
    return all_of_them if near is None else f"did you mean `{near}`? The names are: {', '.join(names)}"


def _farness(word: str, name: str) -> tuple[int, int] | None:
    """Edits of the whole name, after all those edits of its last part, and then beginnings and parts."""
    if (edits := _few_edits(word, name)) is not None:
        return 0, edits
    if len(word) < _PREFIX_MIN:
        return None
    if (edits := _few_edits(word, name.rsplit("/", 1)[-1])) is not None:
        return 1, edits
    if name.startswith(word) or any(_is_part(word, part) for part in _SEPARATORS.split(name)):
        return 2, len(name)
    return None


def _few_edits(word: str, name: str) -> int | None:
    edits = distance(word, name)
    return edits if edits <= (max(len(word), len(name)) + 1) // 3 else None


def _is_part(word: str, part: str) -> bool:
    return part == word or (len(part) > _PREFIX_MIN and distance(word, part) <= 1)


def distance(first: str, second: str) -> int:
    """Letters to change, add, drop or swap with their neighbour, each letter in one edit only."""
    before: list[int] = []
    last = list(range(len(second) + 1))
    for row, letter in enumerate(first, 1):
        line = [row]
        for column, other in enumerate(second, 1):
            edits = min(last[column] + 1, line[-1] + 1, last[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == second[column - 2] and first[row - 2] == other:
                edits = min(edits, before[column - 2] + 1)
            line.append(edits)
        before, last = last, line
    return last[-1]
