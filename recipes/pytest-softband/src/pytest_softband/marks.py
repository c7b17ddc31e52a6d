"""Reads `@pytest.mark.softband(...)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACES = ("virtual", "wall")
TIMEOUT_SECONDS = 60.0
ALLOWED = {
    "fabric": "the name of an installed fabric, or a fabric file beside the test",
    "pace": '"virtual" or "wall"',
    "faults": "text with [[faults]], or a file beside the test",
    "timeout": "a number of seconds above 0",
}


class BadMark(Exception):
    """A mark with a wrong key or value."""


@dataclass(frozen=True)
class Settings:
    """The fabric that a test asks for."""

    fabric: str = "default"
    pace: str | None = None
    faults: str | Path | None = None
    timeout: float = TIMEOUT_SECONDS


def _refuse(key: str, value: object) -> BadMark:
    return BadMark(f"{key}={value!r} in @pytest.mark.softband: {key} is {ALLOWED[key]}")


def settings(arguments: tuple[Any, ...], given: Mapping[str, Any], folder: Path) -> Settings:
    """Returns the settings of a mark. Fails with `BadMark`, which names the key and its values.

    `folder` is that of the test, from which paths start.
    """
    keys = ", ".join(f"{key} ({meaning})" for key, meaning in ALLOWED.items())
    if arguments:
        raise BadMark(f"@pytest.mark.softband takes named values only, not {arguments[0]!r}: {keys}")
    for key in given:
        if key not in ALLOWED:
            raise BadMark(f"no key {key!r} in @pytest.mark.softband: the keys are {keys}")
    fabric, pace, timeout = given.get("fabric", "default"), given.get("pace"), given.get("timeout", TIMEOUT_SECONDS)
    if not isinstance(fabric, str | Path) or not str(fabric):
        raise _refuse("fabric", fabric)
    if pace is not None and pace not in PACES:
        raise _refuse("pace", pace)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < 1e6:
        raise _refuse("timeout", timeout)
    beside = folder / fabric
    faults = _faults(given.get("faults"), folder)
    return Settings(str(beside if beside.is_file() else fabric), pace, faults, float(timeout))


def _faults(given: object, folder: Path) -> str | Path | None:
    if given is None:
        return None
    if isinstance(given, str) and "[[" in given:
        return given
    if not isinstance(given, str | Path) or not (folder / given).is_file():
        raise _refuse("faults", given)
    return folder / given
