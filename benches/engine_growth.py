"""Time and memory of `softband model` by fabric size, and an estimate for a larger size."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine_jobs import MEGABYTE, generate, hosts_of, switches_of
from engine_runs import NotFinishedError, run

# Full fat trees of three levels, by the ports of their switches.
PORTS = (8, 12, 16, 20, 24, 36)
# The smallest full tree of 100,000 hosts has 74 ports a switch.
ASKED_PORTS = 74


@dataclass(frozen=True)
class Row:
    ports: int
    wall: float
    cpu: float
    peak_mb: float

    @property
    def hosts(self) -> int:
        return hosts_of(self.ports)


def table(softband: Path, folder: Path, seconds: float, memory_bytes: int) -> None:
    """Prints a Markdown table of runs on one thread, then the estimate and its method."""
    print("| hosts | switches | wall s | CPU s | packet-hops | peak MB | KB a host |\n|---|---|---|---|---|---|---|")
    rows = []
    for ports in PORTS:
        fabric = folder / f"{ports}.toml"
        generate(softband, ports, fabric)
        words = [str(softband), "model", str(fabric), "permutation", *MEGABYTE, "1", "--threads", "1", "--out", str(folder / "out")]
        head = f"| {hosts_of(ports):,} | {switches_of(ports):,} |"
        try:
            done = run(words, seconds, memory_bytes)
            row = Row(ports, done.wall_seconds, done.cpu_seconds, done.number(r"memory\s+([\d.]+) MiB") * 1.048576)
        except NotFinishedError as error:
            print(f"{head} {error} | | | | |", flush=True)
            continue
        rows.append(row)
        hops = done.number(r"packet-hops\s+(\d+)")
        print(f"{head} {row.wall:.2f} | {row.cpu:.2f} | {hops:,.0f} | {row.peak_mb:.0f} | {row.peak_mb * 1e3 / row.hosts:.0f} |", flush=True)
    print()
    if len(rows) < 3:
        print("no estimate, since fewer than three sizes have been measured")
        return
    memory = [(row.ports, row.peak_mb) for row in rows]
    print(told("peak memory", "MB", memory, *by_terms(memory)))
    time = [(row.ports, row.cpu) for row in rows]
    print(told("processor time", "s", time, *by_power(time)))


Estimate = Callable[[int], float]


def told(what: str, unit: str, points: list[tuple[int, float]], how: str, value_at: Estimate) -> str:
    worst = max(abs(value_at(ports) / value - 1) for ports, value in points)
    size = f"{hosts_of(ASKED_PORTS):,} hosts ({switches_of(ASKED_PORTS):,} switches)"
    return f"- {what} of {size}, estimated: {value_at(ASKED_PORTS):,.0f} {unit} = {how}; at most {worst * 100:.0f} % off a measured one"


def by_power(points: list[tuple[int, float]]) -> tuple[str, Estimate]:
    """Estimates by a power of the number of hosts: a straight line through logarithms."""
    logs = [(math.log(hosts_of(ports)), math.log(value)) for ports, value in points]
    slope, offset = statistics.linear_regression(*zip(*logs, strict=True))
    return f"{math.exp(offset):.3g} x hosts^{slope:.2f}", lambda ports: math.exp(offset + slope * math.log(hosts_of(ports)))


def by_terms(points: list[tuple[int, float]]) -> tuple[str, Estimate]:
    """Estimates by terms: a constant, a cost per host, and a cost per switch and host.

       Minimizes the squares of the relative deviations.
       """
    factors = fitted(points)
    named = zip(factors, ("", " a host", " for each switch and host"), strict=True)
    how = " + ".join(f"{factor:.3g}{name}" for factor, name in named if factor)
    return how, lambda ports: value_at(factors, ports)


def bases(ports: int) -> list[float]:
    """Returns the bases of costs: a constant, hosts, and entries of forwarding tables."""
    return [1.0, float(hosts_of(ports)), float(hosts_of(ports) * switches_of(ports))]


def value_at(factors: list[float], ports: int) -> float:
    return sum(factor * base for factor, base in zip(factors, bases(ports), strict=True))


def fitted(points: list[tuple[int, float]]) -> list[float]:
    """Returns the factors of the bases, none of them negative, with the least deviation."""
    best: tuple[float, list[float]] | None = None
    for chosen in ([0, 1, 2], [0, 1], [0, 2], [1, 2], [1], [2]):
        rows = [[bases(ports)[index] / value for index in chosen] for ports, value in points]
        some = least_squares(rows)
        if some is None or min(some) < 0:
            continue
        factors = [0.0, 0.0, 0.0]
        for index, factor in zip(chosen, some, strict=True):
            factors[index] = factor
        deviation = sum((value_at(factors, ports) / value - 1) ** 2 for ports, value in points)
        if best is None or deviation < best[0]:
            best = (deviation, factors)
    # A single term always has a positive factor.
    assert best is not None
    return best[1]


def least_squares(rows: list[list[float]]) -> list[float] | None:
    """Returns factors that bring each row close to one (normal equations, Gauss)."""
    size = len(rows[0])
    matrix = [[sum(row[i] * row[j] for row in rows) for j in range(size)] + [sum(row[i] for row in rows)] for i in range(size)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda at: abs(matrix[at][column]))
        if matrix[pivot][column] == 0:
            return None
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        for at in range(size):
            if at != column:
                factor = matrix[at][column] / matrix[column][column]
                matrix[at] = [value - factor * own for value, own in zip(matrix[at], matrix[column], strict=True)]
    return [matrix[at][size] / matrix[at][at] for at in range(size)]
