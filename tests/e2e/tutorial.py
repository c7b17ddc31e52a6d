"""Reads the commands of a tutorial, runs them as a reader would type them, and compares what they print.

A `console` block shows commands after `$ ` (continued after `> `) and their output. The line `...` stands for any lines,
and `...` in a line for any text. A `sh` block is one script, whose output the tutorial does not show. Each command must
exit with status 0, unless the next command of its block is `echo $?`, which shows another status.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)[^\n]*\n(?P<body>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)
# Precedes the status of a command, between the outputs of two commands.
MARK = "\x01"


@dataclass
class Command:
    """A command of a tutorial, with the output that the tutorial shows."""

    text: str
    line: int
    # `None` if the tutorial shows no output.
    output: list[str] | None
    may_fail: bool = False


@dataclass
class Ran:
    """The outcome of a tutorial."""

    faults: list[str] = field(default_factory=list)
    outputs: list[list[str]] = field(default_factory=list)


def console(body: str, line: int) -> list[Command]:
    commands: list[Command] = []
    for offset, text in enumerate(body.splitlines()):
        if text.startswith("$ "):
            commands.append(Command(text[2:], line + offset, []))
        elif not commands:
            raise ValueError(f"line {line + offset}: output before the first command; a command begins with `$ `")
        elif text.startswith("> ") and not commands[-1].output:
            commands[-1].text += f"\n{text[2:]}"
        else:
            output = commands[-1].output
            assert output is not None
            output.append(text.rstrip())
    for command, following in pairwise(commands):
        command.may_fail = following.text == "echo $?"
    return commands


def commands_of(text: str) -> list[Command]:
    """Returns the commands of a tutorial in their order. Fails if there are none."""
    found: list[Command] = []
    for block in FENCE.finditer(text):
        body = re.sub(rf"^{block['indent']}", "", block["body"], flags=re.MULTILINE)
        line = text.count("\n", 0, block.start()) + 2
        if block["language"] == "console":
            found += console(body, line)
        elif block["language"] == "sh":
            found.append(Command(body.rstrip("\n"), line, None))
    if not found:
        raise ValueError("the tutorial has no commands: mark their blocks with `console` or `sh`")
    return found


def script_of(commands: list[Command]) -> str:
    """Returns one script for all commands, so that variables, folders and programs in the background stay."""
    steps = (f"{command.text}\n__status=$?; printf '\\n{MARK}%d\\n' $__status; (exit $__status)" for command in commands)
    return "\n".join(steps) + "\nexit 0\n"


def matches(shown: list[str], printed: list[str]) -> bool:
    """Returns whether the printed lines match those that the tutorial shows."""
    pattern = "".join(
        r"(?:[^\n]*\n)*" if line.strip() == "..." else "[^\n]*".join(map(re.escape, line.split("..."))) + "\n" for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed)) is not None


def run(commands: list[Command], folder: Path, environment: dict[str, str], seconds: float) -> Ran:
    """Runs the commands in `folder`, and returns each difference from the tutorial with its line."""
    # Settings of the reader's own shell, such as SOFTBAND_QUIET, would change the output.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SOFTBAND_") or name == "SOFTBAND_TEST_MARK"}
    script = folder.parent / f"{folder.name}.sh"
    script.write_text(script_of(commands), encoding="utf-8")
    shell = subprocess.Popen(
        ["bash", str(script)],
        cwd=folder,
        env={**inherited, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = shell.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        printed, _ = shell.communicate()
        printed += f"\n(after {seconds} s the commands had not ended)\n"
    return compared(commands, printed)


def compared(commands: list[Command], printed: str) -> Ran:
    """Compares the output of the script with the tutorial."""
    ran = Ran()
    pieces = re.split(rf"\n{MARK}(\d+)\n", printed)
    for number, command in enumerate(commands):
        # Pieces alternate: output, status, output, status ...
        output = pieces[2 * number].splitlines() if 2 * number < len(pieces) else []
        status = pieces[2 * number + 1] if 2 * number + 1 < len(pieces) else None
        ran.outputs.append(output)
        where = f"line {command.line}: $ {command.text}\n"
        if status is None:
            ran.faults.append(where + "did not end; it printed:\n" + "\n".join(output))
            break
        if status != "0" and not command.may_fail:
            ran.faults.append(where + f"exit status {status}; it printed:\n" + "\n".join(output))
        elif command.output is not None and not matches(command.output, output):
            ran.faults.append(where + "printed:\n" + "\n".join(output) + "\nthe tutorial shows:\n" + "\n".join(command.output))
    return ran
