"""Faults under unmodified programs: down links, noisy cables, lost packets, dead nodes."""

from __future__ import annotations

import itertools
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import FABRICS, WAIT_SECONDS, Fabrics, Outcome, Softband, line_of, until

PAIR = (FABRICS / "default.toml").read_text()


def with_faults(softband: Softband, *faults: str, fabric: str = PAIR) -> Path:
    """Writes a fabric file with faults, each given as lines."""
    file = softband.folder / "faulty.toml"
    file.write_text(fabric + "".join(f"\n[[faults]]\n{fault}\n" for fault in faults))
    return file


def at(milliseconds: float, kind: str, what: str) -> str:
    return f'at = "{milliseconds} ms"\nkind = "{kind}"\n{what}'


def down(milliseconds: float, link: str = "b/mlx5_0/1") -> str:
    return at(milliseconds, "link_down", f'link = "{link}"')


def up(milliseconds: float, link: str = "b/mlx5_0/1") -> str:
    return at(milliseconds, "link_up", f'link = "{link}"')


def ports(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """Returns the counters of each port, by the name of the port."""
    assert outcome.out is not None
    counters = json.loads((outcome.out / "counters.json").read_text())
    return {f"{port['node']}/{port['port']}": port for port in counters["ports"]}


def microseconds(text: str) -> float:
    """Returns the time of one iteration of a pingpong, in microseconds."""
    found = re.search(r"([0-9.]+) usec/iter", text)
    assert found, text
    return float(found[1])


def has_exceeded_retries(text: str) -> bool:
    """Recognizes exceeded retries in the words of perftest and of the libibverbs examples."""
    return "Failed status 12" in text or "Failed status transport retry counter exceeded" in text


# The client sleeps first, then writes for a quarter of a second, from 1.02 s on. The server only
# waits for the end of their TCP connection.
WRITES = "ib_write_bw -s 65536 -n 200000"
PINGPONG = "ibv_rc_pingpong -n 2000 -s 8192 -c"


def test_a_pingpong_recovers_from_a_link_that_was_down(softband: Softband) -> None:
    untroubled = softband.pair("default", PINGPONG).assert_ok()
    troubled = softband.pair(with_faults(softband, down(3), up(4)), PINGPONG).assert_ok()
    assert "invalid data" not in troubled.program("a-0") + troubled.program("b-0")
    # The pingpong waits for the local ACK timeout once: 67 ms, or longer on some HCA parts.
    more = (microseconds(troubled.program("b-0")) - microseconds(untroubled.program("b-0"))) * 2000
    assert 60_000 < more < 1_000_000, more
    assert ports(troubled)["b/mlx5_0/1"]["link_downed"] == ports(troubled)["sw/2"]["link_downed"] == 1
    assert ports(troubled)["a/mlx5_0/1"]["link_downed"] == 0
    assert "link_downed" not in ports(untroubled)["b/mlx5_0/1"]


def test_a_link_that_stays_down_ends_in_retry_exceeded(softband: Softband) -> None:
    outcome = softband.pair(with_faults(softband, down(1100)), WRITES)
    assert outcome.status != 0
    assert has_exceeded_retries(outcome.stdout + outcome.stderr)


def test_perftest_gets_through_a_noisy_cable_and_the_errors_are_counted(softband: Softband) -> None:
    noisy = with_faults(softband, 'kind = "bit_errors"\nlink = "a/mlx5_0/1"\nrate = 1e-7')
    outcome = softband.pair(noisy, "ib_write_bw -s 65536 -n 200").assert_ok()
    # The cable corrupts a 4 KiB packet with a probability of 0.3 %. The run has 3,200 packets and
    # their retransmissions.
    errors = ports(outcome)["a/mlx5_0/1"]
    assert 2 <= errors["port_rcv_errors"] <= 60 and errors["symbol_error"] >= errors["port_rcv_errors"]
    assert ports(outcome)["sw/2"]["port_rcv_errors"] == 0, "its cable has no errors"


def test_a_lost_acknowledgement_costs_a_timeout_and_a_lost_datagram_is_lost(softband: Softband) -> None:
    lost = with_faults(softband, 'kind = "drop"\nport = "a/mlx5_0/1"\npacket = "ack"\nnumber = 5')
    outcome = softband.pair(lost, PINGPONG).assert_ok()
    assert ports(outcome)["sw/1"]["port_rcv_errors"] == 1 and ports(outcome)["b/mlx5_0/1"]["port_rcv_errors"] == 0
    unreliable = with_faults(softband, 'kind = "drop"\nport = "a/mlx5_0/1"\npacket = "datagram"\nnumber = 5')
    done = softband.pair(unreliable, "timeout 2 ibv_ud_pingpong -n 100")
    assert done.status != 0, "the program did not wait for the lost datagram"


def test_a_run_with_faults_is_the_same_twice(softband: Softband) -> None:
    faults = with_faults(softband, down(3), up(3.5), 'kind = "bit_errors"\nlink = "sw/1"\nrate = 1e-7')
    runs = [softband.pair(faults, PINGPONG).assert_ok() for _ in range(2)]
    assert runs[0].program("a-0") == runs[1].program("a-0") and runs[0].program("b-0") == runs[1].program("b-0")
    assert ports(runs[0]) == ports(runs[1])
    assert ports(runs[0])["a/mlx5_0/1"]["port_rcv_errors"] > 0


def test_programs_hear_of_their_ports(softband: Softband, c_programs: Path) -> None:
    flaps = with_faults(softband, down(50), up(60), down(70), up(80))
    outcome = softband.run(flaps, ("b", f"{c_programs / 'port_events'} 2"), ("a", "sleep 0.1")).assert_ok()
    said = outcome.program("b-0").splitlines()
    assert said[0] == "the port is active" and said[-1] == "OK"
    times = [float(line.split()[-2]) for line in said[1:-1]]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(abs(gap - 0.01) < 1e-6 for gap in gaps) and len(gaps) == 3, said


def test_a_host_that_dies_takes_its_programs_along(softband: Softband) -> None:
    dies = at(1100, "host_dies", 'host = "b"')
    outcome = softband.run(with_faults(softband, dies), ("b", WRITES), ("a", f"{WRITES} b"))
    programs = {program["host"]: program for program in outcome.report()["programs"]}  # type: ignore[union-attr,index,call-overload]
    assert programs["b"]["exit_status"] == 137
    assert has_exceeded_retries(outcome.stdout + outcome.stderr)
    assert "host b died at 1.100000 s" in outcome.stderr


def test_a_switch_that_dies_takes_all_links_down(softband: Softband) -> None:
    outcome = softband.pair(with_faults(softband, at(1100, "switch_dies", 'switch = "sw"')), WRITES)
    assert has_exceeded_retries(outcome.stdout + outcome.stderr)
    assert all(port["link_downed"] == 1 for port in ports(outcome).values())


def test_a_workload_with_faults_is_the_same_on_any_number_of_threads(softband: Softband) -> None:
    faulty = with_faults(
        softband,
        'at = "20 us"\nkind = "link_down"\nlink = "c/mlx5_0/1"',
        'at = "60 us"\nkind = "link_up"\nlink = "c/mlx5_0/1"',
        'kind = "bit_errors"\nlink = "f/mlx5_0/1"\nrate = 1e-7',
        fabric=star("abcdefgh"),
    )
    left = []
    for threads in ("1", "2", "4"):
        out = softband.folder / f"model-{threads}"
        done = softband.command(
            "model", str(faulty), "all-to-all", "--bytes", "64KiB", "--threads", threads, "--out", str(out)
        )
        assert done.returncode == 0, done.stderr
        left.append([(out / name).read_bytes() for name in ("model.json", "ports.csv", "flows.csv")])
    assert left[0] == left[1] == left[2]
    assert b"link_downed" in left[0][1]


def star(hosts: str) -> str:
    """Returns the default fabric with other hosts on its switch, each a copy of host a."""
    head, _, rest = PAIR.partition("[hosts.a]")
    host, _, rest = rest.partition("[hosts.b]")
    switch = "[switches.sw]" + rest.partition("[switches.sw]")[2].partition("[[cables]]")[0]
    cable = '[[cables]]\npart = "direct-attach"\nlength = "1 m"\nfrom = "{}/mlx5_0/1"\nto = "sw/{}"\n'
    cables = "".join(cable.format(name, number + 1) for number, name in enumerate(hosts))
    return (
        head + "".join(f"[hosts.{name}]{host.replace('hosts.a', f'hosts.{name}')}" for name in hosts) + switch + cables
    )


def test_wall_pace_obeys_the_fabric_file(softband: Softband) -> None:
    noisy = with_faults(
        softband,
        'kind = "bit_errors"\nlink = "b/mlx5_0/1"\nrate = 1e-7',
        'kind = "drop"\nport = "a/mlx5_0/1"\nnumber = 40',
    )
    outcome = softband.pair(noisy, "ibv_rc_pingpong -n 1000 -s 8192 -c", options=("--pace", "wall")).assert_ok()
    errors = ports(outcome)
    assert errors["sw/1"]["port_rcv_errors"] == 1
    assert errors["b/mlx5_0/1"]["port_rcv_errors"] >= 1
    cut = softband.pair(with_faults(softband, down(6000)), "ib_write_bw -D 30", options=("--pace", "wall"))
    assert has_exceeded_retries(cut.stdout + cut.stderr)


def test_a_fabric_that_is_up_takes_faults_as_commands(fabrics: Fabrics, c_programs: Path) -> None:
    fabrics.up()

    def fault(*words: str) -> None:
        done = fabrics.command("fault", *words)
        assert done.returncode == 0, done.stderr

    def state() -> str:
        hosts = {host["name"]: host for host in fabrics.status()[0]["hosts"]}
        return str(hosts["b"]["devices"][0]["ports"][0]["state"])

    watcher = fabrics.on("b", str(c_programs / "port_events"))
    assert line_of(watcher) == "the port is active\n"
    server = fabrics.on("a", "ibv_rc_pingpong", "-n", "1000000")
    client = until(lambda: reached(fabrics))
    time.sleep(0.3)
    fault("link-down", "sw/2")
    assert line_of(watcher).startswith("the port is down")
    assert until(lambda: state() == "down")
    fault("link-up", "b/mlx5_0/1")
    assert line_of(watcher).startswith("the port is active")
    assert watcher.wait(WAIT_SECONDS) == 0
    assert state() == "active"
    assert client.wait(WAIT_SECONDS) == 0 and server.wait(WAIT_SECONDS) == 0, "the connection has recovered"
    # The command names each mistake and changes nothing.
    for words, answer in (
        (("link-down", "b/mlx5_0/9"), "no port `b/mlx5_0/9`"),
        (("host-dies", "c"), "no host `c`; the hosts are a, b"),
        (("bit-errors", "2", "sw/1"), "less than 1"),
        (("drop", "acks", "sw/1"), "the kinds of packets are any, send"),
    ):
        done = fabrics.command("fault", *words)
        assert done.returncode == 2 and answer in done.stderr, done.stderr
    assert state() == "active"


def reached(fabrics: Fabrics) -> Any:
    """Starts a pair and returns it when the client has found its server."""
    client = fabrics.on("b", "ibv_rc_pingpong", "-n", "1000000", "a")
    time.sleep(0.2)
    return client if client.poll() is None or client.returncode == 0 else None


def test_a_dead_host_of_a_fabric_that_is_up_ends_its_programs_and_its_peers_connections(fabrics: Fabrics) -> None:
    fabrics.up()
    server = fabrics.on("b", "ib_write_bw", "-D", "50")
    client = fabrics.on("a", "ib_write_bw", "-D", "50", "b")
    assert until(
        lambda: any(qp["state"] == "RTS" for program in fabrics.programs("a") for qp in program["queue_pairs"])
    )
    time.sleep(4)  # the client sleeps for a second before it writes
    done = fabrics.command("fault", "host-dies", "b")
    assert done.returncode == 0, done.stderr
    assert server.wait(WAIT_SECONDS) == -9
    out, errors = client.communicate(timeout=WAIT_SECONDS)
    assert has_exceeded_retries(out + errors)
    refused = fabrics.command("exec", "b", "--", "true")
    assert refused.returncode == 2 and "the host has died" in refused.stderr
    again = fabrics.command("fault", "link-up", "sw/2")
    assert again.returncode == 2 and "cannot come up" in again.stderr


@pytest.mark.parametrize("example", sorted(file.stem for file in (FABRICS / "faults").glob("*.toml")))
def test_the_examples_are_fabrics_whose_faults_happen(softband: Softband, example: str) -> None:
    assert softband.command("fabric", "check", str(FABRICS / "faults" / f"{example}.toml")).returncode == 0
    outcome = softband.run(
        f"faults/{example}", ("a", "ib_write_bw -s 65536 -n 20000"), ("b", "ib_write_bw -s 65536 -n 20000 a")
    ).assert_ok()
    happened = [
        port["link_downed"] + port["link_error_recovery"] + port["port_rcv_errors"] for port in ports(outcome).values()
    ]
    assert sum(happened) > 0
