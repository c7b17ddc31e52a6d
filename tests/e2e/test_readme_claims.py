"""The tree has all that README.md names: commands, options, targets, fabrics, keys, counts."""

from __future__ import annotations

import re
import shlex
from collections import Counter

import pytest
from conftest import FABRICS, ROOT, Softband

README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Tests of rdma-core that are not generic: they need one maker's devices or other libraries.
OTHERS = ("test_mlx5", "test_efa", "test_cuda")
# The first argument of these commands is a fabric.
WITH_FABRIC = ("run", "model")


def lines() -> list[str]:
    """Returns the commands of README's blocks, without comments and without program output."""
    found = []
    for block in FENCE.findall(README):
        for line in block.splitlines():
            words = line.removeprefix("$ ").split("  #")[0].strip().removesuffix("&").strip()
            found += [part.strip() for part in re.split(r"&&|\|", words)]
    return [line for line in found if line.startswith(("softband ", "make "))]


def commands(program: str) -> list[list[str]]:
    quoted = [code for code in re.findall(r"`([^`\n]+)`", FENCE.sub("", README)) if code.startswith(f"{program} ")]
    return [shlex.split(line)[1:] for line in [*lines(), *quoted] if line.startswith(f"{program} ")]


def options_of(words: list[str]) -> list[str]:
    """Returns the options of Softband itself. Those behind `--` belong to the program."""
    own = words[: words.index("--")] if "--" in words else words
    return [word.split("=")[0] for word in own if word.startswith("--")]


def test_the_blocks_are_found() -> None:
    assert {"run", "up", "exec", "fault", "down", "model", "what-if", "study"} <= {words[0] for words in commands("softband")}


@pytest.mark.parametrize("words", commands("softband"), ids=" ".join)
def test_each_command_and_each_of_its_options_is_in_the_help(softband: Softband, words: list[str]) -> None:
    command, text = words[:1], softband.command("--help").stdout
    assert re.search(rf"^  {command[0]} ", text, re.MULTILINE), f"no command {command[0]}"
    text = softband.command(*command, "--help").stdout
    if "\nCommands:\n" in text:
        command = words[:2]
        assert re.search(rf"^  {command[1]} ", text, re.MULTILINE), f"no command {' '.join(command)}"
        text = softband.command(*command, "--help").stdout
    for option in options_of(words):
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", text), f"{' '.join(command)} has no option {option}"


@pytest.mark.parametrize("words", [words for words in commands("softband") if words[0] in WITH_FABRIC], ids=" ".join)
def test_each_fabric_that_a_command_names_is_there(words: list[str]) -> None:
    assert (FABRICS / f"{words[1]}.toml").is_file()


def test_each_study_that_a_command_names_is_there() -> None:
    studies = [words[1] for words in commands("softband") if words[0] == "study"]
    assert {"cables", "accuracy", "sockets", "osu", "dell", "karlsruhe", "papers"} == set(studies)
    assert all((ROOT / "studies" / study).is_dir() for study in studies)


def test_each_target_of_make_is_in_the_makefile() -> None:
    made = [word for words in commands("make") for word in words if "=" not in word]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"install", "demo"} <= set(made) <= set(targets)


def test_each_key_of_a_part_is_in_the_catalog() -> None:
    # Programs of perftest begin with `ib_`; UCX's transports end with `_verbs`.
    words = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", README))
    keys = {word for word in words if not word.startswith("ib_") and not word.endswith("_verbs")}
    known = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "catalog").rglob("*.toml"))
    assert keys
    assert all(re.search(rf"^{key} = ", known, re.MULTILINE) for key in keys)


def test_the_outcomes_of_pyverbs_are_those_of_its_list() -> None:
    listed = (ROOT / "conformance" / "pyverbs" / "expected.txt").read_text(encoding="utf-8").splitlines()
    generic = (line for line in listed if line and not line.startswith(("#", *OTHERS)))
    outcomes = Counter(line.split("\t")[1] for line in generic)
    claimed = re.search(r"pyverbs\) \| (\d+) pass, (\d+) skip", README)
    assert claimed is not None
    assert outcomes == {"pass": int(claimed[1]), "skip": int(claimed[2])}


def test_the_page_on_versions_names_the_versions_of_the_tree() -> None:
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    workspace = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    (rust,) = re.findall(r'^rust-version = "(.*)"$', workspace, re.MULTILINE)
    lab = (ROOT / "lab" / "pyproject.toml").read_text(encoding="utf-8")
    (python,) = re.findall(r'^requires-python = ">=(.*)"$', lab, re.MULTILINE)
    assert f"at present {rust}." in page and f"The lab needs Python {python} or newer" in page
    kernel = (ROOT / "crates" / "cli" / "src" / "doctor" / "kernel.rs").read_text(encoding="utf-8")
    oldest, complete = (".".join(pair) for pair in re.findall(r"^const (?:OLDEST|COMPLETE): .* = \((\d+), (\d+)\);$", kernel, re.MULTILINE))
    assert f"Linux {oldest} on x86-64, and {complete} for all" in page
    edition = (ROOT / "crates" / "catalog" / "src" / "fabric_file" / "edition.rs").read_text(encoding="utf-8")
    (editions,) = re.findall(r"^const EDITIONS: .* = \[(.*)\];$", edition, re.MULTILINE)
    assert all(name in page for name in editions.split(", "))
