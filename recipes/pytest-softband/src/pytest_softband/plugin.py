"""The plug-in: the mark `softband`, the fixture `softband`, and the logs of failed tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from pytest_softband.fabric import Fabric
from pytest_softband.marks import ALLOWED, BadMark, Settings, settings

FABRIC = pytest.StashKey[Fabric]()


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark, so that `--strict-markers` accepts it."""
    config.addinivalue_line("markers", f"softband({', '.join(ALLOWED)}): the fabric of the fixture softband")


def command() -> Path:
    """Returns the path of the command. Fails the test if there is none, so that no test is skipped unseen."""
    named = os.environ.get("SOFTBAND_BIN")
    found = shutil.which(named or "softband")
    if found is None:
        where = f"SOFTBAND_BIN names {named}, which is no program" if named else "PATH has none"
        remedy = "pip install softband, or set SOFTBAND_BIN to its path"
        pytest.fail(f"no command softband: {where}\n  help: {remedy}", pytrace=False)
    return Path(found).absolute()


def settings_of(node: pytest.Item) -> Settings:
    """Merges the marks of module, class and test. The closest wins. A wrong mark fails the test."""
    given: dict[str, object] = {}
    try:
        for mark in reversed(list(node.iter_markers("softband"))):
            settings(mark.args, mark.kwargs, node.path.parent)
            given.update(mark.kwargs)
        return settings((), given, node.path.parent)
    except BadMark as error:
        pytest.fail(f"{node.nodeid}: {error}", pytrace=False)


@pytest.fixture
def softband(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fabric]:
    """Gives the test a fabric, as `@pytest.mark.softband(...)` describes it."""
    node = request.node
    assert isinstance(node, pytest.Item)
    wanted, binary = settings_of(node), command()
    folder = tmp_path / "softband"
    folder.mkdir()
    fabric = Fabric(binary, wanted, folder)
    node.stash[FABRIC] = fabric
    try:
        yield fabric
    finally:
        fabric.down()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the logs of the fabric to the report of a failed test."""
    report = yield
    fabric = item.stash.get(FABRIC, None)
    if fabric is not None and report.failed:
        report.sections.extend(fabric.logs())
    return report
