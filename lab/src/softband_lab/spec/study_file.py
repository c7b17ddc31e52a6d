"""Reads a study, and refuses impossible or ambiguous runs before the first run starts."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from softband_lab.base.errors import LabError
from softband_lab.base.fabricfile import load_toml
from softband_lab.base.places import fabric_path
from softband_lab.base.spelling import suggest
from softband_lab.base.strict import parse_model
from softband_lab.base.toml_lines import at, place
from softband_lab.base.units import COLUMN_UNITS, axis_units
from softband_lab.spec.study import (
    COMMAND_WORDS,
    TCP_TRANSPORTS,
    Accuracy,
    Curve,
    Figure,
    Run,
    Study,
    StudyFile,
    Test,
    Trace,
)


def list_studies(home: Path) -> list[str]:
    return sorted(path.parent.name for path in (home / "studies").glob("*/study.toml"))


def load_study(home: Path, name: str) -> Study:
    """Reads a study by its name, or by the path of its folder."""
    folder = Path(name) if (Path(name) / "study.toml").is_file() else home / "studies" / name
    path = folder / "study.toml"
    if not path.is_file():
        known = ", ".join(list_studies(home)) or "none"
        raise LabError(path, f"there is no study `{name}`", f"one of the studies here: {known}; or a study's folder")
    document = load_toml(path)
    inherit_tests(document, path)
    content = parse_model(StudyFile, document, path)
    study = Study(folder, content.study, content.tests, content.figures, content.accuracy)
    _check_numbers(study, path)
    for name, test in study.tests.items():
        _check_test(study, name, test, path)
    for figure in study.figures:
        for name in figure.tests:
            _check_use(study, path, figure, name)
    _check_names(study, path)
    _check_labels(study, path)
    if study.accuracy is not None:
        _check_targets(study.accuracy, study.head.name, path)
    return study


def inherit_tests(document: dict[str, Any], path: Path) -> None:
    """Gives each test with `like` the keys of the named test that it lacks."""
    tests = _table(document, "tests")
    whole = [name for name, test in tests.items() if isinstance(test, dict) and "like" not in test]
    for name, test in tests.items():
        if isinstance(test, dict) and "like" in test:
            if test["like"] not in whole:
                raise LabError(
                    place(path, ["tests", name, "like"]),
                    f"`{test['like']}` is not a test without `like`",
                    suggest(str(test["like"]), whole),
                )
            tests[name] = {**tests[test["like"]], **test}


def check_fabrics(study: Study, home: Path) -> None:
    """Fails if a fabric is missing, or lacks a host that a test names."""
    path = study.folder / "study.toml"
    documents: dict[str, dict[str, Any]] = {}
    for run, figure, curve in study.uses():
        file = fabric_path(home, run.fabric)
        if not file.is_file():
            raise LabError(
                f"{_figure(study, figure, curve, path)}, fabric `{run.fabric}`",
                f"there is no {file}",
                "a file below fabrics/, named from there",
            )
        if run.fabric not in documents:
            documents[run.fabric] = load_toml(file)
        test = study.tests[run.test]
        for key, host in test.hosts(run.client_host):
            if not has_host(documents[run.fabric], host):
                of_curve = key == "client_host" and run.client_host
                raise LabError(
                    f"{_figure(study, figure, curve, path)}.{key}"
                    if of_curve
                    else place(path, ["tests", run.test, key]),
                    f"`{host}` is not a host of fabrics/{run.fabric}, on which the curve `{curve.name}` runs",
                    f"one of {describe_hosts(documents[run.fabric])}; for the client also `client_host` in the curve",
                )


def has_host(fabric: dict[str, Any], name: str) -> bool:
    """Returns whether a fabric has a host. Hosts of generated fabrics are h0, h1 and so on (docs/generate.md)."""
    if "generate" not in fabric:
        return name in _table(fabric, "hosts")
    number, count = re.fullmatch(r"h(0|[1-9]\d*)", name), _table(fabric, "generate").get("hosts")
    return number is not None and (not isinstance(count, int) or int(number[1]) < count)


def describe_hosts(fabric: dict[str, Any]) -> str:
    return "h0, h1 and so on" if "generate" in fabric else ", ".join(_table(fabric, "hosts")) or "none"


def _table(fabric: dict[str, Any], key: str) -> dict[str, Any]:
    found = fabric.get(key)
    return found if isinstance(found, dict) else {}


def _figure(study: Study, figure: Figure, curve: Curve, path: Path) -> str:
    """Returns the place of a curve: file and line, number of the figure, name of the curve."""
    line = at(path, ["figures", study.figures.index(figure), "curves", figure.curves.index(curve)])
    return f"{line}: figure {figure.number}, curve {curve.name}"


def _check_numbers(study: Study, path: Path) -> None:
    numbers = [figure.number for figure in study.figures]
    for number in study.head.quick_figures:
        if number not in numbers:
            raise LabError(
                place(path, ["study", "quick_figures"]), f"there is no figure {number}", f"some of {numbers}"
            )
    for index, number in enumerate(numbers):
        if number in numbers[:index]:
            raise LabError(
                f"{at(path, ['figures', index])}: figures",
                f"there are two with the number {number}",
                "a number of its own for each",
            )


def _check_targets(accuracy: Accuracy, own: str, path: Path) -> None:
    counted = [*accuracy.includes, own]
    for name in accuracy.targets.studies:
        if name not in counted:
            raise LabError(
                place(path, ["accuracy", "targets", "studies"]), f"`{name}` is not counted here", f"some of {counted}"
            )


def _check_test(study: Study, name: str, test: Test, path: Path) -> None:
    where = ["tests", name]
    if test.column not in COLUMN_UNITS:
        raise LabError(
            place(path, [*where, "column"]),
            f"`{test.column}` is not a column",
            suggest(test.column, sorted(COLUMN_UNITS)),
        )
    units = axis_units(test.column, study.head.megabyte)
    if test.unit not in units:
        raise LabError(
            place(path, [*where, "unit"]),
            f"`{test.unit}` is not what `{test.column}` is in, and charts show it as it is printed",
            f"one of {', '.join(units)}; or another column",
        )
    for transport, range_ in test.sizes.items():
        if range_.smallest > range_.largest:
            raise LabError(
                place(path, [*where, "sizes", transport]),
                f"goes from {range_.smallest} to {range_.largest}, which is less",
                "`from` at the most as great as `to`",
            )
        if outside := range_.outside():
            raise LabError(
                place(path, [*where, "sizes", transport, "only"]),
                f"has {outside[0]}, which is not a power of two from {range_.smallest} to {range_.largest}",
                "sizes of the range",
            )
    if test.mpi is not None and test.trace is not None:
        raise LabError(place(path, where), "has `mpi` and `trace`", "a test for each")
    if test.mpi is None and test.trace is None:
        for key in ("server_host", "server", "client_host", "client"):
            if not getattr(test, key):
                raise LabError(place(path, where), f"has no `{key}`", f"`{key}`, an `mpi` job or a `trace`")
    if test.trace is not None:
        _check_trace(test.trace, test.sizes, place(path, [*where, "trace"]))
    if test.needs is not None and bool(test.needs.command) == bool(test.needs.programs):
        problem = "has `command` and `programs`" if test.needs.command else "has no `command` and no `programs`"
        raise LabError(place(path, [*where, "needs"]), problem, "one of them")
    for key, command in test.commands():
        _check_command(command, test.run_per_size, place(path, [*where, key]))


def _check_trace(trace: Trace, transports: Iterable[str], where: str) -> None:
    for transport in transports:
        if transport not in ("RC", *TCP_TRANSPORTS):
            raise LabError(where, f"cannot play over {transport}", f"one of RC, {', '.join(TCP_TRANSPORTS)}")
        if transport in TCP_TRANSPORTS and transport not in trace.interfaces:
            raise LabError(
                where, f"has no interface for {transport}", f'`interfaces = {{ {transport} = "eth1" }}` in the trace'
            )
    for transport in trace.interfaces:
        if transport not in TCP_TRANSPORTS:
            raise LabError(where, f"has an interface for {transport}, which needs none", "only those of sockets")


def _check_command(command: str, run_per_size: bool, where: str) -> None:
    words = sorted(COMMAND_WORDS if run_per_size else COMMAND_WORDS - {"size"})
    remedy = (
        f"one of {', '.join(f'{{{word}}}' for word in words)}; `{{{{` and `}}}}` for braces that the program is to get"
    )
    try:
        fields = list(string.Formatter().parse(command))
    except ValueError as error:
        raise LabError(where, f"a brace in `{command}` stands alone: {error}", remedy) from None
    for _, word, layout, conversion in fields:
        if word == "size" and not run_per_size:
            raise LabError(
                where, "`{size}` has no value: the test runs once for all sizes", f"`run_per_size`, or {remedy}"
            )
        if word is not None and (word not in words or layout or conversion):
            raise LabError(where, f"`{{{word}}}` in `{command}` stands for nothing", remedy)


def _check_use(study: Study, path: Path, figure: Figure, name: str) -> None:
    if name not in study.tests:
        raise LabError(
            f"{at(path, ['figures', study.figures.index(figure), 'tests'])}: figure {figure.number}, tests",
            f"there is no test `{name}`",
            suggest(name, study.tests),
        )
    for curve in figure.curves:
        transport, own = figure.transport_of(curve), curve.test or name
        if curve.test:
            _check_own_test(study, path, figure, curve)
        if transport not in study.tests[own].sizes:
            raise LabError(
                place(path, ["tests", own, "sizes"]),
                f"has no range for {transport}, which figure {figure.number} needs",
                f"add `{transport} = {{ from = 2, to = 2048 }}` with the sizes of that transport",
            )


def _check_own_test(study: Study, path: Path, figure: Figure, curve: Curve) -> None:
    """Fails if the test of a curve cannot take the place of the figure's."""
    where = _figure(study, figure, curve, path)
    if curve.test not in study.tests:
        raise LabError(where, f"there is no test `{curve.test}`", suggest(curve.test, study.tests))
    if len(figure.tests) > 1:
        raise LabError(where, f"has the test `{curve.test}`, and the figure has several", "a figure with one test")
    own, other = study.tests[curve.test], study.tests[figure.tests[0]]
    if (own.column, own.unit) != (other.column, other.unit):
        raise LabError(
            where,
            f"its test has `{own.column}` in {own.unit}, that of the figure `{other.column}` in {other.unit}",
            "a test with the same column and unit",
        )


def _check_names(study: Study, path: Path) -> None:
    meaning: dict[tuple[str, str], Run] = {}
    by_id: dict[str, Run] = {}
    for run, figure, curve in study.uses():
        if by_id.setdefault(run.id, run) != run:
            raise LabError(
                _figure(study, figure, curve, path),
                f"the run {run.id} has another fabric or client elsewhere",
                "fabric files of different names, and the same client_host for the same fabric",
            )
        known = meaning.setdefault((curve.name, run.test), run)
        if known != run:
            raise LabError(
                _figure(study, figure, curve, path),
                f"the name already stands for {known.id}, here it stands for {run.id}",
                "one name for one measurement throughout the study",
            )


def _check_labels(study: Study, path: Path) -> None:
    for figure in study.figures:
        for index, curve in enumerate(figure.curves):
            if any(curve.shown == other.shown for other in figure.curves[:index]):
                raise LabError(
                    _figure(study, figure, curve, path),
                    f"has the label `{curve.shown}`, as another curve of the figure",
                    "a label of its own",
                )
