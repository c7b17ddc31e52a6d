"""The commands of the tutorials and of README's example behave and print as the pages show."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from conftest import DIST, ROOT, Fabrics
from tutorial import Command, commands_of, compared, matches, run, script_of

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
README = ROOT / "README.md"
# A tutorial takes at most 30 s on a quiet machine.
SECONDS = 240


def test_there_are_four_tutorials() -> None:
    assert [path.stem for path in TUTORIALS] == ["ci", "class", "study", "what-if"]


@pytest.mark.parametrize("tutorial", [*TUTORIALS, README], ids=lambda path: path.stem)
def test_the_commands_of_a_tutorial_print_what_it_shows(tutorial: Path, fabrics: Fabrics, tmp_path: Path) -> None:
    folder = tmp_path / "tutorial"
    folder.mkdir()
    commands = commands_of(tutorial.read_text(encoding="utf-8"))
    # Tables have this width if the output is not a terminal.
    environment = {"PATH": f"{DIST / 'bin'}:{os.environ['PATH']}", "COLUMNS": "80"}
    assert fabrics.binary.is_file()
    start = time.monotonic()
    ran = run(commands, folder, environment, SECONDS)
    print(f"{tutorial.name}: {len(commands)} commands in {time.monotonic() - start:.0f} s")
    assert not ran.faults, "\n\n".join(f"{tutorial.relative_to(ROOT)}, {fault}" for fault in ran.faults)


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_shows_what_its_commands_print(tutorial: Path) -> None:
    shown = [command for command in commands_of(tutorial.read_text(encoding="utf-8")) if command.output]
    assert len(shown) >= 5
    assert all(set(map(str.strip, command.output or [])) != {"..."} for command in shown)


def test_a_tutorial_without_commands_is_an_error() -> None:
    with pytest.raises(ValueError, match="no commands"):
        commands_of("# Title\n\n```toml\na = 1\n```\n\n    $ indented\n")
    with pytest.raises(ValueError, match="line 4: output before"):
        commands_of("# Title\n\n```console\nsome output\n$ command\n```\n")


def test_commands_and_output_of_the_blocks_are_found() -> None:
    text = "# T\n```console\n$ one \\\n> two\nout\n$ false\n$ echo $?\n1\n```\n```toml\nx = 1\n```\n- item\n  ```sh\n  three\n  four\n  ```\n"
    assert commands_of(text) == [
        Command("one \\\ntwo", 3, ["out"]),
        Command("false", 6, [], may_fail=True),
        Command("echo $?", 7, ["1"]),
        Command("three\nfour", 15, None),
    ]


def test_dots_stand_for_any_lines_and_for_any_text() -> None:
    assert matches(["a", "...", "b"], ["a", "b"]) and matches(["a", "...", "b"], ["a", "x", "y", "b  "])
    assert not matches(["a", "...", "b"], ["a", "b", "c"]) and not matches([], ["a"]) and matches([], [])
    assert matches(["took ... s (...)"], ["took 1.5 s (x)"]) and not matches(["took ... s"], ["took 1.5", "s"])
    assert not matches(["1.5"], ["105"])


def test_differences_statuses_and_endless_commands_are_faults(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    text = "```console\n$ x=4; cd /\n$ echo $x; pwd\n4\n/\n$ printf no-newline\nno-newline\n$ echo right\nwrong\n$ (exit 3)\n$ (exit 3)\n$ echo $?\n3\n```\n"
    faults = run(commands_of(text), folder, {}, 20).faults
    assert [fault.splitlines()[:2] for fault in faults] == [["line 8: $ echo right", "printed:"], ["line 10: $ (exit 3)", "exit status 3; it printed:"]]
    endless = run(commands_of("```sh\necho begun\nsleep 600\n```\n"), folder, {}, 1).faults
    assert len(endless) == 1 and "did not end" in endless[0] and "begun" in endless[0]


def test_a_script_that_the_shell_cannot_read_is_a_fault() -> None:
    commands = commands_of("```sh\necho (\n```\n")
    assert "echo (" in script_of(commands)
    assert "did not end" in compared(commands, "bash: syntax error\n").faults[0]
