"""The name that somebody may have meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

# Below this two words have little in common but letters: `sys` and `system` have 0.67.
_ALIKE = 0.6
_SEPARATOR = re.compile(r"[_\s-]+")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is most like the word, or has a part that is: `sze` is like the `size` of `size_bytes`."""
    best, best_share = None, 0.0
    is_one_part = _SEPARATOR.search(word) is None
    for name in known:
        parts = _SEPARATOR.split(name) if is_one_part else []
        for part in (name, *parts):
            share = SequenceMatcher(None, word.lower(), part.lower()).ratio()
            if share > best_share:
                best, best_share = name, share
    return best if best_share >= _ALIKE else None


def suggest(word: str, known: Iterable[str]) -> str:
    """What would be right: the nearest name, then all of them."""
    names = list(known)
    near = nearest(word, names)
    one_of = f"one of {', '.join(names)}"
    return one_of if near is None else f"`{near}`, if that is meant; {one_of}"
