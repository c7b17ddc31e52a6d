"""Virtual lanes with weights: programs on two service levels share a cable."""

from __future__ import annotations

import csv
import filecmp
import json
from pathlib import Path

import pytest
from conftest import FABRICS, Softband, table

WEIGHTED = (FABRICS / "two-lanes-weighted.toml").read_text()
LOW = 'qos_vlarb_low = "0:64,1:192"'
# The rate of 4X DDR, in MB/s. Headers take some of it.
LINK = 2000


def fabric(softband: Softband, change: tuple[str, str] = ("", "")) -> Path:
    """Writes the example with one text replaced."""
    old, new = change
    assert old in WEIGHTED
    file = softband.folder / "weighted.toml"
    file.write_text(WEIGHTED.replace(old, new, 1) if old else WEIGHTED)
    return file


def rates(softband: Softband, file: Path, levels: tuple[int, int], counts: tuple[int, int], senders: str = "ab") -> tuple[float, float]:
    """Returns the MB/s of two streams to hosts c and d, each on its own service level."""
    on = []
    for index, (receiver, level, count) in enumerate(zip("cd", levels, counts, strict=True)):
        program = f"ib_write_bw -F --report_gbits -s 65536 -S {level} -n {count} -p {18515 + index}"
        on += [(receiver, program), (senders[index], f"{program} {receiver}")]
    outcome = softband.run(file, *on).assert_ok()
    clients = [name.name for name in sorted((outcome.out or Path()).glob("*.out")) if name.name[0] in senders]
    assert len(clients) == 2, clients
    one, two = (table(outcome.program(name.removesuffix(".out")))[0][3] * 1000 / 8 for name in clients)
    return one, two


@pytest.mark.parametrize("senders", ["ab", "aa"])
def test_streams_of_two_levels_share_a_link_in_the_ratio_of_their_weights(softband: Softband, senders: str) -> None:
    # The numbers of messages have the same ratio, so that both streams last equally long.
    one, two = rates(softband, fabric(softband), (0, 1), (1000, 3000), senders)
    assert two / one == pytest.approx(3, rel=0.02)
    assert 0.95 * LINK < one + two < LINK


def test_weights_can_be_turned_round_and_left_out(softband: Softband) -> None:
    turned = fabric(softband, (LOW, 'qos_vlarb_low = "0:192,1:64"'))
    one, two = rates(softband, turned, (0, 1), (3000, 1000))
    assert one / two == pytest.approx(3, rel=0.02)
    one, two = rates(softband, fabric(softband, ("qos = true", "qos = false")), (0, 1), (2000, 2000))
    assert one / two == pytest.approx(1, rel=0.02)


def test_a_service_level_goes_by_the_lane_of_the_map(softband: Softband) -> None:
    one, two = rates(softband, fabric(softband), (6, 9), (1000, 3000))
    assert two / one == pytest.approx(3, rel=0.02)
    one, two = rates(softband, fabric(softband), (2, 4), (2000, 2000))
    assert one / two == pytest.approx(1, rel=0.02)


def test_high_priority_takes_all_but_the_other_table_gets_a_packet_after_each_limit(softband: Softband) -> None:
    tables = 'qos_vlarb_high = "1:64"\nqos_vlarb_low = "0:64"'
    text = WEIGHTED.replace(LOW, "").replace('qos_vlarb_high = ""', tables).replace("qos_high_limit = 0", "qos_high_limit = {}")
    file = softband.folder / "priority.toml"
    # 255 means no limit. The low table sends only after the stream of the high table has ended.
    file.write_text(text.format(255).replace("             # no lane has priority", ""))
    one, two = rates(softband, file, (0, 1), (1000, 3000))
    assert two > 0.95 * LINK and one == pytest.approx(two / 4, rel=0.1)


def test_weighted_and_controlled_runs_leave_the_same_files_with_any_number_of_threads(softband: Softband) -> None:
    # Every workload on a torus uses several lanes.
    low = ",".join(f"{lane}:{32 * (lane + 1)}" for lane in range(7))
    text = (FABRICS / "torus-4x4.toml").read_text()
    assert "[subnet]" not in text
    control = "[subnet.congestion_control]\nthreshold = 8\n"
    file = softband.folder / "torus.toml"
    file.write_text(f'{text}\n[subnet]\nqos = true\nqos_high_limit = 2\nqos_vlarb_high = "1:32"\nqos_vlarb_low = "{low},7:1"\n{control}')
    for threads in ("1", "2", "4"):
        out = softband.folder / f"threads-{threads}"
        done = softband.command("model", str(file), "all-to-all", "--threads", threads, "--out", str(out))
        assert done.returncode == 0, done.stderr
    for name in ("flows.csv", "ports.csv"):
        for threads in ("2", "4"):
            assert filecmp.cmp(softband.folder / "threads-1" / name, softband.folder / f"threads-{threads}" / name, shallow=False)
    # Without the tables the results differ.
    file.write_text(file.read_text().replace("qos = true", "qos = false"))
    turns = softband.folder / "turns"
    assert softband.command("model", str(file), "all-to-all", "--out", str(turns)).returncode == 0
    assert (turns / "flows.csv").read_text() != (softband.folder / "threads-1" / "flows.csv").read_text()


def stalls(softband: Softband, *options: str) -> set[str]:
    """Returns the lanes on which packets waited, as column names of ports.csv."""
    out = softband.folder / f"levels-{len(list(softband.folder.iterdir()))}"
    done = softband.command("model", str(fabric(softband)), *options, "--out", str(out))
    assert done.returncode == 0, done.stderr
    ports = list(csv.DictReader((out / "ports.csv").read_text().splitlines()))
    return {key for port in ports for key in port if key.startswith("credit_stall_vl") and int(port[key]) > 0}


def test_a_workload_selects_its_service_level(softband: Softband) -> None:
    assert stalls(softband, "incast") == {"credit_stall_vl0_ps"}
    (softband.folder / "level.toml").write_text('workload = "incast"\nservice_level = 3\n')
    receives = "".join(f"r{rank}: recv 1000000b from {rank}\n" for rank in (0, 1))
    sends = "".join(f"rank {rank} {{\ns: send 1000000b to 2\n}}\n" for rank in (0, 1))
    (softband.folder / "ping.goal").write_text(f"num_ranks 4\n{sends}rank 2 {{\n{receives}}}\nrank 3 {{\n}}\n")
    for options in (("incast", "--service-level", "1"), ("level.toml",), ("ping.goal", "--service-level", "1")):
        assert stalls(softband, *options) == {"credit_stall_vl1_ps"}, options
    # The command line overrides the file.
    assert stalls(softband, "level.toml", "--service-level", "2") == {"credit_stall_vl0_ps"}


def test_a_service_level_that_cannot_be_kept_is_refused(softband: Softband) -> None:
    (softband.folder / "high.toml").write_text('workload = "incast"\nservice_level = 16\n')
    for words, said in (
        (("torus-4x4", "incast", "--service-level", "1"), "service_level cannot be kept: routing torus sets it by path"),
        (("three-hosts", "incast", "--service-level", "16"), "16 is out of range\n  help: write 0 to 15"),
        (("three-hosts", "high.toml"), "high.toml:2: error: service_level = 16 is out of range: from 0 to 15"),
    ):
        done = softband.command("model", *words)
        assert done.returncode != 0 and said in done.stderr, done.stderr


def test_a_level_that_no_table_lists_is_a_warning(softband: Softband) -> None:
    file = fabric(softband, (LOW, 'qos_vlarb_low = "0:64"'))
    done = softband.command("fabric", "check", str(file))
    assert done.returncode == 0
    assert "weighted.toml:13:1: warning: ports of HCAs never send packets of service level 1, 3, 5, 7, 9, 11, 13, 15" in done.stderr


def test_a_stream_on_a_level_that_no_table_lists_ends_with_an_error(softband: Softband) -> None:
    file = fabric(softband, (LOW, 'qos_vlarb_low = "0:64"'))
    outcome = softband.run(file, ("c", "ib_write_bw -F -S 1 -n 100"), ("a", "ib_write_bw -F -S 1 -n 100 c"))
    assert outcome.status != 0 and outcome.out is not None
    assert "Failed status 12" in outcome.program("a-0") + outcome.stderr + (outcome.out / "a-0.err").read_text()
    ports = json.loads((outcome.out / "counters.json").read_text())["ports"]
    assert sum(port["port_xmit_discards"] for port in ports) > 0


def test_wrong_tables_are_named_by_line(softband: Softband) -> None:
    for change, said in (
        ((LOW, 'qos_vlarb_low = "0:256"'), "weighted.toml:13:17: error: `qos_vlarb_low` has no line `0:256`"),
        (("qos_high_limit = 0", "qos_high_limit = -1"), "weighted.toml:11:18: error: `qos_high_limit` cannot be -1"),
        (("qos = true\n", ""), "weighted.toml:10:1: error: `qos_high_limit` has no effect without `qos`"),
        (("[subnet]", '[subnet]\nrouting = "dragonfly"'), "error: `qos_sl2vl` cannot be kept: routing `dragonfly` chooses lanes by path"),
    ):
        done = softband.command("fabric", "check", str(fabric(softband, change)))
        assert done.returncode != 0 and said in done.stderr, done.stderr


def test_tables_are_in_the_fabric_that_a_run_leaves(softband: Softband) -> None:
    outcome = softband.run(fabric(softband), ("a", "true")).assert_ok()
    assert outcome.out is not None
    resolved = outcome.out / "fabric.toml"
    assert 'qos_swe_vlarb_low = "0:64,1:192"' in resolved.read_text()
    assert json.loads((outcome.out / "run.json").read_text())["failure"] is None
