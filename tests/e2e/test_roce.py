"""RoCE: Ethernet as the link layer, with stock programs in both paces."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from conftest import FABRICS, Fabrics, Softband

FABRIC = "roce-100g"
PACES = pytest.mark.parametrize("pace", ["virtual", "wall"])


def text_of() -> str:
    return (FABRICS / f"{FABRIC}.toml").read_text()


def other(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    """Writes the fabric with some texts replaced."""
    text = text_of()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "other.toml"
    path.write_text(text)
    return path


@PACES
@pytest.mark.parametrize(
    "program",
    [
        "ibv_rc_pingpong -c -g 0",
        "ibv_rc_pingpong -e -g 1",
        "ibv_uc_pingpong -c -g 1",
        "ibv_ud_pingpong -g 0",
        "ibv_ud_pingpong -e -g 1",
        "ibv_srq_pingpong -c -g 1",
    ],
)
def test_pingpong(softband: Softband, program: str, pace: str) -> None:
    outcome = softband.pair(FABRIC, f"{program} -n 200", options=("--pace", pace)).assert_ok()
    text = outcome.program("a-0")
    assert "200 iters in" in text and "invalid data" not in text
    gid = "fe80::202:c9ff:fe00:1" if "-g 0" in program else "::ffff:10.77.0.1"
    assert "LID 0x0000" in text and gid in text


@PACES
@pytest.mark.parametrize("program", ["ib_write_bw", "ib_read_bw", "ib_send_bw -c UD", "ib_send_bw -x 0", "ib_send_lat", "ib_write_lat", "ib_atomic_lat"])
def test_perftest_finds_its_way_by_gids(softband: Softband, program: str, pace: str) -> None:
    outcome = softband.pair(FABRIC, f"{program} -F -n 500", options=("--pace", pace)).assert_ok()
    text = outcome.program("b-0")
    index = "0" if "-x 0" in program else "1"
    for wanted in ("Link type       : Ethernet", f"GID index       : {index}", "Mtu             : 4096[B]", "LID 0000"):
        assert wanted in text, f"{wanted!r} not in\n{text}"


def rate_of(text: str) -> float:
    """Returns the average of perftest's last line, in MiB/s."""
    return float(text.strip().splitlines()[-2].split()[3])


def test_the_rate_is_that_of_the_link_less_headers(softband: Softband) -> None:
    text = softband.pair(FABRIC, "ib_write_bw -n 1000").assert_ok().program("b-0")
    # Each packet carries 4,096 B of data in 4,178 B of link time, at 12.5e9 B/s.
    assert rate_of(text) == pytest.approx(12.5e9 * 4096 / 4178 / 2**20, rel=0.005)


def test_the_usual_mtu_leaves_packets_of_a_kilobyte(softband: Softband, tmp_path: Path) -> None:
    usual = other(tmp_path, ("mtu = 4200\n", ""))
    text = softband.pair(usual, "ib_write_bw -n 1000").assert_ok().program("b-0")
    assert "Mtu             : 1024[B]" in text
    assert rate_of(text) == pytest.approx(12.5e9 * 1024 / 1106 / 2**20, rel=0.005)


@PACES
def test_devinfo_shows_a_port_as_the_kernel_does(softband: Softband, pace: str) -> None:
    text = softband.run(FABRIC, ("a", "ibv_devinfo -v"), options=("--pace", pace)).assert_ok().program("a-0")
    facts = {line.split(":")[0].strip(): line.split(":", 1)[1].strip() for line in text.splitlines() if ":" in line}
    assert (facts["link_layer"], facts["sm_lid"], facts["port_lid"], facts["pkey_tbl_len"]) == ("Ethernet", "0", "0", "1")
    assert (facts["active_mtu"], facts["active_speed"], facts["active_width"]) == ("4096 (5)", "25.0 Gbps (32)", "4X (2)")
    assert facts["GID[  0]"] == "fe80::202:c9ff:fe00:1, RoCE v2" and facts["GID[  1]"] == "::ffff:10.77.0.1, RoCE v2"
    assert "GID[  2]" not in facts


@PACES
@pytest.mark.parametrize(("fabric", "levels"), [(FABRIC, [("the link", 9), ("IPv4", 10)]), ("two-hosts", [("the link", 3)])])
def test_completions_of_datagrams_state_the_type_of_the_packet(
    softband: Softband, c_programs: Path, pace: str, fabric: str, levels: list[tuple[str, int]]
) -> None:
    """UCX learns the size of the sender's address from it. On InfiniBand it is the service level."""
    text = softband.run(fabric, ("a", str(c_programs / "datagram_type")), options=("--pace", pace)).assert_ok().program("a-0")
    assert text.splitlines() == [f"{call} to a GID of {kind}: {level}" for kind, level in levels for call in ("ibv_poll_cq", "ibv_wc_read_sl")]


def test_the_kernel_s_files_say_the_same(softband: Softband) -> None:
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    names = ["link_layer", "rate", "lid", "gids/1", "gid_attrs/types/0", "gid_attrs/types/1", "gid_attrs/ndevs/1", "pkeys/0", "../../device/vendor"]
    text = softband.run(FABRIC, ("b", "cat " + " ".join(f"{port}/{name}" for name in names))).assert_ok().program("b-0")
    assert text.splitlines() == [
        "Ethernet",
        "100 Gb/sec (4X EDR)",
        "0x0",
        "0000:0000:0000:0000:0000:ffff:0a4d:0002",
        "RoCE v2",
        "RoCE v2",
        "roce2",
        "0xffff",
        "0x15b3",
    ]


@PACES
def test_an_address_without_a_route_or_that_nobody_has_is_refused(softband: Softband, pace: str) -> None:
    code = """
import errno
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.addr import GID, AH, AHAttr, GlobalRoute
from pyverbs.pyverbs_error import PyverbsRDMAError
with Context(name="mlx5_0") as context:
    pd = PD(context)
    def outcome(**attributes):
        try:
            AH(pd, attr=AHAttr(port_num=1, **attributes)).close()
            return "made"
        except PyverbsRDMAError as error:
            return errno.errorcode[error.error_code]
    def way(gid, index):
        return outcome(is_global=1, gr=GlobalRoute(dgid=GID(gid), sgid_index=index))
    ipv4 = "0000:0000:0000:0000:0000:ffff:0a4d:%04x"
    print(outcome(dlid=2), way(ipv4 % 2, 1), way(ipv4 % 2, 0), way(ipv4 % 99, 1), way("fe80:0000:0000:0000:0202:c9ff:fe00:0002", 0), way(ipv4 % 2, 7))
    print([(entry.gid_index, entry.gid_type) for entry in context.query_gid_table(8)])
"""
    program = softband.folder / "ways.py"
    program.write_text(code)
    text = softband.run(FABRIC, ("a", f"/usr/bin/python3 {program}"), options=("--pace", pace)).assert_ok().program("a-0")
    assert text.splitlines() == ["EINVAL made EINVAL ETIMEDOUT made EINVAL", "[(0, 2), (1, 2)]"], "the GID types are not those of RoCE v2"


@PACES
def test_datagrams_leave_an_ip_header_before_the_payload(softband: Softband, pace: str) -> None:
    code = """
import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.addr import GID, AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR
with Context(name="mlx5_0") as context:
    pd = PD(context)
    cq = CQ(context, 16)
    attributes = QPAttr(port_num=1)
    attributes.qkey = 0x11111111
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=QPCap(max_send_wr=4, max_recv_wr=4)), attributes)
    memory = MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE)
    for gid, index in [("0000:0000:0000:0000:0000:ffff:0a4d:0001", 1), ("fe80:0000:0000:0000:0202:c9ff:fe00:0001", 0)]:
        memory.write("x" * 64, 64)
        memory.write("hello", 5, 1024)
        qp.post_recv(RecvWR(sg=[SGE(memory.buf, 256, memory.lkey)], num_sge=1))
        attributes = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=GID(gid), sgid_index=index, traffic_class=32, hop_limit=9))
        handle = AH(pd, attr=attributes)
        request = SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(memory.buf + 1024, 5, memory.lkey)])
        request.set_wr_ud(handle, qp.qp_num, 0x11111111)
        qp.post_send(request)
        seen = []
        while len(seen) < 2:
            seen += cq.poll(2)[1]
        received = next(wc for wc in seen if wc.opcode & e.IBV_WC_RECV)
        header = memory.read(40, 0)
        print(received.status, received.byte_len, received.wc_flags & e.IBV_WC_GRH, received.slid, memory.read(5, 40).decode(), header.hex())
"""
    program = softband.folder / "datagrams.py"
    program.write_text(code)
    text = softband.run(FABRIC, ("a", f"/usr/bin/python3 {program}"), options=("--pace", pace)).assert_ok().program("a-0")
    ipv4, ipv6 = (line.rsplit(" ", 1) for line in text.splitlines())
    assert ipv4[0] == ipv6[0] == "0 45 1 0 hello"
    header = bytes.fromhex(ipv4[1])
    # The IPv4 header: version and length, DSCP, 20 + 8 + 12 + 8 + 8 + 4 bytes, no fragments, nine
    # hops, UDP.
    assert header[:20] == bytes(20) and header[20:30].hex() == "4520003c000040000911"
    assert header[32:] == bytes([10, 77, 0, 1, 10, 77, 0, 1])
    own = "fe800000000000000202c9fffe000001"
    assert ipv6[1] == "6200000000281109" + own + own


@PACES
def test_groups_go_by_their_gid(softband: Softband, c_programs: Path, pace: str) -> None:
    outcome = softband.run(FABRIC, ("a", str(c_programs / "group")), options=("--pace", pace)).assert_ok()
    assert outcome.program("a-0") == "every member got its copy\n"


def with_third_host() -> str:
    text = text_of()
    host = text[text.index("[hosts.b]") : text.index("[switches.sw]")]
    cable = text[text.rindex("[[cables]]") :]
    return text.replace("[switches.sw]", host.replace("hosts.b", "hosts.c") + "[switches.sw]") + cable.replace("b/mlx5_0", "c/mlx5_0").replace("sw/2", "sw/3")


def test_what_a_workload_loses_stands_in_its_tables_and_its_report(softband: Softband, tmp_path: Path) -> None:
    fabric = tmp_path / "lossy.toml"
    fabric.write_text(with_third_host().replace('"pfc"', '"none"'))
    done = softband.command("model", str(fabric), "incast", "--messages", "4", "--bytes", "256KiB", "--out", "lossy")
    assert done.returncode == 0, done.stderr
    with (softband.folder / "lossy" / "ports.csv").open() as file:
        lost = sum(int(row["buffer_discards"]) for row in csv.DictReader(file))
    ports = json.loads((softband.folder / "lossy" / "model.json").read_text())["ports"]
    assert 0 < lost == sum(port["port_xmit_pkts"] - port["port_rcv_pkts"] for port in ports)
    assert f"  lost              {lost} frames that a buffer had no room for, 0 packets" in done.stdout


def test_pauses_are_counted_and_lose_nothing_while_a_full_buffer_without_them_does(softband: Softband, tmp_path: Path) -> None:
    third = with_third_host()
    counted = {}
    for flow_control in ("pfc", "none"):
        fabric = tmp_path / f"{flow_control}.toml"
        fabric.write_text(third.replace('"pfc"', f'"{flow_control}"'))
        program = "ib_write_bw -n 2000 -p"
        outcome = softband.run(
            fabric, ("a", f"{program} 18601"), ("a", f"{program} 18602"), ("b", f"{program} 18601 a"), ("c", f"{program} 18602 a")
        ).assert_ok()
        assert outcome.out is not None
        ports = json.loads((outcome.out / "counters.json").read_text())["ports"]
        counted[flow_control] = [sum(port[name] for port in ports) for name in ("pause_frames_sent", "buffer_discards")]
    assert counted["pfc"][0] > 0 and counted["pfc"][1] == 0
    assert counted["none"][0] == 0 and counted["none"][1] > 0


def test_two_runs_print_the_same(softband: Softband) -> None:
    first, second = (softband.pair(FABRIC, "ib_send_bw -s 1048576 -n 100").assert_ok() for _ in range(2))
    assert first.program("b-0") == second.program("b-0") and first.stdout == second.stdout


def test_infiniband_to_ethernet_is_refused_with_the_place_and_what_to_do(softband: Softband, tmp_path: Path) -> None:
    mixed = other(tmp_path, ('part = "connectx5"\nlink_layer = "ethernet"\n\n[switches', 'part = "connectx5"\n\n[switches'))
    done = softband.command("fabric", "check", str(mixed))
    assert done.returncode != 0
    for wanted in ("`b/mlx5_0/1` is a port of InfiniBand, `sw/2` one of Ethernet", "other.toml:", 'link_layer = "ethernet"'):
        assert wanted in done.stderr, f"{wanted!r} not in\n{done.stderr}"


def test_a_fabric_that_stays_tells_addresses_instead_of_lids(fabrics: Fabrics) -> None:
    fabrics.up(str(FABRICS / f"{FABRIC}.toml"))
    port = fabrics.status()[0]["hosts"][1]["devices"][0]["ports"][0]
    assert port == {"port": 1, "state": "active", "link_layer": "ethernet", "lid": 0, "ipv4": "10.77.0.2"}
    assert "port 1 active, Ethernet, 10.77.0.1" in fabrics.command("status").stdout


def test_a_link_that_trains_down_is_said_with_what_is_to_blame(softband: Softband, tmp_path: Path) -> None:
    text = text_of()
    assert softband.command("fabric", "check", str(FABRICS / f"{FABRIC}.toml")).stderr == ""
    old, new = text.rsplit("[hosts.b]", 1)
    (tmp_path / "slower.toml").write_text(old + "[hosts.b]" + new.replace("connectx5", "connectx3-pro", 1))
    path = tmp_path / "slower.toml"
    done = softband.command("fabric", "check", str(path))
    assert done.returncode == 0
    assert "note: the link of `sw/2` trains to 40GbE: `b/mlx5_0/1` is 40GbE\n" in done.stderr
    path.write_text(path.read_text().replace("sn2700", "sn5600"))
    outcome = softband.run(path, ("a", "ibv_devinfo"))
    wanted = "note: the link of `b/mlx5_0/1` trains to 10GbE: `b/mlx5_0/1` does 10GbE/40GbE, `sw/2` does 10GbE/25GbE/50GbE/100GbE/200GbE/400GbE/800GbE\n"
    assert wanted in outcome.stderr
