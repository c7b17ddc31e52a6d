"""Packages of the lab import only packages below them, and no module imports another in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
NAME = "softband_lab"

# Each package and the packages that it may import, lowest first.
ALLOWED: dict[str, set[str]] = {
    "base": set(),
    "campaign": {"base"},
    "spec": {"base"},
    "rules": {"base", "campaign", "spec"},
    "report": {"base", "campaign", "spec", "rules"},
    "sweep": {"base", "campaign", "report"},
    "study": {"base", "campaign", "spec", "rules", "report", "sweep"},
    "site": {"base", "spec", "rules", "report"},
}
# These modules of the top folder may import every package.
FRONTS = {"__init__", "__main__", "api", "cli"}


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted((SOURCE / NAME).rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: set[str]) -> Iterator[str]:
    """Yields the modules of the lab that a file imports, also those for type checkers and inside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from {name if name in known else str(node.module) for name in names} & known
        elif isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & known


def package(module: str) -> str:
    """Returns the package of a module; of a module in the top folder its own name."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def faults(graph: dict[str, set[str]]) -> list[str]:
    found = []
    for module, targets in graph.items():
        own = package(module)
        for target in sorted(targets):
            other = package(target)
            if own in FRONTS or other == own:
                continue
            if other not in ALLOWED.get(own, set()):
                found.append(f"{module} imports {target}: `{own}` may import {sorted(ALLOWED.get(own, set()))}")
    return found


def graph_of_the_lab() -> dict[str, set[str]]:
    found = modules()
    return {module: set(imports(path, set(found))) - {module} for module, path in found.items()}


def test_packages_import_only_packages_below_them() -> None:
    graph = graph_of_the_lab()
    assert len(graph) > 50, "the modules were not found"
    assert {package(module) for module in graph} == set(ALLOWED) | FRONTS
    assert faults(graph) == []


def test_no_module_imports_another_in_a_circle() -> None:
    assert list(TopologicalSorter(graph_of_the_lab()).static_order())


def test_the_allowed_arrows_are_one_way() -> None:
    order = list(ALLOWED)
    assert all(order.index(other) < order.index(own) for own, others in ALLOWED.items() for other in others)


@pytest.mark.parametrize(
    "text",
    [
        "from softband_lab.study.pipeline import run_study",
        "import softband_lab.study.pipeline",
        "def late():\n    from softband_lab.study import pipeline",
        "if TYPE_CHECKING:\n    from softband_lab.study.pipeline import run_study",
    ],
)
def test_an_arrow_upwards_is_found(text: str, tmp_path: Path) -> None:
    path = tmp_path / "units.py"
    path.write_text(text)
    targets = set(imports(path, set(modules())))
    assert targets == {"softband_lab.study.pipeline"}
    assert len(faults({"softband_lab.base.units": targets})) == 1


def test_a_circle_is_found() -> None:
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()
