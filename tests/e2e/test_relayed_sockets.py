"""Wall pace with `--network modelled`: unmodified programs keep the kernel's sockets, at the rates of the fabric file."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from conftest import FABRICS, Fabrics, Outcome, Softband, line_of
from test_network_programs import need

FABRIC = "ipoib"
OPTIONS = ("--pace", "wall", "--network", "modelled")
SIZE = 8 << 20

# Both know the connection of a client, which may start before its server listens.
COMMON = """
import hashlib, os, select, socket, struct, sys, time

def connect(host, port):
    while True:
        try:
            return socket.create_connection((host, port))
        except ConnectionRefusedError:
            time.sleep(0.02)

def all_of(peer):
    parts = []
    while part := peer.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)

def error_of(action):
    try:
        return action()
    except OSError as error:
        return error.errno
"""


def programs(softband: Softband, server: str, client: str, fabric: str | Path = FABRIC) -> Outcome:
    """Runs a program on host a and one on host b."""
    on = []
    for host, code in (("a", server), ("b", client)):
        file = softband.folder / f"{host}.py"
        file.write_text(COMMON + code)
        on.append((host, f"{sys.executable} {file}"))
    return softband.run(fabric, *on, options=OPTIONS).assert_ok()


def slow_fabric(folder: Path) -> Path:
    """Writes a fabric whose management network carries 20 MB/s."""
    hosts = folder / "catalog" / "host"
    hosts.mkdir(parents=True)
    rate = 'ethernet_rate = { value = 20, unit = "MB/s", source = "slow enough for a busy machine", status = "assumed" }'
    (hosts / "slow.toml").write_text(f'summary = "a slow network"\nlike = "se7520jr23d"\n\n{rate}\n')
    file = folder / "slow.toml"
    file.write_text((FABRICS / f"{FABRIC}.toml").read_text().replace('part = "se7520jr23d"', 'part = "slow"'))
    return file


STREAM_SERVER = """
listener = socket.create_server(("", 5000))
peer, address = listener.accept()
data = all_of(peer)
peer.sendall(hashlib.md5(data).digest())
peer.sendall(data[::-1])
peer.close()
print(len(data), address[0], address[1])
"""

STREAM_CLIENT = """
data = os.urandom(SIZE)
peer = connect(HOST, 5000)
own, other = peer.getsockname(), peer.getpeername()
start = time.monotonic()
peer.sendall(data)
peer.shutdown(socket.SHUT_WR)
digest = peer.recv(16, socket.MSG_WAITALL)
there = time.monotonic() - start
back = all_of(peer)
both = time.monotonic() - start
assert digest == hashlib.md5(data).digest() and back == data[::-1]
print(there, both, own[0], own[1], other[0], other[1])
"""


@pytest.mark.parametrize(("name", "network"), [("a", "198.18.0"), ("a-ib0", "10.1.0")])
def test_a_transfer_is_whole_and_takes_the_modelled_time(softband: Softband, name: str, network: str) -> None:
    client = f"HOST, SIZE = {name!r}, {SIZE}\n{STREAM_CLIENT}"
    outcome = programs(softband, STREAM_SERVER, client, slow_fabric(softband.folder))
    there, both, own, port, other, listening = outcome.program("b-0").split()
    # The names of both ends are those of the fabric, and both programs agree on the client's.
    assert (own, other, listening) == (f"{network}.2", f"{network}.1", "5000")
    assert outcome.program("a-0").split() == [str(SIZE), own, port]
    # 8 Gb/s are the payload of DDR's four lanes at most.
    rate = 20e6 if name == "a" else 1e9
    assert float(there) >= SIZE / rate and float(both) >= 2 * SIZE / rate


def test_a_port_is_refused_until_a_program_listens_and_after(softband: Softband) -> None:
    server = """
    while not os.path.exists("asked"):
        time.sleep(0.02)
    listener = socket.create_server(("", 5001))
    print(error_of(lambda: socket.create_server(("", 5001)).close()))
    peer, _ = listener.accept()
    listener.close()
    peer.recv(1)
    """
    client = """
    def once():
        asked = socket.socket()
        asked.setblocking(False)
        asked.connect_ex(("a-ib0", 5001))
        select.select([], [asked], [], 10)
        return asked.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    print(once())
    open("asked", "w").close()
    waits = connect("a-ib0", 5001)
    until = time.monotonic() + 30
    while once() != 111 and time.monotonic() < until:
        time.sleep(0.02)
    print(once())
    waits.close()
    """
    outcome = programs(softband, dedented(server), dedented(client))
    assert (outcome.program("a-0").split(), outcome.program("b-0").split()) == (["98"], ["111", "111"])


def test_each_direction_ends_alone_and_in_order(softband: Softband) -> None:
    server = """
    peer, _ = socket.create_server(("", 5002)).accept()
    asked = all_of(peer)
    time.sleep(0.2)
    peer.sendall(asked[::-1])
    print(error_of(lambda: peer.recv(1)))
    """
    client = """
    peer = connect("a-ib0", 5002)
    peer.sendall(b"hello")
    peer.shutdown(socket.SHUT_WR)
    print(all_of(peer).decode())
    """
    outcome = programs(softband, dedented(server), dedented(client))
    assert (outcome.program("a-0").strip(), outcome.program("b-0").strip()) == ("b''", "olleh")


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); peer.close()"])
def test_a_server_that_dies_resets_its_connections(softband: Softband, end: str) -> None:
    server = f"""
    peer, _ = socket.create_server(("", 5003)).accept()
    peer.recv(1)
    time.sleep(0.3)
    {end}
    """
    client = """
    peer = connect("a-ib0", 5003)
    def send():
        while True:
            peer.sendall(bytes(10000))
    print(error_of(send), error_of(send))
    """
    files = []
    for host, code in (("a", server), ("b", client)):
        files.append(softband.folder / f"{host}.py")
        files[-1].write_text(COMMON + dedented(code))
    on = [(host, f"{sys.executable} {file}") for host, file in zip("ab", files, strict=True)]
    outcome = softband.run(FABRIC, *on, options=OPTIONS)
    assert outcome.program("b-0").split() == ["104", "32"]


def test_datagrams_reach_the_port_and_answers_the_sender(softband: Softband) -> None:
    server = """
    port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port.bind(("", 5004))
    print("up", flush=True)
    for _ in range(3):
        data, sender = port.recvfrom(65535)
        port.sendto(data.upper(), sender)
        print(sender[0], len(data))
    """
    client = """
    port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port.settimeout(0.2)
    def echo(data):
        while True:
            port.sendto(data, ("a-ib0", 5004))
            try:
                return port.recvfrom(65535)
            except (TimeoutError, ConnectionRefusedError):
                pass
    data, sender = echo(b"first")
    print(data.decode(), *sender)
    port.connect(("a-ib0", 5004))
    port.settimeout(20)
    for data in (b"second", b"x" * 8000):
        port.send(data)
        print(len(port.recv(65535)))
    nobody = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    nobody.connect(("a-ib0", 5005))
    nobody.send(b"?")
    time.sleep(0.1)
    print(error_of(lambda: nobody.send(b"?")))
    """
    outcome = programs(softband, dedented(server), dedented(client))
    assert outcome.program("a-0").splitlines()[1:] == ["10.1.0.2 5", "10.1.0.2 6", "10.1.0.2 8000"]
    assert outcome.program("b-0").split() == ["FIRST", "10.1.0.1", "5004", "6", "8000", "111"]


def test_many_connections_of_an_epoll_client_arrive_at_a_forking_server(softband: Softband) -> None:
    server = """
    listener = socket.create_server(("", 5006), backlog=64)
    children = []
    for _ in range(40):
        peer, _ = listener.accept()
        child = os.fork()
        if child == 0:
            data = all_of(peer)
            peer.sendall(data)
            os._exit(0)
        peer.close()
        children.append(child)
    print({os.waitpid(child, 0)[1] for child in children})
    """
    client = """
    poll, peers, got = select.epoll(), {}, {}
    connect("a-ib0", 5006).close()
    for number in range(39):
        peer = socket.socket()
        peer.setblocking(False)
        peer.connect_ex(("a-ib0", 5006))
        poll.register(peer, select.EPOLLOUT)
        peers[peer.fileno()], got[peer.fileno()] = peer, b""
    done = 0
    while done < 39:
        for fd, _ in poll.poll(20):
            peer = peers[fd]
            if got[fd] == b"":
                peer.send(b"%d" % fd)
                peer.shutdown(socket.SHUT_WR)
                got[fd] = b":"
                poll.modify(fd, select.EPOLLIN)
            elif part := peer.recv(100):
                got[fd] += part
            else:
                poll.unregister(fd)
                done += 1
    print(all(got[fd] == b":%d" % fd for fd in got))
    """
    outcome = programs(softband, dedented(server), dedented(client))
    assert (outcome.program("a-0").strip(), outcome.program("b-0").strip()) == ("{0}", "True")


def test_a_program_that_never_reads_stops_its_peer_and_no_other(softband: Softband) -> None:
    server = """
    listener = socket.create_server(("", 5007))
    stuck, _ = listener.accept()
    live, _ = listener.accept()
    live.sendall(all_of(live))
    print(live.recv(1))
    """
    client = """
    stuck = connect("a", 5007)
    stuck.setblocking(False)
    sent = last = 0
    while last is not None and sent < 1 << 30:
        if not select.select([], [stuck], [], 2)[1]:
            break
        sent += stuck.send(bytes(1 << 16))
    live = connect("a", 5007)
    data = os.urandom(100_000)
    live.sendall(data)
    live.shutdown(socket.SHUT_WR)
    print(all_of(live) == data, sent < 64 << 20)
    """
    outcome = programs(softband, dedented(server), dedented(client))
    assert outcome.program("b-0").split() == ["True", "True"]


def test_iperf3_measures_no_more_than_gigabit_ethernet(softband: Softband) -> None:
    need("iperf3")
    on = (("a", "iperf3 -s -1"), ("b", "iperf3 -c a-eth1 -n 24M -f m --json"))
    outcome = softband.run("gigabit", *on, options=OPTIONS).assert_ok()
    received = json.loads(outcome.program("b-0"))["end"]["sum_received"]["bits_per_second"]
    assert 0 < received <= 960e6


def test_hosts_show_their_modelled_interfaces_and_names(softband: Softband) -> None:
    code = "import socket; print(socket.gethostbyname('b-ib0'), socket.gethostbyaddr('10.1.0.2')[0], *sorted(name for _, name in socket.if_nameindex()))"
    outcome = softband.run(FABRIC, ("a", f'{sys.executable} -c "{code}"'), options=OPTIONS).assert_ok()
    assert outcome.program("a-0").split() == ["10.1.0.2", "b-ib0", "eth0", "ib0", "lo"]
    assert "sockets are the machine's" not in outcome.stderr


def test_programs_of_a_fabric_that_stays_use_the_model_too(fabrics: Fabrics) -> None:
    fabrics.up(str(FABRICS / f"{FABRIC}.toml"), "--network", "modelled")
    code = "import socket; s = socket.create_server(('', 5008)); print('up', flush=True); c, p = s.accept(); print(p[0]); c.sendall(c.recv(9))"
    server = fabrics.python("a", code)
    assert line_of(server) == "up\n"
    client = "import socket; s = socket.create_connection(('a-ib0', 5008)); s.sendall(b'echo'); print(s.recv(9).decode())"
    assert fabrics.say("b", sys.executable, "-c", client) == "echo"
    assert server.communicate(timeout=60)[0] == "10.1.0.2\n"


def test_simulated_time_has_no_use_for_the_option(softband: Softband) -> None:
    for words in (("run", FABRIC, "--network", "modelled", "--on", "a", "true"), ("mpirun", "--network", "modelled", "true")):
        done = softband.command(*words)
        assert done.returncode == 2 and re.search("--network modelled has no effect in simulated time", done.stderr), done.stderr


def dedented(code: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in code.splitlines())
