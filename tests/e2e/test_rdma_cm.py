"""The connection manager of the kernel (rdma_cm): Debian's librdmacm and programs on top of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import FABRICS, Outcome, Softband, table, which

PACES = ["virtual", "wall"]


def run(softband: Softband, pace: str, server: str, client: str) -> Outcome:
    return softband.run("two-hosts", ("a", server), ("b", client), options=("--pace", pace, "--timeout", "60"))


def until_done(server: str, done: Path, pause: float = 0.02) -> str:
    """Returns the command of a server that goes on until a file is there, and looks after each `pause` in seconds."""
    return f"{server} & server=$!; while [ ! -e {done} ]; do sleep {pause}; done; kill $server"


def events(outcome: Outcome, name: str) -> list[str]:
    return [line.removeprefix("RDMA_CM_EVENT_") for line in outcome.program(name).splitlines()]


@pytest.mark.parametrize("pace", PACES)
def test_rping_pings(softband: Softband, pace: str) -> None:
    outcome = run(softband, pace, "rping -s -v -C 5", "rping -c -v -C 5 -a a").assert_ok()
    assert outcome.program("b-0").count("ping data: rdma-ping-") == 5
    assert outcome.program("a-0").count("server ping data: rdma-ping-") == 5


def test_a_program_connects_to_its_own_host_without_a_switch(softband: Softband) -> None:
    command = "rping -s -C 2 & rping -c -v -C 2 -a a; wait"
    assert softband.run("two-hosts", ("a", command)).assert_ok().program("a-0").count("ping data: rdma-ping-") == 2


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("program", ["ucmatose", "udaddy"])
def test_connections_and_datagrams_carry_data(softband: Softband, program: str, pace: str) -> None:
    outcome = run(softband, pace, program, f"{program} -s a").assert_ok()
    assert all("return status 0" in outcome.program(f"{host}-0") for host in ("a", "b"))


def test_many_connections_at_once(softband: Softband) -> None:
    outcome = run(softband, "virtual", "ucmatose -c 40", "ucmatose -c 40 -s a").assert_ok()
    assert "return status 0" in outcome.program("b-0")


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("command", ["ib_send_bw -R -n 100", "ib_write_lat -R -n 100", "ib_send_bw -R -c UD -n 100"])
def test_perftest_measures_over_the_connection_manager(softband: Softband, command: str, pace: str) -> None:
    outcome = run(softband, pace, command, f"{command} a").assert_ok()
    assert "rdma_cm QPs\t : ON" in outcome.program("b-0")
    assert len(table(outcome.program("b-0"))) == 1


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("program", ["rstream", "riostream"])
def test_rsockets_stream(softband: Softband, program: str, pace: str) -> None:
    options = "-S 4096 -C 10 -I 10"
    # Without a server that listens, rsockets report an error.
    commands = [("a", f"{program} {options}"), ("b", f"sh -c 'sleep 1; exec {program} {options} -s a'")]
    outcome = softband.run("two-hosts", *commands, options=("--pace", pace, "--timeout", "60")).assert_ok()
    assert "custom" in outcome.program("b-0")


@pytest.mark.parametrize("pace", PACES)
def test_libfabric_s_verbs_provider_connects(softband: Softband, pace: str) -> None:
    command = "fi_pingpong -p verbs -e msg -I 5"
    outcome = run(softband, pace, command, f"{command} a").assert_ok()
    assert "1m      5" in outcome.program("b-0")


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize(
    ("server", "client", "at_server", "at_client"),
    [
        ("listen-reject", "connect", "CONNECT_REQUEST 0 'may I' 56", "REJECTED 28 'no' 148"),
        ("listen-die", "connect", "CONNECT_REQUEST 0 'may I' 56", "REJECTED 28 '' 148"),
        ("listen-hold", "connect-die", "REJECTED 28 '' 148", "CONNECT_RESPONSE 0 'welcome' 196"),
        ("listen-hold", "connect-die-later", "DISCONNECTED 0", "CONNECT_RESPONSE 0 'welcome' 196"),
        ("listen-hold", "connect", "DISCONNECTED 0", "DISCONNECTED 0"),
    ],
)
def test_each_end_of_a_connection_reaches_the_peer(
    softband: Softband, c_programs: Path, server: str, client: str, at_server: str, at_client: str, pace: str
) -> None:
    program = c_programs / "rdma_cm"
    outcome = run(softband, pace, f"{program} {server}", f"{program} {client} a")
    assert events(outcome, "a-0")[-1] == at_server
    assert events(outcome, "b-0")[:2] == ["ADDR_RESOLVED 0", "ROUTE_RESOLVED 0"]
    assert events(outcome, "b-0")[-1] == at_client
    if "die" not in server + client:
        outcome.assert_ok()


@pytest.mark.parametrize("pace", PACES)
def test_a_service_without_a_listener_is_refused(softband: Softband, c_programs: Path, pace: str) -> None:
    outcome = softband.run("two-hosts", ("a", "true"), ("b", f"{c_programs / 'rdma_cm'} connect a"), options=("--pace", pace))
    assert events(outcome, "b-0")[-1].startswith("REJECTED 8 ")


@pytest.mark.parametrize("pace", PACES)
def test_a_client_waits_for_its_server(softband: Softband, pace: str) -> None:
    run(softband, pace, "sh -c 'sleep 1; exec rping -s -C 3'", "rping -c -a a -C 3").assert_ok()
    run(softband, pace, "sh -c 'sleep 1; exec udaddy'", "udaddy -s a").assert_ok()


RSOCKETS = next(Path("/usr/lib").glob("*/rsocket/librspreload.so"), None)


@pytest.mark.skipif(not RSOCKETS, reason="no librspreload")
@pytest.mark.parametrize("way", ["select", "poll"])
@pytest.mark.parametrize("pace", PACES)
def test_librspreload_turns_sockets_into_rsockets(softband: Softband, c_programs: Path, way: str, pace: str) -> None:
    command = f"LD_PRELOAD={RSOCKETS} {c_programs / 'stream'} {way}"
    outcome = run(softband, pace, command, f"{command} a; perfquery -x").assert_ok()
    answer, *counters = outcome.program("b-0").splitlines()
    assert answer == "all bytes"
    words = next(int(line.split(".")[-1]) for line in counters if line.startswith("PortXmitData"))
    assert words * 4 > 1_000_000


@pytest.mark.skipif(not RSOCKETS or not which("NPtcp"), reason="no librspreload, or no NetPIPE")
@pytest.mark.parametrize("pace", PACES)
def test_netpipe_runs_over_rsockets(softband: Softband, pace: str) -> None:
    command, out = f"LD_PRELOAD={RSOCKETS} NPtcp -u 4096 -n 2 -o {softband.folder}", "perfquery -x | grep PortXmitData"
    outcome = run(softband, pace, f"{command}/a", f"{command}/b -h a 2>&1; {out}").assert_ok()
    *_, last, counter = outcome.program("b-0").splitlines()
    assert "4099 bytes" in last and int(counter.split(".")[-1]) > 10_000, "the data passed the HCA"


def test_two_runs_in_simulated_time_are_equal(softband: Softband, c_programs: Path) -> None:
    first, second = [run(softband, "virtual", "ib_send_bw -R -n 100", "ib_send_bw -R -n 100 a").assert_ok() for _ in range(2)]
    assert all(first.program(name) == second.program(name) for name in ("a-0", "b-0"))
    program = c_programs / "rdma_cm"
    first, second = [run(softband, "virtual", f"{program} listen-hold", f"{program} connect a").assert_ok() for _ in range(2)]
    assert first.report()["virtual_seconds"] == second.report()["virtual_seconds"]
    assert all(first.program(name) == second.program(name) for name in ("a-0", "b-0"))


@pytest.mark.parametrize("pace", PACES)
def test_mckey_sends_to_a_group(softband: Softband, pace: str) -> None:
    receiver = "mckey -m 239.0.0.1 -C 5 -S 64"
    outcome = softband.run(
        "qdr-through-switch", ("a", receiver), ("b", f"sh -c 'sleep 1; exec {receiver} -s'"), options=("--pace", pace, "--timeout", "60")
    ).assert_ok()
    for host in ("a", "b"):
        assert "receiving data transfers" in outcome.program(f"{host}-0") or "initiating data transfers" in outcome.program(f"{host}-0")
        assert "test complete" in outcome.program(f"{host}-0") and "return status 0" in outcome.program(f"{host}-0")


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("role", ["send", "send-only"])
def test_members_of_a_group_get_its_messages_and_others_none(softband: Softband, c_programs: Path, role: str, pace: str) -> None:
    """Two groups at once. The sender of the second has no receiver."""
    program = c_programs / "rdma_group"
    commands = [
        ("h0", f"{program} receive 239.0.0.7 3"),
        ("h5", f"{program} receive 239.0.0.7 3"),
        ("h6", f"sh -c 'sleep 1; exec {program} {role} 239.0.0.7 3'"),
        ("h7", f"{program} send 239.0.0.8 3"),
    ]
    outcome = softband.run("fat-tree-16", *commands, options=("--pace", pace, "--timeout", "60")).assert_ok()
    head = "ff12:4001:ffff::f00:7 {} ffffff 1234567"
    texts = {host: outcome.program(f"{host}-0").splitlines() for host in ("h0", "h5", "h6", "h7")}
    assert texts["h0"] == texts["h5"] and texts["h0"][1:] == ["message 0", "message 1", "message 2", "left"]
    assert texts["h0"][0] == texts["h6"][0] and texts["h0"][0] in {head.format("c000"), head.format("c001")}
    assert texts["h7"][0].startswith("ff12:4001:ffff::f00:8 c00")


def test_a_join_that_nobody_answers_ends(softband: Softband, c_programs: Path, tmp_path: Path) -> None:
    """The link of the port is down from 1 s to 2 s: the join outlasts it. Down to the end, it fails."""
    program = c_programs / "rdma_group"
    for restored, expected in [(2, "left"), (9, "RDMA_CM_EVENT_MULTICAST_ERROR -110")]:
        fabric = tmp_path / "broken.toml"
        fault = '\n[[faults]]\nkind = "{}"\nlink = "{}"\nat = "{} s"\n'
        text = (FABRICS / "qdr-through-switch.toml").read_text()
        fabric.write_text(text + fault.format("link_down", "b/mlx4_0/1", 1) + fault.format("link_up", "b/mlx4_0/1", restored))
        outcome = softband.run(fabric, ("b", f"sh -c 'sleep 1.1; exec {program} send 239.0.0.7 1'"))
        assert outcome.program("b-0").splitlines()[-1] == expected


@pytest.mark.parametrize("pace", PACES)
def test_perftest_measures_a_group(softband: Softband, pace: str) -> None:
    command = "ib_send_bw -c UD -g -n 100"
    outcome = run(softband, pace, command, f"{command} a").assert_ok()
    assert len(table(outcome.program("b-0"))) == 1


@pytest.mark.skipif(not which("saquery"), reason="no infiniband-diags")
@pytest.mark.parametrize("pace", PACES)
def test_saquery_shows_groups_and_nodes(softband: Softband, pace: str) -> None:
    """A member that is killed leaves its group."""
    ask = "saquery -g; saquery -m --smkey 1; saquery --list; saquery -s"
    command = f"mckey -m 239.0.0.1 -C 1 >/dev/null & member=$!; sleep 1; {ask}; kill -9 $member; sleep 1; saquery -g 2>&1 && echo end"
    outcome = softband.run("qdr-through-switch", ("a", command), ("b", "sleep 3"), options=("--pace", pace, "--timeout", "60")).assert_ok()
    text = outcome.program("a-0")
    assert text.count("MCMemberRecord group dump") == 1 and text.count("MCMemberRecord member dump") == 1
    assert "Mlid....................0xC000" in text and "NodeDescription.........a mlx4_0" in text
    assert '1  "a mlx4_0"' in text and '2  "b mlx4_0"' in text
    assert text.count("IsSM ports") == text.count("IsSMdisabled ports") == 1 and text.count("PortInfoRecord dump") == 1
    # The last query finds an empty table.
    assert "SA_ERR" not in text and text.endswith("end\n")


def test_the_class_states_the_version(softband: Softband) -> None:
    outcome = softband.run("two-hosts", ("a", "sh -c 'cat /sys/class/misc/rdma_cm/abi_version; ls /dev/infiniband'")).assert_ok()
    assert outcome.program("a-0").splitlines()[0] == "4"
    assert "rdma_cm" in outcome.program("a-0")


@pytest.mark.parametrize("pace", PACES)
def test_connections_are_made_between_gids(softband: Softband, pace: str) -> None:
    """Addresses of AF_IB, and a group that a program names by its GID."""
    gid, group = "fe80::2:c902:0:5", "ff12:401b:ffff::1:2"
    outcome = softband.run(
        "qdr-through-switch",
        ("a", f"ucmatose -f gid -P ib -b {gid}"),
        ("b", f"ucmatose -f gid -P ib -s {gid}"),
        ("a", f"ucmatose -f gid -b {gid} -p 7500"),
        ("b", f"ucmatose -f gid -s {gid} -p 7500"),
        ("a", f"mckey -M {group} -b a -C 5"),
        ("b", f"sleep 1; mckey -M {group} -b b -C 5 -s"),
        options=("--pace", pace, "--timeout", "60"),
    ).assert_ok()
    assert all("return status 0" in outcome.program(f"{host}-{index}") for host in ("a", "b") for index in range(3))


@pytest.mark.parametrize("pace", PACES)
def test_programs_connect_over_roce(softband: Softband, pace: str) -> None:
    """All at once: by the names of hosts, by an interface's address, datagrams, rsockets and a group."""
    pairs = [
        ("rping -s -v -C 3", "rping -c -v -C 3 -a a"),
        ("rping -s -v -C 3 -a 10.77.0.1 -p 7501", "rping -c -v -C 3 -a 10.77.0.1 -p 7501"),
        ("ucmatose -p 7502", "ucmatose -p 7502 -s a"),
        ("udaddy", "udaddy -s a"),
        ("ib_send_bw -R -n 100", "ib_send_bw -R -n 100 a"),
        ("ib_send_bw -R -c UD -n 100 -p 7504", "ib_send_bw -R -c UD -n 100 -p 7504 a"),
        ("rstream -S 4096 -C 5 -I 5 -p 7505", "sleep 1; rstream -S 4096 -C 5 -I 5 -p 7505 -s a"),
        ("mckey -m 239.0.0.1 -C 5 -S 64", "sleep 1; mckey -m 239.0.0.1 -C 5 -S 64 -s"),
    ]
    commands = [command for server, client in pairs for command in (("a", server), ("b", client))]
    outcome = softband.run("roce-100g", *commands, options=("--pace", pace, "--timeout", "60")).assert_ok()
    texts = [outcome.program(f"b-{index}") for index in range(len(pairs))]
    assert all(text.count("ping data: rdma-ping-") == 3 for text in texts[:2])
    assert all("return status 0" in text for text in (*texts[2:4], texts[7]))
    assert all(len(table(text)) == 1 for text in texts[4:6]) and "custom" in texts[6]


def test_a_capture_shows_the_requests_of_roce(softband: Softband) -> None:
    if not which("tshark"):
        pytest.skip("no tshark")
    capture = softband.folder / "roce.pcap"
    softband.run("roce-100g", ("a", "rping -s -C 1"), ("b", "rping -c -C 1 -a a"), options=("--capture", str(capture))).assert_ok()
    fields = ["-Y", "infiniband.mad.mgmtclass == 7", "-T", "fields", "-e", "ip.src", "-e", "ip.dst", "-e", "udp.dstport", "-e", "infiniband.mad.attributeid"]
    files = sorted(softband.folder.glob("roce*.pcap*"))
    done = [subprocess.run(["tshark", "-r", str(file), *fields], capture_output=True, text=True, check=True, timeout=60) for file in files]
    requests = [line.split() for each in done for line in each.stdout.splitlines()]
    assert ["10.77.0.2", "10.77.0.1", "4791", "0x0010"] in requests and ["10.77.0.1", "10.77.0.2", "4791", "0x0013"] in requests


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("kind", ["x", "r"])
def test_an_extended_connection_finds_its_shared_queue(softband: Softband, kind: str, pace: str) -> None:
    """XRC with the port space IB (x), and reliable connections with the data inline (r)."""
    options = ("--pace", pace, "--timeout", "60")
    outcome = softband.run("modern-pair", ("a", f"rdma_xserver -c {kind}"), ("b", f"rdma_xclient -c {kind} -s a"), options=options).assert_ok()
    assert "rdma_xserver: end 0" in outcome.program("a-0") and "rdma_xclient: end 0" in outcome.program("b-0")


# At wall pace the asynchronous server can wait for the wake-up of librdmacm, every five seconds: tests/full has it.
@pytest.mark.parametrize(("pace", "mode"), [("virtual", "b"), ("virtual", "a"), ("wall", "b")])
def test_rsockets_of_datagrams_answer(softband: Softband, pace: str, mode: str) -> None:
    """A server without `-b` listens at localhost, and each goes on until it is stopped."""
    begin = "0.005" if pace == "virtual" else "0.5"
    done = softband.folder / "done"
    client = f"sleep {begin}; udpong -T {mode} -s a -C 50 -S 64; touch {done}"
    server = until_done(f"udpong -T {mode} -b a", done, 1 if mode == "a" else 0.02)
    outcome = softband.run("modern-pair", ("a", server), ("b", client), options=("--pace", pace, "--timeout", "60"))
    assert outcome.program("b-0").splitlines()[-1].split()[:4] == ["custom", "64", "50", "3.1k"]


# The events of the side that lives on, by the case that names the state of the other.
AFTER_DEATH = {
    "server-bind": ["CONNECT_REQUEST 0", "ESTABLISHED 0", "DISCONNECTED 0"],
    "client-address": ["CONNECT_REQUEST 0", "ESTABLISHED 0", "DISCONNECTED 0"],
    "client-route": ["CONNECT_REQUEST 0", "ESTABLISHED 0", "DISCONNECTED 0"],
    "client-req-sent": ["CONNECT_REQUEST 0", "accept 22"],
    "client-rep-received": ["CONNECT_REQUEST 0", "REJECTED 28"],
    "client-established": ["CONNECT_REQUEST 0", "ESTABLISHED 0", "DISCONNECTED 0"],
    "client-dreq-sent": ["CONNECT_REQUEST 0", "ESTABLISHED 0", "DISCONNECTED 0"],
    "client-dreq-received": ["CONNECT_REQUEST 0", "ESTABLISHED 0", "DISCONNECTED 0"],
    "client-timewait": ["CONNECT_REQUEST 0", "ESTABLISHED 0", "DISCONNECTED 0", "TIMEWAIT_EXIT 0"],
    "client-sidr-req-sent": ["CONNECT_REQUEST 0", "accept 0"],
}
AFTER_DEATH_OF_SERVER = {
    "server-bind": ["CONNECT_RESPONSE 0", "DISCONNECTED 0"],
    "client-address": ["CONNECT_RESPONSE 0", "DISCONNECTED 0"],
    "client-route": ["CONNECT_RESPONSE 0", "DISCONNECTED 0"],
    "server-listen": ["REJECTED 28"],
    "server-req-received": ["REJECTED 28"],
    "server-rep-sent": ["CONNECT_RESPONSE 0", "REJECTED 28"],
    "server-established": ["CONNECT_RESPONSE 0", "DISCONNECTED 0"],
    "server-dreq-sent": ["CONNECT_RESPONSE 0", "DISCONNECTED 0"],
    "server-dreq-received": ["CONNECT_RESPONSE 0", "DISCONNECTED 0"],
    "server-timewait": ["CONNECT_RESPONSE 0", "DISCONNECTED 0", "TIMEWAIT_EXIT 0"],
    "server-sidr-req-received": ["UNREACHABLE 2"],
}


@pytest.mark.parametrize("pace", PACES)
def test_a_peer_that_dies_in_any_state_of_a_handshake_is_noticed(softband: Softband, c_programs: Path, pace: str) -> None:
    """18 pairs at once. The connection of rping beside them goes on."""
    program = c_programs / "cm_deaths"
    commands = [("a", str(program)), ("b", f"{program} a"), ("a", "rping -s -C 20 -p 9999"), ("b", "rping -c -v -C 20 -a a -p 9999")]
    outcome = softband.run("two-hosts", *commands, options=("--pace", pace, "--timeout", "60")).assert_ok()
    seen: list[dict[str, list[str]]] = []
    for name in ("a-0", "b-0"):
        events: dict[str, list[str]] = {}
        for line in outcome.program(name).splitlines():
            case, event = line.split(": ")
            if not event.endswith("_RESOLVED 0"):
                events.setdefault(case, []).append(event)
        seen.append(events)
    assert seen == [AFTER_DEATH, AFTER_DEATH_OF_SERVER]
    assert outcome.program("b-1").count("ping data: rdma-ping-") == 20


@pytest.mark.skipif(not which("fio"), reason="no fio")
def test_fio_writes_to_a_peer_s_memory(softband: Softband) -> None:
    job = "--ioengine=rdma --port=7500 --bs=4k --size=256k --iodepth=4 --thread"
    outcome = run(softband, "wall", f"fio --name=s {job} --rw=read", f"fio --name=c {job} --rw=write --hostname=a --verb=write").assert_ok()
    assert "issued rwts: total=0,64,0,0" in outcome.program("b-0")


UCX_EXAMPLES = Path("/usr/share/doc/libucx-dev/examples")


@pytest.fixture(scope="module")
def ucx_example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("ucx") / "ucp_client_server"
    command = ["cc", "-O1", "-w", f"-I{UCX_EXAMPLES}", "-o", str(program), str(UCX_EXAMPLES / "ucp_client_server.c"), "-lucp", "-lucs"]
    subprocess.run(command, check=True, timeout=60)
    return program


@pytest.mark.skipif(not UCX_EXAMPLES.is_dir(), reason="no examples of UCX")
@pytest.mark.parametrize("pace", PACES)
def test_ucx_connects_by_the_connection_manager(softband: Softband, ucx_example: Path, pace: str) -> None:
    """UCX's own example. Its server goes on until it is stopped."""
    settings = "UCX_SOCKADDR_TLS_PRIORITY=rdmacm UCX_TLS=rc,ud"
    # Another transport would need `tcp` in UCX_TLS.
    done = softband.folder / "done"
    server = until_done(f"env {settings} {ucx_example} -c tag", done)
    client = f"env UCX_LOG_LEVEL=debug {settings} {ucx_example} -c tag -a 198.18.0.1; touch {done}"
    outcome = softband.run("modern-pair", ("a", server), ("b", client), options=("--pace", pace, "--timeout", "60"))
    assert "created an endpoint on rdmacm" in outcome.program("b-0")
    assert "Client: iteration #1" in outcome.program("b-0")
