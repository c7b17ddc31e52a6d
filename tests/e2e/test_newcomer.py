"""The first contact of a new user: help, lists, misspelt names, pipes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import DIST, FABRICS, ROOT, Softband

COMMANDS = ("run", "mpirun", "record", "up", "exec", "status", "fault", "capture", "down", "model", "doctor", "init", "fabric",
            "parts", "completions")
COMPANIONS = ("study", "what-if", "compare", "model-sweep", "dask", "rsh", "multirail", "rfio", "tcpplay", "mpibench", "npb",
              "lattice", "weather")


def listed(text: str) -> dict[str, str]:
    """Returns the description of each name in a list."""
    return dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in text.splitlines() if line.strip())  # type: ignore[misc]


def commands_of(help_text: str) -> dict[str, str]:
    return listed(help_text.split("Commands:\n")[1].split("\n\n")[0])


def test_the_help_lists_every_command_with_a_line(softband: Softband) -> None:
    done = softband.command("--help")
    assert done.returncode == 0
    commands = commands_of(done.stdout)
    assert {*COMMANDS, *COMPANIONS, "help"} == set(commands) and all(len(about) > 20 for about in commands.values())
    assert softband.command().stderr.count("Commands:") == 1


def test_every_program_of_the_tree_is_a_command_that_the_help_names(softband: Softband) -> None:
    programs = {path.name.removeprefix("softband-") for path in (DIST / "bin").glob("softband-*")}
    assert programs == set(COMPANIONS)


def test_other_programs_of_the_name_are_commands_too(softband: Softband, monkeypatch: pytest.MonkeyPatch) -> None:
    program = softband.folder / "softband-greet"
    program.write_text("#!/bin/sh\necho greetings \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(softband.folder), prepend=":")
    assert commands_of(softband.command("--help").stdout)["greet"] == f"Run {program}"
    assert softband.command("greet", "--help", "x").stdout == "greetings --help x\n"
    assert softband.command("help", "greet").stdout == "greetings --help\n"


@pytest.mark.parametrize("words", [("study",), ("what-if",), ("run",), ("fabric", "list"), ("parts", "show"), ("fabric", "generate")])
def test_each_command_has_a_help(softband: Softband, words: tuple[str, ...]) -> None:
    done = softband.command(*words, "--help")
    assert done.returncode == 0 and words[-1] in done.stdout and "Usage" in done.stdout
    assert softband.command("help", *words).stdout.split()[:4] == done.stdout.split()[:4] or words[0] in ("study", "what-if")


def helps(softband: Softband, *words: str) -> dict[tuple[str, ...], str]:
    """Returns the help of a command and of all its subcommands."""
    text = softband.command(*words, "--help").stdout
    found = {words: text}
    if "Commands:\n" in text:
        for name in commands_of(text):
            if name != "help" and name not in COMPANIONS:
                found |= helps(softband, *words, name)
    return found


def test_every_help_calls_simulated_time_by_that_name(softband: Softband) -> None:
    found = helps(softband) | {(name,): softband.command(name, "--help").stdout for name in ("study", "what-if", "compare")}
    assert {("run",), ("fabric", "check"), ("parts", "show"), ("study",)} <= set(found)
    assert "simulated time" in found[("run",)]
    # Only the value of --pace may keep the word.
    assert not [words for words, text in found.items() if re.search(r"virtual[\s-]+(time|pace|second)", text, re.IGNORECASE)]


def test_no_message_of_the_programs_calls_it_otherwise() -> None:
    texts = {path: path.read_text() for folder in ("crates", "lab/src") for path in (ROOT / folder).rglob("*") if path.suffix in {".rs", ".py", ".jinja"}}
    assert len(texts) > 300
    assert not [str(path) for path, text in texts.items() if re.search(r"virtual[\s-]time", text, re.IGNORECASE)]


def test_the_version_has_the_commit(softband: Softband) -> None:
    said = softband.command("--version").stdout
    assert re.fullmatch(r"softband \d+\.\d+\.\d+( \([0-9a-f]{10}\))?\n", said)
    if (ROOT / ".git").exists() and shutil.which("git"):
        commit = said.split("(")[1].split(")")[0]
        found = subprocess.run(["git", "cat-file", "-t", commit], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert found.stdout == "commit\n"


def test_fabrics_are_listed_searched_and_taken_by_their_names(softband: Softband) -> None:
    fabrics = listed(softband.command("fabric", "list").stdout)
    assert len(fabrics) == len(list(FABRICS.rglob("*.toml"))) and fabrics["cables/sdr-cx4"]
    found = json.loads(softband.command("fabric", "list", "TORUS", "four", "--json").stdout)["fabrics"]
    assert [(fabric["name"], fabric["title"]) for fabric in found] == [("torus-4x4", "A torus of four by four switches")]
    assert Path(found[0]["file"]).is_file()
    for name in ("torus-4x4", "cables/sdr-cx4", "sockets/leininger-2.6.9"):
        assert softband.command("fabric", "check", name).returncode == 0
    nothing = softband.command("fabric", "list", "zebra")
    assert (nothing.returncode, nothing.stdout) == (1, "") and "no fabric has `zebra`" in nothing.stderr


def test_parts_are_listed_by_kind_and_searched(softband: Softband) -> None:
    lines = softband.command("parts", "list").stdout.splitlines()
    assert any(re.match(r"hca +connectx5 +\S", line) for line in lines)
    assert all(re.match(r"(bus|cable|hca|host|kernel|limit|nic|switch) +\S+ +\S", line) for line in lines)
    cables = json.loads(softband.command("parts", "list", "--kind", "cable", "--json").stdout)["parts"]
    assert {part["kind"] for part in cables} == {"cable"} and "cx4" in {part["name"] for part in cables}
    assert all(part["summary"] for part in cables)
    wrong = softband.command("parts", "list", "--kind", "cabel")
    assert wrong.returncode == 2 and "did you mean `cable`?" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("statsu",), "`softband status`"),
        (("studdy", "cables"), "`softband study`"),
        (("fabric", "lst"), "`list`"),
        (("fabric", "check", "tow-hosts"), "`two-hosts`"),
        (("run", "sdr-cx4", "--on", "a", "true"), "`cables/sdr-cx4`"),
        (("run", "three-hosts", "--on", "aa", "true"), "`a`"),
        (("parts", "show", "conectx5"), "`connectx5`"),
        (("model", "two-hosts", "incats"), "`incast`"),
        (("model", "torus-4x4", "incast", "--root", "h55"), "`h5`"),
        (("model", "two-hosts", "incast", "--byte", "1"), "`--bytes`"),
        (("run", "two-hosts", "--pace", "wal", "--on", "a", "true"), "`wall`"),
        (("fabric", "generate", "fat-treee"), "`fat-tree`"),
    ],
)
def test_misspelt_names_are_told_with_the_one_that_was_meant_in_one_form(softband: Softband, words: tuple[str, ...], meant: str) -> None:
    done = softband.command(*words)
    assert (done.returncode, done.stdout) == (2, "")
    first, *rest = done.stderr.splitlines()
    assert ("softband: error: " in first or ": error: " in first or first.startswith("error: ")), done.stderr
    assert any(line.startswith("  help: ") and f"did you mean {meant}?" in line for line in rest), done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("words", "missing"),
    [(("run", "two-hosts"), "--on HOST 'COMMAND'"), (("model", "two-hosts"), "<WORKLOAD>"), (("fabric", "show"), "<FILE>"), (("exec",), "<HOST>")],
)
def test_a_missing_argument_is_named_with_the_usage_or_a_remedy(softband: Softband, words: tuple[str, ...], missing: str) -> None:
    done = softband.command(*words)
    assert done.returncode == 2 and done.stderr.startswith("softband: error: ") and missing in done.stderr
    assert "\n  usage: softband " in done.stderr or "\n  help: " in done.stderr


MISTAKES: list[tuple[tuple[str, ...], str]] = [
    (("run", "two-hosts", "--on"), "a value is required for '--on <HOST> <COMMAND>'"),
    (("run", "two-hosts", "--on", "a"), "2 values required for '--on <HOST> <COMMAND>'"),
    (("run", "two-hosts", "true"), "unexpected argument 'true'"),
    (("run", "two-hosts", "--on", "a", "no-such-program"), "there is no program 'no-such-program' on the PATH"),
    (("run", "two-hosts", "--on", "a", "./no-such-program"), "there is no program './no-such-program'"),
    (("run", "folder", "--on", "a", "true"), "folder is a folder, not a fabric file"),
    (("run", "empty.toml", "--on", "a", "true"), "empty.toml: error: the fabric has no host"),
    (("fabric", "show"), "<FILE>"),
    (("fabric", "show", "nosuch"), "no fabric file nosuch"),
    (("fabric", "show", "/dev/null"), "/dev/null is not a regular file"),
    (("fabric", "check", "no/such/file.toml"), "no fabric file no/such/file.toml"),
    (("fabric", "check", "broken.toml"), "broken.toml:1:9: error: not valid TOML: "),
    (("fabric", "check", "binary.toml"), "it is not text in UTF-8"),
    (("fabric", "check", "unit.toml"), "unit.toml:24:10: error: "),
    (("fabric", "check", "part.toml"), "part.toml:13:8: error: no hca part `voltair-ddr`"),
    (("parts", "show", "nosuch"), "no part is called `nosuch`"),
    (("explain",), "there is no command `explain`"),
    (("fault", "x"), "unrecognized subcommand 'x'"),
    (("exec", "a", "--name", "nosuch", "--", "true"), "no fabric is up"),
    (("completions", "nosuch"), "invalid value 'nosuch'"),
    (("model", "two-hosts", "nosuch"), "no workload nosuch: it is neither a name nor a file"),
    (("model", "two-hosts", "nosuch.toml"), "no workload nosuch.toml: it is neither the name of a workload nor a file"),
    (("model", "two-hosts", "folder"), "no workload folder: it is a folder, not a file"),
    (("model", "two-hosts", "broken.toml"), "broken.toml:1:9: error: not valid TOML: "),
    (("model", "two-hosts", "empty.toml"), "empty.toml:1:1: error: missing field `workload`"),
    (("model", "two-hosts", "stream", "--bytes", "12furlongs"), "`12furlongs` is not a size"),
    (("model", "two-hosts", "stream", "--bytes", "-3"), "`-3` is not a size"),
    (("model", "two-hosts", "stream", "--messages", "x"), "this is not a whole number"),
    (("model", "two-hosts", "stream", "--threads", "0"), "0 is out of range"),
    (("model", "two-hosts", "stream", "--mtu", "77"), "an MTU is 256, 512, 1024, 2048 or 4096 bytes"),
    (("model", "two-hosts", "stream", "--out", "/proc/nowhere"), "cannot write to the results folder /proc/nowhere"),
    (("up", "--name", "a/b"), "'a/b' cannot name a fabric"),
    (("run", "two-hosts", "--on", "a", 'ls "'), "the quote \" is not closed"),
    (("run", "two-hosts", "--out", "empty.toml", "--on", "a", "true"), "cannot make the run folder empty.toml"),
    (("run", "two-hosts", "--pace", "fast", "--on", "a", "true"), "\n  help: the values are: virtual, wall\n"),
    (("fabric", "generate", "nosuch"), "softband: error: no kind of fabric `nosuch`"),
    (("fabric", "generate", "torus"), "softband: error: --dimensions: this kind needs it\n  help: write `--dimensions 4,4`"),
    (("fabric", "generate", "torus", "--dimensions", "4"), "softband: error: --dimensions: a torus cannot have 1 dimension here"),
]


@pytest.mark.parametrize(("words", "wrong"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_every_mistake_is_told_with_its_place_and_a_remedy_in_one_form(softband: Softband, words: tuple[str, ...], wrong: str) -> None:
    text = (FABRICS / "two-hosts.toml").read_text()
    (softband.folder / "folder").mkdir()
    (softband.folder / "empty.toml").touch()
    (softband.folder / "broken.toml").write_text("[hosts.a\npart = 3\n")
    (softband.folder / "binary.toml").write_bytes(b"\x00\xff\xfe")
    (softband.folder / "unit.toml").write_text(text.replace('part = "cx4"', 'part = "cx4"\nlength = "8 furlongs"'))
    (softband.folder / "part.toml").write_text(text.replace("voltaire-ddr", "voltair-ddr"))
    done = softband.command(*words)
    assert (done.returncode, done.stdout) == (2, "")
    first, *rest = done.stderr.splitlines()
    assert first.startswith("softband: error: ") or re.match(r"\S+\.toml(:\d+:\d+)?: error: ", first), done.stderr
    assert wrong in done.stderr and any(line.startswith("  help: ") for line in rest), done.stderr
    assert all(line.startswith("  ") or ".toml:" in line for line in rest), done.stderr


def test_one_of_a_thing_is_one(softband: Softband) -> None:
    assert ": 2 hosts, 1 switch, 2 cables: no faults\n" in softband.command("fabric", "check", "default").stdout
    said = softband.command("model", "two-hosts", "stream", "--messages", "1", "--threads", "1", "--out", "m").stdout
    assert "seed 1, 1 flow\n" in said and "1 thread)" in said and " 1 switches" not in said and " 1 hosts" not in said


def test_a_run_says_how_far_it_is_in_plain_lines_where_there_is_no_terminal(softband: Softband, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("model", "fat-tree-16", "all-to-all", "--bytes", "4MiB", "--threads", "1", "--out", "m")
    monkeypatch.setenv("SOFTBAND_PROGRESS", "0.05")
    lines = softband.command(*words).stderr.splitlines()
    assert lines and all(re.fullmatch(r"softband: \d+\.\d % done, \S+ \S+ simulated(, about \d+ s left)?", line) for line in lines)
    monkeypatch.setenv("SOFTBAND_PROGRESS", "0")
    assert softband.command(*words).stderr == ""
    monkeypatch.setenv("SOFTBAND_PROGRESS", "often")
    done = softband.command("model", "two-hosts", "stream", "--messages", "1", "--threads", "1", "--out", "m")
    assert done.returncode == 0
    assert done.stderr.startswith("softband: warning: SOFTBAND_PROGRESS = often is not a number of seconds\n  help: write the seconds between lines")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_know_every_command(softband: Softband, shell: str) -> None:
    done = softband.command("completions", shell)
    assert done.returncode == 0
    for name in (*COMMANDS, *COMPANIONS):
        assert name in done.stdout, name
    assert "start-date" in done.stdout
    if shutil.which(shell):
        file = softband.folder / "completions"
        file.write_text(done.stdout)
        assert subprocess.run([shell, "-n", str(file)], timeout=60, check=False).returncode == 0


def test_bash_completes_a_command_and_its_options(softband: Softband) -> None:
    (softband.folder / "completions").write_text(softband.command("completions", "bash").stdout)
    script = 'source completions; COMP_WORDS=(softband fabric s); COMP_CWORD=2; _softband softband s fabric; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script], cwd=softband.folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["show"], done.stderr


def test_man_pages_exist_for_every_command(softband: Softband) -> None:
    assert softband.command("completions", "--man", "man1").returncode == 0
    pages = {page.name for page in (softband.folder / "man1").iterdir()}
    wanted = {f"softband-{name}.1" for name in (*COMMANDS, *COMPANIONS)} | {"softband.1", "softband-fabric-show.1", "softband-parts-list.1"}
    assert wanted <= pages
    text = (softband.folder / "man1" / "softband-run.1").read_text()
    assert text.startswith(".") and "start\\-date" in text and ".SH NAME" in text


def test_lists_go_into_files_and_pipes_as_they_are(softband: Softband) -> None:
    script = 'set -o pipefail; "$@" > listing && "$@" | head -1'
    done = softband.command("fabric", "list", wrapper=("bash", "-c", script, "bash"))
    assert done.stderr == "" and (softband.folder / "listing").read_text().startswith(done.stdout) and "\x1b" not in done.stdout
