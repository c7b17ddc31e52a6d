"""The question of `softband model --sweep`: keys and values, and the jobs that follow from them."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softband_lab.base.errors import LabError
from softband_lab.base.fabricfile import (
    Document,
    cables,
    load_toml,
    parse_length_m,
    set_field,
    with_cable,
    with_rate,
    with_vls,
)
from softband_lab.base.places import find_fabric
from softband_lab.campaign.inputs import InputFile, derived_fabric, fabric_file
from softband_lab.campaign.model_job import ModelJob, Value, Workload, name_of
from softband_lab.sweep.whatif import choose_cables, load_defaults

_MOST_RUNS = 100_000
_MOST_CHECKS = 32
# The largest values of `softband model`, and the most bytes that a column of the tables holds.
_MOST_COUNT = (1 << 32) - 1
_MOST_SEED = (1 << 64) - 1
_MOST_BYTES = (1 << 63) - 1
_SIZE_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _whole(text: str, where: str, most: int) -> int:
    if not re.fullmatch(r"[0-9]+", text):
        raise LabError(where, f"`{text}` is not a whole number", "a number such as `16`")
    # Python refuses to convert thousands of digits.
    if len(text.lstrip("0")) > len(str(most)) or int(text) > most:
        raise LabError(where, f"`{text}` is too large", f"at most {most}")
    return int(text)


def _count(text: str, where: str) -> Value:
    return _whole(text, where, _MOST_COUNT)


def _seed(text: str, where: str) -> Value:
    return _whole(text, where, _MOST_SEED)


def _bytes(text: str, where: str) -> Value:
    match = re.fullmatch(r"([0-9]+)\s*(KiB|MiB|GiB|B)?", text)
    if not match:
        raise LabError(where, f"`{text}` is not a size", "bytes (65536), or a number with B, KiB, MiB or GiB (64KiB)")
    unit = _SIZE_UNITS[match[2] or ""]
    return _whole(match[1], where, _MOST_BYTES // unit) * unit


def _word(text: str, where: str) -> Value:
    del where
    return text


# The patterns of `softband model`. A file of the same name does not count.
_PATTERNS = (
    "permutation",
    "shift",
    "all-to-all",
    "incast",
    "uniform-random",
    "ring-allreduce",
    "tree-allreduce",
    "broadcast",
    "stream",
)
# Options of `softband model` with their parsers.
_OPTIONS: dict[str, Callable[[str, str], Value]] = {
    "bytes": _bytes,
    **dict.fromkeys(
        ("messages", "window", "senders", "distance", "repeat", "ranks-per-host", "mtu", "service-level"), _count
    ),
    "seed": _seed,
    **dict.fromkeys(("root", "from", "to", "operation"), _word),
}
# Options of `softband what-if` with their parsers.
_OF_WHAT_IF: dict[str, Callable[[str, str], Value]] = {
    "vls": _count,
    "rate": lambda text, _: text.upper(),
    "cable-length": parse_length_m,
}


@dataclass(frozen=True)
class Axis:
    """A key with its values."""

    name: str
    values: tuple[Value, ...]

    @property
    def column(self) -> str:
        column = self.name.replace("-", "_") if self.name in (*_OPTIONS, *_OF_WHAT_IF) else self.name
        return "cable_length_m" if column == "cable_length" else column

    @property
    def is_option(self) -> bool:
        return self.name in _OPTIONS

    def to_be_checked(self) -> list[Value]:
        """Returns all values, or the ends of a long list. A wrong value in between becomes a failed run."""
        if len(self.values) <= _MOST_CHECKS:
            return list(self.values)
        ends = (self.values[0], self.values[-1])
        return list(dict.fromkeys((*ends, min(self.values), max(self.values))))

    @property
    def kind(self) -> str:
        return type(self.values[0]).__name__


@dataclass(frozen=True)
class Question:
    """A fabric, a workload, the options of all runs, and the keys that vary."""

    home: Path
    fabric: Path
    fabric_label: str
    workload: Workload
    options: tuple[str, ...]
    axes: tuple[Axis, ...]
    threads: str

    @property
    def workload_name(self) -> str:
        return self.workload if isinstance(self.workload, str) else Path(self.workload.label).stem

    @property
    def count(self) -> int:
        return math.prod(len(axis.values) for axis in self.axes)

    def jobs(self) -> list[ModelJob]:
        fabrics: dict[tuple[Value, ...], InputFile] = {}
        return [self._job(values, fabrics) for values in itertools.product(*(axis.values for axis in self.axes))]

    def of_run(self, job: ModelJob) -> str:
        """Returns the values of a run as options of the command line."""
        return self._said(job, self.axes)

    def of_fabric(self, job: ModelJob) -> str:
        """Returns the values of a run that change the fabric, or an empty text if all runs have the same."""
        return self._said(job, tuple(axis for axis in self.axes if not axis.is_option))

    def _said(self, job: ModelJob, axes: tuple[Axis, ...]) -> str:
        values = dict(job.parameters)
        return " ".join(f"--sweep {axis.name}={values[axis.column]}" for axis in axes)

    def to_be_checked(self) -> list[tuple[Axis, Value, ModelJob]]:
        """Returns a run for each value, with the first values of the other keys."""
        firsts = tuple(axis.values[0] for axis in self.axes)
        return [
            (axis, value, self._job((*firsts[:place], value, *firsts[place + 1 :]), {}))
            for place, axis in enumerate(self.axes)
            for value in axis.to_be_checked()
        ]

    def _job(self, values: tuple[Value, ...], fabrics: dict[tuple[Value, ...], InputFile]) -> ModelJob:
        parameters = tuple((axis.column, value) for axis, value in zip(self.axes, values, strict=True))
        given = [(axis, value) for axis, value in zip(self.axes, values, strict=True) if axis.is_option]
        of_fabric = [(axis, value) for axis, value in zip(self.axes, values, strict=True) if not axis.is_option]
        key = tuple(value for _, value in of_fabric)
        if key not in fabrics:
            fabrics[key] = self._fabric(of_fabric)
        options = (*self.options, *(word for axis, value in given for word in (f"--{axis.name}", str(value))))
        return ModelJob(name_of(parameters), parameters, fabrics[key], self.workload, options, self.threads)

    def _fabric(self, changes: list[tuple[Axis, Value]]) -> InputFile:
        if not changes:
            return fabric_file(self.fabric, self.fabric_label)
        document = load_toml(self.fabric)
        for axis, value in changes:
            document = self._changed(document, axis.name, value)
        name = name_of(tuple((axis.column, value) for axis, value in changes))
        return derived_fabric(f"{self.fabric.stem}_{name}", document)

    def _changed(self, document: Document, name: str, value: Value) -> Document:
        where = f"--sweep {name}"
        if name == "vls":
            return with_vls(document, int(value), where)
        if name == "rate":
            cables(document, self.fabric)
            return with_rate(document, str(value), where)
        if name == "cable-length":
            defaults = load_defaults(self.home)
            try:
                varied = choose_cables(document, self.fabric, [], defaults.fixed_parts)
            except LabError as error:
                raise LabError(
                    error.where, f"{where}: {error.problem}", "the length of one cable, such as cables.0.length"
                ) from None
            return with_cable(document, varied, float(value), defaults.cable_part)
        return set_field(document, name, value, where)


def ask(home: Path, fabric: Path, workload: str, options: tuple[str, ...], sweeps: list[str]) -> Question:
    path = find_fabric(home, fabric)
    axes = tuple(_parse_axis(text) for text in sweeps)
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise LabError(f"--sweep {name}", "is given twice", "all its values in one --sweep, with commas")
        if any(option.partition("=")[0] == f"--{name}" for option in options):
            raise LabError(f"--sweep {name}", f"there is a --{name}, too", "one of the two")
    runs = math.prod(len(axis.values) for axis in axes)
    if runs > _MOST_RUNS:
        raise LabError("--sweep", f"{runs} runs", f"at most {_MOST_RUNS}, in several sweeps")
    file = Path(workload)
    try:
        text = file.read_text(encoding="utf-8") if workload not in _PATTERNS and file.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(file, f"cannot be read: {error}", "a TOML file, or a GOAL trace in its text form") from None
    others, threads = _without_threads(options)
    chosen = workload if text is None else InputFile(workload, text)
    return Question(home, path, str(fabric), chosen, others, axes, threads)


def _without_threads(options: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Splits off the option `--threads`. A run has one thread by default, because other runs share the machine."""
    if "--threads" not in options[:-1]:
        return options, "1"
    place = options.index("--threads")
    return (*options[:place], *options[place + 2 :]), options[place + 1]


def _parse_axis(text: str) -> Axis:
    name, equals, listed = text.partition("=")
    name = name.strip()
    where = f"--sweep {text}"
    if not equals or not name:
        raise LabError(where, "has no values", "KEY=V1,V2,..., as in bytes=4KiB,64KiB")
    name = name.replace("_", "-") if name.replace("_", "-") in (*_OPTIONS, *_OF_WHAT_IF) else name
    words = [word.strip() for word in listed.split(",")]
    if not all(words):
        raise LabError(where, "has an empty value", "KEY=V1,V2,..., as in bytes=4KiB,64KiB")
    values = tuple(_parse_values(name, words, f"--sweep {name}"))
    if len(set(map(repr, values))) < len(values):
        raise LabError(where, "has a value twice", "each value once")
    return Axis(name, values)


def _parse_values(name: str, words: list[str], where: str) -> list[Value]:
    parse = _OPTIONS.get(name) or _OF_WHAT_IF.get(name)
    if parse is not None:
        return [parse(word, where) for word in words]
    if not re.fullmatch(r"[\w-]+(\.[\w-]+)+", name):
        known = ", ".join((*_OPTIONS, *_OF_WHAT_IF))
        raise LabError(
            where, "is not a key", f"one of {known}; or a key of the fabric file by its path, as subnet.max_op_vls"
        )
    return _alike([_toml_value(word) for word in words])


def _toml_value(word: str) -> Value:
    """Reads a value as TOML does: `5`, `0.5`, `true`. Anything else is text and needs no quotes."""
    try:
        value: Any = tomllib.loads(f"value = {word}")["value"]
    except tomllib.TOMLDecodeError:
        return word
    return value if isinstance(value, str | int | float | bool) else word


def _alike(values: list[Value]) -> list[Value]:
    """Converts values to a common type, because a column has one."""
    kinds = {type(value) for value in values}
    if len(kinds) == 1:
        return values
    if kinds == {int, float}:
        return [float(value) for value in values]
    return [str(value) for value in values]
