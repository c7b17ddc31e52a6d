"""Reads the tables that perftest's programs and softband-multirail print.

Columns are found by the names in the header line, because their order differs between versions.
perftest divides by 2^20 and writes MB/sec (later versions: MiB/sec); softband-multirail has MB/s of 10^6 bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from softband_lab.base.errors import LabError


@dataclass(frozen=True)
class Measurement:
    """One line of a table. Quantities that the test does not measure are None."""

    size_bytes: int
    iterations: int
    bw_peak_mib_s: float | None = None
    bw_average_mib_s: float | None = None
    bw_peak_mb_s: float | None = None
    bw_average_mb_s: float | None = None
    # 10^9 bits a second, of programs over sockets.
    bw_average_gbit_s: float | None = None
    message_rate_mpps: float | None = None
    # 10^9 operations a second, of programs that compute.
    operations_gflop_s: float | None = None
    latency_min_us: float | None = None
    latency_typical_us: float | None = None
    latency_avg_us: float | None = None
    latency_max_us: float | None = None


_COLUMNS = {
    "#bytes": "size_bytes",
    "#iterations": "iterations",
    "BW peak[MB/sec]": "bw_peak_mib_s",
    "BW peak[MiB/sec]": "bw_peak_mib_s",
    "BW average[MB/sec]": "bw_average_mib_s",
    "BW average[MiB/sec]": "bw_average_mib_s",
    "BW peak[MB/s]": "bw_peak_mb_s",
    "BW average[MB/s]": "bw_average_mb_s",
    "MsgRate[Mpps]": "message_rate_mpps",
    "t_min[usec]": "latency_min_us",
    "t_typical[usec]": "latency_typical_us",
    "t_avg[usec]": "latency_avg_us",
    "t_max[usec]": "latency_max_us",
}
_HEADER_CELL = re.compile(r"#\w+|BW (?:peak|average)\[[^\]]*\]|[\w.]+%? ?(?:percentile)?\[[^\]]*\]")
_WHOLE_NUMBERS = ("size_bytes", "iterations")


def has_table(text: str) -> bool:
    """Returns whether an output has the header line of a table."""
    return any(_is_header(line) for line in text.splitlines())


def _is_header(line: str) -> bool:
    return line.lstrip().startswith("#bytes")


def parse_table(text: str, source: Path) -> list[Measurement]:
    """Returns the data lines of the table in an output, in printed order. Fails if the output has no table."""
    header: list[str] | None = None
    rows: list[Measurement] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if _is_header(line):
            header = _HEADER_CELL.findall(line)
            continue
        if header is None or not re.match(r"\s*\d", line):
            continue
        rows.append(_parse_line(header, line.split(), f"{source}:{number}"))
    if header is None:
        raise LabError(
            source,
            "holds no perftest table (no line that starts with `#bytes`)",
            "run a perftest program that prints one, such as ib_send_bw; see the program's output there",
        )
    return rows


def _parse_line(header: list[str], cells: list[str], where: str) -> Measurement:
    if len(cells) < len(header):
        raise LabError(
            where,
            f"the line has {len(cells)} columns, the table's header {len(header)}",
            "the output is cut or mixed with another program's; keep each program's output in its own file",
        )
    values: dict[str, float | int] = {}
    for title, cell in zip(header, cells, strict=False):
        field = _COLUMNS.get(title)
        if field is None:
            continue
        try:
            values[field] = int(cell) if field in _WHOLE_NUMBERS else float(cell)
        except ValueError:
            raise LabError(
                where, f"`{cell}` in column `{title}` is not a number", "a number as perftest prints it"
            ) from None
    return Measurement(**values)  # type: ignore[arg-type]
