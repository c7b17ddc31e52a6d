"""Unmodified programs over plain sockets between hosts, in simulated time."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Outcome, Softband, which
from test_conformance import shim_programs

__all__ = ["shim_programs"]

FABRIC = "modern-pair"


def need(*programs: str) -> None:
    """Skips a test whose programs are not installed."""
    for program in programs:
        if which(program) is None:
            pytest.skip(f"{program} is not installed")


# Fabrics with the name of host a on the management network, on IPoIB, and on Gigabit Ethernet.
NETWORKS = pytest.mark.parametrize(("fabric", "server"), [(FABRIC, "a"), ("ipoib", "a-ib0"), ("gigabit", "a-eth1")])


def twice(softband: Softband, *on: tuple[str, str], fabric: str = FABRIC) -> Outcome:
    """Runs a program on each host, twice, and checks that both runs print the same bytes."""
    first, again = (softband.run(fabric, *on).assert_ok() for _ in range(2))
    for host, _ in on:
        assert first.program(f"{host}-0") == again.program(f"{host}-0")
    return first


def test_datagrams_take_the_time_of_the_management_network(softband: Softband, shim_programs: Path) -> None:
    """A round is twice the latency (15 us) and the transfer of 1,000 bytes."""
    program = shim_programs / "datagrams"
    outcome = twice(softband, ("a", f"{program} server 5000"), ("b", f"{program} client a 5000"))
    found = re.search(r"a round takes (\d+) ns", outcome.program("b-0"))
    assert found is not None
    assert int(found[1]) == pytest.approx(2 * (15_000 + 1_000 / 2.94), abs=1_000)


def test_iperf3_measures_datagrams(softband: Softband) -> None:
    need("iperf3")
    outcome = twice(softband, ("a", "iperf3 -s -1"), ("b", "iperf3 -c a -u -b 50M -l 1400 -t 1 --json"))
    report = json.loads(outcome.program("b-0"))["end"]["sum"]
    assert report["lost_packets"] == 0
    assert report["packets"] == pytest.approx(50e6 / 8 / 1400, rel=0.01)


@pytest.mark.parametrize(
    "provider", ["-p sockets -e dgram", "-p sockets -e rdm", "-p udp -e dgram", "-p tcp -e msg", "-p 'tcp;ofi_rxm' -e rdm"]
)
def test_libfabric_plays_ping_pong(softband: Softband, provider: str) -> None:
    need("fi_pingpong")
    program = f"fi_pingpong {provider} -I 10 -S 64"
    outcome = twice(softband, ("a", program), ("b", f"{program} a"))
    for name in ("a-0", "b-0"):
        assert re.search(r"^64\s+10\s+=10\s", outcome.program(name), re.MULTILINE)


def test_reliable_datagrams_of_libfabric_over_udp_come_to_an_end(softband: Softband) -> None:
    """RxD fills the buffers of its sockets with large messages, and then polls until its timers end."""
    need("fi_pingpong")
    program = "fi_pingpong -p 'udp;ofi_rxd' -e rdm -I 4"
    outcome = twice(softband, ("a", program), ("b", f"{program} a"), fabric="roce-100g")
    for name in ("a-0", "b-0"):
        assert re.findall(r"^(\w+)\s+4\s+=4\s", outcome.program(name), re.MULTILINE) == ["64", "256", "1k", "4k", "64k", "1m"]


@NETWORKS
def test_redis_serves_another_host(softband: Softband, fabric: str, server: str) -> None:
    need("redis-server", "redis-cli")
    program = "redis-server --save '' --protected-mode no --bind '*' '-::*'"
    client = f"sh -c 'redis-cli -h {server} set k v; redis-cli -h {server} get k; redis-cli -h {server} shutdown nosave'"
    outcome = twice(softband, ("a", program), ("b", client), fabric=fabric)
    assert outcome.program("b-0").split() == ["OK", "v"]


@pytest.mark.parametrize("how", ["sendfile", "splice"])
def test_a_copy_by_the_kernel_takes_the_time_of_the_same_bytes_by_write(softband: Softband, shim_programs: Path, how: str) -> None:
    def nanos(how: str) -> int:
        outcome = twice(softband, ("a", f"{shim_programs / 'copying'} server 5000"), ("b", f"{shim_programs / 'copying'} client a 5000 {how}"))
        found = re.search(rf"{how} took (\d+) ns", outcome.program("b-0"))
        assert found is not None
        return int(found[1])

    assert nanos(how) == pytest.approx(nanos("write"), rel=0.01)


def test_nginx_serves_a_file_by_sendfile_and_edges(softband: Softband, tmp_path: Path) -> None:
    """nginx waits for edges alone. A read that leaves bytes unread must not make it look again and again."""
    need("nginx", "curl")
    content = bytes(at * 7 % 251 for at in range(3_000_000))
    (tmp_path / "bulk").write_bytes(content)
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/errors;\n"
        "events { use epoll; worker_connections 64; }\n"
        f"http {{ access_log off; sendfile on; client_body_temp_path {tmp_path}/body; proxy_temp_path {tmp_path}/proxy;\n"
        f"fastcgi_temp_path {tmp_path}/fastcgi; uwsgi_temp_path {tmp_path}/uwsgi; scgi_temp_path {tmp_path}/scgi;\n"
        f"server {{ listen 8080; root {tmp_path}; }} }}\n"
    )
    ends = f"sh -c 'sleep 2; kill -QUIT $(cat {tmp_path}/pid)'"
    client = f"sh -c 'curl -s -S -o {tmp_path}/got -w \"%{{http_code}} %{{size_download}} %{{time_total}}\\n\" http://a:8080/bulk http://a:8080/pid'"
    outcome = twice(softband, ("a", f"nginx -e {tmp_path}/errors -c {tmp_path}/nginx.conf"), ("b", client), ("a", ends))
    assert outcome.program("b-0").startswith("200 3000000 ")
    assert (tmp_path / "got").read_bytes()[: len(content)] == content


def test_nuttcp_talks_by_standard_streams_on_a_socket(softband: Softband) -> None:
    """The server's control connection is its standard input and output. The C library reads and writes these."""
    need("nuttcp")
    outcome = twice(softband, ("a", "nuttcp -1"), ("b", "nuttcp -n100m -fparse a"))
    found = re.search(r"rate_Mbps=(\S+)", outcome.program("b-0"))
    assert found is not None, outcome.stderr
    # The management network has 2.94 bytes in a nanosecond.
    assert float(found[1]) == pytest.approx(2.94e3 * 8, rel=0.1)


@NETWORKS
def test_nginx_serves_another_host(softband: Softband, open_folder: Path, fabric: str, server: str) -> None:
    need("nginx", "curl")
    data = bytes(range(256)) * 5000
    (open_folder / "data").write_bytes(data)
    places = " ".join(f"{name}_temp_path {open_folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    site = f"http {{ access_log off; {places} server {{ listen 8080; root {open_folder}; }} }}"
    account = "user root;" if os.getuid() == 0 else ""
    settings = f"daemon off; master_process off; {account} pid {open_folder}/pid; error_log stderr; events {{ worker_connections 64; }} {site}"
    (open_folder / "settings").write_text(settings)
    copy = open_folder / "copy"
    client = f"sh -c 'sleep 1; curl -s -o {copy} -w \"%{{http_code}} %{{size_download}} %{{time_total}}\" http://{server}:8080/data'"
    first, again = (softband.run(fabric, ("a", f"timeout -s KILL 3 nginx -c {open_folder}/settings"), ("b", client)) for _ in range(2))
    assert first.program("b-0").split()[:2] == ["200", str(len(data))], first.stderr[-3000:]
    assert first.program("b-0") == again.program("b-0")
    assert copy.read_bytes() == data


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every account can read: xrootd does not run as root."""
    with tempfile.TemporaryDirectory(prefix="softband-test-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@NETWORKS
def test_xrootd_lists_and_copies_files_between_hosts(softband: Softband, open_folder: Path, fabric: str, server: str) -> None:
    """The copy uses POSIX AIO with functions of the program, and cancels its threads at the end."""
    need("xrootd", "xrdfs", "xrdcp")
    store, admin, copy = (open_folder / name for name in ("store", "admin", "copy"))
    for folder in (store, admin):
        folder.mkdir()
        folder.chmod(0o777)
    data = bytes(range(256)) * 5000
    (store / "data").write_bytes(data)
    configuration = open_folder / "configuration"
    configuration.write_text(f"all.export {store}\nall.adminpath {admin}\nall.pidpath {admin}\n")
    account = "-R nobody" if os.getuid() == 0 else ""
    program = f"timeout 6 xrootd -n test -p 1094 {account} -c {configuration}"
    url = f"root://{server}:1094/{store}/data"
    client = f"sh -c 'sleep 2; xrdfs {server}:1094 ls {store}; xrdcp -f {url} {copy}; xrdcp -f {url} /dev/null; date +%s.%N'"
    first, again = (softband.run(fabric, ("a", program), ("b", client)) for _ in range(2))
    lines = first.program("b-0").splitlines()
    assert lines[0] == str(store / "data"), first.stderr[-3000:]
    assert len(lines) == 2
    assert again.program("b-0").splitlines() == lines
    assert copy.read_bytes() == data


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_opensm_ends_without_management_datagrams(softband: Softband, tmp_path: Path, pace: str) -> None:
    """OpenSM cancels the threads of its dispatcher at its end."""
    need("opensm")
    outcome = softband.run(FABRIC, ("a", f"opensm -o -f {tmp_path / 'log'}"), options=("--pace", pace))
    assert "Exiting SM" in outcome.program("a-0")
    assert "stands still" not in outcome.stderr


def test_qperf_and_sockperf_measure_the_same_latency_over_ipoib(softband: Softband) -> None:
    need("qperf", "sockperf")
    outcome = softband.run("ipoib", ("a", "timeout 4 qperf"), ("b", "sh -c 'sleep 1; qperf a-ib0 -t 1 tcp_lat udp_lat'"))
    latencies = [float(number) for number in re.findall(r"latency\s+=\s+([\d.]+) us", outcome.program("b-0"))]
    assert len(latencies) == 2, outcome.stderr
    for protocol, latency in zip(("--tcp", ""), latencies, strict=True):
        server = f"timeout -s KILL 8 sockperf server {protocol} -i 10.1.0.1 -p 11111"
        client = f"sh -c 'sleep 1; sockperf ping-pong {protocol} -i 10.1.0.1 -p 11111 -t 1 -m 14'"
        outcome = softband.run("ipoib", ("a", server), ("b", client))
        found = re.search(r"Summary: Latency is ([\d.]+) usec", outcome.program("b-0"))
        assert found is not None, outcome.stderr
        assert float(found[1]) == pytest.approx(latency, rel=0.05)


# The text protocol of memcached: a value that was stored comes back.
CLIENT = """
import socket, sys
at = socket.create_connection((sys.argv[1], 11211))
at.sendall(b"set key 0 0 5\\r\\nvalue\\r\\nget key\\r\\n")
answer = b""
while not answer.endswith(b"END\\r\\n"):
    answer += at.recv(100)
print(answer)
"""


@NETWORKS
def test_memcached_keeps_a_value(softband: Softband, tmp_path: Path, fabric: str, server: str) -> None:
    need("memcached")
    (tmp_path / "client.py").write_text(CLIENT)
    account = "-u nobody" if os.getuid() == 0 else ""
    client = f"sh -c 'sleep 1; python3 {tmp_path}/client.py {server}; date +%s.%N'"
    first, again = (softband.run(fabric, ("a", f"timeout 2 memcached -l 0.0.0.0 -U 0 {account}"), ("b", client)) for _ in range(2))
    stored, *times = first.program("b-0").splitlines()
    assert stored == repr(b"STORED\r\nVALUE key 0 5\r\nvalue\r\nEND\r\n"), first.stderr
    assert len(times) == 1 and again.program("b-0") == first.program("b-0")
