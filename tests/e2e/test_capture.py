"""Packets of a run in a pcap file, read by tshark and by a reader of our own."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from conftest import Fabrics, Outcome, Softband, line_of, until, which
from packets import packets, records
from test_opensm import unmanaged

FABRIC = "qdr-through-switch"
EPOCH = 1_767_225_600  # 2026-01-01, the date of time zero
needs_tshark = pytest.mark.skipif(not which("tshark"), reason="no tshark")

RC, UC, UD = 0x00, 0x20, 0x64


def capture(softband: Softband, path: Path, command: str, *options: str, fabric: str | Path = FABRIC) -> Outcome:
    on = (("a", command), ("b", f"{command} a"))
    return softband.run(fabric, *on, options=("--capture", str(path), *options)).assert_ok()


def tshark(path: Path, *fields: str, only: str = "frame") -> list[list[str]]:
    """Returns fields of the packets that match a filter. Fails if tshark finds a malformed packet."""
    words = ["tshark", "-r", str(path), "-T", "fields", "-E", "separator=|"]

    def rows(wanted: str, *names: str) -> list[list[str]]:
        listed = [word for name in names for word in ("-e", name)]
        out = subprocess.run([*words, "-Y", wanted, *listed], capture_output=True, text=True, check=True).stdout
        return [line.split("|") for line in out.splitlines()]

    assert rows("_ws.malformed", "frame.number") == []
    return rows(only, *fields)


@pytest.mark.parametrize(
    ("command", "opcodes"),
    [
        ("ib_send_bw -n 5 -s 5000", {0x00: 5, 0x02: 5}),
        ("ib_write_bw -n 5 -s 9000", {0x06: 5, 0x07: 5, 0x08: 5}),
        ("ib_read_bw -n 5 -s 5000", {0x0C: 5, 0x0D: 5, 0x0F: 5}),
        ("ib_atomic_bw -n 5", {0x14: 5, 0x12: 5}),
        ("ib_send_bw -c UC -n 5 -s 5000", {0x20: 5, 0x22: 5}),
        ("ib_send_bw -c UD -n 5 -s 1001", {0x64: 5}),
        ("ib_send_bw -x 0 -n 5 -s 77", {0x04: 5}),
    ],
)
def test_a_capture_has_each_packet_once_with_its_check_values(
    softband: Softband, tmp_path: Path, command: str, opcodes: dict[int, int]
) -> None:
    path = tmp_path / "packets.pcap"
    capture(softband, path, command)
    found = packets(path)
    counted = Counter(packet.opcode for packet in found)
    counted.pop(0x11, None)  # acknowledgements: as many as the requester asks for
    assert counted == opcodes
    assert {packet.has_route for packet in found} == {"-x" in command}
    times = [packet.nanoseconds for packet in found]
    assert times == sorted(times)
    assert EPOCH <= times[0] // 1_000_000_000 < EPOCH + 10
    if which("tshark"):
        rows = tshark(path, "infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.lrh.dlid", "frame.len")
        assert rows == [[str(p.opcode), str(p.psn), str(p.dlid), str(len(p.image))] for p in found]


def test_numbers_of_packets_and_messages_count_up(softband: Softband, tmp_path: Path) -> None:
    path = tmp_path / "packets.pcap"
    capture(softband, path, "ib_write_bw -n 20 -s 9000")
    found = packets(path)
    writes = [packet for packet in found if packet.opcode in (0x06, 0x07, 0x08)]
    assert [(packet.psn - writes[0].psn) % (1 << 24) for packet in writes] == list(range(60))
    acks = [packet for packet in found if packet.opcode == 0x11]
    syndromes, counts = zip(*((ack.transport[0], int.from_bytes(ack.transport[1:4], "big")) for ack in acks), strict=True)
    assert set(syndromes) == {0x1F}
    assert list(counts) == list(range(1, 21))
    # The RETH of a first packet states the length of the whole message.
    assert {int.from_bytes(write.transport[12:16], "big") for write in writes if write.opcode == 0x06} == {9000}


def test_a_capture_changes_nothing_else(softband: Softband, tmp_path: Path) -> None:
    results = []
    for options in [(), ("--capture", str(tmp_path / "x")), ("--capture", str(tmp_path / "y"), "--capture-at", "sw,b")]:
        outcome = softband.run(FABRIC, ("a", "ib_send_bw -n 300 -s 5000"), ("b", "ib_send_bw -n 300 -s 5000 a"), options=options).assert_ok()
        report = json.loads((outcome.out / "run.json").read_text())
        # Captured packets form no trains, so the model has more events.
        del report["wall_seconds"], report["fabric_events"]
        results.append((report, (outcome.out / "counters.json").read_text(), outcome.program("a-0"), outcome.program("b-0")))
    assert results[0] == results[1] == results[2]


def test_the_same_run_leaves_the_same_capture(softband: Softband, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("first", "second")]
    for file in files:
        capture(softband, file, "ib_send_bw -n 5 -s 5000")
    assert files[0].read_bytes() == files[1].read_bytes()


def test_selected_ports_have_both_directions(softband: Softband, tmp_path: Path) -> None:
    path = tmp_path / "packets.pcap"
    capture(softband, path, "ib_send_bw -n 5 -s 5000", "--capture-at", "sw/1", "--capture-at", "b/mlx4_0")
    found = packets(path)
    # A packet from b leaves b/mlx4_0/1 and sw/1; an acknowledgement reaches sw/1 and b/mlx4_0/1.
    assert len(found) == 2 * 15
    assert [p.nanoseconds for p in found] == sorted(p.nanoseconds for p in found)
    one = tmp_path / "one.pcap"
    capture(softband, one, "ib_send_bw -n 5 -s 5000", "--capture-at", "sw/1")
    assert len(packets(one)) == 15


@needs_tshark
def test_tshark_decodes_a_connection_of_rdma_cm(softband: Softband, tmp_path: Path) -> None:
    path = tmp_path / "packets.pcap"
    softband.run("two-hosts", ("a", "rping -s -C 2"), ("b", "rping -c -a a -C 2"), options=("--capture", str(path))).assert_ok()
    cm = [info for [info] in tshark(path, "_ws.col.Info", only="infiniband.mad.mgmtclass == 0x07")]
    assert [info.split()[-1].removeprefix("CM:").strip() for info in cm] == [
        "ConnectRequest",
        "ConnectReply",
        "ReadyToUse",
        "DisconnectRequest",
        "DisconnectReply",
    ]
    assert len(packets(path)) == len(tshark(path, "frame.number"))


@needs_tshark
def test_tshark_decodes_opensm_on_lane_15(softband: Softband, tmp_path: Path) -> None:
    path, fabric = tmp_path / "packets.pcap", unmanaged(tmp_path, FABRIC)
    command = f"opensm -o -f {tmp_path / 'log'} >/dev/null"
    softband.run(fabric, ("a", command), ("b", "sleep 1"), options=("--capture", str(path))).assert_ok()
    found = packets(path)
    assert {packet.lane for packet in found if packet.dlid == 0xFFFF} == {15}
    rows = tshark(path, "infiniband.mad.method", "infiniband.mad.attributeid", only="infiniband.lrh.vl == 15")
    methods = Counter(int(method, 0) for method, _ in rows)
    assert methods[1] + methods[2] == methods[0x81] > 50, "each request has an answer"
    assert {0x11, 0x15, 0x19} <= {int(attribute, 0) for _, attribute in rows}, "NodeInfo, PortInfo, forwarding tables"


@needs_tshark
def test_roce_frames_are_ethernet_ip_and_udp(softband: Softband, tmp_path: Path) -> None:
    path = tmp_path / "packets.pcap"
    capture(softband, path, "ib_send_bw -n 5 -s 5000", fabric="roce-100g")
    rows = tshark(path, "eth.src", "ip.src", "udp.dstport", "infiniband.bth.opcode", only="infiniband")
    assert len(rows) == len(list(records(path))) == 15
    assert {(port, ip[:6]) for _, ip, port, _ in rows} == {("4791", "10.77.")}
    assert Counter(int(opcode) for *_, opcode in rows) == {RC: 5, 0x02: 5, 0x11: 5}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--capture", "/nowhere/x.pcap"), "cannot write the capture /nowhere/x.pcap: No such file"),
        (("--capture", "/dev/full"), "cannot write the capture /dev/full: No space left"),
        (("--capture", "/dev/null", "--capture-at", "sw/99"), "no port `sw/99`"),
        (("--capture", "/dev/null", "--capture-at", "c"), "`c` does not name a port"),
        (("--capture", "/dev/null", "--capture-at", "sw/9"), "nothing to capture at sw/9: it has no cable"),
    ],
)
def test_a_capture_that_cannot_begin_ends_the_run_at_once(softband: Softband, options: tuple[str, ...], message: str) -> None:
    ended = softband.command("run", FABRIC, "--on", "a", "echo started", *options)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert "started" not in ended.stdout


def ping(fabrics: Fabrics) -> None:
    server = fabrics.on("a", "rping", "-s", "-C", "2")
    client = fabrics.on("b", "sh", "-c", "sleep 1; exec rping -c -a a -C 2")
    assert client.wait(30) == 0
    assert server.wait(30) == 0


def test_wall_pace_captures_management_and_says_so(fabrics: Fabrics, tmp_path: Path) -> None:
    path = tmp_path / "packets.pcap"
    fabrics.up("--capture", str(path))
    ping(fabrics)
    # The file is complete while the fabric stays.
    until(lambda: len(packets(path)) >= 5)
    assert {packet.opcode for packet in packets(path)} == {UD}


def test_a_command_captures_a_fabric_that_stays(fabrics: Fabrics, tmp_path: Path) -> None:
    path = tmp_path / "packets.pcap"
    fabrics.up()
    words = [str(fabrics.binary), "capture", str(path), "--at", "a"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as capture:
        assert "Ctrl-C ends the capture" in line_of(capture)
        second = fabrics.command("capture", str(tmp_path / "second"))
        assert (second.returncode, "another capture of the fabric is under way" in second.stderr) == (2, True)
        ping(fabrics)
        until(lambda: len(packets(path)) >= 5)
        capture.send_signal(signal.SIGINT)
        assert capture.wait(10) == 0
    taken = path.read_bytes()
    ping(fabrics)
    assert path.read_bytes() == taken
    wrong = fabrics.command("capture", str(tmp_path / "third"), "--at", "nohost")
    assert (wrong.returncode, "`nohost` does not name a port" in wrong.stderr) == (2, True)
    device = fabrics.command("capture", "/dev/null")
    assert (device.returncode, "into regular files only" in device.stderr) == (2, True), "a pipe would hold up the engine"
    assert path.stat().st_mode & 0o777 == 0o600, "a capture holds all that programs send"


def test_a_capture_ends_with_its_fabric(fabrics: Fabrics, tmp_path: Path) -> None:
    fabrics.up()
    words = [str(fabrics.binary), "capture", str(tmp_path / "packets.pcap")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as capture:
        assert "Ctrl-C ends the capture" in line_of(capture)
        assert fabrics.command("down").returncode == 0
        assert capture.wait(10) == 0
