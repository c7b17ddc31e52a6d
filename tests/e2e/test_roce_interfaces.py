"""The network interface that a GID of RoCE names exists by each way to ask for it, in both paces."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import Softband

PACES = pytest.mark.parametrize("pace", ["virtual", "wall"])
ASK = """
import fcntl, pathlib, socket, struct
port = pathlib.Path("/sys/class/infiniband/mlx5_0/ports/1")
name = (port / "gid_attrs/ndevs/1").read_text().strip()
files = pathlib.Path("/sys/class/net") / name
index = socket.if_nametoindex(name)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    request = struct.pack("16s24x", name.encode())
    by_ioctl = struct.unpack_from("i", fcntl.ioctl(any_socket, 0x8933, request), 16)[0]
    address = socket.inet_ntoa(fcntl.ioctl(any_socket, 0x8915, request)[20:24])
gid = (port / "gids/1").read_text().strip()
print(name, socket.if_indextoname(index) == name, by_ioctl == index, int((files / "ifindex").read_text()) == index)
print((index, name) in socket.if_nameindex(), files.joinpath("device/infiniband/mlx5_0").is_dir() or files.is_dir())
print(address, gid == "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x" % tuple(map(int, address.split("."))))
"""
SERVER = "import socket; s = socket.create_server(('10.77.0.1', 7000)); print(s.accept()[0].recv(9).decode())"
# At wall pace the server may listen late.
CLIENT = """
import socket, time
for _ in range(200):
    try:
        connection = socket.create_connection(('10.77.0.1', 7000), 9)
    except ConnectionRefusedError:
        time.sleep(0.05)
    else:
        break
connection.sendall(b'hello')
"""
DATAGRAM = "import socket; s=socket.socket(type=2); s.bind(('10.77.0.1', 7001)); print(s.recv(9).decode())"
SENDER = """
import socket, time
for _ in range(10):
    time.sleep(0.5)
    socket.socket(type=2).sendto(b'hello', ('10.77.0.1', 7001))
"""


def script(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return f"{sys.executable} {folder / name}"


@PACES
def test_each_way_to_ask_knows_the_interface_of_a_gid(softband: Softband, pace: str, tmp_path: Path) -> None:
    outcome = softband.run("roce-100g", ("a", script(tmp_path, "ask.py", ASK)), options=("--pace", pace)).assert_ok()
    assert outcome.program("a-0") == "roce1 True True True\nTrue True\n10.77.0.1 True\n"


@PACES
def test_the_usual_tools_show_the_interface(softband: Softband, pace: str) -> None:
    program = "ip -o link show roce2; ip -o addr show dev roce2; ip route; ip route get 10.77.0.1"
    outcome = softband.run("roce-100g", ("b", program), options=("--pace", pace)).assert_ok()
    link, v4, v6, *routes = outcome.program("b-0").splitlines()
    assert "roce2: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 4200" in link
    assert "inet 10.77.0.2/16" in v4
    assert "inet6 fe80::202:c9ff:fe00:2/64" in v6
    assert any(route.startswith("10.77.0.0/16 dev roce2") for route in routes)
    assert any(route.startswith("10.77.0.1 dev roce2 src 10.77.0.2") for route in routes)


@PACES
def test_sockets_reach_the_host_of_such_an_address(softband: Softband, pace: str, tmp_path: Path) -> None:
    for server, client in ((SERVER, CLIENT), (DATAGRAM, SENDER)):
        pair = (("a", script(tmp_path, "server.py", server)), ("b", script(tmp_path, "client.py", client)))
        assert softband.run("roce-100g", *pair, options=("--pace", pace)).assert_ok().program("a-0") == "hello\n"


def test_a_fabric_of_infiniband_has_no_such_interface(softband: Softband) -> None:
    outcome = softband.run("modern-pair", ("a", "ls /sys/class/net")).assert_ok()
    assert outcome.program("a-0") == "eth0\nlo\n"
