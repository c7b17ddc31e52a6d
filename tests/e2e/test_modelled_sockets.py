"""Sockets of programs on hosts whose TCP/IP is modelled: the answers are those of the machine's kernel."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from conftest import FABRICS, Outcome, Softband
from test_network_programs import need, shim_programs

__all__ = ["shim_programs"]

FABRIC = "ipoib"


def twice(softband: Softband, *on: tuple[str, str], fabric: Path | str = FABRIC) -> Outcome:
    """Runs a program on each host, twice, and checks that both runs print the same bytes."""
    first, again = (softband.run(fabric, *on).assert_ok() for _ in range(2))
    for host, _ in on:
        assert first.program(f"{host}-0") == again.program(f"{host}-0")
    return first


@pytest.mark.parametrize("fabric", [FABRIC, "gigabit"])
@pytest.mark.parametrize("name", ["socket_calls", "socket_more", "socket_times", "socket_v6"])
def test_calls_have_the_answers_of_the_machines_kernel(softband: Softband, c_programs: Path, name: str, fabric: str) -> None:
    program = str(c_programs / name)
    native = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True).stdout
    outcome = softband.run(fabric, ("a", program)).assert_ok()
    assert outcome.program("a-0").splitlines() == native.splitlines()


@pytest.mark.parametrize("fabric", [FABRIC, "gigabit"])
def test_echoes_have_the_answers_of_the_machines_kernel(softband: Softband, c_programs: Path, fabric: str) -> None:
    program = str(c_programs / "socket_echo")
    # Most machines keep echoes from programs, so that the program needs a network of its own.
    setup = f"ip link set lo up && echo '0 2147483647' > /proc/sys/net/ipv4/ping_group_range && exec {program}"
    native = subprocess.run(["unshare", "-n", "sh", "-c", setup], capture_output=True, text=True, timeout=60, check=False)
    if native.returncode != 0:
        pytest.skip(f"the machine gives no network for echoes: {native.stderr}")
    outcome = softband.run(fabric, ("a", program)).assert_ok()
    assert outcome.program("a-0").splitlines() == native.stdout.splitlines()


def test_hosts_answer_echoes_of_each_other(softband: Softband) -> None:
    ping = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP); s.settimeout(1); "
        "s.sendto(bytes([8, 0, 0, 0, 0, 0, 0, 1]) + b'data', ('b-ib0', 0)); answer, peer = s.recvfrom(99); print(answer[:2].hex(), answer[8:], peer)"
    )
    outcome = twice(softband, ("a", f'python3 -c "{ping}"'), ("b", "sleep 1"))
    assert outcome.program("a-0").strip() == "0000 b'data' ('10.1.0.2', 0)"


@pytest.mark.parametrize("name", ["sockets", "waiting"])
def test_the_same_program_holds_on_a_modelled_network(softband: Softband, shim_programs: Path, name: str) -> None:
    outcome = softband.run(FABRIC, ("a", str(shim_programs / name))).assert_ok()
    assert f"{name}: ok" in outcome.program("a-0")


def test_a_client_waits_for_its_server_and_finds_it_by_interface(softband: Softband) -> None:
    server = "import socket, time; time.sleep(1); s = socket.create_server(('', 5000)); c, p = s.accept(); print(p[0], c.recv(9))"
    client = "import socket; s = socket.create_connection(('a-ib0', 5000)); print(s.getpeername()[0], socket.getfqdn('10.1.0.1')); s.send(b'hello')"
    outcome = twice(softband, ("a", f'python3 -c "{server}"'), ("b", f'python3 -c "{client}"'))
    assert outcome.program("a-0").split() == ["10.1.0.2", "b'hello'"]
    assert outcome.program("b-0").split() == ["10.1.0.1", "a-ib0"]


def test_iperf3_measures_ipoib(softband: Softband) -> None:
    need("iperf3")
    outcome = twice(softband, ("a", "iperf3 -s -1"), ("b", "iperf3 -c a-ib0 -n 256K -f m"))
    assert re.search(r"[1-9]\d* Mbits/sec +\d+ +sender", outcome.program("b-0")), outcome.program("b-0")


def test_hosts_reach_each_other_by_ipv6(softband: Softband, tmp_path: Path) -> None:
    text = (FABRICS / f"{FABRIC}.toml").read_text().replace('[interfaces.ib0]\nkind = "ipoib"\n', "")
    for number, host in enumerate("ab", 1):
        own = f'[hosts.{host}.interfaces.ib0]\nkind = "ipoib"\naddresses = ["10.1.0.{number}/16", "fd00::{number}/64"]\n'
        text = text.replace(f"[[hosts.{host}.hcas]]", f"{own}\n[[hosts.{host}.hcas]]")
    fabric = tmp_path / "v6.toml"
    fabric.write_text(text)
    server = "import socket; s = socket.create_server(('::', 5000), family=socket.AF_INET6); c, p = s.accept(); print(p[0], c.recv(9))"
    client = (
        "import socket; s = socket.create_connection(('a-ib0', 5000)); print(s.family.name, s.getpeername()[0], socket.getfqdn('fd00::1')); "
        "s.send(b'hello')"
    )
    views = "ip -6 -o addr show ib0; ss -tanH"
    outcome = softband.run(fabric, ("a", f'python3 -c "{server}"'), ("b", f'python3 -c "{client}"; {views}')).assert_ok()
    assert outcome.program("a-0").split() == ["fd00::2", "b'hello'"]
    first, *rest = outcome.program("b-0").splitlines()
    # Of the interfaces of a, ib0 alone has an address of IPv6 in the file, so it has the name of the host.
    assert first.split() == ["AF_INET6", "fd00::1", "a"]
    shown = "\n".join(rest)
    assert "fd00::2/64" in shown and "inet6 fe80::" in shown
    assert "[fd00::1]:5000" in shown


def test_a_program_sends_over_gigabit_ethernet(softband: Softband) -> None:
    server = "import socket; s = socket.create_server(('', 5000)); c, p = s.accept(); print(p[0], sum(len(part) for part in iter(lambda: c.recv(65536), b'')))"
    client = (
        "import socket, time; s = socket.create_connection(('a-eth1', 5000)); begin = time.time(); s.sendall(bytes(2_000_000)); "
        "s.shutdown(1); s.recv(1); print(round(16 / (time.time() - begin)))"
    )
    views = "cat /sys/class/net/eth1/type /sys/class/net/eth1/addr_assign_type /sys/class/net/eth1/statistics/tx_bytes; ip -o link show eth1"
    runs = [softband.run("gigabit", ("a", f'python3 -c "{server}"'), ("b", f'python3 -c "{client}"; {views}')).assert_ok() for _ in range(2)]
    assert runs[0].program("a-0").split() == ["10.1.0.2", "2000000"]
    assert runs[0].program("b-0") == runs[1].program("b-0")
    rate, kind, assigned, sent, *link = runs[0].program("b-0").split()
    assert 600 < int(rate) < 942
    assert (kind, assigned) == ("1", "0")
    assert int(sent) > 2_000_000
    assert "link/ether" in link


def test_ss_lists_more_sockets_than_a_queue_of_answers_holds(softband: Softband) -> None:
    need("ss")
    program = (
        "import resource, socket, subprocess; most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)); servers = [socket.create_server(('', 10000 + n)) for n in range(2000)]; "
        "print(subprocess.run(['ss', '-ltnH'], capture_output=True, text=True).stdout.count('LISTEN'))"
    )
    outcome = softband.run(FABRIC, ("a", f'python3 -c "{program}"')).assert_ok()
    assert outcome.program("a-0").split() == ["2000"]


def test_tables_of_the_network_have_several_paths(softband: Softband) -> None:
    program = (
        "import os, socket; s = socket.create_server(('', 5000)); read = lambda path: open('/proc/' + path).read(); "
        "own = f'{os.getpid()}/net/tcp'; print([read(path) == read('net/tcp') for path in ('thread-self/net/tcp', own)], "
        "':1388' in read(own), read('net/udplite').count(chr(10)), 'ib0' in read('thread-self/net/dev'))"
    )
    outcome = softband.run(FABRIC, ("a", f'python3 -c "{program}"')).assert_ok()
    assert outcome.program("a-0").strip() == "[True, True] True 1 True"


def test_a_name_without_an_address_of_a_family_stays_in_the_fabric(softband: Softband) -> None:
    program = (
        "import ctypes; lib = ctypes.CDLL(None); lookup = lib.gethostbyname2; lookup.restype = ctypes.c_void_p; "
        "error = lib.__h_errno_location; error.restype = ctypes.POINTER(ctypes.c_int); "
        "print(lookup(b'b', 10), error()[0], lookup(b'b', 2) is None)"
    )
    outcome = softband.run(FABRIC, ("a", f'python3 -c "{program}"')).assert_ok()
    assert outcome.program("a-0").strip() == "None 4 False"


def test_sock_diag_answers_a_question_about_one_socket(softband: Softband) -> None:
    # The answers are a socket in state 10 (LISTEN) with the asked port, and ENOENT.
    program = (
        "import socket, struct; server = socket.create_server(('127.0.0.1', 5000)); ask = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)\n"
        "for port in 5000, 5001:\n"
        "  ends = struct.pack('!HH', port, 0) + socket.inet_aton('127.0.0.1') + bytes(28) + bytes(4) + bytes([255] * 8)\n"
        "  ask.send(struct.pack('IHHII', 72, 20, 1, 1, 0) + struct.pack('BBBBI', 2, 6, 0, 0, 0) + ends); answer = ask.recv(9999)\n"
        "  print(struct.unpack_from('H', answer, 4)[0], answer[17], struct.unpack_from('!H', answer, 20)[0], struct.unpack_from('i', answer, 16)[0])"
    )
    outcome = softband.run(FABRIC, ("a", f'python3 -c "{program}"')).assert_ok()
    one, none = (line.split() for line in outcome.program("a-0").splitlines())
    assert one[:3] == ["20", "10", "5000"]
    assert (none[0], none[3]) == ("2", "-2")
