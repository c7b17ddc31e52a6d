"""The fabrics and workloads of `benches/engine.py`, and the flows for its peers."""

from __future__ import annotations

import csv
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PARTS = ["--host", "qdr-host", "--hca", "connectx2-qdr", "--device", "mlx4_0"]
HOST_CABLES = ["--host-cable", "copper-4x", "--host-cable-length", "1 m"]
# Cables from rack to rack. Longer cables let the parts of a fabric work longer without each other.
SWITCH_CABLES = ["--switch-cable", "copper-4x", "--switch-cable-length", "5 m"]
# The parts support packets of up to 4 KiB.
PACKETS_OF_2_KIB = "\n[subnet]\nmtu = 2048\n"


@dataclass(frozen=True)
class Job:
    """A fabric and its traffic.

       The fabric is two hosts and a cable if `ports` is 0, else a full fat tree of three levels.
       """

    name: str
    what: str
    ports: int
    workload: str
    options: tuple[str, ...]
    # The total that one host sends to another, in bytes.
    flow_bytes: int

    @property
    def hosts(self) -> int:
        return hosts_of(self.ports)


MEGABYTE = ("--bytes", "1000000", "--messages")
JOBS = {
    "a": Job("two-hosts", "one link, 1,000,000 packets of 2 KiB", 0, "stream", ("--bytes", "64KiB", "--messages", "31250"), 2_048_000_000),
    "b": Job("fat-tree-128", "permutation, 10 MB a host", 8, "permutation", (*MEGABYTE, "10"), 10_000_000),
    "c": Job("fat-tree-1024", "permutation, 1 MB a host", 16, "permutation", (*MEGABYTE, "1"), 1_000_000),
    "d": Job("all-to-all-1024", "4 KiB from each host to each other", 16, "all-to-all", ("--bytes", "4KiB", "--messages", "1"), 4_096),
    "e": Job("fat-tree-11664", "permutation, 1 MB a host", 36, "permutation", (*MEGABYTE, "1"), 1_000_000),
    "f": Job("shift-1024", "1 MiB from each host to another, no two on a link", 16, "shift", ("--bytes", "1MiB", "--messages", "1"), 1 << 20),
    "g": Job("shift-128", "the same with 16 MiB", 8, "shift", ("--bytes", "1MiB", "--messages", "16"), 1 << 24),
    "h": Job("permutation-128", "16 MiB from each host to another, by chance", 8, "permutation", ("--bytes", "1MiB", "--messages", "16"), 1 << 24),
    "i": Job("incast-128", "64 KiB from 16 hosts to one, 64 times", 8, "incast", ("--senders", "16", "--bytes", "64KiB", "--messages", "64"), 1 << 22),
    "k": Job("all-to-all-128", "4 KiB from each host to each other", 8, "all-to-all", ("--bytes", "4KiB", "--messages", "4"), 4 * 4_096),
    "l": Job("uniform-128", "64 messages of 64 KiB from each host, each to another", 8, "uniform-random", ("--bytes", "64KiB", "--messages", "64"), 1 << 22),
    "m": Job("ring-128", "allreduce of 64 MiB round a ring", 8, "ring-allreduce", ("--bytes", "64MiB",), 0),
}
# The jobs of a usual run: the others take minutes, or compare builds.
USUAL = ("a", "b", "c", "d", "e", "f")


def hosts_of(ports: int) -> int:
    return ports**3 // 4 if ports else 2


def switches_of(ports: int) -> int:
    return ports**2 + ports**2 // 4


def generate(softband: Path, ports: int, to: Path) -> None:
    """Writes the fabric file."""
    tree = ["fat-tree", "--levels", "3", "--ports", str(ports), "--switch", "infiniscale-iv", *SWITCH_CABLES]
    form = tree if ports else ["back-to-back"]
    subprocess.run([str(softband), "fabric", "generate", *form, *PARTS, *HOST_CABLES, "--out", str(to)], check=True)
    to.write_text(to.read_text() + PACKETS_OF_2_KIB)


def flows(job: Job, ours: Path) -> Iterator[tuple[int, int, int]]:
    """Yields source, target and bytes of softband's flows, or of similar flows without a run."""
    if ours.is_file():
        with ours.open() as file:
            for row in csv.DictReader(file):
                yield int(row["from_rank"]), int(row["to_rank"]), int(row["bytes"])
        return
    hosts = range(job.hosts)
    match job.workload:
        case "stream":
            yield 0, 1, job.flow_bytes
        case "all-to-all":
            yield from ((host, (host + step) % job.hosts, job.flow_bytes) for host in hosts for step in hosts[1:])
        case "shift":
            yield from ((host, (host + job.hosts // 2) % job.hosts, job.flow_bytes) for host in hosts)
        case _:
            circle = random.Random(1).sample(hosts, job.hosts)
            yield from ((host, circle[place - 1], job.flow_bytes) for place, host in enumerate(circle))


def write_flows(job: Job, ours: Path, to: Path) -> None:
    with to.open("w") as file:
        file.writelines(f"{sender} {receiver} {size}\n" for sender, receiver, size in flows(job, ours))
