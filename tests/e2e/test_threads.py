"""Several engine threads share a fabric: their number does not change the results."""

from __future__ import annotations

import subprocess

import pytest
from conftest import FABRICS, Softband

FILES = ("model.json", "flows.csv", "ports.csv")
TRACE = """num_ranks 5
rank 0 {
l1: send 70000b to 4 tag 5
l2: recv 9b from 3 tag 1
l3: send 1b to 1 tag 2
l3 requires l2
}
rank 1 {
l1: recv 1b from 0 tag 2
l2: calc 700
l2 requires l1
l3: send 300000b to 4 tag 7
l3 requires l2
}
rank 2 { }
rank 3 {
l1: calc 1500
l2: send 9b to 0 tag 1
l2 requires l1
}
rank 4 {
l1: recv 70000b from 0 tag 5
l2: recv 300000b from 1 tag 7
}
"""


def results(softband: Softband, threads: int, *words: str) -> dict[str, bytes]:
    out = f"out-{threads}"
    done = softband.command("model", *words, "--threads", str(threads), "--out", out)
    assert done.returncode == 0, done.stderr
    # Threads beyond the number of hosts have no work.
    assert f"{threads} thread" in done.stdout or threads > 2
    return {path.name: path.read_bytes() for path in (softband.folder / out).iterdir()}


@pytest.mark.parametrize(
    ("fabric", "workload", "options"),
    [
        ("fat-tree-16", "permutation", ("--bytes", "300KiB", "--messages", "4")),
        ("fat-tree-16", "all-to-all", ("--bytes", "20KiB")),
        ("fat-tree-16", "incast", ("--bytes", "100KiB", "--messages", "3")),
        ("torus-4x4", "uniform-random", ("--messages", "12", "--seed", "5")),
        ("torus-4x4", "ring-allreduce", ("--bytes", "128KiB", "--repeat", "2")),
        ("torus-4x4", "tree-allreduce", ("--operation", "write")),
        ("three-hosts", "broadcast", ("--ranks-per-host", "2")),
        ("roce-100g", "permutation", ("--bytes", "256KiB")),
    ],
)
def test_results_are_the_same_on_one_two_and_four_threads(
    softband: Softband, fabric: str, workload: str, options: tuple[str, ...]
) -> None:
    one, two, four = (results(softband, threads, str(FABRICS / f"{fabric}.toml"), workload, *options) for threads in (1, 2, 4))
    assert set(FILES) <= set(one)
    assert one == two
    assert one == four


def test_a_large_fabric_is_the_same_on_any_number_of_threads(softband: Softband) -> None:
    # A thread runs many nodes one by one within a window. It does not do so for few nodes.
    assert softband.command("fabric", "generate", "fat-tree", "--ports", "8", "--levels", "3", "--out", "large.toml").returncode == 0
    for workload, options in (("permutation", ("--bytes", "200KiB", "--messages", "2")), ("uniform-random", ("--messages", "4"))):
        one, two, four = (results(softband, threads, "large.toml", workload, *options) for threads in (1, 2, 4))
        assert one == two == four


def test_a_trace_is_the_same_on_any_number_of_threads(softband: Softband) -> None:
    (softband.folder / "trace.goal").write_text(TRACE)
    words = (str(FABRICS / "fat-tree-16.toml"), "trace.goal", "--ranks-per-host", "1")
    one, two, four = (results(softband, threads, *words) for threads in (1, 2, 4))
    assert one == two == four
    assert len(one["flows.csv"].splitlines()) == 1 + 4


def two_ethernet_switches() -> str:
    """Returns two switches with three hosts each. Eight priorities let two frames cause a pause."""
    text = '[fabric]\ntitle = "pauses"\n[ethernet]\nmtu = 4200\nflow_control = "pfc"\npriorities = 8\n[switches.sw1]\npart = "sn2700"\n'
    text += '[switches.sw2]\npart = "sn2700"\n'
    ends = [("sw1/9", "sw2/9")]
    for number, host in enumerate("abcdef"):
        text += f'[hosts.{host}]\npart = "xeon-e5-2600-v4"\n'
        text += f'[[hosts.{host}.hcas]]\ndevice = "mlx5_0"\npart = "connectx5"\nlink_layer = "ethernet"\n'
        ends.append((f"{host}/mlx5_0/1", f"sw{1 + number // 3}/{1 + number % 3}"))
    cable = '[[cables]]\npart = "ethernet-copper"\nlength = "1 m"\nfrom = "{}"\nto = "{}"\n'
    return text + "".join(cable.format(*pair) for pair in ends)


def test_pauses_still_on_their_way_count_the_same_whichever_part_was_done_first(softband: Softband) -> None:
    (softband.folder / "pauses.toml").write_text(two_ethernet_switches())
    receives = "l1: recv 4096b from 1 tag 5\nl2: recv 4096b from 2 tag 5"
    steps = [receives, "l1: send 4096b to 0 tag 5", "l1: send 4096b to 0 tag 5", "l1: send 1000000b to 4 tag 5", "l1: recv 1000000b from 3 tag 5"]
    blocks = [f"rank {rank} {{\n{text}\n}}\n" for rank, text in enumerate(steps)]
    (softband.folder / "pauses.goal").write_text("num_ranks 5\n" + "".join(blocks))
    one, two, three = (results(softband, threads, "pauses.toml", "pauses.goal") for threads in (1, 2, 3))
    assert b'"pause_frames_received": 2' in one["model.json"]
    assert one == two == three


def test_a_deadlock_across_parts_is_the_same_deadlock(softband: Softband) -> None:
    words = ("model", str(FABRICS / "ring-of-five.toml"), "all-to-all", "--out", "out")
    (one, left), (two, left_by_two), (four, left_by_four) = (ended(softband, threads, *words) for threads in (1, 2, 4))
    assert one.returncode == two.returncode == four.returncode == 2
    assert "waits for credits of" in one.stderr
    assert one.stderr == two.stderr == four.stderr
    assert left == left_by_two == left_by_four


def ended(softband: Softband, threads: int, *words: str) -> tuple[subprocess.CompletedProcess[str], list[bytes]]:
    """Runs a command that fails before its end, and returns its output and result files."""
    done = softband.command(*words, "--threads", str(threads))
    return done, [(softband.folder / "out" / name).read_bytes() for name in FILES]


def two_rings() -> str:
    """Returns two equal rings of five switches, without lifetime limits.

       The first hosts are on the last switches.
       """
    text = '[fabric]\n[subnet]\nhead_of_queue_lifetime = 20\npacket_life_time = 20\n'
    for host in range(10):
        text += f'[hosts.h{host}]\npart = "se7520jr23d"\n[[hosts.h{host}.hcas]]\ndevice = "mthca0"\npart = "voltaire-ddr"\n'
    text += "".join(f'[switches.s{switch}]\npart = "flextronics-f-x430046"\n' for switch in range(10))
    ends = [(f"h{host}/mthca0/1", f"s{(host + 5) % 10}/1") for host in range(10)] + [("s0/4", "s5/4")]
    ends += [(f"s{ring + place}/2", f"s{ring + (place + 1) % 5}/3") for ring in (0, 5) for place in range(5)]
    return text + "".join(f'[[cables]]\npart = "copper-4x"\nlength = "3 m"\nfrom = "{near}"\nto = "{far}"\n' for near, far in ends)


def test_of_two_deadlocks_at_one_instant_the_same_one_is_told(softband: Softband) -> None:
    (softband.folder / "rings.toml").write_text(two_rings())
    # Each host sends to the second next host of its ring.
    text = "num_ranks 10\n"
    for rank in range(10):
        ring, place = rank // 5 * 5, rank % 5
        to, source = ring + (place + 2) % 5, ring + (place + 3) % 5
        lines = [f"s{tag}: send 1000000b to {to} tag {tag}\nr{tag}: recv 1000000b from {source} tag {tag}\n" for tag in range(16)]
        text += f"rank {rank} {{\n{''.join(lines)}}}\n"
    (softband.folder / "rings.goal").write_text(text)
    words = ("model", "rings.toml", "rings.goal", "--out", "out")
    (one, left), (two, left_by_two), (four, left_by_four) = (ended(softband, threads, *words) for threads in (1, 2, 4))
    assert one.returncode == two.returncode == four.returncode == 2
    assert "s0/2 waits for credits of" in one.stderr
    assert one.stderr == two.stderr == four.stderr
    assert left == left_by_two == left_by_four


def test_ranks_that_wait_for_each_other_are_named_whichever_part_they_are_in(softband: Softband) -> None:
    # The first message matches l0, which no step requires. Only the run shows that.
    steps = "l0: recv 8b from {before}\nl1: recv 8b from {before}\nl2: send 8b to {after}\nl2 requires l1\nl3: send 8b to {after}\n"
    blocks = (f"rank {rank} {{\n{steps.format(before=(rank - 1) % 10, after=(rank + 1) % 10)}}}\n" for rank in range(10))
    (softband.folder / "circle.goal").write_text("num_ranks 10\n" + "".join(blocks))
    words = ("model", str(FABRICS / "fat-tree-16.toml"), "circle.goal", "--out", "out")
    one, two, four = (softband.command(*words, "--threads", str(threads)) for threads in (1, 2, 4))
    assert "rank 0 (host h0) for a message from rank 9, tag 0 (circle.goal:4, l1)" in one.stderr
    assert "and 2 more" in one.stderr
    assert one.stderr == two.stderr == four.stderr
