"""Modelled networks in trouble, behind gateways, and under OpenSM."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Softband, which

HOST = """
[hosts.{name}]
part = "se7520jr23d"
{keys}

[[hosts.{name}.hcas]]
device = "mthca0"
part = "voltaire-ddr"
"""
CABLE = """
[[cables]]
part = "cx4"
from = "{}"
to = "{}"
"""
ACCEPT = "import socket; s = socket.create_server(('', 5000)); c, p = s.accept(); "


def fabric_of(folder: Path, head: str, *hosts: tuple[str, str], cables: list[tuple[str, str]]) -> Path:
    path = folder / "fabric.toml"
    text = head + "".join(HOST.format(name=name, keys=keys) for name, keys in hosts)
    path.write_text(text + "".join(CABLE.format(*ends) for ends in cables))
    return path


def test_a_gateway_carries_a_stream_and_programs_see_its_route(softband: Softband, tmp_path: Path) -> None:
    tables = "".join(
        f'\n[hosts.{host}.interfaces.{name}]\nkind = "ipoib"\nport = {port}\naddresses = ["10.{net}.0.{number}/16"]\n'
        for host, name, port, net, number in [("a", "ib0", 1, 1, 1), ("b", "ib0", 1, 1, 2), ("b", "ib1", 2, 2, 2), ("c", "ib1", 1, 2, 3)]
    )
    cables = [("a/mthca0/1", "b/mthca0/1"), ("b/mthca0/2", "c/mthca0/1")]
    hosts = ("a", 'routes = ["10.2.0.0/16 via 10.1.0.2"]'), ("b", ""), ("c", 'routes = ["default via 10.2.0.2"]')
    fabric = fabric_of(tmp_path, tables, *hosts, cables=cables)
    server = ACCEPT + "print(p[0], sum(len(part) for part in iter(lambda: c.recv(65536), b'')))"
    client = "import socket; s = socket.create_connection(('10.2.0.3', 5000)); s.sendall(bytes(200_000))"
    show = "ip route; ip route get 10.2.0.3 | head -1; grep -c 0003 /proc/net/route" if which("ip") else "grep -c 0003 /proc/net/route"
    outcome = softband.run(fabric, ("c", f'python3 -c "{server}"'), ("a", f'python3 -c "{client}"; {show}')).assert_ok()
    assert outcome.program("c-0").split() == ["10.1.0.1", "200000"]
    shown = outcome.program("a-0").splitlines()
    assert shown.pop() == "1"
    if shown:
        assert "10.2.0.0/16 via 10.1.0.2 dev ib0" in [line.strip() for line in shown]
        assert shown[-1].startswith("10.2.0.3 via 10.1.0.2 dev ib0 src 10.1.0.1")


def test_a_killed_process_ends_its_connection(softband: Softband) -> None:
    """The receiver dies with unread data, so its kernel resets the connection."""
    sender = (
        "import socket\ns = socket.create_server(('', 5000)); c, p = s.accept()\ntry:\n  while True: c.sendall(bytes(65536))\n"
        "except OSError as error: print(type(error).__name__)"
    )
    receiver = "import os, signal, socket; s = socket.create_connection(('a-ib0', 5000)); [s.recv(30_000) for _ in range(3)]; os.kill(os.getpid(), signal.SIGKILL)"
    outcome = softband.run("ipoib", ("a", f'python3 -c "{sender}"'), ("b", f'python3 -c "{receiver}"; true'))
    assert outcome.program("a-0").strip() in ("ConnectionResetError", "BrokenPipeError"), outcome.program("a-0")


@pytest.mark.skipif(not which("opensm"), reason="no opensm")
def test_ipoib_works_under_opensm_in_a_partition_with_several_lids(softband: Softband, tmp_path: Path) -> None:
    """Interfaces join OpenSM's groups by packets, also after a restart, and ask it for paths."""
    head = '[subnet]\nmanager = "opensm"\n\n[interfaces.ib0]\nkind = "ipoib"\n\n[interfaces.ib1]\nkind = "ipoib"\npkey = 0x8001\n'
    keys = "pkeys = [0xffff, 0x8001]"
    fabric = fabric_of(tmp_path, head, ("a", ""), ("b", ""), cables=[("a/mthca0/1", "b/mthca0/1")])
    fabric.write_text(fabric.read_text().replace('part = "voltaire-ddr"', f'part = "voltaire-ddr"\n{keys}'))
    partitions = tmp_path / "partitions.conf"
    partitions.write_text("Default=0x7fff, ipoib : ALL=full;\nSome=0x0001, ipoib : ALL=full;\n")
    opensm = "opensm -l 1 -P {partitions} -f {log} >/dev/null 2>&1 & manager=$!; sleep 1; "
    start = [opensm.format(partitions=partitions, log=tmp_path / name) for name in ("first", "second")]
    stop = "kill $manager; wait $manager; "
    ask = "python3 -c \"import socket, sys; [print(socket.create_connection((name, 5000), 9).recv(9)) for name in ('b-ib0', 'b-ib1')]\"; "
    server = (
        "import socket\ns = socket.create_server(('', 5000))\nfor turn in range(4):\n  c, p = s.accept(); c.send(p[0].encode()); c.close()"
    )
    command = start[0] + "sleep 2; " + ask + stop + start[1] + "sleep 2; " + ask + stop
    outcome = softband.run(fabric, ("a", command), ("b", f"python3 -c \"{server}\""), options=("--timeout", "60")).assert_ok()
    assert outcome.program("a-0").split() == ["b'10.1.0.1'", "b'10.2.0.1'"] * 2
