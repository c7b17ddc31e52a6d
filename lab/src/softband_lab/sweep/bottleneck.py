"""Which limit held a transfer up: read from the counters that its run left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A limit that is at work for this share of the time leaves nothing to gain elsewhere.
_SATURATED = 0.95
# Together, a port that sends or waits for credits for this share of the time is held up by those credits.
_ACCOUNTED = 0.93
_WORTH_A_WORD = 0.01

_HCA_LIMITS = {
    "slot_read_picos": "reads over the slot of {node}",
    "slot_write_picos": "writes over the slot of {node}",
    "shared_bus_picos": "the bus of {node}",
    "memory_picos": "the memory of {node}'s host",
    "read_wait_picos": "the latency of memory at {node}, whose read requests are all under way",
    "message_gap_picos": "the message rate of {node}",
}


@dataclass(frozen=True)
class Bottleneck:
    """`kind`: link, bus, HCA, credits or program; `share`: of the transfer's time."""

    kind: str
    words: str
    share: float


def find_bottleneck(counters: Mapping[str, Any], seconds: float, peers: Mapping[str, str]) -> Bottleneck:
    """The limit of a transfer that took `seconds`; `peers`: the other end of each cabled port."""
    picos = seconds * 1e12
    links = [
        Bottleneck("link", f"the link {_port(port)}{_to(port, peers)}", port.get("xmit_busy_picos", 0) / picos)
        for port in counters["ports"]
    ]
    work = [*links, *(limit for hca in counters.get("hcas", []) for limit in _of_hca(hca, picos))]
    busiest = max(work, key=lambda limit: limit.share, default=None)
    if busiest is not None and busiest.share >= _SATURATED:
        return busiest
    waiting = longest_wait(counters, seconds, peers)
    if waiting is not None and waiting.share >= _WORTH_A_WORD and _accounted(counters, picos) >= _ACCOUNTED:
        return waiting
    share = busiest.share if busiest is not None else 0.0
    return Bottleneck("program", "the program: its processor, or too few messages under way", 1.0 - share)


def _of_hca(hca: Mapping[str, Any], picos: float) -> list[Bottleneck]:
    return [
        Bottleneck("HCA" if name == "message_gap_picos" else "bus", words.format(node=hca["node"]), hca[name] / picos)
        for name, words in _HCA_LIMITS.items()
    ]


def longest_wait(counters: Mapping[str, Any], seconds: float, peers: Mapping[str, str]) -> Bottleneck | None:
    """The credits that a port waited for longest, however short that was."""
    waits = [_credits(port, seconds * 1e12, peers) for port in counters["ports"]]
    return max((wait for wait in waits if wait is not None), key=lambda wait: wait.share, default=None)


def lost_to(
    full: tuple[Bottleneck, Bottleneck | None], short: tuple[Bottleneck, Bottleneck | None], lost: float
) -> Bottleneck:
    """What cost a transfer the share `lost` of its bandwidth: credits, where it waits for them longer by about that.

    Of both the limit comes first, then the longest wait: little is lost at first, and the same limit is still at work.
    """
    before = full[1].share if full[1] is not None else 0.0
    waiting = short[1]
    return waiting if waiting is not None and waiting.share - before >= lost / 3 else short[0]


def _credits(port: Mapping[str, Any], picos: float, peers: Mapping[str, str]) -> Bottleneck | None:
    stalls = port.get("credit_stall_picos", [])
    if not any(stalls):
        return None
    lane = max(range(len(stalls)), key=lambda index: stalls[index])
    of = f" of {peers[_port(port)]}" if _port(port) in peers else ""
    return Bottleneck("credits", f"credits{of} on VL {lane}, for which {_port(port)} waits", stalls[lane] / picos)


def _accounted(counters: Mapping[str, Any], picos: float) -> float:
    """The share of the time for which the port that waits longest either sends or waits."""
    port = max(counters["ports"], key=lambda one: max(one.get("credit_stall_picos", []), default=0))
    return float(max(port["credit_stall_picos"]) + port.get("xmit_busy_picos", 0)) / picos


def _port(port: Mapping[str, Any]) -> str:
    return f"{port['node']}/{port['port']}"


def _to(port: Mapping[str, Any], peers: Mapping[str, str]) -> str:
    peer = peers.get(_port(port))
    return f" to {peer}" if peer else ""


def peers_of(document: Mapping[str, Any]) -> dict[str, str]:
    """The other end of each port that a fabric file cables; a generated fabric names none."""
    found: dict[str, str] = {}
    for cable in document.get("cables", []):
        one, other = str(cable.get("from")), str(cable.get("to"))
        found[one], found[other] = other, one
    return found


def read_counters(folder: Path) -> dict[str, Any] | None:
    """Of a run's only run; None where an older one left none."""
    path = folder / "step-0" / "counters.json"
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content
