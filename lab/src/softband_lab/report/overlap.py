"""Lines of several curves. Coinciding curves alternate in dashes, so that none hides another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import pairwise

from softband_lab.report import svg

Place = tuple[float, float]
# Two neighbouring x coordinates to the groups of curves that coincide between them.
_Shared = dict[tuple[float, float], list[list[str]]]

# Pixels. Lines are two pixels wide.
_NEAR = 2.6
_DASH = 7.0


def draw_lines(curves: Mapping[str, list[Place]]) -> dict[str, str]:
    """Returns the path elements of each curve. Its points are in ascending order."""
    across = sorted({x for places in curves.values() for x, _ in places})
    filled = {name: _filled(places, across) for name, places in curves.items()}
    shared = _find_shared(filled)
    return {
        name: "".join(_path(run, name, group) for run, group in _runs(places, name, shared))
        for name, places in filled.items()
    }


def _filled(places: list[Place], across: list[float]) -> list[Place]:
    """Adds points on the line of a curve at the x coordinates of the other curves."""
    if not places:
        return []
    own = [x for x, _ in places]
    found = []
    for x in across[across.index(own[0]) : across.index(own[-1]) + 1]:
        index = min(bisect_right(own, x), len(own) - 1)
        (x0, y0), (x1, y1) = places[max(index - 1, 0)], places[index]
        found.append((x, y0 + (y1 - y0) * (x - x0) / (x1 - x0) if x1 > x0 else y1))
    return found


def _find_shared(curves: Mapping[str, list[Place]]) -> _Shared:
    heights = {name: dict(places) for name, places in curves.items()}
    found: _Shared = {}
    for name, places in curves.items():
        for (x0, y0), (x1, y1) in pairwise(places):
            for group in found.setdefault((x0, x1), []):
                other = heights[group[0]]
                if abs(y0 - other[x0]) <= _NEAR and abs(y1 - other[x1]) <= _NEAR:
                    group.append(name)
                    break
            else:
                found[x0, x1].append([name])
    return found


def _runs(places: list[Place], name: str, shared: _Shared) -> Iterator[tuple[list[Place], list[str]]]:
    """Splits a curve into stretches. Along a stretch, the same curves coincide with it."""
    run: list[Place] = []
    group: list[str] = []
    for start, end in pairwise(places):
        here = next(names for names in shared[start[0], end[0]] if name in names)
        if run and here == group:
            run.append(end)
            continue
        if run:
            yield run, group
        run, group = [start, end], here
    if run:
        yield run, group


def _path(run: list[Place], name: str, group: list[str]) -> str:
    """Draws a stretch. The curves of a group alternate in the dashes of their common line."""
    dash = ""
    if len(group) > 1:
        gap, offset = _DASH * (len(group) - 1), _DASH * (len(group) - group.index(name))
        dash = f' stroke-dasharray="{_DASH:g} {gap:g}" stroke-dashoffset="{offset:g}"'
    places = "L".join(f"{svg.number(x)} {svg.number(y)}" for x, y in run)
    return f'<path class="line" d="M{places}"{dash}/>'
