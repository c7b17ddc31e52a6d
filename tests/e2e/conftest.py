"""Runs the built tree as its users do."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Whether the run includes the longest cases (`make test-full`).
FULL = bool(os.environ.get("SOFTBAND_FULL"))
DIST = ROOT / "target" / "dist"
FABRICS = ROOT / "fabrics"
PROGRAMS = ROOT / "conformance" / "c"
# A run hangs if it takes longer than this wall-clock time. The tests time nothing else.
HANG_SECONDS = 150
# A step of a test hangs if it takes longer.
WAIT_SECONDS = 60
# The variables that an outer fabric would set.
VARIABLES = ("SOFTBAND_FABRIC", "SOFTBAND_ENGINE", "SOFTBAND_TICKET")
# Hosts find programs here after the PATH. An ordinary user of Debian has none of these on the PATH.
ADMINISTRATORS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
# A test that waits longer fails, so that it does not delay the others.
TEST_SECONDS = 600


# Files whose tests look at the machine itself: late threads, processes left behind, limits. They run
# after the others, which run side by side.
ALONE = {
    "test_busy_machine",
    "test_campaigns",
    "test_faults",
    "test_kernel_descriptors",
    "test_liveness",
    "test_security",
    "test_shared_memory",
    "test_thread_limit",
    "test_time_limit",
}
# Files that use several accounts of the machine, or compilers that only the account of the build has.
# `make test E2E_USER=NAME` runs them as root as well, with the tests that are skipped for users.
ALSO_AS_ROOT = {"test_examples", "test_own_calls", "test_own_machine", "test_remote_login", "test_security", "test_shared_fabric"}
ONLY_ROOT = "only root "


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "alone: needs the machine for itself")
    config.addinivalue_line("markers", "also_as_root: has cases that an ordinary user cannot run")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem in ALONE:
            item.add_marker("alone")
        if item.path.stem in ALSO_AS_ROOT or any(str(mark.kwargs.get("reason")).startswith(ONLY_ROOT) for mark in item.iter_markers("skipif")):
            item.add_marker("also_as_root")


@pytest.fixture(autouse=True)
def ends_in_time() -> Iterator[None]:
    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"the test takes longer than {TEST_SECONDS} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(TEST_SECONDS)
    yield
    signal.alarm(0)


def which(program: str) -> str | None:
    """Returns the path of a program that a host of a fabric finds, or None."""
    return shutil.which(program, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *ADMINISTRATORS)))


def state_of(pid: int) -> str:
    """Describes the state of a process that hangs, as far as the kernel shows it."""
    entry = Path("/proc") / str(pid)
    lines = [f"process {pid}"]
    with suppress(OSError):
        lines[0] += ": " + (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        for thread in sorted((entry / "task").iterdir()):
            fields = (thread / "stat").read_text().rpartition(") ")[2].split()
            waits = (thread / "wchan").read_text().strip("0")
            lines.append(f"  thread {thread.name}: {fields[0]} {waits or 'running'}, {fields[11]} + {fields[12]} ticks of processor time")
            with suppress(OSError):
                called = (thread / "syscall").read_text().split()
                lines.append(f"    in system call {' '.join(called)}, on {mapping_of(entry, called)}")
    return "\n".join(lines)


def mapping_of(entry: Path, called: list[str]) -> str:
    """Returns the mapping that holds the word of a futex wait, the first argument of the call."""
    address = int(called[1], 16) if len(called) > 1 else 0
    for line in (entry / "maps").read_text().splitlines():
        start, _, end = line.split()[0].partition("-")
        if int(start, 16) <= address < int(end, 16):
            return line
    return "nothing"


def family_of(pid: int) -> list[int]:
    """Returns the ids of a process and of all its descendants."""
    family = [pid]
    with suppress(OSError):
        for thread in (Path("/proc") / str(pid) / "task").iterdir():
            for child in (thread / "children").read_text().split():
                family += family_of(int(child))
    return family


@dataclass
class Outcome:
    """The outcome of one `softband run`."""

    status: int
    stdout: str
    stderr: str
    out: Path | None

    def program(self, name: str) -> str:
        """Returns the standard output of a program, named `<host>-<n>`."""
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
    """The `softband` command of one installed tree."""

    binary: Path
    folder: Path
    runs: int = 0

    def command(self, *words: str, wrapper: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        command = [*wrapper, str(self.binary), *words]
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            try:
                out, errors = run.communicate(timeout=HANG_SECONDS)
            except subprocess.TimeoutExpired:
                states = "\n".join(state_of(pid) for pid in family_of(run.pid))
                out, errors = self.end(run)
                raise AssertionError(f"{command} hangs\n{states}\n{out}\n{errors}") from None
            except BaseException:
                run.kill()
                raise
        return subprocess.CompletedProcess(command, run.returncode, out, errors)

    @staticmethod
    def end(run: subprocess.Popen[str]) -> tuple[str, str]:
        """Ends a command that hangs. An interrupt first lets it print its programs' output."""
        run.send_signal(signal.SIGINT)
        try:
            return run.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            run.kill()
        try:
            return run.communicate(timeout=10)
        except subprocess.TimeoutExpired as hanging:
            # A program of the run may survive and hold the pipes open. Take the output so far.
            return tuple((part or b"").decode(errors="replace") for part in (hanging.stdout, hanging.stderr))  # type: ignore[return-value,attr-defined]

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
        """Runs a pair of programs as perftest does: the server on a, the client on b."""
        return self.run(fabric, ("a", program), ("b", f"{program} a"), **others)


@pytest.fixture
def softband(tmp_path: Path) -> Softband:
    binary = Path(os.environ.get("SOFTBAND_BIN", DIST / "bin" / "softband"))
    assert binary.is_file(), f"{binary} is not there: run `make build`"
    return Softband(binary, tmp_path)


def until(what: Any, seconds: float = WAIT_SECONDS) -> Any:
    """Returns the first true answer of `what`, or its last answer after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (answer := what()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer


def line_of(program: subprocess.Popen[str]) -> str:
    """Returns the next line that a program prints. Fails if no line comes in time."""
    assert program.stdout is not None
    assert select.select([program.stdout], [], [], WAIT_SECONDS)[0], f"no line\n{state_of(program.pid)}"
    return program.stdout.readline()


@dataclass
class Fabrics(Softband):
    """The `softband` command, with fabrics that no other user of this machine sees."""

    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def records(self) -> list[str]:
        folder = Path(os.environ["XDG_RUNTIME_DIR"]) / "softband"
        return sorted(file.name for file in folder.iterdir()) if folder.is_dir() else []

    def up(self, *words: str) -> None:
        done = self.command("up", "--detach", *words)
        assert done.returncode == 0, done.stderr

    def on(self, host: str, *command: str, name: str = "default", **options: Any) -> subprocess.Popen[str]:
        words = [str(self.binary), "exec", host, "--name", name, "--", *command]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.PIPE}
        program = subprocess.Popen(words, cwd=self.folder, text=True, **{**pipes, **options})
        self.started.append(program)
        return program

    def tell_of_programs(self) -> None:
        """Prints states and outputs of programs that still run, for the report of a failure."""
        for program in self.started:
            if program.returncode is None:
                print("\n".join(state_of(pid) for pid in family_of(program.pid)))
                program.kill()
                with suppress(subprocess.TimeoutExpired, ValueError):
                    print(*program.communicate(timeout=5))

    def say(self, host: str, *command: str, name: str = "default") -> str:
        """Runs a program on a host and returns its standard output. Fails if the program fails."""
        program = self.on(host, *command, name=name)
        out, errors = program.communicate(timeout=WAIT_SECONDS)
        assert program.returncode == 0, errors
        return out.strip()

    def python(self, host: str, code: str) -> subprocess.Popen[str]:
        return self.on(host, sys.executable, "-c", code)

    def status(self, *words: str) -> list[dict[str, Any]]:
        fabrics: list[dict[str, Any]] = json.loads(self.command("status", "--json", *words).stdout)["fabrics"]
        return fabrics

    def address(self, host: str) -> str:
        """Returns the address of a host. Each fabric on this machine has its own network."""
        return next(entry["address"] for entry in self.status()[0]["hosts"] if entry["name"] == host)

    def programs(self, host: str) -> list[dict[str, Any]]:
        hosts = self.status()[0]["hosts"]
        return next(entry["programs"] for entry in hosts if entry["name"] == host)


@pytest.fixture
def fabrics(softband: Softband, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fabrics]:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("SOFTBAND_TEST_MARK", str(tmp_path))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    fabrics = Fabrics(softband.binary, softband.folder)
    try:
        yield fabrics
    finally:
        fabrics.tell_of_programs()
    for fabric in fabrics.status():
        fabrics.command("down", "--name", fabric["name"])
    assert fabrics.records() == []
    assert until(lambda: not left_behind(tmp_path)), left_behind(tmp_path)


def left_behind(mark: Path) -> list[str]:
    """Returns the commands of surviving processes that a test started, engines included."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if f"SOFTBAND_TEST_MARK={mark}\0".encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found


@pytest.fixture(scope="session")
def c_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiles the C programs of conformance/c against the system's own headers and libraries."""
    folder = tmp_path_factory.mktemp("programs")
    # The programs data_path, umad and verbs_all consist of several files each.
    names = (
        "atomics",
        "call_filter",
        "cancelled",
        "cm_deaths",
        "company",
        "completion_room",
        "crash_peer",
        "datagram_ready",
        "datagram_type",
        "direct",
        "empty_looks",
        "events",
        "extended_poll",
        "held_up",
        "hw_counters",
        "native_calls",
        "no_reads",
        "no_spins",
        "partial_polls",
        "pinned_memory",
        "port_events",
        "protected_memory",
        "rdma_cm",
        "rdma_group",
        "read_before_reply",
        "region_gone",
        "shared_names",
        "stream",
        "folder_walks",
        "forked_region",
        "fresh_queue_pairs",
        "global_route",
        "group",
        "emptied_environment",
        "host_interfaces",
        "huge_pages",
        "interrupted",
        "interrupted_locks",
        "life_cycle",
        "machine_changes",
        "many_senders",
        "multipath",
        "refusals",
        "registered_memory",
        "scribble",
        "service",
        "robust_mutex",
        "shared_memory",
        "clock_reads",
        "zero_length",
        "shared_read",
        "shared_registration",
        "joined",
        "kernel_descriptors",
        "unix_connect",
        "late_receiver",
        "shared_arrivals",
        "shared_builder",
        "signal_waits",
        "slow_ends",
        "soak",
        "socket_calls",
        "socket_echo",
        "socket_families",
        "socket_more",
        "socket_times",
        "socket_v6",
        "terminal",
        "thread_left_behind",
        "verbs_edges",
        "verbs_errors",
        "verbs_optional",
        "verbs_threads",
        "waits",
        "without_engine",
        "yields",
    )
    parts = {name: [PROGRAMS / f"{name}.c"] for name in names}
    parts["data_path"] = [PROGRAMS / "data_path.c", PROGRAMS / "data_path_plan.c"]
    parts["verbs_all"] = [PROGRAMS / "verbs_all.c", PROGRAMS / "verbs_more.c"]
    parts["umad"] = [PROGRAMS / "umad.c", PROGRAMS / "umad_library.c"]
    for name, sources in parts.items():
        own = {"umad": "-libumad", "service": "-libumad", "cm_deaths": "-lrdmacm", "rdma_cm": "-lrdmacm", "rdma_group": "-lrdmacm"}
        libraries = [own.get(name, "-libverbs"), "-libverbs", "-lpthread"]
        command = ["cc", "-O1", "-Wall", "-o", str(folder / name), *map(str, sources), *libraries]
        subprocess.run(command, check=True, timeout=120)
    return folder


def table(text: str) -> list[list[float]]:
    """Returns the rows of a perftest table."""
    rows = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and words[0].isdigit():
            try:
                rows.append([float(word) for word in words])
            except ValueError:
                continue
    return rows
