"""Port counters: as files of the kernel, by Prometheus, and by performance management."""

from __future__ import annotations

import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from conftest import Fabrics, Softband, which

COUNTERS = "/sys/class/infiniband/mlx5_0/ports/1/counters"

READ = f"""
import os, subprocess
held = os.open('{COUNTERS}/port_rcv_packets', os.O_RDONLY)
before = int(os.read(held, 99))
subprocess.run(['ib_send_bw', '-n', '20', '-s', '5000'], stdout=subprocess.DEVNULL, check=True)
os.lseek(held, 0, os.SEEK_SET)
after = int(os.read(held, 99))
os.chdir('{COUNTERS}')
print(before, after, open('port_rcv_packets').read().strip(), open('{COUNTERS}/port_rcv_data').read().strip(), len(os.listdir('.')))
subprocess.run(['perfquery', '-x', '-R'], stdout=subprocess.DEVNULL, check=True)
print(open('./port_rcv_data').read().strip())
"""


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_files_have_the_present_counters(softband: Softband, pace: str) -> None:
    script = softband.folder / "read.py"
    script.write_text(READ)
    client = "until ib_send_bw -n 20 -s 5000 a; do sleep 0.1; done"
    outcome = softband.run("modern-pair", ("a", f"{sys.executable} {script}"), ("b", client), options=("--pace", pace)).assert_ok()
    # 20 messages of two packets of 4,096 bytes; LRH, BTH and ICRC are 24 bytes of each.
    words = 20 * (5_000 + 2 * 24) // 4
    assert outcome.program("a-0").splitlines() == [f"0 40 40 {words} 21", "0"]


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_the_hardware_counts_what_queue_pairs_refuse_and_serve(softband: Softband, c_programs: Path, pace: str) -> None:
    program = c_programs / "hw_counters"
    outcome = softband.run("modern-pair", ("a", str(program)), ("b", f"{program} a"), options=("--pace", pace)).assert_ok()
    assert outcome.stdout.count("all counters hold") == 2


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.mark.skipif(not which("mckey") or not which("perfquery"), reason="no mckey or perfquery")
@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_multicast_packets_count_apart(softband: Softband, pace: str) -> None:
    member, ask = "mckey -m 239.0.0.1 -C 5 -S 64", "perfquery -x | grep Multicast | grep -o '[0-9]*$' | xargs"
    # Another member of host a outlasts the transfer: at wall pace packets count on the ways of the present members.
    stays = "mckey -m 239.0.0.1 -C 6 -S 64 >/dev/null & stays=$!"
    hosts = ("a", f"{stays}; {member}; {ask}; sleep 1; kill $stays"), ("b", f"sleep 0.5; {member} -s; {ask}; cat /sys/class/infiniband/*/ports/1/counters/multicast_xmit_packets")
    outcome = softband.run("qdr-through-switch", *hosts, options=("--pace", pace, "--timeout", "60")).assert_ok()
    assert outcome.program("a-0").splitlines()[-1] == "0 5"
    assert outcome.program("b-0").splitlines()[-2:] == ["5 0", "5"]


def test_prometheus_gets_the_counters_of_all_ports(fabrics: Fabrics) -> None:
    port = free_port()
    fabrics.up("modern-pair", "--metrics", f"127.0.0.1:{port}")
    server = fabrics.on("a", "ib_write_bw", "-n", "100", "-s", "4096")
    client = fabrics.on("b", "sh", "-c", "until ib_write_bw -n 100 -s 4096 a; do sleep 0.1; done")
    assert client.wait(30) == 0 and server.wait(30) == 0
    place = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(place, timeout=10) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        samples = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
    assert samples['node_infiniband_port_packets_received_total{device="mlx5_0",port="1",host="a"}'] == "100"
    assert int(samples['node_infiniband_port_data_transmitted_bytes_total{device="mlx5_0",port="1",host="b"}']) > 100 * 4096
    assert samples['node_infiniband_state_id{device="mlx5_0",port="1",host="b"}'] == "4"
    # LID 2 is host b.
    assert fabrics.on("a", "ibportstate", "2", "1", "disable").wait(30) == 0
    with urllib.request.urlopen(place, timeout=10) as answer:
        samples = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
    states = [samples[f'node_infiniband_physical_state_id{{device="mlx5_0",port="1",host="{host}"}}'] for host in "ab"]
    assert states == ["5", "3"]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10)
    taken = fabrics.command("up", "--name", "other", "--metrics", str(port))
    assert taken.returncode == 2 and f"cannot serve metrics on 127.0.0.1:{port}" in taken.stderr
