"""The run of a sweep: `softband model` with one combination of values, and its tables."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from softband_lab.base.softband import LOG_NAME, RunFailed, Softband
from softband_lab.base.tables import Kind, Table, header_of, read_csv
from softband_lab.campaign.inputs import InputFile
from softband_lab.campaign.jobs import Tables
from softband_lab.campaign.warned import paragraphs

Value = str | int | float | bool
# The name of a pattern of `softband model`, or a file.
Workload = str | InputFile

# Most data lanes of a link. All runs have the same columns, independent of their lanes and link layers.
_LANES = 15
_STALLS = tuple(f"credit_stall_vl{lane}_ps" for lane in range(_LANES))
_OF_ETHERNET = ("pause_frames_sent", "pause_frames_received", "buffer_discards")
_OF_SOME_PORTS = frozenset((*_STALLS, *_OF_ETHERNET))
_COUNTERS = frozenset((*_STALLS, "port_xmit_wait", "port_xmit_discards", "buffer_discards"))
_FLOW_COLUMNS: dict[str, Kind] = {
    "from_rank": Kind.INT,
    "to_rank": Kind.INT,
    "from_host": Kind.STRING,
    "to_host": Kind.STRING,
    **dict.fromkeys(("messages", "bytes", "begun_ps", "ended_ps"), Kind.INT),
    "bytes_per_second": Kind.FLOAT,
}
_PORT_COLUMNS: dict[str, Kind] = {
    "port": Kind.STRING,
    "peer": Kind.STRING,
    "rate": Kind.STRING,
    "link_bytes_per_second": Kind.FLOAT,
    "xmit_utilisation": Kind.FLOAT,
    "rcv_utilisation": Kind.FLOAT,
    **dict.fromkeys(("port_xmit_data", "port_rcv_data", "port_xmit_pkts", "port_rcv_pkts"), Kind.INT),
    **dict.fromkeys(("port_xmit_discards", "port_xmit_wait"), Kind.INT),
    **dict.fromkeys((*_STALLS, *_OF_ETHERNET), Kind.INT),
}
_HOT_COLUMNS: dict[str, Kind] = {
    "tree": Kind.INT,
    "depth": Kind.INT,
    "port": Kind.STRING,
    "feeds": Kind.STRING,
    "utilisation": Kind.FLOAT,
    "stalled": Kind.FLOAT,
}
_WARNING_COLUMNS: dict[str, Kind] = {"warning": Kind.STRING}
_RUN_COLUMNS: dict[str, Kind] = {
    "fabric": Kind.STRING,
    "workload": Kind.STRING,
    "seed": Kind.UINT,
    "completion_ps": Kind.INT,
    "packet_hops": Kind.INT,
    "connections": Kind.INT,
    "flows": Kind.INT,
    **{f"flow_{what}_bytes_per_second": Kind.FLOAT for what in ("min", "median", "max", "mean")},
    "credit_stall_ps": Kind.INT,
    "port_xmit_wait": Kind.INT,
    "port_xmit_discards": Kind.INT,
    "buffer_discards": Kind.INT,
    "hot_ports": Kind.INT,
    "hottest_port": Kind.STRING,
    "warnings": Kind.INT,
    "softband": Kind.STRING,
    "command": Kind.STRING,
}


@dataclass(frozen=True)
class ModelJob:
    """A run of `softband model`. `parameters`: the varied values by column; `options`: all its options."""

    id: str
    parameters: tuple[tuple[str, Value], ...]
    fabric: InputFile
    workload: Workload
    options: tuple[str, ...]
    # Results do not depend on the number of threads.
    threads: str

    tables: ClassVar[tuple[str, ...]] = ("flows", "ports", "hot_ports", "warnings", "runs")
    head_columns: ClassVar[dict[str, Kind]] = _RUN_COLUMNS
    keeps_files: ClassVar[bool] = False

    def inputs(self) -> Any:
        return [self.fabric.text, *workload_inputs(self.workload), self.options, self.parameters]

    def command(self) -> str:
        return shlex.join(["softband", "model", self.fabric.label, label_of(self.workload), *self.options])

    def place(self, folder: Path) -> list[str]:
        """Writes the inputs into a folder. Returns the arguments of `softband model`."""
        fabric, workload = self.fabric.lay(folder, ".toml"), self.workload
        words = workload if isinstance(workload, str) else str(workload.lay(folder / "workload"))
        return [str(fabric), words, *self.options]

    def in_own_words(self, words: list[str], text: str) -> str:
        """Returns a message about the written inputs with the labels of the files."""
        text = self.fabric.in_own_words(text, Path(words[0]))
        return text if isinstance(self.workload, str) else self.workload.in_own_words(text, Path(words[1]))

    def run(self, softband: Softband, folder: Path) -> Tables:
        words, out = self.place(folder), folder / "results"
        try:
            summary = softband.model([*words, "--threads", self.threads], out, None)
            said = (out / LOG_NAME).read_text(encoding="utf-8", errors="replace")
            return self._tables(summary, paragraphs(self.in_own_words(words, said)), out)
        except RunFailed as failed:
            # The command as a user types it, without the temporary folders of the run.
            lines = [self.in_own_words(words, line) for line in failed.last_lines]
            raise RunFailed(self.command(), failed.reason, lines) from None
        except (LookupError, ValueError, OSError) as error:
            raise RunFailed(self.command(), f"left other results than expected: {error!r}", []) from None

    def read(self, key: str, head: Table) -> Table:
        del key
        return head

    def _tables(self, summary: dict[str, Any], warnings: list[str], out: Path) -> Tables:
        found = model_tables(summary, out)
        ports = found["ports"]
        sums = {name: sum(filter(None, values)) for name, values in ports.columns.items() if name in _COUNTERS}
        hot = summary["hot_ports"]
        rates = summary["flow_bytes_per_second"]
        run = {
            **dict(self.parameters),
            "fabric": self.fabric.label,
            "workload": summary["workload"],
            "seed": summary["seed"],
            "completion_ps": summary["completion_picos"],
            **{name: summary[name] for name in ("packet_hops", "connections")},
            "flows": len(summary["flows"]),
            **{f"flow_{what}_bytes_per_second": rates[what] for what in ("min", "median", "max", "mean")},
            "credit_stall_ps": sum(sums[name] for name in _STALLS),
            "port_xmit_wait": sums["port_xmit_wait"],
            "port_xmit_discards": sums["port_xmit_discards"],
            "buffer_discards": sums["buffer_discards"],
            "hot_ports": len(hot),
            "hottest_port": hot[0]["port"] if hot else None,
            "warnings": len(warnings),
            "softband": summary["softband_version"],
            "command": self.command(),
        }
        schema = {**{name: _type_of(value) for name, value in self.parameters}, **_RUN_COLUMNS}
        return {
            **found,
            "warnings": Table.of([{"warning": text} for text in warnings], _WARNING_COLUMNS),
            "runs": Table.of([run], schema),
        }


def model_tables(summary: dict[str, Any], out: Path) -> Tables:
    """Returns the flows, ports and hot ports of a run: `summary` is its `model.json`, `out` its folder."""
    return {
        "flows": _read(out / "flows.csv", _FLOW_COLUMNS),
        "ports": _read(out / "ports.csv", _PORT_COLUMNS, _OF_SOME_PORTS),
        "hot_ports": Table.of(_trees(summary["hot_ports"]), _HOT_COLUMNS),
    }


def label_of(workload: Workload) -> str:
    """Returns the workload as the command line names it."""
    return workload if isinstance(workload, str) else workload.label


def workload_inputs(workload: Workload) -> tuple[str, str | None]:
    """Returns the part of a run's key that the workload decides: its label and its text."""
    return label_of(workload), None if isinstance(workload, str) else workload.text


def name_of(parameters: tuple[tuple[str, Value], ...]) -> str:
    """Returns the name of a run, which is a short file name. Other parameters give another name."""
    exact = "_".join(f"{name}-{value}" for name, value in parameters)
    plain = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in exact)
    if plain == exact and len(plain) <= 120:
        return plain
    return f"{plain[:100]}-{hashlib.sha256(repr(parameters).encode()).hexdigest()[:12]}"


def _type_of(value: Value) -> Kind:
    if isinstance(value, bool):
        return Kind.BOOL
    return {int: Kind.INT, float: Kind.FLOAT}.get(type(value), Kind.STRING)


def _read(path: Path, columns: dict[str, Kind], of_some: frozenset[str] = frozenset()) -> Table:
    """Reads a table of `softband model`. `of_some`: the columns that a fabric may lack."""
    missing = [name for name in columns.keys() - of_some if name not in header_of(path)]
    if missing:
        raise KeyError(min(missing))
    return read_csv(path, columns)


def _trees(hot_ports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows of the congestion trees: each port before the ports that wait for its switch."""
    rows: list[dict[str, Any]] = []

    def add(tree: int, depth: int, node: dict[str, Any], feeds: str) -> None:
        shares = {name: node[name] for name in ("utilisation", "stalled")}
        rows.append({"tree": tree, "depth": depth, "port": node["port"], "feeds": feeds, **shares})
        for feeder in node["feeders"]:
            add(tree, depth + 1, feeder, node["port"])

    for tree, hot in enumerate(hot_ports):
        add(tree, 0, hot, hot["to"])
    return rows
