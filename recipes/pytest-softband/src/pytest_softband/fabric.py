"""The fabric of a test: runs on it, or a fabric that stays until the test ends."""

from __future__ import annotations

import json
import math
import os
import select
import shlex
import signal
import subprocess
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_softband.marks import Settings

# Softband ends a run at its own limit, and then writes the waits of all threads.
GRACE_SECONDS = 30.0
# A fabric comes up in a fraction of a second, except on a busy machine.
UP_SECONDS = 60.0
END_SECONDS = 10.0
# The report shows the end of an output. The folder has the rest.
SHOWN_CHARACTERS = 20_000

Command = str | Sequence[str | os.PathLike[str]]


class SoftbandError(AssertionError):
    """Softband could not do its work, for example for a wrong fabric file."""


class ProgramFailed(AssertionError):
    """A program ended with an error."""


class TimeLimit(AssertionError):
    """The programs took longer than the test's `timeout`."""


def _line(command: Command) -> str:
    return command if isinstance(command, str) else shlex.join(str(word) for word in command)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def end(process: subprocess.Popen[Any]) -> None:
    """Ends a process: by an interrupt first, so that it can end its programs."""
    for how in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(how)
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)


@dataclass(frozen=True)
class Run:
    """The outcome of programs on the hosts of a fabric."""

    status: int
    folder: Path
    report: dict[str, Any]
    messages: str

    @property
    def programs(self) -> list[dict[str, Any]]:
        """Returns host, command and exit status of each program."""
        programs: list[dict[str, Any]] = self.report["programs"]
        return programs

    def exit_status(self, host: str, number: int = 0) -> int:
        """Returns the exit status of a host's program. Fails if there is no program of this number."""
        of_host = [int(program["exit_status"]) for program in self.programs if program["host"] == host]
        if not 0 <= number < len(of_host):
            hosts = sorted({str(program["host"]) for program in self.programs})
            raise SoftbandError(f"no program {number} on host {host!r}: programs ran on {', '.join(hosts)}")
        return of_host[number]

    def output(self, host: str, number: int = 0) -> str:
        """Returns the standard output of a host's program."""
        self.exit_status(host, number)
        return _text(self.folder / f"{host}-{number}.out")

    def errors(self, host: str, number: int = 0) -> str:
        """Returns the standard error of a host's program."""
        self.exit_status(host, number)
        return _text(self.folder / f"{host}-{number}.err")

    def check(self) -> Run:
        """Fails if a program failed or the time limit ended the run."""
        if "TimedOut" in (self.report["failure"] or {}):
            raise TimeLimit(f"the time limit ended the run\n{self.messages}")
        if self.status != 0:
            lines = [f"{one['host']}: {one['command']!r}: status {one['exit_status']}" for one in self.programs]
            failed = [line for line in lines if not line.endswith(" status 0")]
            raise ProgramFailed("\n".join([f"the run ended with status {self.status}", *failed]))
        return self


@dataclass
class Spawned:
    """A program on a fabric that stays."""

    host: str
    command: str
    process: subprocess.Popen[bytes]
    files: tuple[Path, Path]
    deadline: float

    def wait(self) -> int:
        """Returns the exit status of the program. Fails at the time limit of the test."""
        try:
            return self.process.wait(max(0.0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise TimeLimit(f"{self.command!r} on host {self.host} still runs at the time limit of the test") from None

    def output(self) -> str:
        """Returns the standard output so far."""
        return _text(self.files[0])

    def errors(self) -> str:
        """Returns the standard error so far."""
        return _text(self.files[1])


@dataclass
class Fabric:
    """The fixture's value. `folder` keeps the files of all runs."""

    binary: Path
    settings: Settings
    folder: Path
    runs: list[Path] = field(default_factory=list)
    spawned: list[Spawned] = field(default_factory=list)
    engine: subprocess.Popen[bytes] | None = None
    name: str = ""
    deadline: float = 0.0

    def run(
        self,
        programs: Mapping[str, Command] | Iterable[tuple[str, Command]],
        *,
        main: Iterable[str] = (),
        check: bool = True,
    ) -> Run:
        """Runs a command on each host, servers first. Pairs can start several programs on a host.

        The run ends with the programs on the hosts `main`, if any, and stops the others.
        `check` fails the test if a program fails.
        """
        pairs = programs.items() if isinstance(programs, Mapping) else programs
        words = [word for host, command in pairs for word in ("--on", host, _line(command))]
        words += [word for host in ([main] if isinstance(main, str) else main) for word in ("--main", host)]
        if not words:
            raise SoftbandError('no programs: name a command for a host, as in {"a": "./server"}')
        return self._run([self.settings.fabric, *self._options(), *words], check)

    def run_copies(self, n: int, program: Command, *, check: bool = True) -> Run:
        """Runs `n` copies of one program, copy i on host i. SOFTBAND_RANK tells them apart."""
        words = shlex.split(program) if isinstance(program, str) else [str(word) for word in program]
        # Without a name, the default fabric has as many hosts as copies.
        fabric = [] if self.settings.fabric == "default" else [self.settings.fabric]
        return self._run([*fabric, *self._options(), "-n", str(n), "--", *words], check)

    def up(self) -> None:
        """Brings up a fabric that stays until the end of the test, at wall pace."""
        if self.engine is not None:
            raise SoftbandError("the fabric of this test is already up")
        if self.settings.pace == "virtual":
            raise SoftbandError('a fabric that stays has wall pace: leave out pace="virtual" in @pytest.mark.softband')
        self.name = f"pytest-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.deadline = time.monotonic() + self.settings.timeout
        command = [str(self.binary), "up", self.settings.fabric, "--name", self.name, *self._faults()]
        with (self.folder / "up.err").open("wb") as errors:
            self.engine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        assert self.engine.stdout is not None
        ready = select.select([self.engine.stdout], [], [], UP_SECONDS)[0]
        if not ready or not self.engine.stdout.readline():
            end(self.engine)
            raise SoftbandError(f"the fabric did not come up\n{_text(self.folder / 'up.err')}")

    def spawn(self, host: str, argv: Command) -> Spawned:
        """Starts a program on a host of the fabric that stays."""
        self._must_be_up()
        number = len(self.spawned)
        words = shlex.split(argv) if isinstance(argv, str) else [str(word) for word in argv]
        files = self.folder / f"{host}-{number}.out", self.folder / f"{host}-{number}.err"
        with files[0].open("wb") as out, files[1].open("wb") as errors:
            command = [str(self.binary), "exec", host, "--name", self.name, "--", *words]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
        self.spawned.append(Spawned(host, shlex.join(words), process, files, self.deadline))
        return self.spawned[-1]

    def fault(self, *words: str) -> None:
        """Breaks the fabric that stays, in the words of `softband fault`."""
        self._must_be_up()
        command = [str(self.binary), "fault", *words, "--name", self.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=GRACE_SECONDS, check=False)
        if done.returncode:
            raise SoftbandError(f"{shlex.join(command[1:])}: status {done.returncode}\n{done.stderr}")

    def down(self) -> None:
        """Ends the fabric that stays, and all programs on it. The end of the test does the same."""
        engine, self.engine = self.engine, None
        if engine is None:
            return
        try:
            end(engine)
        finally:
            for program in self.spawned:
                end(program.process)
            if engine.stdout is not None:
                engine.stdout.close()

    def logs(self) -> list[tuple[str, str]]:
        """Returns title and text of each section for the report of a failed test."""
        found = [("folder of the test", f"{self.folder}")]
        for folder in [self.folder, *self.runs]:
            for file in sorted([*folder.glob("*.out"), *folder.glob("*.err")]):
                if (text := _text(file)).strip():
                    title = f"{file.stem} {'output' if file.suffix == '.out' else 'errors'} ({file})"
                    found.append((title, text[-SHOWN_CHARACTERS:]))
        return [(f"softband: {title}", text) for title, text in found]

    def _must_be_up(self) -> None:
        if self.engine is None:
            raise SoftbandError("no fabric is up: call softband.up() first")

    def _faults(self) -> list[str]:
        plan = self.settings.faults
        if isinstance(plan, str):
            path = self.folder / "faults.toml"
            path.write_text(plan, encoding="utf-8")
            plan = path
        return ["--faults", str(plan)] if plan else []

    def _options(self) -> list[str]:
        seconds = math.ceil(self.settings.timeout)
        return ["--pace", self.settings.pace or "virtual", "--timeout", str(seconds), *self._faults()]

    def _run(self, words: list[str], check: bool) -> Run:
        folder = self.folder / f"run-{len(self.runs) + 1}"
        folder.mkdir()
        self.runs.append(folder)
        command = [str(self.binary), "run", "--out", str(folder), *words]
        messages = folder / "softband.err"
        with messages.open("wb") as errors:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            status = process.wait(self.settings.timeout + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            raise TimeLimit(f"{shlex.join(command)}: no end {GRACE_SECONDS:.0f} s after the time limit") from None
        finally:
            end(process)
        if not (folder / "run.json").is_file():
            raise SoftbandError(f"{shlex.join(command)}: status {status}\n{_text(messages)}")
        run = Run(status, folder, json.loads(_text(folder / "run.json")), _text(messages))
        return run.check() if check else run
