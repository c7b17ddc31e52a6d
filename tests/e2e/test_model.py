"""`softband model`: workloads replace programs on the same fabrics."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import FABRICS, Softband, table

TRACE = """num_ranks 2
rank 0 {
l1: calc 1000
l2: send 4096b to 1 tag 5
l2 requires l1
}
rank 1 {
l1: recv 4096b from 0 tag 5
}
"""
FILES = ("model.json", "flows.csv", "ports.csv", "flows.parquet", "ports.parquet", "hot.svg")


def model(softband: Softband, fabric: str, workload: str, *options: str, out: str = "out") -> dict[str, Any]:
    done = softband.command("model", str(FABRICS / f"{fabric}.toml"), workload, "--out", out, *options)
    assert done.returncode == 0, done.stderr
    loaded: dict[str, Any] = json.loads((softband.folder / out / "model.json").read_text())
    return {**loaded, "text": done.stdout}


def refusal(softband: Softband, *words: str) -> str:
    """Returns the error of a command. Fails if the command leaves a file."""
    done = softband.command("model", *words)
    assert done.returncode == 2
    assert not list(softband.folder.rglob("*.part"))
    assert not list(softband.folder.rglob("model.json"))
    assert not (softband.folder / "results").exists()
    return done.stderr


@pytest.mark.parametrize("fabric", ["default", "two-hosts", "ddr-through-switch"])
@pytest.mark.parametrize("size", [4096, 65536])
@pytest.mark.parametrize("operation", ["send", "write"])
def test_a_stream_is_as_fast_as_the_program_that_it_is_like(softband: Softband, fabric: str, size: int, operation: str) -> None:
    # The client is on b and sends.
    command = f"ib_{operation}_bw -s {size} -n 1000"
    run = softband.pair(fabric, command).assert_ok()
    messages_per_second = table(run.program("b-0"))[0][4] * 1e6
    result = model(softband, fabric, "stream", "--bytes", str(size), "--operation", operation, "--from", "b", "--to", "a")
    (flow,) = result["flows"]
    assert flow["messages"] == 1000
    assert flow["bytes_per_second"] / size == pytest.approx(messages_per_second, rel=1e-3)


def test_a_stream_with_the_mtu_that_perftest_takes_by_itself_is_as_fast(softband: Softband) -> None:
    run = softband.pair("accuracy/connectx3-qdr", "ib_write_bw -s 65536 -n 1000").assert_ok()
    assert "Mtu             : 2048[B]" in run.program("b-0")
    messages_per_second = table(run.program("b-0"))[0][4] * 1e6
    (softband.folder / "half.toml").write_text('workload = "stream"\nbytes = 65536\noperation = "write"\nmtu = 2048\n')
    for words in (("half.toml",), ("stream", "--bytes", "65536", "--operation", "write", "--mtu", "2048")):
        (flow,) = model(softband, "accuracy/connectx3-qdr", *words, "--from", "b", "--to", "a")["flows"]
        assert flow["bytes_per_second"] / 65536 == pytest.approx(messages_per_second, rel=1e-3)


def test_a_trace_has_the_mtu_of_the_command_line(softband: Softband) -> None:
    (softband.folder / "ping.goal").write_text(TRACE)
    # The packets and their acknowledgement both count.
    hops = [model(softband, "two-hosts", "ping.goal", "--mtu", mtu)["packet_hops"] for mtu in ("2048", "512")]
    assert hops[1] - hops[0] == 6


def test_an_incast_is_shared_evenly_and_its_port_is_named(softband: Softband) -> None:
    result = model(softband, "three-hosts", "incast", "--bytes", "256KiB", "--root", "c")
    first, second = (flow["bytes_per_second"] for flow in result["flows"])
    assert first == pytest.approx(second, rel=0.02)
    assert result["hot_ports"][0]["to"].startswith("c/")
    assert {port["port"].split("/")[0] for port in result["hot_ports"][0]["feeders"]} == {"a", "b"}
    for word in ("completion time", "packet-hops", "million/s", "MiB", "hottest ports"):
        assert word in result["text"]


def test_the_same_run_leaves_the_same_bytes(softband: Softband) -> None:
    for out in ("first", "second"):
        model(softband, "three-hosts", "uniform-random", "--seed", "3", out=out)
    model(softband, "three-hosts", "uniform-random", "--seed", "4", out="other")
    read = {out: [(softband.folder / out / name).read_bytes() for name in FILES] for out in ("first", "second", "other")}
    assert read["first"] == read["second"]
    assert read["first"][1] != read["other"][1]


def test_tables_have_a_line_for_each_flow_and_each_end_of_a_cable(softband: Softband) -> None:
    result = model(softband, "three-hosts", "all-to-all")
    flows = list(csv.DictReader((softband.folder / "out" / "flows.csv").open()))
    ports = list(csv.DictReader((softband.folder / "out" / "ports.csv").open()))
    assert len(flows) == 6 and len(ports) == 6
    assert sum(int(flow["bytes"]) for flow in flows) == 6 * 65536
    assert all(float(port["xmit_utilisation"]) <= 1 for port in ports)
    assert sum(int(port["port_xmit_pkts"]) for port in ports) == result["packet_hops"]


@pytest.mark.parametrize("fabric", ["three-hosts", "roce-100g"])
def test_parquet_has_what_the_csv_has(softband: Softband, fabric: str) -> None:
    model(softband, fabric, "permutation", "--bytes", "64KiB")
    for name in ("flows", "ports"):
        written = pl.read_parquet(softband.folder / "out" / f"{name}.parquet")
        assert written.height > 0
        assert written.equals(pl.read_csv(softband.folder / "out" / f"{name}.csv", schema=written.schema))


def test_a_check_runs_nothing(softband: Softband) -> None:
    done = softband.command("model", str(FABRICS / "three-hosts.toml"), "incast", "--check")
    assert (done.returncode, done.stdout) == (0, "")
    assert "has no effect on permutation" in refusal(softband, str(FABRICS / "three-hosts.toml"), "permutation", "--senders", "2", "--check")
    assert not (softband.folder / "results").exists()


def test_a_workload_file_has_the_same_keys_and_the_command_line_counts_first(softband: Softband) -> None:
    file = softband.folder / "many.toml"
    file.write_text('workload = "incast"\nbytes = "64 KiB"\nmessages = 2\nsenders = 1\n')
    result = model(softband, "three-hosts", str(file), "--senders", "2")
    assert [(flow["messages"], flow["bytes"]) for flow in result["flows"]] == [(2, 131072), (2, 131072)]


def test_a_small_message_is_not_behind_all_of_a_large_one(softband: Softband) -> None:
    made = softband.command("fabric", "generate", "star", "--hosts", "3", "--out", "star.toml")
    assert made.returncode == 0, made.stderr
    steps = "b: send 67108864b to 1 tag 1\nc: calc 50000\ns: send 8b to 2 tag 2\ns requires c"
    receives = "rank 1 {\nrecv 67108864b from 0 tag 1\n}\nrank 2 {\nrecv 8b from 0 tag 2\n}\n"
    (softband.folder / "bulk.goal").write_text(f"num_ranks 3\nrank 0 {{\n{steps}\n}}\n{receives}")
    done = softband.command("model", "star.toml", "bulk.goal", "--out", "out")
    assert done.returncode == 0, done.stderr
    flows = json.loads((softband.folder / "out" / "model.json").read_text())["flows"]
    (small,) = [flow["ended_picos"] - flow["begun_picos"] for flow in flows if flow["bytes"] == 8]
    (bulk,) = [flow["bytes_per_second"] for flow in flows if flow["bytes"] > 8]
    # Alone the small message takes 1.7 us. Here a few packets of 4 KiB precede it.
    # The link stays full.
    assert small < 3.5e6
    assert bulk > 49e9


def test_links_of_ethernet_carry_workloads_too(softband: Softband) -> None:
    result = model(softband, "roce-100g", "permutation", "--bytes", "64KiB")
    assert all(flow["bytes_per_second"] > 1e9 for flow in result["flows"])


def test_a_fabric_that_comes_to_a_deadlock_is_told_by_its_ports_and_leaves_what_it_did(softband: Softband) -> None:
    done = softband.command("model", str(FABRICS / "ring-of-five.toml"), "all-to-all", "--out", "out")
    assert done.returncode == 2
    assert "warning: credit loop: s1/2" in done.stderr
    assert "deadlock, broken up by lifetime limits: s1/2 waits for credits of s2/3" in done.stderr
    assert "its results until then are in out" in done.stderr
    result = json.loads((softband.folder / "out" / "model.json").read_text())
    assert "RetryExceeded" in result["ended_by"]
    # Only finished messages count, not those that a rank posted in vain.
    assert {flow["messages"] for flow in result["flows"]} == {0, 1}
    waits = {port["port"]: sum(port["credit_stall_picos"]) for port in result["ports"]}
    # The ports of the loop waited nearly all the time. An unfinished wait counts too.
    assert all(waits[f"s{switch}/2"] > 0.9 * result["completion_picos"] for switch in range(1, 6))
    assert "NOT done" in (softband.folder / "out" / "hot.svg").read_text()


def test_what_an_unfinished_run_did_takes_no_finished_ones_place(softband: Softband) -> None:
    model(softband, "ring-of-five", "stream")
    whole = (softband.folder / "out" / "model.json").read_bytes()
    words = ("model", str(FABRICS / "ring-of-five.toml"), "all-to-all", "--out", "out")
    for _ in range(2):
        done = softband.command(*words)
        assert done.returncode == 2
        assert "its results until then are in out-unfinished" in done.stderr
        assert (softband.folder / "out" / "model.json").read_bytes() == whole
    assert sorted(path.name for path in (softband.folder / "out-unfinished").iterdir()) == sorted(FILES)
    assert "its results until then are in out-unfinished" in softband.command(*words[:-1], "out/").stderr
    assert sorted(path.name for path in (softband.folder / "out").iterdir()) == sorted(FILES)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_an_interrupted_run_leaves_what_it_did(softband: Softband, threads: str) -> None:
    words = ("model", str(FABRICS / "fat-tree-16.toml"), "all-to-all", "--messages", "1000000", "--threads", threads, "--out", "out")
    with subprocess.Popen([str(softband.binary), *words], cwd=softband.folder, stderr=subprocess.PIPE, text=True) as run:
        time.sleep(2)
        run.send_signal(signal.SIGINT)
        errors = run.communicate(timeout=60)[1]
    assert run.returncode == 130
    assert "it was interrupted" in errors
    result = json.loads((softband.folder / "out" / "model.json").read_text())
    assert result["ended_by"] == "it was interrupted"
    assert sum(flow["bytes"] for flow in result["flows"]) > 0
    assert sorted(path.name for path in (softband.folder / "out").iterdir()) == sorted(FILES)


def test_a_trace_is_replayed(softband: Softband) -> None:
    (softband.folder / "ping.goal").write_text(TRACE)
    result = model(softband, "two-hosts", "ping.goal")
    assert [flow["bytes"] for flow in result["flows"]] == [4096]
    assert result["completion_picos"] > 1_000_000


def test_steps_of_a_trace_that_wait_for_ever_are_named_by_their_lines(softband: Softband) -> None:
    # The first message matches the first receive, whose end no step requires.
    # Only the run shows that.
    first = "q: recv 8b from 1 tag 3\nr: recv 8b from 1 tag 3\ns: send 8b to 1 tag 4\ns requires r"
    second = "recv 8b from 0 tag 4\nq: send 8b to 0 tag 3\nr: recv 8b from 0 tag 5\ns: send 8b to 0 tag 3\ns requires r"
    text = f"num_ranks 2\nrank 0 {{\n{first}\nt: send 8b to 1 tag 5\nt requires s\n}}\nrank 1 {{\n{second}\n}}\n"
    (softband.folder / "stuck.goal").write_text(text)
    done = softband.command("model", str(FABRICS / "two-hosts.toml"), "stuck.goal", "--out", "out")
    assert done.returncode == 2
    for wanted in ("rank 0 (host a) for a message from rank 1, tag 3 (stuck.goal:4, r)", "from rank 0, tag 4 (stuck.goal:11)"):
        assert wanted in done.stderr
        assert wanted in json.loads((softband.folder / "out" / "model.json").read_text())["ended_by"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("three-hosts", "incst"), "no workload incst"),
        (("three-hosts", "incast", "--root", "zz"), "no host zz"),
        (("three-hosts", "permutation", "--senders", "2"), "senders has no effect on permutation"),
        (("three-hosts", "incast", "--bytes", "4 parsecs"), "64KiB"),
        (("three-hosts", "incast", "--bytes", "0"), "bytes = 0 is out of range"),
        (("three-hosts", "incast", "--out", "/proc/nowhere"), "cannot write to the results folder"),
        (("no-such-fabric", "incast"), "no fabric file"),
        (("three-hosts", "keys.toml"), "keys.toml:2:1: error: unknown field `bits`, expected one of `workload`"),
        (("three-hosts", "cut.goal"), "cut.goal:4: error: the trace ends within rank 0"),
        (("two-hosts", "many.goal"), "the fabric places for 2"),
        (("two-hosts", "many.goal"), "help: --ranks-per-host 5"),
        (("three-hosts", "short.goal"), "short.goal:3: error: the trace ends, and rank 2 of num_ranks 3 has no block"),
        (("three-hosts", "binary.goal"), "binary.goal: error: the file is not text: only GOAL traces in text form are read"),
        (("two-hosts", "circle.goal", "--check"), "circle.goal:3: error: ranks wait for each other: r of rank 0 (line 3) receives from"),
        (("two-hosts", "circle.goal"), "s of rank 1 (line 8) requires r (line 7) receives from s of rank 0 (line 4) requires r of rank 0\n  help: let"),
        (("three-hosts", "hosts.toml"), "hosts.toml:2: error: root: there is no host zz"),
        (("three-hosts", "pattern.toml"), "pattern.toml:2: error: senders has no effect on permutation"),
        (("three-hosts", "incast", "--mtu", "1500"), "an MTU is 256, 512, 1024, 2048 or 4096 bytes"),
        (("three-hosts", "apples.toml"), "apples.toml:2: error: bytes: `5 apples` is not a size\n  help: write bytes (65536)"),
        (("three-hosts", "same.toml"), "same.toml:2: error: from and to are both b: a stream goes from one host to another"),
        (("three-hosts", "same.toml", "--from", "b"), "same.toml:3 with the options of the command line: to and from are both b"),
        (("one.toml", "permutation"), "a workload needs two ranks at least, and one.toml has 1 host with 1 rank\n  help: --ranks-per-host 2, or"),
        (("one.toml", "pair.toml"), "pair.toml: error: a workload needs two ranks at least, and one.toml has 1 host with 1 rank\n  help: --ranks-per-host 2, or"),
        (("three-hosts", "incast", "--out", "apples.toml"), "results folder apples.toml: apples.toml is a file\n  help: name a folder with --out, one"),
        (("three-hosts", "incast", "--out", "apples.toml/x"), "results folder apples.toml/x: apples.toml is a file\n  help: name a folder"),
        (("three-hosts", "odd.toml"), "odd.toml:2: error: mtu = 1500 is out of range: 256, 512, 1024, 2048 or 4096"),
        (("two-hosts", "stream", "--mtu", "4096"), "mtu = 4096 is more than the path between the hosts a and b carries, 2048\n  help: 2048 or less"),
        (("two-hosts", "large.toml", "--check"), "large.toml:3: error: mtu = 4096 is more than the path between the hosts a and b carries, 2048"),
        (("three-hosts", "pattern.toml", "--root", "zz"), "pattern.toml with the options of the command line: root: there is no host zz"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_written(softband: Softband, words: tuple[str, ...], wanted: str) -> None:
    (softband.folder / "keys.toml").write_text('workload = "incast"\nbits = 4\n')
    (softband.folder / "cut.goal").write_text("\n".join(TRACE.splitlines()[:4]))
    (softband.folder / "many.goal").write_text("num_ranks 9\n" + "".join(f"rank {rank} {{\nl1: calc 5\n}}\n" for rank in range(9)))
    (softband.folder / "short.goal").write_text("num_ranks 3\nrank 0 { }\nrank 1 { }\n")
    (softband.folder / "binary.goal").write_bytes(b"\x7fELF\xff\xfe\x00\x01\x1b[2J")
    ranks = "".join(f"rank {rank} {{\nr: recv 8b from {1 - rank}\ns: send 8b to {1 - rank}\ns requires r }}\n" for rank in range(2))
    (softband.folder / "circle.goal").write_text(f"num_ranks 2\n{ranks}")
    (softband.folder / "hosts.toml").write_text('workload = "incast"\nroot = "zz"\n')
    (softband.folder / "apples.toml").write_text('workload = "incast"\nbytes = "5 apples"\n')
    (softband.folder / "same.toml").write_text('workload = "stream"\nfrom = "b"\nto = "b"\n')
    (softband.folder / "pair.toml").write_text('workload = "permutation"\n')
    softband.command("fabric", "generate", "star", "--hosts", "1", "--out", "one.toml")
    (softband.folder / "odd.toml").write_text('workload = "incast"\nmtu = 1500\n')
    (softband.folder / "large.toml").write_text('workload = "stream"\n\nmtu = 4096\n')
    (softband.folder / "pattern.toml").write_text('workload = "permutation"\nsenders = 2\n')
    assert wanted in refusal(softband, *words)


def test_a_host_without_a_cable_matters_to_nobody_who_does_not_use_it(softband: Softband) -> None:
    fabric = softband.folder / "nocable.toml"
    lone = '\n[hosts.lone]\npart = "modern-host"\n[[hosts.lone.hcas]]\npart = "modern-hca"\n'
    fabric.write_text((FABRICS / "modern-pair.toml").read_text() + lone)
    done = softband.command("model", str(fabric), "stream", "--messages", "10")
    assert done.returncode == 0, done.stderr
    (softband.folder / "results" / "model-stream" / "model.json").unlink()
    done = softband.command("model", str(fabric), "all-to-all")
    assert done.returncode == 2
    assert "nocable.toml: host lone takes part in the workload, and no port of it has a cable\n  help: " in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="nothing here is always full")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the mode of /dev/full")
def test_a_full_disk_leaves_the_former_results_whole(softband: Softband) -> None:
    model(softband, "three-hosts", "incast")
    before = [(softband.folder / "out" / name).read_bytes() for name in FILES]
    # The disk has no room for the second file.
    (softband.folder / "out" / "flows.csv.part").symlink_to("/dev/full")
    mode = Path("/dev/full").stat().st_mode & 0o777
    try:
        done = softband.command("model", str(FABRICS / "three-hosts.toml"), "incast", "--messages", "3", "--out", "out")
    finally:
        # The new file gets the mode of the former one. Other users of the machine need the device's own.
        Path("/dev/full").chmod(mode)
    assert done.returncode == 2
    assert [(softband.folder / "out" / name).read_bytes() for name in FILES] == before
    assert not list((softband.folder / "out").glob("*.part"))
    # The user still gets the report, and each file that the disk had room for.
    assert "completion time" in done.stdout
    assert "results           out-unfinished, without flows.csv, model.json" in done.stdout
    left = "hot.svg, ports.parquet, ports.csv, flows.parquet"
    assert f"cannot write the results to out: No space left on device (os error 28)\n  in out-unfinished are {left}, but not" in done.stderr
    assert done.stderr.endswith("help: make room there, or name another folder with --out, and run it again\n")
    assert sorted(path.name for path in (softband.folder / "out-unfinished").iterdir()) == sorted(left.split(", "))
    assert pl.read_parquet(softband.folder / "out-unfinished" / "flows.parquet")["messages"].to_list() == [3, 3]


def test_files_that_may_not_grow_are_an_error_as_a_full_disk_is(softband: Softband) -> None:
    words = ("model", str(FABRICS / "three-hosts.toml"), "all-to-all", "--out", "out", "--ranks-per-host")
    # An interrupted run left these files. They must not stay beside the files of another run.
    (softband.folder / "out").mkdir()
    for name in ("model.json", "flows.csv"):
        (softband.folder / "out" / name).write_text('{\n  "ended_by": "it was interrupted"\n}\n')
    done = softband.command(*words, "8", wrapper=("sh", "-c", 'ulimit -f 16; exec "$@"', "sh"))
    assert done.returncode == 2
    assert "cannot write the results to out: File too large" in done.stderr
    assert "completion time" in done.stdout
    left = sorted(path.name for path in (softband.folder / "out").iterdir())
    assert left == ["flows.parquet", "hot.svg", "ports.csv", "ports.parquet"]
    done = softband.command(*words, "8", wrapper=("sh", "-c", 'ulimit -f 1; exec "$@"', "sh"))
    assert done.returncode == 2
    assert "completion time" in done.stdout
    # The report goes to the same full disk here. Standard error still reports the missing results.
    done = softband.command(*words, "8", wrapper=("sh", "-c", 'ulimit -f 1; exec "$@" > report', "sh"))
    assert done.returncode == 2
    assert "cannot write the results to out: File too large" in done.stderr


def test_a_stream_goes_from_host_to_host_however_many_ranks_each_has(softband: Softband) -> None:
    ends = {
        "out": (("--ranks-per-host", "2"), ("a", "b")),
        "back": (("--to", "a"), ("b", "a")),
        "on": (("--from", "c"), ("c", "b")),
        "from-second": (("--from", "b"), ("b", "a")),
    }
    for out, (options, (begin, end)) in ends.items():
        flows = model(softband, "three-hosts", "stream", "--messages", "10", *options, out=out)["flows"]
        assert [(flow["from_host"], flow["to_host"]) for flow in flows] == [(begin, end)]


def test_as_many_ranks_as_the_command_line_allows_may_stand_in_a_file(softband: Softband) -> None:
    file = softband.folder / "many.toml"
    file.write_text('workload = "permutation"\nranks_per_host = 2147483649\n')
    assert "many.toml:2: error: ranks_per_host = 2147483649 is out of range: from 1 to 1024" in refusal(softband, str(FABRICS / "three-hosts.toml"), str(file))
