"""Congestion control with the settings, fabrics and traffic of docs/congestion-control.md."""

from __future__ import annotations

import csv
import itertools
from dataclasses import dataclass

import pytest
from conftest import Softband, table

RECOMMENDED = 'threshold = 8\nccti_timer = "38.912 us"\n'
BYTES = 65536
WINDOW = 16


@dataclass
class Sharing:
    """MB/s of each contributor to the hot receiver, of all of them together, and of the victim."""

    hot: list[float]
    total: float
    victim: float

    @property
    def ratio(self) -> float:
        return max(self.hot) / min(self.hot)


def fabric(places: dict[str, str], lanes: int, control: str) -> str:
    """Returns a fabric of QDR hosts, each on its given switch."""
    text = f'[fabric]\ntitle = "congestion"\n[subnet]\nmax_op_vls = {lanes}\n'
    text += f"[subnet.congestion_control]\n{control}" if control else ""
    for host in places:
        text += f'[hosts.{host}]\npart = "qdr-host"\n[[hosts.{host}.hcas]]\ndevice = "mlx4_0"\npart = "connectx2-qdr"\n'
    switches = sorted(set(places.values()))
    for switch in switches:
        text += f'[switches.{switch}]\npart = "infiniscale-iv"\n'
    cables = [(f"{host}/mlx4_0/1", f"{switch}/{index + 1}") for index, (host, switch) in enumerate(places.items())]
    cables += [(f"{one}/36", f"{other}/36") for one, other in itertools.pairwise(switches)]
    for one, other in cables:
        text += f'[[cables]]\npart = "copper-4x"\nlength = "1 m"\nfrom = "{one}"\nto = "{other}"\n'
    return text


def trace(hosts: list[str], flows: list[tuple[str, str]], count: int) -> str:
    """Returns a trace in which each flow sends `count` messages, several of them outstanding."""
    steps: dict[str, list[str]] = {host: [] for host in hosts}
    for flow, (source, target) in enumerate(flows):
        for index in range(count):
            send, receive = f"s{flow}x{index}", f"r{flow}x{index}"
            steps[source].append(f"{send}: send {BYTES}b to {hosts.index(target)} tag {flow}")
            steps[target].append(f"{receive}: recv {BYTES}b from {hosts.index(source)} tag {flow}")
            if index >= WINDOW:
                steps[source].append(f"{send} requires s{flow}x{index - WINDOW}")
            if index:
                steps[target].append(f"{receive} requires r{flow}x{index - 1}")
    blocks = [f"rank {rank} {{\n" + "\n".join(steps[host]) + "\n}\n" for rank, host in enumerate(hosts)]
    return f"num_ranks {len(hosts)}\n" + "".join(blocks)


def share(
    softband: Softband, places: dict[str, str], contributors: str, victim: str, lanes: int, control: str, count: int = 1000
) -> Sharing:
    """Runs the flows: contributors send to host hot. The optional victim sends to host quiet."""
    hosts = list(places)
    flows = [(source, "hot") for source in contributors.split()] + ([(victim, "quiet")] if victim else [])
    (softband.folder / "fabric.toml").write_text(fabric(places, lanes, control))
    (softband.folder / "flows.goal").write_text(trace(hosts, flows, count))
    done = softband.command("model", "fabric.toml", "flows.goal", "--out", "out")
    assert done.returncode == 0, done.stderr
    with (softband.folder / "out" / "flows.csv").open() as file:
        rows = list(csv.DictReader(file))
    rates = {row["to_host"]: [] for row in rows}
    for row in rows:
        rates[row["to_host"]].append(float(row["bytes_per_second"]) / 1e6)
    last = max(int(row["ended_ps"]) for row in rows if row["to_host"] == "hot")
    total = len(rates["hot"]) * count * BYTES / (last / 1e12) / 1e6
    return Sharing(rates["hot"], total, sum(rates.get("quiet", [0.0])))


ONE = dict.fromkeys(["a", "b", "c", "d", "hot", "quiet"], "s")
TWO = dict.fromkeys(["a", "b", "v"], "s1") | dict.fromkeys(["c", "d", "hot", "quiet"], "s2")
MANY = dict.fromkeys([*(f"h{index}" for index in range(16)), "hot", "quiet"], "s")


@pytest.mark.parametrize("lanes", [1, 3, 5])
def test_four_contributors_share_a_receiver_and_leave_victims_alone(softband: Softband, lanes: int) -> None:
    for places, victim, most in ((ONE, "a", 1.1), (TWO, "v", 1.2)):
        without = share(softband, places, "a b c d", victim, lanes, "")
        controlled = share(softband, places, "a b c d", victim, lanes, RECOMMENDED)
        assert controlled.ratio < most, controlled
        assert controlled.total > 0.9 * 3300, controlled
        assert controlled.victim > 1.7 * without.victim, (without, controlled)


def test_sixteen_contributors_share_a_receiver(softband: Softband) -> None:
    controlled = share(softband, MANY, " ".join(f"h{index}" for index in range(16)), "h0", 5, RECOMMENDED, 250)
    assert controlled.ratio < 1.1 and controlled.total > 0.9 * 3300 and controlled.victim > 1500, controlled


def test_threshold_8_starves_no_contributor_with_the_other_settings_of_the_file(softband: Softband) -> None:
    controlled = share(softband, ONE, "a b c d", "a", 5, "threshold = 8\n")
    assert controlled.ratio < 1.3 and controlled.total > 0.85 * 3300, controlled


def test_four_programs_share_a_receiver(softband: Softband) -> None:
    for control, most in (("threshold = 8\n", 1.1), (RECOMMENDED, 1.05)):
        file = softband.folder / "programs.toml"
        file.write_text(fabric(ONE, 5, control))
        on = []
        for index, host in enumerate("abcd"):
            program = f"ib_write_bw -F -D 1 -s {BYTES} -p {18515 + index}"
            on += [("hot", program), (host, f"{program} hot")]
        outcome = softband.run(file, *on).assert_ok()
        rates = [table(outcome.program(f"{host}-0"))[0][3] for host in "abcd"]
        assert max(rates) / min(rates) < most, rates
        assert sum(rates) > 0.85 * 3148, rates


def test_a_lone_flow_keeps_its_bandwidth_on_eight_lanes(softband: Softband) -> None:
    assert share(softband, ONE, "a", "", 5, RECOMMENDED).total > 0.99 * 3300
