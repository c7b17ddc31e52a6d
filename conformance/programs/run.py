#!/usr/bin/env python3
"""Runs the entries of this folder's tables in both paces, and compares their ends with the tables.

    conformance/programs/run.py [--pace virtual|wall] [--table perftest] [--list] [PATTERN]

PATTERN is a regular expression that the words of an entry must contain. `README.md` describes the
tables.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))
PACES = ("virtual", "wall")
HANG_SECONDS = 90
# perftest measures the processor's clock and gives up on a busy machine. That is not a failure.
OF_THE_MACHINE = "Correlation coefficient"
ATTEMPTS = 6
# A row of perftest's tables: the size, the iterations, then the measured figures.
ROW = r"^ ?\d+ +\d+ +[\d.]+ +[\d.]+"


@dataclass(frozen=True)
class Entry:
    """Programs on hosts and how they end."""

    table: str
    on: tuple[tuple[str, str], ...]
    prints: str = ROW
    refuses: str | None = None
    fabric: str = "modern-pair"
    paces: tuple[str, ...] = PACES
    # Hosts whose first program may end with an error.
    fails_on: tuple[str, ...] = ()
    unless: str = ""

    @property
    def name(self) -> str:
        same = len(self.on) == 2 and self.on[1] == ("b", f"{self.on[0][1]} a")
        return self.on[0][1] if same or len(self.on) == 1 else "; ".join(command for _, command in self.on)


@dataclass
class Result:
    """The end of a run. `fault` is empty if the run ended as expected."""

    fault: str
    text: str = ""
    seconds: float = 0.0
    skipped: bool = False
    words: list[str] = field(default_factory=list)


def entries(table: str) -> list[Entry]:
    """Returns the entries of a table, one for each command."""
    found = []
    for raw in tomllib.loads((FOLDER / f"{table}.toml").read_text())["entries"]:
        common = {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}
        programs, options, on, alone = (common.pop(key, None) for key in ("programs", "options", "on", "alone"))
        if on:
            found.append(Entry(table, tuple((host, command) for host, command in on), **common))
            continue
        for program in programs:
            for words in options:
                command = f"{program} {words}".strip()
                pair = (("a", command),) if alone else (("a", command), ("b", f"{command} a"))
                found.append(Entry(table, pair, **common))
    return found


def tables() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def huge_pages() -> bool:
    match = re.search(r"^HugePages_Free:\s+(\d+)$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return bool(match and int(match[1]) > 0)


CONDITIONS = {"huge pages": huge_pages, "": lambda: False}


def substituted(command: str, tmp: Path, fabric: str) -> str:
    """Replaces {tmp} by a folder of the run, {file} by a new 64 MiB file, and {lid:HOST} by a LID.

       Each {file} is new because hosts do not share memory.
       """
    if "{file}" in command:
        with tempfile.NamedTemporaryFile(dir=tmp, delete=False) as file:
            file.truncate(64 << 20)
        command = command.replace("{file}", file.name)
    return re.sub(r"\{lid:(\w+)\}", lambda match: lid(match[1], fabric), command.replace("{tmp}", str(tmp)))


def lid(host: str, fabric: str) -> str:
    words = [str(SOFTBAND), "run", fabric, "--on", host, "ibv_devinfo"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANG_SECONDS, check=True)
    match = re.search(r"port_lid:\s+(\d+)", done.stdout)
    assert match, done.stdout
    return match[1]


def once(entry: Entry, pace: str) -> Result:
    with tempfile.TemporaryDirectory(prefix="softband-programs-") as folder:
        tmp = Path(folder)
        words = [str(SOFTBAND), "run", entry.fabric, "--pace", pace, "--out", str(tmp / "out")]
        for host, command in entry.on:
            words += ["--on", host, substituted(command, tmp, entry.fabric)]
        began = time.monotonic()
        try:
            done = subprocess.run(words, cwd=tmp, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
        except subprocess.TimeoutExpired as hung:
            text = b"".join(part for part in (hung.stdout, hung.stderr) if isinstance(part, bytes)).decode(errors="replace")
            return Result(f"it hangs: nothing after {HANG_SECONDS} s", text, time.monotonic() - began, words=words)
        text = "\n".join(re.sub(r"^[a-z]: ", "", line) for line in (done.stdout + done.stderr).splitlines())
        result = Result("", text, time.monotonic() - began, words=words)
        result.fault = fault(entry, done.returncode, text, tmp / "out")
        return result


def fault(entry: Entry, status: int, text: str, out: Path) -> str:
    if entry.refuses is not None:
        if status == 0:
            return "it should be refused, and ends well"
        return "" if entry.refuses in text else f"it is refused without {entry.refuses!r}"
    failed = failures(out) - set(entry.fails_on) if status != 0 and entry.fails_on else {"some program"} if status != 0 else set()
    if failed:
        return f"status {status}: {', '.join(sorted(failed))} failed"
    # Only the output of the last program of the table counts.
    return "" if re.search(entry.prints, text, re.MULTILINE) else f"nothing that it prints looks like {entry.prints}"


def failures(out: Path) -> set[str]:
    """Returns the hosts with a failed program."""
    programs = json.loads((out / "run.json").read_text())["programs"]
    return {program["host"] for program in programs if program["exit_status"] != 0}


def run(entry: Entry, pace: str) -> Result:
    """Runs an entry. Repeats it while the machine is too busy for perftest."""
    if CONDITIONS[entry.unless]():
        return Result("", skipped=True)
    for _ in range(ATTEMPTS):
        result = once(entry, pace)
        if not result.fault or OF_THE_MACHINE not in result.text:
            return result
    result.skipped, result.fault = True, ""
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pace", choices=PACES, action="append")
    parser.add_argument("--table", choices=tables(), action="append")
    parser.add_argument("--list", action="store_true", help="say only what would run")
    parser.add_argument("pattern", nargs="?", default="")
    arguments = parser.parse_args()
    bad = 0
    for entry in (entry for table in arguments.table or tables() for entry in entries(table)):
        if not re.search(arguments.pattern, entry.name):
            continue
        for pace in (pace for pace in arguments.pace or PACES if pace in entry.paces):
            if arguments.list:
                print(f"{pace:8}{entry.name}")
                continue
            result = run(entry, pace)
            verdict = "FAULT" if result.fault else "skip" if result.skipped else "refused" if entry.refuses is not None else "ok"
            print(f"{verdict:8}{pace:8}{result.seconds:5.1f} s  {entry.name}", flush=True)
            if result.fault:
                bad += 1
                print(f"        {result.fault}\n" + "\n".join(f"        | {line}" for line in result.text.splitlines()[-12:]), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
