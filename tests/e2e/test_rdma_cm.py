"""The connection manager of the kernel (rdma_cm): Debian's librdmacm and programs on top of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Outcome, Softband, table

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
    # In wall pace the counters hold no data.
    assert pace == "wall" or words * 4 > 1_000_000


def test_two_runs_in_simulated_time_are_equal(softband: Softband, c_programs: Path) -> None:
    first, second = [run(softband, "virtual", "ib_send_bw -R -n 100", "ib_send_bw -R -n 100 a").assert_ok() for _ in range(2)]
    assert all(first.program(name) == second.program(name) for name in ("a-0", "b-0"))
    program = c_programs / "rdma_cm"
    first, second = [run(softband, "virtual", f"{program} listen-hold", f"{program} connect a").assert_ok() for _ in range(2)]
    assert first.report()["virtual_seconds"] == second.report()["virtual_seconds"]
    assert all(first.program(name) == second.program(name) for name in ("a-0", "b-0"))


def test_a_multicast_join_fails_in_order(softband: Softband) -> None:
    outcome = softband.run("two-hosts", ("a", "mckey -m 239.0.0.1"))
    assert outcome.out is not None
    errors = (outcome.out / "a-0.err").read_text()
    assert errors.count("softband: rdma_cm joins no multicast groups here (EOPNOTSUPP)") == 1
    assert "failure joining: Operation not supported" in errors


def test_the_class_states_the_version(softband: Softband) -> None:
    outcome = softband.run("two-hosts", ("a", "sh -c 'cat /sys/class/misc/rdma_cm/abi_version; ls /dev/infiniband'")).assert_ok()
    assert outcome.program("a-0").splitlines()[0] == "4"
    assert "rdma_cm" in outcome.program("a-0")
