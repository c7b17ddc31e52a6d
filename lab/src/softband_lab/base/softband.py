"""Calls the `softband` binary: the lab's only door to the engine."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from softband_lab.base.errors import LabError

# Output of `softband` in the folder of a run. `softband model` writes only its standard error there.
LOG_NAME = "softband.log"
# The folders of a tree that can change a result.
_RESULT_FOLDERS = ("lib", "catalog", "tools", "mpibench", "npb", "lattice", "weather")
_GRACE_SECONDS = 5.0
_CATALOG = "SOFTBAND_CATALOG"
_SHORT_COMMAND_SECONDS = 60.0
_COMPILE_SECONDS = 300.0
# Debian's compilers of the MPIs that `softband mpirun` knows, the first one first.
_COMPILERS = ("mpicc.mpich", "mpicc.openmpi")


@dataclass(frozen=True)
class Program:
    """A program of a run: its host, and its command as a user types it."""

    host: str
    command: str


@dataclass(frozen=True)
class MpiJob:
    """The ranks of an MPI program, in turns on the hosts.

    The program is one of the tree that the user's `mpicc` compiles, such as `softband-mpibench`.
    """

    program: str
    arguments: tuple[str, ...]
    ranks: int
    hosts: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    # Options of the time of computation, without the recording.
    compute: tuple[str, ...] = ()
    # The compiler of the program. Empty: the user's first.
    compiler: str = ""


@dataclass(frozen=True)
class Answer:
    """The result of a short `softband` command."""

    exit_status: int
    stdout: str
    stderr: str


class RunFailed(Exception):
    """A run failed. Carries its command, the reason, and the last lines of its output."""

    def __init__(self, command: str, reason: str, last_lines: list[str]) -> None:
        super().__init__(reason)
        self.command = command
        self.reason = reason
        self.last_lines = last_lines

    def __str__(self) -> str:
        return "\n".join([f"{self.reason}: {self.command}", *(f"  | {line}" for line in self.last_lines)])


class Cancelled(Exception):
    """The campaign stops, and ended this run early."""


@dataclass
class Softband:
    """The binary, and its processes that are still alive."""

    binary: Path
    home: Path | None = None
    # The user's parts beside a fabric file, for runs that read a copy of the file elsewhere.
    own_parts: Path | None = None
    _alive: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)

    @cached_property
    def version(self) -> str:
        answer = self.ask(["--version"])
        if answer.exit_status != 0 or not answer.stdout.strip():
            raise LabError(
                self.binary,
                f"`--version` failed: {_last(answer.stderr) or 'no output'}",
                "point SOFTBAND_BIN at a working `softband` binary",
            )
        return answer.stdout.strip().splitlines()[0]

    @cached_property
    def build_digest(self) -> str:
        """Returns a digest of everything that can change a result: binaries, libraries, catalogue, MPI programs.

        The version alone stays the same while a developer changes the model or a part.
        """
        trees = [tree for tree in (self.binary.parent.parent, self.home) if tree is not None]
        # Results also depend on other programs of the tree, such as softband-multirail.
        files = [self.binary, *sorted(self.binary.parent.glob("softband-*"))]
        for folder in dict.fromkeys(tree / name for tree in trees for name in _RESULT_FOLDERS):
            files += sorted(path for path in folder.rglob("*") if path.is_file())
        return digest_files(files)

    def ask(self, arguments: list[str]) -> Answer:
        """Runs a short command to its end."""
        try:
            done = subprocess.run(
                [str(self.binary), *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SHORT_COMMAND_SECONDS,
                check=False,
                env=self._with_own_parts(os.environ),
            )
        except subprocess.TimeoutExpired:
            return Answer(124, "", f"no answer within {_SHORT_COMMAND_SECONDS:g} s")
        except OSError as error:
            raise LabError(self.binary, f"cannot be run: {error.strerror}", "set SOFTBAND_BIN to the binary") from None
        return Answer(done.returncode, done.stdout, done.stderr)

    def check(self, fabric: Path) -> Answer:
        return self.ask(["fabric", "check", str(fabric)])

    def show(self, fabric: Path) -> Answer:
        return self.ask(["fabric", "show", str(fabric)])

    def draw(self, fabric: Path, svg: Path) -> bool:
        svg.parent.mkdir(parents=True, exist_ok=True)
        return self.ask(["fabric", "show", str(fabric), "--svg", str(svg)]).exit_status == 0 and svg.is_file()

    def run(
        self,
        fabric: Path,
        programs: list[Program],
        out: Path,
        seed: int | None,
        timeout_seconds: float | None,
        options: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Runs programs on a fabric. Returns run.json. Raises RunFailed, or Cancelled after `stop`."""
        arguments = [*run_arguments(str(fabric), programs, seed, str(out)), *options]
        return self._carry_out(arguments, out, timeout_seconds, "run.json")

    def mpirun(
        self,
        fabric: Path,
        job: MpiJob,
        out: Path,
        seed: int | None,
        timeout_seconds: float | None,
        recording: Path | None = None,
    ) -> dict[str, Any]:
        """Runs an MPI job on a fabric, with the computation of a recording. Returns run.json. Raises as `run` does."""
        compiler = job.compiler or os.environ.get("MPICC") or next(filter(shutil.which, _COMPILERS), "mpicc")
        program = self._compiled(job.program, compiler)
        arguments = mpirun_arguments(str(fabric), job, program, seed, str(out), str(recording) if recording else "")
        environment = {**dict(job.environment), "MPICC": compiler}
        return self._carry_out(arguments, out, timeout_seconds, "run.json", environment=environment)

    def _compiled(self, name: str, compiler: str) -> str:
        """Returns the path of an MPI program that the user's compiler makes, once for each MPI."""
        try:
            done = subprocess.run(
                [str(self.binary.with_name(name)), "--path"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_COMPILE_SECONDS,
                check=False,
                env={**os.environ, "MPICC": compiler},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RunFailed(f"{name} --path", str(error), []) from None
        if done.returncode != 0:
            raise RunFailed(f"MPICC={compiler} {name} --path", f"exit status {done.returncode}", _lines(done.stderr))
        return done.stdout.strip()

    def model(self, words: list[str], out: Path, timeout_seconds: float | None) -> dict[str, Any]:
        """Runs `softband model` with these arguments. Returns model.json. Raises as `run` does."""
        arguments = ["model", *words, "--out", str(out)]
        return self._carry_out(arguments, out, timeout_seconds, "model.json", has_report=True)

    def _carry_out(
        self,
        arguments: list[str],
        out: Path,
        timeout_seconds: float | None,
        summary: str,
        has_report: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Drops a report on standard output: the summary repeats it, and the log then has warnings only."""
        shown = shlex.join(["softband", *arguments])
        out.mkdir(parents=True, exist_ok=True)
        log = out / LOG_NAME
        with log.open("wb") as sink:
            process = self._start(arguments, subprocess.DEVNULL if has_report else sink, sink, environment or {})
            try:
                status = self._wait(process, timeout_seconds)
            finally:
                with self._lock:
                    self._alive.discard(process)
        if self._stopping.is_set():
            raise Cancelled
        if status is None:
            raise RunFailed(shown, f"no end within {timeout_seconds:g} s", _tail(log))
        if status != 0:
            raise RunFailed(shown, f"exit status {status}", _tail(log))
        return _read_summary(out / summary, shown, log)

    def stop(self) -> None:
        """Ends every run that is under way, and refuses later runs."""
        self._stopping.set()
        with self._lock:
            alive = list(self._alive)
        for process in alive:
            _end(process)

    def _start(
        self, arguments: list[str], output: Any, errors: Any, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopping.is_set():
                raise Cancelled
            # A session of its own: Ctrl-C reaches the lab alone, which then ends its runs in order.
            process = subprocess.Popen(
                [*_tied_to_us(), str(self.binary), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                env={**self._environment(), **environment},
            )
            self._alive.add(process)
            return process

    def _environment(self) -> dict[str, str]:
        """Returns the environment of a run.

        A run gets one processor, because other runs use the others. The campaign itself shows the progress.
        The log has no bottleneck lines: the lab reads bottlenecks from counters. PATH begins with the tree.
        """
        path = f"{self.binary.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        environment = {"SOFTBAND_PROCESSORS": "1", **os.environ, "SOFTBAND_PROGRESS": "0", "SOFTBAND_QUIET": "1"}
        return self._with_own_parts({**environment, "PATH": path})

    def _with_own_parts(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Adds the parts beside the fabric file. Folders of the environment take precedence, as in `softband`."""
        if self.own_parts is None:
            return dict(environment)
        folders = [name for name in (environment.get(_CATALOG), str(self.own_parts)) if name]
        return {**environment, _CATALOG: os.pathsep.join(folders)}

    def _wait(self, process: subprocess.Popen[bytes], timeout_seconds: float | None) -> int | None:
        try:
            return process.wait(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            return None


def run_arguments(fabric: str, programs: Iterable[Program], seed: int | None, out: str) -> list[str]:
    arguments = ["run", fabric]
    for program in programs:
        arguments += ["--on", program.host, program.command]
    if seed is not None:
        arguments += ["--seed", str(seed)]
    return [*arguments, "--out", out]


def mpirun_arguments(
    fabric: str, job: MpiJob, program: str, seed: int | None, out: str, recording: str = ""
) -> list[str]:
    arguments = ["mpirun", "--hosts", ",".join(job.hosts), "-n", str(job.ranks)]
    if recording:
        arguments += ["--compute", f"recorded={recording}", *job.compute]
    if seed is not None:
        arguments += ["--seed", str(seed)]
    return [*arguments, "--out", out, fabric, program, *job.arguments]


def digest_files(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


@cache
def _tied_to_us() -> list[str]:
    """Returns the prefix of a command that ends with its parent, also if the parent is killed."""
    program = shutil.which("setpriv")
    return [program, "--pdeathsig", "TERM", "--"] if program else []


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupts a process, so that the engine cleans up, and kills it after a grace period."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read_summary(path: Path, shown: str, log: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFailed(shown, f"{path.name} is missing or broken: {error}", _tail(log)) from None
    if not isinstance(content, dict):
        raise RunFailed(shown, f"{path.name} is not a table", _tail(log))
    return content


def _tail(log: Path, lines: int = 12) -> list[str]:
    try:
        return _lines(log.read_text(encoding="utf-8", errors="replace"), lines)
    except OSError:
        return []


def _lines(text: str, lines: int = 12) -> list[str]:
    return text.rstrip().splitlines()[-lines:]


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
