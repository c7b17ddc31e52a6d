"""Programs over SDP in simulated time: sockets of its family, and streams that rules redirect."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import FABRICS, Softband
from test_modelled_sockets import FABRIC, twice
from test_network_programs import need

#: Opens a stream of SDP. Python knows the addresses of its family as those of AF_INET.
STREAM = "import socket as s; new = lambda: s.socket(s.AF_INET, s.SOCK_STREAM, fileno=s.socket(27, s.SOCK_STREAM).detach()); "


def rate(text: str) -> float:
    """Returns the sender's rate in Mb/s as iperf3 prints it."""
    found = re.search(r"([\d.]+) Mbits/sec .*sender", text)
    assert found, text
    return float(found[1])


def test_iperf3_is_faster_by_sdp_than_by_ipoib(softband: Softband) -> None:
    need("iperf3")
    client = "iperf3 -c a-ib0 -n 1M -f m"
    plain = softband.run(FABRIC, ("a", "iperf3 -s -1"), ("b", client)).assert_ok()
    by_sdp = twice(softband, ("a", "env SIMPLE_LIBSDP=1 iperf3 -s -1"), ("b", f"env SIMPLE_LIBSDP=1 {client}"))
    assert rate(by_sdp.program("b-0")) > 1.5 * rate(plain.program("b-0"))


def test_python_uses_the_family_with_an_urgent_byte_and_a_half_close(softband: Softband) -> None:
    server = STREAM + (
        "l = new(); l.bind(('', 5000)); l.listen(); c, p = l.accept(); print(p[0], c.getsockname()); "
        "print(c.recv(99), c.recv(1, s.MSG_OOB), c.recv(99)); c.sendall(b'answer')"
    )
    client = STREAM + (
        "c = new(); c.connect(('a-ib0', 5000)); print(c.getpeername()); c.send(b'abU', s.MSG_OOB); c.send(b'xyz'); "
        "c.shutdown(s.SHUT_WR); print(c.recv(99), c.recv(99))"
    )
    outcome = twice(softband, ("a", f'python3 -c "{server}"'), ("b", f'python3 -c "{client}"'))
    assert outcome.program("a-0").split("\n")[0] == "10.1.0.2 ('10.1.0.1', 5000)"
    assert "b'U'" in outcome.program("a-0")
    assert outcome.program("b-0").splitlines() == ["('10.1.0.1', 5000)", "b'answer' b''"]


def test_addresses_of_the_family_are_for_its_sockets_alone(softband: Softband) -> None:
    program = STREAM + (
        "import ctypes, errno; lib = ctypes.CDLL(None, use_errno=True); at = bytes([27, 0, 0x13, 0x88]) + bytes(12)\n"
        "for one in new(), s.socket(), s.socket(type=s.SOCK_DGRAM):\n"
        "  print(lib.bind(one.fileno(), at, 16), errno.errorcode.get(ctypes.get_errno()))"
    )
    outcome = softband.run(FABRIC, ("a", f'python3 -c "{program}"')).assert_ok()
    assert outcome.program("a-0").splitlines() == ["0 None", "-1 EAFNOSUPPORT", "-1 EAFNOSUPPORT"]


def test_options_of_tcp_are_those_of_ofed(softband: Softband) -> None:
    program = STREAM + (
        "c = new()\n"
        "def take(*option):\n"
        "  try: c.setsockopt(*option); print('ok')\n"
        "  except OSError as error: print(error.errno)\n"
        "take(s.IPPROTO_TCP, s.TCP_NODELAY, 1); take(s.IPPROTO_TCP, s.TCP_KEEPIDLE, 9); take(s.IPPROTO_TCP, s.TCP_KEEPIDLE, -1)\n"
        "take(s.IPPROTO_TCP, s.TCP_MAXSEG, 1000); take(s.IPPROTO_TCP, s.TCP_USER_TIMEOUT, 9); take(s.IPPROTO_TCP, s.TCP_CONGESTION, b'reno')\n"
        "take(s.SOL_SOCKET, s.SO_KEEPALIVE, 1)"
    )
    outcome = softband.run(FABRIC, ("a", f'python3 -c "{program}"')).assert_ok()
    assert outcome.program("a-0").split() == ["ok", "ok", "22", "92", "92", "92", "ok"]
    assert "SO_KEEPALIVE has no effect on SDP" in outcome.stderr


def test_large_messages_arrive_and_a_dead_program_resets_its_peer(softband: Softband, tmp_path: Path) -> None:
    # This kernel sends large messages without a copy.
    fabric = tmp_path / "modern.toml"
    fabric.write_text((FABRICS / f"{FABRIC}.toml").read_text().replace("linux-2.6.18", "linux-6.1"))
    server = STREAM + (
        "l = new(); l.bind(('', 5000)); l.listen(); c, p = l.accept(); c.settimeout(60); "
        "print(sum(c.recv_into(bytearray(1 << 20), 1 << 20, s.MSG_WAITALL) for n in range(4))); c.recv(1, s.MSG_PEEK)"
    )
    client = STREAM + (
        "import time; c = new(); c.connect(('a-ib0', 5000)); [c.sendall(bytes(1 << 20)) for n in range(4)]; c.send(b'lost'); time.sleep(1)\n"
        "try: c.recv(1)\n"
        "except ConnectionResetError: print('reset')"
    )
    outcome = twice(softband, ("a", f'python3 -c "{server}"'), ("b", f'python3 -c "{client}"'), fabric=fabric)
    assert (outcome.program("a-0").split(), outcome.program("b-0").split()) == ([str(4 << 20)], ["reset"])


def test_programs_that_both_send_first_do_not_wait_for_each_other(softband: Softband, tmp_path: Path) -> None:
    fabric = tmp_path / "modern.toml"
    fabric.write_text((FABRICS / f"{FABRIC}.toml").read_text().replace("linux-2.6.18", "linux-6.1"))
    both = "c.sendall(bytes(200000)); print(len(c.recv(200000, s.MSG_WAITALL)))"
    server = STREAM + f"l = new(); l.bind(('', 5000)); l.listen(); c, p = l.accept(); {both}"
    client = STREAM + f"c = new(); c.connect(('a-ib0', 5000)); {both}"
    outcome = twice(softband, ("a", f'python3 -c "{server}"'), ("b", f'python3 -c "{client}"'), fabric=fabric)
    assert (outcome.program("a-0").split(), outcome.program("b-0").split()) == (["200000"], ["200000"])


def test_a_listener_that_ends_takes_no_connections_by_sdp(softband: Softband, tmp_path: Path) -> None:
    rules = tmp_path / "libsdp.conf"
    rules.write_text("use both server * *:*\nuse sdp client * *:*\n")
    server = "import socket as s, time; l = s.create_server(('', 5000)); l.shutdown(s.SHUT_RD); time.sleep(30)"
    client = (
        "import socket as s, time; time.sleep(1)\n"
        "try: s.create_connection(('a-ib0', 5000)); print('connected')\n"
        "except ConnectionRefusedError: print('refused')"
    )
    env = f"env LIBSDP_CONFIG_FILE={rules}"
    outcome = twice(softband, ("a", f'{env} python3 -c "{server}"'), ("b", f'{env} python3 -c "{client}"'))
    assert outcome.program("b-0").split() == ["refused"]


def test_rules_select_streams_by_program_and_port(softband: Softband, tmp_path: Path) -> None:
    rules = tmp_path / "libsdp.conf"
    rules.write_text("log destination stderr\nuse both server python3* *:5000\nuse sdp client * 10.1.0.0/16:5000\n")
    server = "import socket as s; l = s.create_server(('', 5000)); c, p = l.accept(); print(c.recv(9)); c.close(); c, p = l.accept(); print(c.recv(9))"
    by_sdp = "import socket as s; c = s.create_connection(('a-ib0', 5000)); c.send(b'sdp')"
    by_tcp = "import socket as s, time; time.sleep(1); c = s.create_connection(('a-ib0', 5000)); c.send(b'tcp')"
    env = f"env LIBSDP_CONFIG_FILE={rules}"
    outcome = twice(softband, ("a", f'{env} python3 -c "{server}"'), ("b", f'{env} python3 -c "{by_sdp}"'), ("b", f'python3 -c "{by_tcp}"'))
    assert outcome.program("a-0").split() == ["b'sdp'", "b'tcp'"]


def test_wrong_rules_name_their_file_and_line(softband: Softband, tmp_path: Path) -> None:
    rules = tmp_path / "libsdp.conf"
    rules.write_text("use sdp client * *:*\nuse udp client * *:*\n")
    outcome = softband.run(FABRIC, ("a", f'env LIBSDP_CONFIG_FILE={rules} python3 -c "import socket; socket.create_server((\'\', 5000))"'))
    assert f"{rules}:2: unknown family `udp`" in outcome.assert_ok().stderr


def test_a_fabric_without_ipoib_has_no_sdp(softband: Softband) -> None:
    program = "import socket\ntry: socket.socket(27, socket.SOCK_STREAM)\nexcept OSError as error: print(error.errno)"
    outcome = softband.run("two-hosts", ("a", f'python3 -c "{program}"')).assert_ok()
    assert outcome.program("a-0").split() == ["97"]
    assert "ipoib" in outcome.stderr
