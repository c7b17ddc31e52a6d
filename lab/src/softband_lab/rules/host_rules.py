"""Cross-validation of the host rule: the time of a small message on one system, from all other systems.

The rule of a class is the median over its logs. Each system is left out once, and the rule of the others predicts its
rate. A class without another system has no rule; the median over all other systems then takes its place.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from softband_lab.base.files import write_csv
from softband_lab.rules.spread import Spread
from softband_lab.spec.host_rules import HostLog

EVERY_CLASS = "all classes"
COLUMNS = [
    "system", "class", "ns_per_message", "rule_from", "systems", "rule_ns", "published_mmsg_s", "predicted_mmsg_s",
    "error_percent", "source", "note",
]  # fmt: skip


@dataclass(frozen=True)
class LeftOut:
    """A system, with the rule that the other systems give. `rule_from`: their class, or all classes."""

    log: HostLog
    rule_from: str
    systems: int
    rule_ns: float

    @property
    def predicted_rate(self) -> float:
        return 1e3 / self.rule_ns

    @property
    def error_percent(self) -> float:
        return 100.0 * (self.predicted_rate / self.log.rate - 1.0)

    def fields(self) -> dict[str, str]:
        return {
            "system": self.log.system,
            "class": self.log.host_class,
            "ns_per_message": f"{self.log.ns_per_message:g}",
            "rule_from": self.rule_from,
            "systems": str(self.systems),
            "rule_ns": f"{self.rule_ns:.0f}",
            "published_mmsg_s": f"{self.log.rate:.2f}",
            "predicted_mmsg_s": f"{self.predicted_rate:.2f}",
            "error_percent": f"{self.error_percent:.1f}",
            "source": self.log.source,
            "note": self.log.note,
        }


def leave_one_out(logs: Sequence[HostLog]) -> list[LeftOut]:
    """Returns each system with the rule of the others. Nothing if there is only one system."""
    found = []
    for log in logs:
        others = [other for other in logs if other is not log]
        own = [other for other in others if other.host_class == log.host_class]
        if others:
            used = own or others
            rule = statistics.median(other.ns_per_message for other in used)
            found.append(LeftOut(log, log.host_class if own else EVERY_CLASS, len(used), rule))
    return found


def spreads(found: Iterable[LeftOut]) -> list[tuple[str, Spread]]:
    """Returns the spread of the errors by origin of the rule, and of all."""
    rows = list(found)
    origins = sorted({row.rule_from for row in rows}, key=lambda name: (name == EVERY_CLASS, name))
    groups = [(name, [row for row in rows if row.rule_from == name]) for name in origins]
    of = [(f"rule of {name}", Spread.of(row.error_percent for row in own)) for name, own in groups]
    return [*of, ("all systems", Spread.of(row.error_percent for row in rows))] if rows else []


def write_host_rules(found: Iterable[LeftOut], path: Path) -> None:
    write_csv(path, COLUMNS, (row.fields() for row in found))
