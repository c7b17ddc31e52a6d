"""The connection manager of the kernel (rdma_cm): Debian's librdmacm and programs on top of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import FABRICS, Outcome, Softband, table

PACES = ["virtual", "wall"]


def run(softband: Softband, pace: str, server: str, client: str) -> Outcome:
    return softband.run("two-hosts", ("a", server), ("b", client), options=("--pace", pace, "--timeout", "60"))


def events(outcome: Outcome, name: str) -> list[str]:
    return [line.removeprefix("RDMA_CM_EVENT_") for line in outcome.program(name).splitlines()]


@pytest.mark.parametrize("pace", PACES)
def test_rping_pings(softband: Softband, pace: str) -> None:
    outcome = run(softband, pace, "rping -s -v -C 5", "rping -c -v -C 5 -a a").assert_ok()
    assert outcome.program("b-0").count("ping data: rdma-ping-") == 5
    assert outcome.program("a-0").count("server ping data: rdma-ping-") == 5


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


@pytest.mark.skipif(not shutil.which("saquery"), reason="no infiniband-diags")
@pytest.mark.parametrize("pace", PACES)
def test_saquery_shows_groups_and_nodes(softband: Softband, pace: str) -> None:
    """A member that is killed leaves its group."""
    ask = "saquery -g; saquery -m --smkey 1; saquery --list; saquery -s"
    command = f"mckey -m 239.0.0.1 -C 1 >/dev/null & member=$!; sleep 1; {ask}; kill -9 $member; sleep 1; saquery -g 2>&1; true"
    outcome = softband.run("qdr-through-switch", ("a", command), ("b", "sleep 3"), options=("--pace", pace, "--timeout", "60")).assert_ok()
    text = outcome.program("a-0")
    assert text.count("MCMemberRecord group dump") == 1 and text.count("MCMemberRecord member dump") == 1
    assert "Mlid....................0xC000" in text and "NodeDescription.........a mlx4_0" in text
    assert '1  "a mlx4_0"' in text and '2  "b mlx4_0"' in text
    assert text.count("IsSM") == 1
    assert "SA_ERR_NO_RECORDS" in text


def test_the_class_states_the_version(softband: Softband) -> None:
    outcome = softband.run("two-hosts", ("a", "sh -c 'cat /sys/class/misc/rdma_cm/abi_version; ls /dev/infiniband'")).assert_ok()
    assert outcome.program("a-0").splitlines()[0] == "4"
    assert "rdma_cm" in outcome.program("a-0")
