"""The catalogue for pages: the values that `softband parts` prints, notes of the part files, and who uses a part."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softband_lab.base.errors import LabError
from softband_lab.base.fabricfile import load_toml
from softband_lab.base.softband import Softband

KINDS = ("hca", "nic", "switch", "cable", "limit", "bus", "host", "kernel")
# Parameters whose value names another part, and the kind of that part.
_REFERENCES = {"bus": "bus", "slot": "bus", "length_limits": "limit"}
# Keys of the table [generate] that name parts.
_GENERATED = {"host": "host", "hca": "hca", "switch": "switch", "host_cable": "cable", "switch_cable": "cable"}
_FAMILY = re.compile(r"-x\d+$")
_URL = re.compile(r"https?://[^\s\"'<>]*[^\s\"'<>.,;:)]")

Key = tuple[str, str]


@dataclass(frozen=True)
class Parameter:
    """A value as its part file writes it, with unit, status, source, and the claims it was calibrated on."""

    name: str
    value: str
    unit: str
    status: str
    source: str
    on: tuple[str, ...]

    @property
    def shown(self) -> str:
        """The value with its unit. Units that only classify a value, such as `name`, are left out."""
        return self.value if self.unit in _SILENT_UNITS else f"{self.value} {self.unit}"

    @property
    def source_pieces(self) -> list[tuple[str, bool]]:
        """The source in pieces, each with the answer whether it is an address."""
        pieces, end = [], 0
        for found in _URL.finditer(self.source):
            pieces += [(self.source[end : found.start()], False), (found[0], True)]
            end = found.end()
        return [piece for piece in [*pieces, (self.source[end:], False)] if piece[0]]


_SILENT_UNITS = ("name", "count", "id", "code", "part", "link width", "link speed", "Ethernet rate")


@dataclass
class Part:
    """A part with its parameters, the comments of its file, and its neighbours."""

    kind: str
    name: str
    summary: str
    parameters: list[Parameter]
    like: str = ""
    # Each comment, with the parameter that follows it, or "" at the head.
    notes: list[tuple[str, str]] = field(default_factory=list)
    refers_to: list[tuple[str, Key]] = field(default_factory=list)
    referred_by: list[tuple[str, Key]] = field(default_factory=list)
    fabrics: list[str] = field(default_factory=list)

    @property
    def key(self) -> Key:
        return self.kind, self.name

    @property
    def file(self) -> str:
        """The name of the page, relative to the folder of the catalogue's pages."""
        return f"{self.kind}/{self.name}.html"

    def get(self, name: str) -> str:
        """Returns a value with its unit, or "" if the part has no such parameter."""
        return next((parameter.shown for parameter in self.parameters if parameter.name == name), "")

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for parameter in self.parameters:
            found[parameter.status] = found.get(parameter.status, 0) + 1
        return dict(sorted(found.items(), key=lambda item: -item[1]))


def load_parts(softband: Softband, home: Path, own: Path | None) -> dict[Key, Part]:
    """Asks `softband` for all parts, the user's included. Fails if `softband` refuses the catalogue."""
    listed = _ask(softband, ["parts", "list", "--json"])["parts"]
    names = list(dict.fromkeys(str(part["name"]) for part in listed))
    shown = _ask(softband, ["parts", "show", "--json", "--", *names])["parts"]
    folders = [
        *([own] if own else []),
        *(Path(folder) for folder in os.environ.get("SOFTBAND_CATALOG", "").split(os.pathsep) if folder),
        home / "catalog",
    ]
    parts = {}
    for sheet in shown:
        rows = [Parameter(**{**row, "on": tuple(row["on"])}) for row in sheet["parameters"]]
        part = Part(sheet["kind"], sheet["name"], sheet["summary"], rows)
        _check_name(part)
        _read_file(part, folders)
        parts[part.key] = part
    _link(parts)
    return parts


def _ask(softband: Softband, words: list[str]) -> dict[str, Any]:
    answer = softband.ask(words)
    if answer.exit_status != 0:
        raise LabError(" ".join(["softband", *words[:3]]), answer.stderr.strip() or "failed", "")
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def _check_name(part: Part) -> None:
    """Fails for a name that would leave the folder of the pages."""
    if part.kind not in KINDS or "/" in part.name or part.name.startswith("."):
        raise LabError(f"{part.kind} part `{part.name}`", "cannot be the name of a page", "rename the part's file")


def _read_file(part: Part, folders: list[Path]) -> None:
    """Reads `like` and the comments of the part's file. A part of a family shares the family's file."""
    for name in (part.name, _FAMILY.sub("", part.name)):
        for folder in folders:
            path = folder / part.kind / f"{name}.toml"
            if path.is_file():
                part.like = str(load_toml(path).get("like", ""))
                part.notes = list(notes_of(path.read_text(encoding="utf-8")))
                return


def notes_of(text: str) -> Iterator[tuple[str, str]]:
    """Yields the comments of a part file, each with the name of the parameter that follows it."""
    words: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            words.append(line.lstrip("#").strip())
        elif words:
            name = line.partition("=")[0].strip() if "=" in line else ""
            yield " ".join(words), "" if name in ("summary", "like") else name
            words = []


def _link(parts: dict[Key, Part]) -> None:
    for part in parts.values():
        named = [("like", (part.kind, part.like))] if part.like else []
        named += [
            (parameter.name, (_REFERENCES[parameter.name], parameter.value))
            for parameter in part.parameters
            if parameter.unit == "part" and parameter.name in _REFERENCES
        ]
        for word, key in named:
            if key in parts and key != part.key:
                part.refers_to.append((word, key))
                parts[key].referred_by.append((word, part.key))


def fabrics_of(home: Path) -> dict[str, set[Key]]:
    """Returns the parts that each fabric of the installation names, by the fabric's name."""
    folder = home / "fabrics"
    found = {}
    for path in sorted(folder.rglob("*.toml")):
        document = load_toml(path)
        if isinstance(document.get("fabric"), dict):
            found[path.relative_to(folder).with_suffix("").as_posix()] = set(_named(document))
    return found


def _named(document: dict[str, Any]) -> Iterator[Key]:
    for host in document.get("hosts", {}).values():
        yield "host", str(host.get("part", ""))
        yield from (("hca", str(hca.get("part", ""))) for hca in host.get("hcas", []))
        yield from (("nic", str(nic.get("part", ""))) for nic in host.get("nics", {}).values())
        yield from (("bus", str(bus.get("part", ""))) for bus in host.get("buses", {}).values())
        yield from (("bus", str(hca["slot"])) for hca in host.get("hcas", []) if "slot" in hca)
        if "kernel" in host:
            yield "kernel", str(host["kernel"])
    yield from (("switch", str(switch.get("part", ""))) for switch in document.get("switches", {}).values())
    yield from (("cable", str(cable.get("part", ""))) for cable in document.get("cables", []))
    if "kernel" in document.get("fabric", {}):
        yield "kernel", str(document["fabric"]["kernel"])
    generate = document.get("generate", {})
    yield from ((kind, str(generate[key])) for key, kind in _GENERATED.items() if key in generate)


def with_references(parts: dict[Key, Part], named: set[Key]) -> set[Key]:
    """Returns the named parts, and those that their values refer to: the bus of a host, the slot of a bridge."""
    found, rest = set(), [key for key in named if key in parts]
    while rest:
        key = rest.pop()
        if key not in found:
            found.add(key)
            rest += [other for word, other in parts[key].refers_to if word != "like"]
    return found
