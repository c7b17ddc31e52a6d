"""A process stays on its host, whatever environment it passes on, and sees its host's own interfaces."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Fabrics, Softband

PACES = pytest.mark.parametrize("pace", ["virtual", "wall"])


@PACES
def test_an_emptied_environment_takes_nobody_off_the_fabric(softband: Softband, c_programs: Path, pace: str) -> None:
    program = c_programs / "emptied_environment"
    outcome = softband.run("two-hosts", ("b", f"{program} '/bin/hostname'"), options=("--pace", pace)).assert_ok()
    assert outcome.program("b-0").split() == ["b"] * 6
    outcome = softband.run("two-hosts", ("b", "env -i /usr/bin/env -i /usr/bin/ibv_devices"), options=("--pace", pace)).assert_ok()
    assert "mthca0" in outcome.program("b-0")


@PACES
def test_the_environment_of_another_host_moves_nobody(softband: Softband, pace: str) -> None:
    stolen = softband.folder / "environment"
    servant = f"env -0 > {stolen}.new && mv {stolen}.new {stolen} && sleep 1"
    thief = f"while ! test -e {stolen}; do sleep 0.1; done; xargs -0 sh -c 'env -i \"$@\" /bin/hostname' thief < {stolen}"
    outcome = softband.run("two-hosts", ("a", servant), ("b", thief), options=("--pace", pace)).assert_ok()
    assert outcome.program("b-0") == "b\n"


def test_a_program_keeps_its_own_variables(softband: Softband) -> None:
    program = "SOFTBAND_FABRIC=mine LD_LIBRARY_PATH=/nowhere sh -c 'echo $SOFTBAND_FABRIC ${LD_LIBRARY_PATH##*:}'"
    outcome = softband.run("two-hosts", ("a", program), options=("--pace", "wall")).assert_ok()
    assert outcome.program("a-0") == "mine /nowhere\n"


@PACES
def test_all_views_show_the_interfaces_of_the_host(softband: Softband, c_programs: Path, pace: str) -> None:
    program = f"{c_programs / 'host_interfaces'} {pace}"
    outcome = softband.run("two-hosts", ("a", program), ("b", program), options=("--pace", pace)).assert_ok()
    assert outcome.program("a-0") == "198.18.0.1\n"
    assert outcome.program("b-0") == "198.18.0.2\n"


@PACES
def test_iproute_lists_links_addresses_and_routes(softband: Softband, pace: str) -> None:
    program = "ip -o -4 addr show dev eth0; ip route; ip -o link show lo; ip route get 198.18.0.1; ls /sys/class/net; cat /sys/class/net/eth0/address"
    outcome = softband.run("two-hosts", ("b", program), options=("--pace", pace)).assert_ok()
    lines = outcome.program("b-0").splitlines()
    assert "inet 198.18.0.2/16 brd 198.18.255.255" in lines[0]
    assert lines[1].startswith("198.18.0.0/16 dev eth0")
    assert "LOOPBACK,UP,LOWER_UP" in lines[2]
    assert lines[3].startswith("198.18.0.1 dev eth0")
    assert lines[4:] == ["    cache ", "eth0", "lo", "02:00:c6:12:00:02"]


def test_two_fabrics_have_the_same_addresses_and_do_not_meet(fabrics: Fabrics) -> None:
    listen = "import socket; s = socket.create_server(('', 4000)); print('up', flush=True); s.settimeout(20); c, a = s.accept(); c.sendall(b'%s'); print(a[0])"
    connect = "import socket; c = socket.create_connection(('198.18.0.1', 4000)); print(c.recv(9).decode(), c.getpeername()[0])"
    for name in ("one", "two"):
        fabrics.up("--name", name)
    servers = [fabrics.on("a", "python3", "-c", listen % name, name=name) for name in ("one", "two")]
    for server in servers:
        assert server.stdout is not None and server.stdout.readline() == "up\n"
    for name, server in zip(("one", "two"), servers, strict=True):
        assert fabrics.say("b", "python3", "-c", connect, name=name) == f"{name} 198.18.0.1"
        assert server.communicate(timeout=20)[0] == "198.18.0.2\n"
