"""The peers of `benches/engine.py`: ns-3, SimGrid, and a bare event loop."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BENCHES = Path(__file__).resolve().parent
FLOOR = re.compile(r"bare-events (\S+ \S+) ([\d.]+) M packet-hops/s")


@dataclass(frozen=True)
class Peer:
    name: str
    source: str
    libraries: tuple[str, ...]
    header: str
    package: str
    models: str


PEERS = (
    Peer(
        "ns-3",
        "ns3_forward.cc",
        ("-lns3-point-to-point", "-lns3-network", "-lns3-core"),
        "/usr/include/ns3/point-to-point-module.h",
        "libns3-dev",
        "packets on point-to-point links, stored and forwarded by a table; no IP, credits, lanes, acknowledgements or HCAs",
    ),
    Peer(
        "simgrid",
        "simgrid_flows.cc",
        ("-lsimgrid",),
        "/usr/include/simgrid/s4u.hpp",
        "libsimgrid-dev",
        "flows that share links, no packets: only the time for the whole job can be compared",
    ),
)


def build(peer: Peer, folder: Path) -> Path | None:
    """Builds the peer's program. Prints the reason and returns `None` if it cannot."""
    missing = [package for package, there in ((peer.package, Path(peer.header).exists()), ("g++", shutil.which("g++"))) if not there]
    if missing:
        print(f"{peer.name}: left out, since there is no {' and no '.join(missing)} (scripts/bench-peers.sh installs it)")
        return None
    program = folder / Path(peer.source).stem
    done = subprocess.run(["g++", "-O2", "-o", str(program), str(BENCHES / peer.source), *peer.libraries], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{peer.name}: left out, since its job does not compile here: {done.stderr.strip()[:300]}")
        return None
    print(f"{peer.name}: {peer.models}")
    return program


def floor() -> Iterator[tuple[str, float]]:
    """Yields each variant of the bare events and its million packet-hops a second."""
    words = [os.environ.get("CARGO", "cargo"), "bench", "--quiet", "-p", "softband-sim", "--bench", "bare_events"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=BENCHES.parent, timeout=900)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"bare events: left out: {error}")
        return
    for way, speed in FLOOR.findall(done.stdout):
        yield way, float(speed)
    if done.returncode != 0:
        print(f"bare events: left out: {done.stderr.strip()[-300:]}")
