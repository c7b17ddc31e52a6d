"""Reads fields of fabric files, and derives changed copies.

The engine checks fabric files. This module checks only the fields that it reads.
"""

from __future__ import annotations

import copy
import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import tomli_w

from softband_lab.base.errors import LabError
from softband_lab.base.files import write_whole

# Number of data lanes to the IBTA code of OperationalVLs, which is the value of OpenSM's max_op_vls.
OPERATIONAL_VLS_CODE = {1: 1, 2: 2, 4: 3, 8: 4, 15: 5}
LINK_RATES = ("SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR")

Document = dict[str, Any]


def load_toml(path: Path) -> Document:
    """Parses a TOML file. Fails with a `LabError` that names the place of the mistake."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(path, f"cannot be read: {error.strerror}", "name a file that exists") from None
    except UnicodeDecodeError as error:
        raise LabError(path, f"is not text in UTF-8: {error}", "save the file as UTF-8") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LabError(path, f"is not valid TOML: {error}", "correct the file at that line") from None


def read_field(document: Document, dotted: str) -> Any:
    """Returns the value at a path such as `subnet.max_op_vls` or `cables.0.part`, or None if the path ends early."""
    value: Any = document
    for step in dotted.split("."):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def set_field(document: Document, dotted: str, value: Any, where: str) -> Document:
    """Returns a copy of a document with another value at a path, as in `read_field`.

    Creates missing tables. The engine checks the meaning of the key.
    """
    changed = copy.deepcopy(document)
    *above, last = dotted.split(".")
    place: Any = changed
    done: list[str] = []
    for step in [*above, last]:
        if isinstance(place, list) and not (step.isdigit() and int(step) < len(place)):
            raise LabError(where, f"there is no `{step}` in `{'.'.join(done)}`", f"from 0 to {len(place) - 1}")
        if not isinstance(place, list | dict):
            raise LabError(
                where, f"`{'.'.join(done)}` is {place!r}, and nothing is in it", "the path of a single value"
            )
        index: Any = int(step) if isinstance(place, list) else step
        if len(done) == len(above):
            old = place[index] if isinstance(place, list) else place.get(index)
            if isinstance(old, dict | list):
                raise LabError(
                    where, f"`{dotted}` is not a single value", f"the path of a value in it, as {dotted}.NAME"
                )
            place[index] = value
            break
        place = place[index] if isinstance(place, list) else place.setdefault(index, {})
        done.append(step)
    return changed


def cables(document: Document, path: Path) -> list[dict[str, Any]]:
    """Returns the cables of a fabric file. Fails if it has none."""
    found = document.get("cables")
    if not isinstance(found, list) or not found:
        raise LabError(path, "has no [[cables]]", 'add at least one: [[cables]] part = "cx4" from = ... to = ...')
    return found


def two_hosts(document: Document, path: Path, wanted: tuple[str, str]) -> tuple[str, str]:
    """Returns the hosts of server and client: the wanted ones if the file has both, else its first two."""
    hosts = list(document.get("hosts", {}))
    if all(name in hosts for name in wanted):
        return wanted
    if len(hosts) < 2:
        raise LabError(path, f"has {len(hosts)} hosts", "a fabric with two hosts at least: [hosts.a] and [hosts.b]")
    return hosts[0], hosts[1]


def with_vls(document: Document, data_vls: int, where: str = "--vls") -> Document:
    """Returns the fabric with this many data lanes. Each link has at most as many as both its ports support."""
    if data_vls not in OPERATIONAL_VLS_CODE:
        allowed = ", ".join(str(count) for count in OPERATIONAL_VLS_CODE)
        raise LabError(where, f"{data_vls} is not a number of operational data lanes", f"one of {allowed}")
    changed = copy.deepcopy(document)
    changed.setdefault("subnet", {})["max_op_vls"] = OPERATIONAL_VLS_CODE[data_vls]
    return changed


def with_rate(document: Document, rate: str, where: str = "--rate") -> Document:
    """Returns the fabric with a cap of the link rate on every cable."""
    if rate.upper() not in LINK_RATES:
        raise LabError(where, f"`{rate}` is not a link rate", f"one of {', '.join(LINK_RATES)}")
    changed = copy.deepcopy(document)
    for cable in changed.get("cables", []):
        cable["rate"] = rate.upper()
    return changed


def with_cable(document: Document, indices: list[int], length_m: float, part: str | None = None) -> Document:
    """Returns the fabric with another length of the chosen cables, in metres, and another part if `part` names it."""
    changed = copy.deepcopy(document)
    for index in indices:
        cable = changed["cables"][index]
        cable["length"] = f"{plain(length_m)} m"
        if part is not None:
            cable["part"] = part
    return changed


def write_toml(document: Document, path: Path) -> None:
    write_whole(path, tomli_w.dumps(document).encode())


def parse_length_m(text: str, where: str) -> float:
    """Returns the metres of a text such as `100m`, `100 m`, `50 cm` or `2 km`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(m|cm|km)\s*", text)
    if not match:
        raise LabError(where, f"`{text}` is not a length", "a number with its unit, such as `8 m`")
    return float(Decimal(match[1]) * {"m": Decimal(1), "cm": Decimal("0.01"), "km": Decimal(1000)}[match[2]])


def plain(number: float) -> str:
    """Prints a number with all digits and without an exponent: `1000000`, `1.2345678`."""
    text = f"{Decimal(repr(number)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
