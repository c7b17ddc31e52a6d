"""Runs the built tree as its users do."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "target" / "dist"
FABRICS = ROOT / "fabrics"
PROGRAMS = ROOT / "conformance" / "c"
# A run that takes longer in wall-clock time hangs; nothing here is timed otherwise.
HANG_SECONDS = 90


@dataclass
class Outcome:
    """What a run of `softband run` left."""

    status: int
    stdout: str
    stderr: str
    out: Path | None

    def program(self, name: str) -> str:
        """Standard output of a program, by `<host>-<n>`."""
        assert self.out is not None
        return (self.out / f"{name}.out").read_text()

    def report(self) -> dict[str, object]:
        assert self.out is not None
        loaded: dict[str, object] = json.loads((self.out / "run.json").read_text())
        return loaded

    def assert_ok(self) -> Outcome:
        assert self.status == 0, f"status {self.status}\n{self.stdout[-3000:]}\n{self.stderr[-3000:]}"
        return self


@dataclass
class Softband:
    """The command, from a tree of its own choosing."""

    binary: Path
    folder: Path
    runs: int = 0

    def command(self, *words: str, wrapper: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*wrapper, str(self.binary), *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )

    def run(self, fabric: str | Path, *on: tuple[str, str], options: tuple[str, ...] = (), wrapper: tuple[str, ...] = ()) -> Outcome:
        """Runs programs, given as (host, command), on `fabric`."""
        self.runs += 1
        out = self.folder / f"run-{self.runs}"
        path = fabric if isinstance(fabric, Path) else FABRICS / f"{fabric}.toml"
        words = ["run", str(path), "--out", str(out), *options]
        for host, command in on:
            words += ["--on", host, command]
        done = self.command(*words, wrapper=wrapper)
        return Outcome(done.returncode, done.stdout, done.stderr, out)

    def pair(self, fabric: str | Path, program: str, **others: tuple[str, ...]) -> Outcome:
        """A perftest-like pair: the server on a, the client on b."""
        return self.run(fabric, ("a", program), ("b", f"{program} a"), **others)


@pytest.fixture
def softband(tmp_path: Path) -> Softband:
    binary = Path(os.environ.get("SOFTBAND_BIN", DIST / "bin" / "softband"))
    assert binary.is_file(), f"{binary} is not there: run `make build`"
    return Softband(binary, tmp_path)


@pytest.fixture(scope="session")
def c_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C programs of conformance/c, compiled against the system's own headers and libraries."""
    folder = tmp_path_factory.mktemp("programs")
    # verbs_all is one program in several files.
    names = ("crash_peer", "datagram_ready", "direct", "life_cycle", "soak", "verbs_errors", "verbs_optional", "verbs_threads")
    parts = {name: [PROGRAMS / f"{name}.c"] for name in names}
    parts["verbs_all"] = [PROGRAMS / "verbs_all.c", PROGRAMS / "verbs_more.c"]
    for name, sources in parts.items():
        command = ["cc", "-O1", "-Wall", "-o", str(folder / name), *map(str, sources), "-libverbs", "-lpthread"]
        subprocess.run(command, check=True, timeout=120)
    return folder


def table(text: str) -> list[list[float]]:
    """The rows of a perftest table."""
    rows = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and words[0].isdigit():
            try:
                rows.append([float(word) for word in words])
            except ValueError:
                continue
    return rows
