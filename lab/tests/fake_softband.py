#!/usr/bin/env python3
"""Stands in for the `softband` binary: same arguments, same files, and a toy model in place of the engine.

A fabric file may hold `[fake] fail = "text"` to fail a run, or `seconds = 5` to take its time; `warn = "text"` to be
warned of, `deadlock = true` for a warning of the run, and `probe = "text"` for the answer to `... && echo there`;
`escape = "text"` is a warning in run.json.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

RATE_MIB = {"SDR": 942.0, "DDR": 1424.0, "QDR": 1424.0, "NDR": 40000.0}
LANES = {1: 1, 2: 2, 3: 4, 4: 8, 5: 8}
COPPER_LIMIT_M = {
    ("copper-1x", "SDR"): 20,
    ("copper-4x", "SDR"): 15,
    ("copper-12x", "SDR"): 10,
    ("copper-4x", "DDR"): 10,
    ("copper-12x", "DDR"): 7,
}
PART_LENGTH_M = {"cx4": 8, "emcore": 40, "intel-1m": 1, "intel-10m": 10, "intel-100m": 100}
BW_HEADER = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"
MULTIRAIL_HEADER = " #bytes     #iterations    BW peak[MB/s]    BW average[MB/s]   MsgRate[Mpps]"
LAT_HEADER = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    "   99% percentile[usec]   99.9% percentile[usec] "
)


def length_m(cable: dict[str, Any]) -> float:
    if "length" in cable:
        return float(cable["length"].split()[0])
    return PART_LENGTH_M.get(cable["part"], 8)


def width(cable: dict[str, Any]) -> str:
    return {"copper-1x": "1X", "copper-12x": "12X"}.get(cable["part"], "4X")


def link_rate(fabric: dict[str, Any]) -> str:
    rates = [cable.get("rate", fabric.get("fake", {}).get("rate", "DDR")) for cable in fabric["cables"]]
    if any(cable["part"] == "emcore" for cable in fabric["cables"]):
        return "SDR"
    return str(min(rates, key=lambda rate: RATE_MIB.get(rate, 0)))


def bandwidth(fabric: dict[str, Any], size: int, transport: str) -> float:
    lanes = LANES[fabric.get("subnet", {}).get("max_op_vls", 5)]
    loop_us = 1.4 + 0.01 * max(length_m(cable) for cable in fabric["cables"])
    pool_bytes = (16384 if "switches" in fabric else 65536) / lanes
    credit = pool_bytes / loop_us * 1e6 / 2**20
    top = min(RATE_MIB[link_rate(fabric)], fabric.get("fake", {}).get("bus_mib", 1e9), credit)
    gap_us = 2.3 if transport == "UD" else 0.3
    return float(min(size / (gap_us + size / (top * 1.048576)) / 1.048576, top))


def table(fabric: dict[str, Any], command: str) -> str:
    words = command.split()
    option = {name: words[index + 1] for index, name in enumerate(words[:-1]) if name.startswith("-")}
    transport, iterations = option.get("-c", "RC"), int(option.get("-n", "1000"))
    largest = 2048 if transport == "UD" else 1 << 23
    if words[0] == "softband-tcpplay":
        # Only rank 0 prints. The trace of `record_goal` has the factor of computation.
        return f"ranks,seconds\n2,{2.0 * float(Path(words[-1]).read_text()):.3f}" if option["--rank"] == "0" else ""
    if words[0] == "softband-multirail":
        factor = 2.0 if "--ports" in words and option["--ports"] == "2" else 1.0
        rows = [(size, factor * bandwidth(fabric, size, transport)) for size in (4096, 8192)]
        lines = [f" {s}  {iterations}  {b:.2f}  {b:.2f}  {b / s:.6f}" for s, b in rows]
        return "\n".join([MULTIRAIL_HEADER, *lines])
    sizes = [1 << p for p in range(1, int(math.log2(largest)) + 1)] if "-a" in words else [int(option.get("-s", 2))]
    if words[0] == "ib_send_lat":
        flight = 0.005 * sum(length_m(cable) for cable in fabric["cables"])
        rows = [(size, 3.9 + flight + size * 0.002) for size in sizes]
        lines = [
            f" {s}       {iterations}          {t:.2f}  {t + 1:.2f}  {t:.2f}  {t + 0.01:.2f}  0.1 {t:.2f} {t:.2f}"
            for s, t in rows
        ]
        return "\n".join([LAT_HEADER, *lines])
    factor = 1.9 if "-b" in words else 1.0
    rows = [(size, factor * bandwidth(fabric, size, transport)) for size in sizes]
    lines = [
        f" {s:<7}    {iterations:<10}       {b:<7.2f}            {b:<7.2f}     {b * 1.048576 / s:<7.6f}"
        for s, b in rows
    ]
    return "\n".join([BW_HEADER, *lines])


def check(fabric: dict[str, Any], path: str) -> int:
    for index, cable in enumerate(fabric.get("cables", [])):
        limit = COPPER_LIMIT_M.get((cable["part"], cable.get("rate", "DDR")))
        if limit is not None and length_m(cable) > limit:
            print(f"{path}: cables.{index}: copper of {length_m(cable):g} m is too long: {limit} m", file=sys.stderr)
            return 1
    return 0


def show(fabric: dict[str, Any], arguments: list[str]) -> int:
    for cable in fabric["cables"]:
        label = f"{cable['part']}, {length_m(cable):g} m, {width(cable)} {link_rate(fabric)}"
        print(f"{cable['from']} -- {label} -- {cable['to']}")
    if "--svg" in arguments:
        svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 60"><text x="10" y="35">a -- b</text></svg>'
        Path(arguments[arguments.index("--svg") + 1]).write_text(svg)
    return 0


def run(arguments: list[str]) -> int:
    fabric = tomllib.loads(Path(arguments[0]).read_text())
    out = Path(arguments[arguments.index("--out") + 1])
    programs = [(arguments[i + 1], arguments[i + 2]) for i, word in enumerate(arguments) if word == "--on"]
    time.sleep(fabric.get("fake", {}).get("seconds", 0))
    if "fail" in fabric.get("fake", {}):
        print(fabric["fake"]["fail"], file=sys.stderr)
        return 1
    count: dict[str, int] = {}
    for host, command in programs:
        number = count.get(host, 0)
        count[host] = number + 1
        text = f"{'-' * 80}\n                    Send Test\n{table(fabric, command)}\n{'-' * 80}\n"
        if command.startswith("softband-tcpplay"):
            text = table(fabric, command)
        if " && echo there " in command:
            text = fabric.get("fake", {}).get("probe", "there") + "\n"
        (out / f"{host}-{number}.out").write_text(text)
    used = max([int(words.split("--ports ")[1][0]) for _, words in programs if "--ports " in words], default=1)
    ports = [
        {"node": f"{host}/mthca0", "port": port, "port_xmit_data": 1000 * (port <= used) + 3, "port_rcv_data": 2}
        for host in count
        for port in (1, 2)
    ]
    (out / "counters.json").write_text(json.dumps({"ports": ports}))
    summary = {
        "versions": {"softband": "0.0.0", "perftest": "4.5"},
        "virtual_seconds": 0.5,
        "wall_seconds": 0.1,
        "programs": [
            {"host": host, "command": command, "exit_status": 0, "ended_at_seconds": 0.5} for host, command in programs
        ],
        "bottlenecks": [{"kind": "link", "part": "a/mthca0/1", "share": 97, "text": "the link was busy"}],
    }
    summary["warnings"] = list(filter(None, [fabric.get("fake", {}).get("escape")]))
    (out / "run.json").write_text(json.dumps(summary))
    with (Path(__file__).parent / "runs.log").open("a") as log:
        log.write(f"{arguments[0]}\n")
    return 0


def mpirun(arguments: list[str]) -> int:
    """An NPB kernel: 2 s of computation, and communication by the rate of the links."""
    number = next(index for index, word in enumerate(arguments) if word.endswith(".toml"))
    fabric, option = tomllib.loads(Path(arguments[number]).read_text()), dict(itertools.pairwise(arguments))
    factor = float(option.get("--compute-factor", "1")) if "--compute" in option else 0.0
    seconds = 2.0 * factor + 942.0 / RATE_MIB[link_rate(fabric)]
    lines = {"Iterations": "10", "Time in seconds": f"{seconds:.6f}", "Verification": "SUCCESSFUL"}
    out = Path(option["--out"])
    (out / "rank-0.out").write_text("".join(f" {name:<16}= {value:>20}\n" for name, value in lines.items()))
    (out / "run.json").write_text(json.dumps({"virtual_seconds": seconds, "wall_seconds": 0.1}))
    with (Path(__file__).parent / "runs.log").open("a") as log:
        log.write(f"{arguments[number]}\n")
    return 0


def model(arguments: list[str]) -> int:
    """Two flows, whose rate is the link's; bytes = 13 brings bad luck, 15 a full disk, senders over 2 are refused."""
    fabric = tomllib.loads(Path(arguments[0]).read_text())
    option = {name: arguments[index + 1] for index, name in enumerate(arguments[:-1]) if name.startswith("--")}
    for warning in filter(None, [fabric.get("fake", {}).get("warn")]):
        print(f"{arguments[0]}:3:1: warning: {warning}\n  help: less of it", file=sys.stderr)
    if int(option.get("--senders", "1")) > 2:
        print("softband: senders = 3 is out of range", file=sys.stderr)
        return 2
    for path, wrong in ((arguments[1], is_wrong(arguments[1])), (arguments[0], "wrong" in fabric.get("fake", {}))):
        if wrong:
            print(f"softband: {path}:1: error: wrong\n  help: right", file=sys.stderr)
            return 2
    if "--check" in arguments:
        return 0
    size = int(option.get("--bytes", "65536"))
    if size == 13:
        (Path(option["--out"]) / "flows.csv").write_text("some\n")
        print(f"{arguments[0]}: bad luck", file=sys.stderr)
        print(f"softband: its results until then are in {option['--out']}", file=sys.stderr)
        return 2
    if size == 15:
        print(f"softband: cannot write the results to {option['--out']}: No space left", file=sys.stderr)
        return 2
    time.sleep(fabric.get("fake", {}).get("seconds", 0))
    with (Path(__file__).parent / "runs.log").open("a") as log:
        log.write(f"{Path(arguments[0]).name} {size} on {option.get('--threads', 'all')} threads\n")
    leave_model(fabric, Path(arguments[1]).stem, size, Path(option["--out"]))
    if os.environ.get("SOFTBAND_PROGRESS") != "0":
        print("softband: 50.0 % done, 1.000 us simulated", file=sys.stderr)
    if fabric.get("fake", {}).get("deadlock"):
        print(f"softband: deadlock of {size} B, broken up", file=sys.stderr)
    print(f"a report: {size} B")
    return 0


def is_wrong(workload: str) -> bool:
    return Path(workload).is_file() and Path(workload).read_text() == "wrong\n"


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def leave_model(fabric: dict[str, Any], workload: str, size: int, out: Path) -> None:
    rate = RATE_MIB[link_rate(fabric)]
    lanes = LANES[fabric.get("subnet", {}).get("max_op_vls", 5)]
    times = {"begun_ps": 0, "ended_ps": size * 1000}
    flows = [
        {"from_rank": n, "to_rank": 1 - n, "from_host": "a", "to_host": "b", "messages": 1, "bytes": size, **times}
        | {"bytes_per_second": rate}
        for n in (0, 1)
    ]
    counts = ("port_xmit_data", "port_rcv_data", "port_xmit_pkts", "port_rcv_pkts", "port_xmit_discards")
    port = {"port": "sw/1", "peer": "a/mthca0/1", "rate": "4X DDR", "port_xmit_wait": 5, **dict.fromkeys(counts, size)}
    shares = {"link_bytes_per_second": 2e9, "xmit_utilisation": 0.5, "rcv_utilisation": 0.25}
    stalls = {f"credit_stall_vl{lane}_ps": 10 + lane for lane in range(lanes)}
    write_csv(out / "flows.csv", flows)
    write_csv(out / "ports.csv", [{**port, **shares, **stalls}])
    feeder = {"port": "b/mthca0/1", "utilisation": 0.4, "stalled": 0.5, "feeders": []}
    hot = {"port": "sw/1", "to": "a/mthca0/1", "utilisation": 0.9, "stalled": 0.1, "feeders": [feeder]}
    summary = {
        "softband_version": "0.0.0",
        "workload": workload,
        "seed": 1,
        "completion_picos": size * 1000,
        **dict.fromkeys(("packet_hops", "connections"), size),
        "flow_bytes_per_second": dict.fromkeys(("min", "median", "max", "mean"), rate),
        "flows": flows,
        "hot_ports": [hot],
    }
    (out / "model.json").write_text(json.dumps(summary))


def record_goal(arguments: list[str]) -> int:
    """Leaves the factor of computation as the trace of a recording."""
    if "broken" in Path(arguments[0]).read_text():
        print(f"softband: {arguments[0]}:1: error: broken", file=sys.stderr)
        return 2
    option = dict(itertools.pairwise(arguments))
    Path(option["--out"]).write_text(option.get("--compute-factor", "1"))
    return 0


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:2] == ["record", "goal"]:
        return record_goal(arguments[2:])
    if arguments[0] == "model":
        return model(arguments[1:])
    if arguments == ["--version"]:
        print("softband 0.0.0 (fake)")
        return 0
    if arguments[0] == "run":
        return run(arguments[1:])
    if arguments[0] == "mpirun":
        return mpirun(arguments[1:])
    fabric = tomllib.loads(Path(arguments[2]).read_text())
    return check(fabric, arguments[2]) if arguments[1] == "check" else show(fabric, arguments)


if __name__ == "__main__":
    sys.exit(main())
