"""Debian's OpenSM and infiniband-diags, unmodified, as managers and observers of a fabric."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import FABRICS, Softband, which

pytestmark = pytest.mark.skipif(not which("opensm"), reason="no opensm")
START = "opensm -f {log} >/dev/null 2>&1 & manager=$!; sleep 1; "
STOP = "; kill $manager; wait $manager"


def unmanaged(folder: Path, fabric: str) -> Path:
    """Writes a copy of a fabric file whose ports wait for OpenSM."""
    text = (FABRICS / f"{fabric}.toml").read_text()
    head = "" if "[subnet]" in text else "[subnet]\n\n"
    path = folder / "unmanaged.toml"
    path.write_text((head + text).replace("[subnet]", '[subnet]\nmanager = "opensm"', 1))
    return path


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_opensm_configures_a_fabric(softband: Softband, tmp_path: Path, pace: str) -> None:
    fabric, log = unmanaged(tmp_path, "qdr-through-switch"), tmp_path / "opensm.log"
    before = "ibstat mlx4_0 1 | grep -e lid -e State | xargs; "
    command = f"{before}opensm -o -f {log} >/dev/null; {before}ibv_rc_pingpong -n 100"
    outcome = softband.run(fabric, ("a", command), ("b", "sleep 3; ibv_rc_pingpong -n 100 a"), options=("--pace", pace)).assert_ok()
    first, second, *pingpong = outcome.program("a-0").splitlines()
    assert first == "State: Initializing Base lid: 0 SM lid: 0"
    assert second == "State: Active Base lid: 1 SM lid: 1"
    assert "SUBNET UP" in log.read_text()
    assert "100 iters" in "".join(pingpong)


def test_its_log_is_the_same_in_each_run(softband: Softband, tmp_path: Path) -> None:
    fabric = unmanaged(tmp_path, "fat-tree-16")
    logs = []
    for run in range(2):
        log = tmp_path / f"opensm-{run}.log"
        # An ordinary user cannot write OpenSM's dumps to /var/log.
        softband.run(fabric, ("h0", f"OSM_TMP_DIR={tmp_path} opensm -o -R ftree -f {log} >/dev/null; iblinkinfo")).assert_ok()
        logs.append(log.read_text())
    assert logs[0] == logs[1]
    assert "ftree tables configured on all switches" in logs[0]
    assert " ERR " not in logs[0]


def test_one_lane_brings_the_bandwidth_back_over_100_metres(softband: Softband, tmp_path: Path) -> None:
    """Minich 2007, listing 1: write the configuration, change `max_op_vls`, and start OpenSM again."""
    fabric, config = unmanaged(tmp_path, "cables/ddr-switch-100m-100m"), tmp_path / "opensm.conf"
    measure = "ib_send_bw -s 65536 -n 500 | awk '$1 == 65536 { print $4 }'"
    change = f"opensm -c {config} >/dev/null; sed -i 's/max_op_vls 5/max_op_vls 1/' {config}"
    again = f"opensm -F {config} -f {tmp_path / 'second'} >/dev/null 2>&1 & manager=$!; sleep 1; "
    server = START.format(log=tmp_path / "first") + measure + STOP + f"; {change}; {again}{measure}" + STOP
    client = "sleep 2; ib_send_bw -s 65536 -n 500 a; sleep 4; ib_send_bw -s 65536 -n 500 a"
    outcome = softband.run(fabric, ("a", server), ("b", client)).assert_ok()
    eight_lanes, one_lane = map(float, outcome.program("a-0").split())
    for name, measured in [("", eight_lanes), ("-vl1", one_lane)]:
        builtin = softband.pair(f"cables/ddr-switch-100m-100m{name}", "ib_send_bw -s 65536 -n 500").assert_ok().program("a-0")
        row = next(line for line in builtin.splitlines() if line.split()[:1] == ["65536"])
        # OpenSM's own packets take their place on the links.
        assert measured == pytest.approx(float(row.split()[3]), rel=1e-4), "the built-in manager gives the same bandwidth"
    assert one_lane > eight_lanes * 1.3


def test_opensm_routes_around_a_link_that_goes_down(softband: Softband, tmp_path: Path) -> None:
    """A ring of switches has two ways. The trap of a switch makes OpenSM sweep at once."""
    fabric, log = unmanaged(tmp_path, "ring-of-five"), tmp_path / "opensm.log"
    fault = '\n[[faults]]\nkind = "link_down"\nlink = "s1/2"\nat = "3 s"\n'
    fabric.write_text(fabric.read_text() + fault)
    way = "ibnetdiscover >/dev/null; ibtracert -G 0x$(cat {mine}) 0x$(cat {theirs}) | grep -c 'switch port'; "
    guids = {name: tmp_path / name for name in ("mine", "theirs")}
    way = way.format(**guids)
    note = "ibstat mthca0 1 | grep -o 'Port GUID: .*' | cut -c 14- > {}"
    server = note.format(guids["mine"]) + "; " + START.format(log=log) + f"{way}sleep 5; {way}ibv_rc_pingpong -n 100 | grep -c iters" + STOP
    client = note.format(guids["theirs"]) + "; sleep 8; ibv_rc_pingpong -n 100 a"
    outcome = softband.run(fabric, ("a", server), ("b", client)).assert_ok()
    assert outcome.program("a-0").split() == ["2", "5", "1"]
    up = [line[7:15] for line in log.read_text().splitlines() if "SUBNET UP" in line]
    assert up[:2] == ["00:00:00", "00:00:03"], "the sweep follows the fault at 3 s, before the next light sweep"


def test_a_second_manager_stands_by_and_takes_over(softband: Softband, tmp_path: Path) -> None:
    fabric = unmanaged(tmp_path, "qdr-through-switch")
    first = f"opensm -p 5 -f {tmp_path / 'first'} >/dev/null 2>&1 & manager=$!; sleep 10; sminfo" + STOP
    lid = "$(cat /sys/class/infiniband/mlx4_0/ports/1/lid)"
    second = f"sleep 2; opensm -p 1 -f {tmp_path / 'second'} >/dev/null 2>&1 & manager=$!; sleep 6; sminfo {lid}; sleep 60; sminfo {lid}; kill $manager; wait $manager"
    outcome = softband.run(fabric, ("a", first), ("b", second)).assert_ok()
    assert "SMINFO_MASTER" in outcome.program("a-0")
    standby, master = [line for line in outcome.program("b-0").splitlines() if "SMINFO" in line]
    assert "SMINFO_STANDBY" in standby and "SMINFO_MASTER" in master


def test_joins_begin_again_after_a_restart_of_opensm(softband: Softband, c_programs: Path, tmp_path: Path) -> None:
    """The new OpenSM knows no members. It asks ports to register again, and the member joins again."""
    fabric, program = unmanaged(tmp_path, "qdr-through-switch"), c_programs / "rdma_group"
    first, second = (START.format(log=tmp_path / name) for name in ("first", "second"))
    server = f"{first}sleep 2{STOP}; sleep 1; {second}sleep 3; {program} send 239.0.0.7 3; sleep 1{STOP}"
    member = f"sh -c 'sleep 1.5; exec {program} again 239.0.0.7 3'"
    outcome = softband.run(fabric, ("a", server), ("b", member), options=("--timeout", "60")).assert_ok()
    address, end, *rest = outcome.program("b-0").splitlines()
    assert address.startswith("ff12:4001:ffff::f00:7 c00") and end == "RDMA_CM_EVENT_MULTICAST_ERROR -102"
    assert rest == ["message 0", "message 1", "message 2", "left"]


def test_a_service_is_registered_again_after_a_restart_of_opensm(softband: Softband, c_programs: Path, tmp_path: Path) -> None:
    """The new OpenSM knows no services. It asks ports to register again, and the owner does."""
    fabric = unmanaged(tmp_path, "qdr-through-switch")
    first, second = (START.format(log=tmp_path / name) for name in ("first", "second"))
    ask = "sleep 2; saquery -S | grep -E 'ServiceID|ServiceName'"
    command = f"{first}{ask}{STOP}; sleep 1; {second}{ask}{STOP}"
    owner = f"sh -c 'sleep 2; exec {c_programs / 'service'} 1'"
    outcome = softband.run(fabric, ("a", command), ("b", owner), options=("--timeout", "60")).assert_ok()
    assert outcome.program("b-0").split() == ["registered", "registered"]
    assert outcome.program("a-0").count("ervice") == 6, outcome.program("a-0")


def test_opensm_gives_ports_several_lids(softband: Softband, tmp_path: Path) -> None:
    """`opensm -l 2`: programs see the LMC, each LID reaches its port, and path records have all pairs of LIDs."""
    fabric = unmanaged(tmp_path, "qdr-through-switch")
    start = START.format(log=tmp_path / "opensm.log").replace("opensm ", "opensm -l 2 ", 1)
    seen = "cat /sys/class/infiniband/mlx4_0/ports/1/lid_mask_count; ibv_devinfo -v | grep port_lmc | grep -o '0x..' | head -1; "
    paths = "saquery -p --sgid-to-dgid fe80::2:c902:0:5-fe80::2:c902:0:9 | grep -c dump; base=$(saquery -l 'b mlx4_0'); "
    pings = "for lid in $(seq $base $((base + 4))); do ibping -c 1 -L $lid | grep -c ', 0% packet loss'; done"
    outcome = softband.run(fabric, ("a", start + seen + paths + pings + STOP), ("b", "ibping -S & sleep 7; kill $!; wait; true"), options=("--timeout", "60"))
    assert outcome.assert_ok().program("a-0").split() == ["2", "0x02", "16", "1", "1", "1", "1", "0"]


def test_opensm_logs_wrong_keys(softband: Softband, tmp_path: Path) -> None:
    """An SMP with a wrong M_Key leads to trap 256. OpenSM has set the key of all ports."""
    fabric, log = unmanaged(tmp_path, "qdr-through-switch"), tmp_path / "opensm.log"
    config = tmp_path / "opensm.conf"
    keys = f"opensm -c {config} >/dev/null; sed -i 's/^m_key .*/m_key 0x7/; s/^m_key_protection_level .*/m_key_protection_level 2/' {config}; "
    start = f"opensm -F {config} -f {log} >/dev/null 2>&1 & manager=$!; sleep 1; "
    ask = "smpquery -t 100 portinfo 2 1 2>&1; smpquery -t 100 --m_key 7 portinfo 2 1 | grep Violations; sleep 1"
    outcome = softband.run(fabric, ("a", keys + start + ask + STOP), ("b", "sleep 4")).assert_ok()
    text = outcome.program("a-0")
    assert "query failed" in text or "iberror" in text or "timed out" in text.lower(), text
    assert re.search(r"MkeyViolations:\.*[1-9]", text), text
    assert "SUBNET UP" in log.read_text() and "ERRORS DURING" not in log.read_text()
    assert "num:256" in log.read_text()


def test_opensm_logs_packets_with_wrong_keys_and_represses_their_traps(softband: Softband, c_programs: Path, tmp_path: Path) -> None:
    """Traps 257 and 258 come from the port that a packet reaches, and 259 from the switch that refuses it."""
    fabric, log, guid = unmanaged(tmp_path, "qdr-through-switch"), tmp_path / "opensm.log", tmp_path / "guid"
    partitions, note = tmp_path / "partitions.conf", "ibstat mlx4_0 1 | grep -o '0x.*$' | tail -1"
    # Index 1 is the partition of both hosts, and index 2 that of host a alone. Host b's queue pair has index 0.
    lines = f"Default=0x7fff: ALL=full, SELF=full;\nfive=5: $own=full, $(cat {guid})=full;\nsix=6: $own=full;\n"
    start = f'own=$({note}); printf "{lines}" > {partitions}; opensm -P {partitions} -f {log} >/dev/null 2>&1 & manager=$!; sleep 1; '
    wrong_keys = [f"ib_send_bw -n 5 -Q 1 -s 64 --pkey_index {index}" for index in (1, 2)] + [f"{c_programs / 'many_senders'} 64 1"]
    client = f"sleep 0.5; {start}{'; '.join(f'timeout 9 {command} b >/dev/null 2>&1; sleep 6' for command in wrong_keys)}" + STOP
    servers = [f"timeout 9 ib_send_bw -n 5 -Q 1 -s 64 >/dev/null 2>&1; sleep {pause}" for pause in (3, 3)] + [f"{c_programs / 'many_senders'} 64 1 mortal"]
    outcome = softband.run(fabric, ("b", f"{note} > {guid}; sleep 1.8; {'; '.join(servers)}"), ("a", client), options=("--timeout", "60"))
    assert "none wrong" in outcome.program("b-0")
    text = log.read_text()
    traps = re.findall(r"Received Generic Notice type:2 num:(\d+) .* from LID:(\d+) TID:(\S+)", text)
    assert list(dict.fromkeys((number, lid) for number, lid, _ in traps)) == [("257", "3"), ("259", "2"), ("258", "3")]
    assert len(set(traps)) == len(traps), "no trap comes again after OpenSM's answer"
    assert sum(number == "258" for number, *_ in traps) == 1
    assert re.search("Bad P_Key:0x8005 on SL:0 from LID1:1 QP1:0x4.* to LID2:3 QP2:0x4", text)
    assert re.search("Bad Q_Key:0x11111112 on SL:0 from LID1:1 QP1:0x4.* to LID2:3 QP2:0x4", text)
    assert "port 2 : data_valid 0xfc00, LID1 1, LID2 3, PKey 0x8006, SL 0, QP1 0x4" in text


def test_switches_refuse_what_vendors_ask(softband: Softband) -> None:
    """Tools of vendors get an answer at once, and not the end of their patience."""
    tools = "vendstat -N 3 2>&1; ibsysstat 3 2>&1; date +%S; smpquery nodeinfo 3 | grep -i id; ibnetdiscover | grep -B3 switchguid"
    text = softband.run("qdr-through-switch", ("a", tools)).assert_ok().program("a-0")
    assert re.search(r"^00$", text, re.MULTILINE), text
    assert "DevId:...........................0xbd36" in text and "VendorId:........................0x0002c9" in text
    assert "vendid=0x2c9\ndevid=0xbd36" in text


def torus(softband: Softband, folder: Path) -> tuple[Path, Path]:
    """Writes a torus of 3 by 3 switches that waits for OpenSM, and the seed of its coordinates."""
    parts = ["--host", "qdr-host", "--hca", "connectx2-qdr", "--device", "mlx4_0", "--switch", "infiniscale-iv"]
    cables = ["--host-cable", "copper-4x", "--host-cable-length", "1 m"]
    form = ["torus", "--dimensions", "3,3", "--hosts-per-switch", "1"]
    fabric, seed = folder / "torus.toml", folder / "torus-2QoS.conf"
    text = softband.command("fabric", "generate", *form, *parts, *cables).stdout
    fabric.write_text(f'[subnet]\nmanager = "opensm"\n\n{text}')
    topology = softband.command("fabric", "export", "--format", "ibnetdiscover", str(fabric)).stdout
    guids = {name: guid for guid, name in re.findall(r'^Switch\s+\d+ "S-(\w+)"\s+# "(\S+)"', topology, re.MULTILINE)}
    # Names of switches have their coordinates.
    origin, right, below = (f"0x{guids[name]}" for name in ("s-0-0", "s-1-0", "s-0-1"))
    seed.write_text(f"torus 3 3 1\nxp_link {origin} {right}\nyp_link {origin} {below}\n")
    return fabric, seed


def test_opensm_s_torus_engine_routes_with_two_levels_of_service(softband: Softband, tmp_path: Path) -> None:
    (fabric, seed), log = torus(softband, tmp_path), tmp_path / "opensm.log"
    start = f"opensm -R torus-2QoS -Q --torus_config {seed} -f {log} >/dev/null 2>&1 & manager=$!; sleep 1; "
    ask = "smpquery sl2vl -D 0,1 2>&1 | tail -1; ib_send_bw -s 65536 -n 20 | grep -c ^.65536; ib_send_bw -S 8 -s 65536 -n 20 | grep -c ^.65536"
    client = "sleep 2; ib_send_bw -s 65536 -n 20 h0; sleep 1; ib_send_bw -S 8 -s 65536 -n 20 h0"
    outcome = softband.run(fabric, ("h0", start + ask + STOP), ("h8", client)).assert_ok()
    text = log.read_text()
    assert "torus-2QoS tables configured on all switches" in text, text
    assert outcome.program("h0-0").split()[-2:] == ["1", "1"]


def test_opensm_s_consoles_answer(softband: Softband, tmp_path: Path) -> None:
    fabric = unmanaged(tmp_path, "qdr-through-switch")
    words = "sleep 2; echo status; sleep 1; echo portstatus; sleep 1; echo quit; sleep 1"
    local = f"({words}) | timeout 8 opensm --console local -f {tmp_path / 'local'}"
    ask = "exec 3<>/dev/tcp/127.0.0.1/10000; (echo status; echo portstatus) >&3; timeout 1 cat <&3"
    loopback = f"opensm --console loopback -f {tmp_path / 'loopback'} >/dev/null 2>&1 & manager=$!; sleep 1; bash -c '{ask}'" + STOP
    for command in (local, loopback):
        text = softband.run(fabric, ("a", command)).program("a-0")
        assert re.search("SM State +: Master", text) and "4 active" in text, text


TOOLS = {
    "ibstatus": "4X QDR",
    "sminfo": "SMINFO_MASTER",
    "smpquery -D nodeinfo 0,1": "Switch",
    "smpquery portinfo 2 1": "LinkUp",
    "smpquery switchinfo 3": "LinearFdbTop",
    "smpquery pkeys 2 1": "0xffff",
    "smpquery sl2vl 3": "SL2VL table",
    "smpquery vlarb 2 1": "VLArbitration",
    "smpquery guidinfo 2 1": "0x0002c90200000009",
    "smpdump -D 0,1 0x11": "0101 0224",
    "perfquery 2 1": "PortXmitData",
    "perfquery -x 3 2": "PortUnicastXmitPkts",
    "perfquery -R 2 1; perfquery 2 1": "PortRcvPkts",
    "perfquery -D 3 2": "PortInactiveDiscards",
    "perfquery -E 3 2": "PortDLIDMappingErrors",
    "perfquery --vlxmitcounters 3 2": "PortVLXmitWait",
    "ibnetdiscover": 'Switch\t36 "S-0002c90240000004"',
    "iblinkinfo": "10.0 Gbps Active/  LinkUp",
    "ibqueryerrors": "0 ports have errors",
    "ibhosts": '"b mlx4_0"',
    "ibswitches": '"sw"',
    "ibnodes": '"sw"',
    "ibtracert 1 2": "To ca",
    "ibroute 3": "3 valid lids dumped",
    "ibaddr": "LID start 0x1",
    "ibportstate 3 2": "Active",
    "dump_lfts": "0x0002",
    "ibping -c 3 2": "3 packets transmitted, 3 received",
    "ibsysstat 2": "sysstat ping succeeded",
    "smpquery -c nodeinfo 3 0,2": "Channel Adapter",
    "saquery -p": "PathRecord dump",
}


@pytest.mark.skipif(not which("ibnetdiscover"), reason="no infiniband-diags")
@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_the_tools_show_the_fabric(softband: Softband, pace: str) -> None:
    """The built-in manager has configured it. Servers on b answer ibping and ibsysstat."""
    script = "; ".join(f"echo '== {name}'; {tool} 2>&1; echo status $?" for name, tool in enumerate(TOOLS))
    servers = "ibping -S & ibping=$!; ibsysstat -S & sysstat=$!; "
    client = ("a", f"sleep 1; {script}")
    outcome = softband.run("qdr-through-switch", client, ("b", f"{servers}sleep 15; kill $ibping $sysstat"), options=("--pace", pace))
    parts = re.split(r"^== \d+\n", outcome.program("a-0"), flags=re.MULTILINE)[1:]
    results = zip(TOOLS.items(), parts, strict=True)
    bad = [f"{tool}: {text[:300]}...{text[-300:]}" for (tool, word), text in results if word not in text or "status 0" not in text]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("pace", ["virtual", "wall"])
@pytest.mark.parametrize(("space", "signature"), [("0x111", "4001"), ("0x2", "401b")])
def test_opensm_routes_a_group_that_programs_join(softband: Softband, tmp_path: Path, space: str, signature: str, pace: str) -> None:
    """OpenSM compares a group of IPoIB with the broadcast group that it creates itself."""
    fabric, log = unmanaged(tmp_path, "qdr-through-switch"), tmp_path / "opensm.log"
    member = f"mckey -m 239.0.0.1 -C 5 -p {space}"
    receiver = START.format(log=log) + f"sleep 1; {member}" + STOP
    outcome = softband.run(fabric, ("a", receiver), ("b", f"sleep 4; {member} -s"), options=("--pace", pace, "--timeout", "60")).assert_ok()
    joined = re.compile(f"joined dgid: ff12:{signature}:ffff::f00:1 mlid (0xc00[0-9a-f]) sl 0")
    lids = {found[1] for host in ("a", "b") if (found := joined.search(outcome.program(f"{host}-0")))}
    assert len(lids) == 1, "both got the LID that OpenSM chose"
    assert all("return status 0" in outcome.program(f"{host}-0") for host in ("a", "b"))


def test_a_link_runs_at_the_width_and_speed_that_a_tool_permits(softband: Softband) -> None:
    """`ibportstate width` and `speed` take effect when the link trains again, also for data and the kernel's files."""
    rate = "cat /sys/class/infiniband/mlx4_0/ports/1/rate; "
    change = "ibportstate 3 2 width 1 >/dev/null && ibportstate 3 2 speed 2 >/dev/null && "
    active = "ibportstate 3 2 query | sed -n 's/^Link\\(Width\\|Speed\\)Active:\\.*//p' | head -2; "
    refused = "ibportstate 3 2 width 8 2>&1 | grep -o 'smp set portinfo failed'; "
    first = change + active + "ibportstate 3 2 reset >/dev/null; sleep 0.1; " + active + refused
    second = f"{rate}sleep 1; {rate}ibv_devinfo -v | grep -o 'active_[ws].*' | head -2; ib_send_bw -s 65536 -n 200 a | awk '$1 == 65536 {{ print $4 }}'"
    outcome = softband.run("qdr-through-switch", ("a", first + "ib_send_bw -s 65536 -n 200"), ("b", second)).assert_ok()
    assert outcome.program("a-0").splitlines()[:5] == ["4X", "10.0 Gbps", "1X", "5.0 Gbps", "smp set portinfo failed"]
    before, after, width, speed, bandwidth = outcome.program("b-0").splitlines()
    assert (before, after) == ("40 Gb/sec (4X QDR)", "5 Gb/sec (1X DDR)")
    assert width.split()[1:] == ["1X", "(1)"] and speed.split()[1:3] == ["5.0", "Gbps"]
    # 4 Gb/s of data, less the headers of packets.
    assert 0.95 < float(bandwidth) * 2**20 / 500e6 < 1
