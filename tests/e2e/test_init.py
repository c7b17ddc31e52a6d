"""`softband init` writes a first fabric file: by options, by defaults, or by answers on a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
from pathlib import Path

import pytest
from conftest import Softband


def checked(softband: Softband, file: str = "fabric.toml") -> str:
    done = softband.command("fabric", "check", file)
    assert done.returncode == 0 and "no errors" in done.stdout + "no errors" * ("no faults" in done.stdout), done.stderr
    assert softband.command("fabric", "fmt", "--check", file).returncode == 0
    return (softband.folder / file).read_text()


def test_yes_takes_the_defaults_and_the_next_command_works(softband: Softband) -> None:
    done = softband.command("init", "--yes")
    assert done.returncode == 0 and done.stdout.startswith("wrote fabric.toml: 2 hosts with modern-hca on one switch ")
    assert "--hosts 2 --hca modern-hca --link-layer infiniband --topology star" in done.stderr
    text = checked(softband)
    assert 'edition = "2026"' in text and "# " in text
    (wanted,) = [line.strip() for line in done.stdout.splitlines() if "softband run" in line]
    assert wanted == "softband run fabric.toml --on a ib_send_bw --on b 'ib_send_bw a'"
    softband.run(softband.folder / "fabric.toml", ("a", "ib_send_bw -n 5"), ("b", "ib_send_bw -n 5 a")).assert_ok()


@pytest.mark.parametrize("hca", ["mt23108", "voltaire-ddr", "connectx2-qdr", "connectx5", "connectx8"])
@pytest.mark.parametrize("topology", ["back-to-back", "star", "fat-tree"])
def test_each_generation_has_parts_that_suit_it(softband: Softband, hca: str, topology: str) -> None:
    done = softband.command("init", "--hca", hca, "--topology", topology, "--out", "f.toml")
    assert done.returncode == 0, done.stderr
    assert f'"{hca}"' in checked(softband, "f.toml")
    shown = softband.command("fabric", "check", "f.toml")
    assert ": no faults" in shown.stdout and shown.stderr == ""


def test_ethernet_is_a_link_layer(softband: Softband) -> None:
    assert softband.command("init", "--hca", "connectx5", "--link-layer", "ethernet", "--hosts", "3").returncode == 0
    text = checked(softband)
    assert text.count('link_layer = "ethernet"') == 3 and "[ethernet]" in text
    softband.run(softband.folder / "fabric.toml", ("a", "ib_send_bw -n 5"), ("c", "ib_send_bw -n 5 a")).assert_ok()


def test_many_hosts_make_a_fat_tree(softband: Softband) -> None:
    done = softband.command("init", "--hosts", "200")
    assert done.returncode == 0 and "--topology fat-tree" in done.stderr
    assert "[generate]" in checked(softband)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ((), "standard input is no terminal"),
        (("--hosts", "0"), "`0` is no number of hosts"),
        (("--hosts", "two"), "`two` is no number of hosts"),
        (("--hca", "conectx5"), "did you mean `connectx5`?"),
        (("--topology", "fattree"), "did you mean `fat-tree`?"),
        (("--link-layer", "ethernt"), "did you mean `ethernet`?"),
        (("--hca", "voltaire-ddr", "--link-layer", "ethernet"), "`voltaire-ddr` has no Ethernet ports"),
        (("--topology", "back-to-back", "--hosts", "3"), "back-to-back joins 2 hosts"),
        (("--topology", "star", "--hosts", "500"), "too few for 500 hosts"),
        (("--topology", "fat-tree", "--link-layer", "ethernet"), "take star"),
        (("--yes", "--out", "no/such/folder/f.toml"), "make the folder no/such/folder first"),
    ],
)
def test_bad_answers_are_errors_with_a_remedy_and_leave_no_file(softband: Softband, words: tuple[str, ...], wrong: str) -> None:
    done = softband.command("init", *words)
    assert (done.returncode, done.stdout) == (2, "") and wrong in done.stderr and "  help: " in done.stderr
    assert not list(softband.folder.iterdir())


def test_a_file_is_overwritten_only_by_force(softband: Softband) -> None:
    file = softband.folder / "fabric.toml"
    file.write_text("mine")
    done = softband.command("init", "--yes")
    assert done.returncode == 2 and "exists already" in done.stderr and "--force" in done.stderr and file.read_text() == "mine"
    assert softband.command("init", "--yes", "--force").returncode == 0 and file.read_text() != "mine"
    file.unlink()
    file.symlink_to("nowhere")
    assert softband.command("init", "--yes").returncode == 2 and file.is_symlink()


def on_terminal(softband: Softband, answers: list[str], *words: str) -> tuple[int, str]:
    """Runs the command with a terminal, and types an answer after each question."""
    ours, theirs = pty.openpty()
    run = subprocess.Popen([str(softband.binary), "init", *words], stdin=theirs, stdout=theirs, stderr=theirs, cwd=softband.folder)
    os.close(theirs)
    seen, asked = "", 0
    while select.select([ours], [], [], 30)[0]:
        try:
            seen += os.read(ours, 4096).decode()
        except OSError:
            break
        if seen.rstrip(" ").endswith("]:") and seen.count("]: ") > asked:
            asked += 1
            os.write(ours, (answers.pop(0) + "\n").encode() if answers else b"\x04")
    os.close(ours)
    return run.wait(30), seen


def test_a_terminal_is_asked_four_questions_and_bad_answers_are_asked_again(softband: Softband) -> None:
    answers = ["none", "3", "conectx5", "connectx5", "", "back-to-back", "star"]
    status, seen = on_terminal(softband, answers)
    assert status == 0, seen
    assert "`none` is no number of hosts" in seen and "did you mean `connectx5`?" in seen and "back-to-back joins 2 hosts" in seen
    assert [seen.count(f"{question} [") for question in ("Number of hosts", "HCA part", "(infiniband, ethernet)", "fat-tree)")] == [2, 2, 1, 2]
    text = checked(softband)
    assert text.count('part = "connectx5"') == 3


def test_options_answer_questions_and_an_early_end_leaves_no_file(softband: Softband) -> None:
    status, seen = on_terminal(softband, ["", ""], "--hosts", "2", "--hca", "connectx5")
    assert status == 0 and "Number of hosts" not in seen and "HCA part [" not in seen
    Path(softband.folder / "fabric.toml").unlink()
    status, seen = on_terminal(softband, ["2"])
    assert status == 2 and "--yes" in seen and not list(softband.folder.iterdir())
