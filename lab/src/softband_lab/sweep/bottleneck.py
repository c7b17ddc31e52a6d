"""Finds the limit that held a transfer up, from the counters of its run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A limit that is busy for this share of the time is the bottleneck.
_SATURATED = 0.95
# Credits hold a port up if it sends or waits for them for this share of the time.
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
    """A limit. `kind`: link, bus, HCA, credits or program; `share`: share of the transfer time."""

    kind: str
    words: str
    share: float


def find_bottleneck(counters: Mapping[str, Any], seconds: float, peers: Mapping[str, str]) -> Bottleneck:
    """Returns the limit of a transfer that took `seconds`. `peers`: the other end of each cabled port."""
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
    """Returns the longest wait of a port for credits, or None if no port waited."""
    waits = [_credits(port, seconds * 1e12, peers) for port in counters["ports"]]
    return max((wait for wait in waits if wait is not None), key=lambda wait: wait.share, default=None)


def lost_to(
    full: tuple[Bottleneck, Bottleneck | None], short: tuple[Bottleneck, Bottleneck | None], lost: float
) -> Bottleneck:
    """Returns the cause of a lost share of bandwidth: credits, if the wait for them grew by about that share.

    Both tuples have the limit first, then the longest wait. After a small loss the former limit is still busy.
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
    """Returns the share of the time in which the port with the longest wait sends or waits."""
    port = max(counters["ports"], key=lambda one: max(one.get("credit_stall_picos", []), default=0))
    return float(max(port["credit_stall_picos"]) + port.get("xmit_busy_picos", 0)) / picos


def _port(port: Mapping[str, Any]) -> str:
    return f"{port['node']}/{port['port']}"


def _to(port: Mapping[str, Any], peers: Mapping[str, str]) -> str:
    peer = peers.get(_port(port))
    return f" to {peer}" if peer else ""


def peers_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Returns the other end of each cabled port of a fabric file. Generated fabrics have none."""
    found: dict[str, str] = {}
    for cable in document.get("cables", []):
        one, other = str(cable.get("from")), str(cable.get("to"))
        found[one], found[other] = other, one
    return found


def read_counters(folder: Path) -> dict[str, Any] | None:
    """Returns the counters of a run with a single step, or None if its files lack them."""
    path = folder / "step-0" / "counters.json"
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content
