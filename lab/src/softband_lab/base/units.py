"""Units of published numbers, of the columns that programs print, and of the catalogue's values."""

from __future__ import annotations

import re
from typing import Final

# Programs and papers use MB for 10^6 or for 2^20 bytes. A study states the meaning in its source.
DECIMAL_MEGABYTE = 1_000_000
BINARY_MEGABYTE: Final = 1_048_576

# Unit to its kind, and its size in the base unit of the kind. Units of a kind convert into each other.
_UNITS: dict[str, tuple[str, float]] = {
    "B/s": ("rate", 1.0),
    "MiB/s": ("rate", float(BINARY_MEGABYTE)),
    "Mb/s": ("rate", 1e6 / 8),
    "Gb/s": ("rate", 1e9 / 8),
    "s": ("time", 1.0),
    "us": ("time", 1e-6),
    "ns": ("time", 1e-9),
    "B": ("size", 1.0),
    "bytes": ("size", 1.0),
    "KB": ("size", 1024.0),
    "Mmsg/s": ("message rate", 1e6),
    "million/s": ("message rate", 1e6),
    "GFlop/s": ("operation rate", 1e9),
    "TFlop/s": ("operation rate", 1e12),
    "m": ("length", 1.0),
    "%": ("share", 0.01),
    "ratio": ("share", 1.0),
    "fraction": ("share", 1.0),
}
_MEGABYTE_UNITS = {"MB": ("size", 1), "MB/s": ("rate", 1), "GB/s": ("rate", 1000)}
# Units of values that are no quantities: an order, a code, a list. The rule of the claim compares them.
_WORDS = ("", "ordering", "code", "list", "setting", "points", "name", "VLs")

# The unit of each column of a table that a program prints.
COLUMN_UNITS = {
    "bw_peak_mib_s": "MiB/s",
    "bw_average_mib_s": "MiB/s",
    "bw_peak_mb_s": "MB/s",
    "bw_average_mb_s": "MB/s",
    "bw_average_gbit_s": "Gb/s",
    "message_rate_mpps": "Mmsg/s",
    "operations_gflop_s": "GFlop/s",
    "latency_min_us": "us",
    "latency_typical_us": "us",
    "latency_avg_us": "us",
    "latency_max_us": "us",
}


def is_known(unit: str) -> bool:
    bare = _bare(unit)
    return bare in _UNITS or bare in _MEGABYTE_UNITS or bare in _WORDS


def known_units() -> list[str]:
    return sorted([*_UNITS, *_MEGABYTE_UNITS, *(word for word in _WORDS if word)])


def units_of(kind: str | None) -> list[str]:
    """Returns the units of a kind of quantity, or for None the words that are no quantity."""
    if kind is None:
        return sorted(word for word in _WORDS if word)
    return sorted(unit for unit, (other, _) in [*_UNITS.items(), *_MEGABYTE_UNITS.items()] if other == kind)


def in_base_units(unit: str, megabyte: int) -> tuple[str, float] | None:
    """Returns the kind of a unit and its size in base units, or None if the unit is not a quantity."""
    unit = _bare(unit)
    if unit in _MEGABYTE_UNITS:
        kind, count = _MEGABYTE_UNITS[unit]
        return kind, float(count * megabyte)
    return _UNITS.get(unit)


def column_factor(column: str, unit: str, megabyte: int) -> float | None:
    """Returns the factor from a column's unit to `unit`, or None if the kinds differ."""
    have = in_base_units(COLUMN_UNITS[column], DECIMAL_MEGABYTE)
    want = in_base_units(unit, megabyte)
    return have[1] / want[1] if have and want and have[0] == want[0] else None


def axis_units(column: str, megabyte: int) -> list[str]:
    """Returns the names of a column's unit that a chart may use. Charts do not convert the printed values."""
    own = COLUMN_UNITS[column]
    kind, _ = in_base_units(own, DECIMAL_MEGABYTE) or (None, 0.0)
    return [unit for unit in units_of(kind) if unit == own or column_factor(column, unit, megabyte) == 1.0]


def may_be_negative(unit: str) -> bool:
    """Returns whether values of a unit can be negative: a change can, a rate, time, length or ratio cannot."""
    return _bare(unit) == "%" or in_base_units(unit, DECIMAL_MEGABYTE) is None


def _bare(unit: str) -> str:
    """Removes the remark behind a unit, as in `VLs (paper's wording)`."""
    return re.sub(r"\s*\(.*\)$", "", unit)
