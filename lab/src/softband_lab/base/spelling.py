"""Suggests known names for misspelt ones, by the rule of crates/catalog/src/spelling.rs."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Least number of letters of a word that can stand for a longer name.
_PREFIX_MIN = 3
_SEPARATORS = re.compile(r"[-_/.]")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Returns the known name that is most similar to a word, or None if no name is similar.

    A name is near if it takes few edits: at most a third of its letters. An edit changes, adds, drops or swaps letters.
    If no whole name is near, its last part may be near, or the word may be its beginning or one of its parts.
    """
    found = [(rank, name) for name in known if (rank := _farness(word.lower(), name.lower())) is not None]
    return min(found, key=lambda one: one[0])[1] if found else None


def suggest(word: str, known: Iterable[str]) -> str:
    """Returns a remedy: the nearest name, then all names."""
    names = list(known)
    near = nearest(word, names)
    all_of_them = f"one of {', '.join(names)}"
    return all_of_them if near is None else f"did you mean `{near}`? The names are: {', '.join(names)}"


def _farness(word: str, name: str) -> tuple[int, int] | None:
    """Returns a rank: edits of the whole name first, then edits of its last part, then beginnings and parts."""
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
    """Counts the edits between two words: letters changed, added, dropped or swapped, each letter at most once."""
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
