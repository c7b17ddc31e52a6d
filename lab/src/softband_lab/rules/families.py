"""Compared numbers by family: bandwidth, message rate, latency, datagrams, reads, atomics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from softband_lab.base.fabricfile import load_toml
from softband_lab.base.files import write_csv
from softband_lab.base.places import fabric_path
from softband_lab.base.units import DECIMAL_MEGABYTE, in_base_units
from softband_lab.rules.claims import ClaimRow
from softband_lab.rules.curve_rules import ValueRule
from softband_lab.rules.spread import Spread
from softband_lab.spec.published import Published

# Smaller messages have a rate rather than a bandwidth.
_LARGE = 65536
COLUMNS = ["group", "name", "basis", "numbers", "median_percent", "ninth_percent", "worst_percent", "within_25_percent"]
WITHIN_PERCENT = 25.0
_DATAGRAMS, _READS, _ATOMICS = "datagrams", "reads", "atomics"


@dataclass(frozen=True)
class Quantity:
    """What a chart's axes show. `factor`: its unit in base units."""

    title: str
    unit: str
    factor: float


LATENCY = Quantity("latency", "us", 1e-6)
BANDWIDTH = Quantity("bandwidth from 64 KiB", "Gb/s", 1e9 / 8)
RATE = Quantity("messages a second", "million/s", 1e6)
_ORDER = [LATENCY, RATE, BANDWIDTH]


@dataclass(frozen=True)
class Compared:
    """A published number with the model's value, both in the unit of the quantity."""

    row: ClaimRow
    family: str
    quantity: Quantity
    # The HCA of the claim's fabrics.
    hca: str
    published: float
    predicted: float

    @property
    def deviation_percent(self) -> float:
        return 100.0 * (self.predicted / self.published - 1.0)

    @property
    def panel(self) -> str:
        """The name of the chart: `Writes and sends: latency`."""
        return f"{self.family}: {self.quantity.title}"


def compare(rows: Iterable[ClaimRow], home: Path) -> list[Compared]:
    """Returns the numbers of `value` rules that the model answered."""
    found = [_compared(row, home) for row in rows]
    return [one for one in found if one is not None]


def _compared(row: ClaimRow, home: Path) -> Compared | None:
    deviation, published = row.judgement.deviation_percent, row.published
    base = in_base_units(published.unit, DECIMAL_MEGABYTE)
    if deviation is None or not isinstance(row.rule, ValueRule) or base is None:
        return None
    size = int(published.size_bytes) if published.size_bytes.isdigit() else 0
    value, quantity = published.number * base[1], LATENCY
    if base[0] == "message rate":
        quantity = RATE
    elif base[0] == "rate":
        is_large = size >= _LARGE or not size
        value, quantity = (value, BANDWIDTH) if is_large else (value / size, RATE)
    elif base[0] != "time":
        return None
    value /= quantity.factor
    return Compared(row, _family(published), quantity, _hca(row, home), value, value * (1.0 + deviation / 100.0))


def _family(published: Published) -> str:
    if published.transport == "UD":
        return _DATAGRAMS
    if published.op == "read":
        return _READS
    return _ATOMICS if published.op in ("fetch_add", "compare_swap") else "writes and sends"


def _hca(row: ClaimRow, home: Path) -> str:
    hosts = [host for fabric in sorted(row.fabrics) for host in _hosts(home, fabric).values()]
    parts = {str(hca.get("part", "")) for host in hosts for hca in host.get("hcas", [])}
    return ", ".join(sorted(parts)) or "no HCA"


def _hosts(home: Path, fabric: str) -> Mapping[str, dict[str, list[dict[str, object]]]]:
    found: Mapping[str, dict[str, list[dict[str, object]]]] = load_toml(fabric_path(home, fabric)).get("hosts", {})
    return found


def panels(numbers: Iterable[Compared]) -> list[tuple[str, list[Compared]]]:
    """Returns the numbers of each chart: writes and sends first, then the other families."""
    found: dict[str, list[Compared]] = {}
    order = ["writes and sends", _READS, _ATOMICS, _DATAGRAMS]
    for one in sorted(numbers, key=lambda one: (order.index(one.family), _ORDER.index(one.quantity))):
        found.setdefault(one.panel, []).append(one)
    return list(found.items())


@dataclass(frozen=True)
class Group:
    """The deviations of a family or a system, by basis."""

    kind: str
    name: str
    basis: str
    spread: Spread
    within: int

    def fields(self) -> dict[str, str]:
        return {
            "group": self.kind,
            "name": self.name,
            "basis": self.basis,
            "numbers": str(self.spread.numbers),
            "median_percent": f"{self.spread.median:.2f}",
            "ninth_percent": f"{self.spread.ninth:.2f}",
            "worst_percent": f"{self.spread.worst:.2f}",
            "within_25_percent": str(self.within),
        }


def groups(numbers: list[Compared]) -> list[Group]:
    """Returns the spread of all numbers, of each family, and of each system, for each basis."""
    found = []
    names = {
        "all": [("all numbers", numbers)] if numbers else [],
        "family": panels(numbers),
        "system": _by(numbers),
    }
    for kind, named in names.items():
        for name, own in named:
            for basis in sorted({one.row.basis for one in own}, key=lambda basis: (basis != "predicted", basis)):
                deviations = [one.deviation_percent for one in own if one.row.basis == basis]
                within = sum(abs(deviation) <= WITHIN_PERCENT for deviation in deviations)
                found.append(Group(kind, name, basis, Spread.of(deviations), within))
    return found


def _by(numbers: list[Compared]) -> list[tuple[str, list[Compared]]]:
    found: dict[str, list[Compared]] = {}
    for one in numbers:
        found.setdefault(one.row.published.section, []).append(one)
    return list(found.items())


def write_families(found: Iterable[Group], path: Path) -> None:
    write_csv(path, COLUMNS, (group.fields() for group in found))
