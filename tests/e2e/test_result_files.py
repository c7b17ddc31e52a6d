"""Each write of a result file succeeds in full or leaves the former file unchanged.

The tests write to a full disk, to a missing folder and through a pipe.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from conftest import FABRICS, Softband

RESULTS = ("fabric.toml", "counters.json", "run.json")


def namespace(softband: Softband, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in its own mount namespace, in which it may mount a small disk."""
    wrapper = ("unshare", "--mount", "--map-root-user", "sh", "-ec", script, "sh")
    probe = subprocess.run(
        [*wrapper[:3], "sh", "-c", f"mount -t tmpfs none {softband.folder}"], capture_output=True, text=True, timeout=60, check=False
    )
    if probe.returncode != 0:
        pytest.skip(f"nobody may mount a small disk here: {probe.stderr.strip()}")
    return softband.command(*words, wrapper=wrapper)


# Leaves too few free bytes for the last files of a run. The folder holds the files of a former run.
FULL = """
mount -t tmpfs -o size=64k none disk
for name in fabric.toml counters.json; do echo former > disk/$name; done
head -c {used} /dev/zero > disk/filler
set +e
"$@"
status=$?
ls -A disk > listing; cat disk/fabric.toml > kept
exit $status
"""


def test_a_disk_that_fills_up_during_a_run_leaves_no_half_file(softband: Softband) -> None:
    (softband.folder / "disk").mkdir()
    words = ("run", str(FABRICS / "two-hosts.toml"), "--out", "disk", "--on", "a", "true")
    done = namespace(softband, FULL.format(used=48 * 1024), *words)
    assert done.returncode == 2, done.stderr
    assert "cannot write disk/" in done.stderr and "No space left on device" in done.stderr
    assert "\n  help: make room there, or name another folder, and run it again\n" in done.stderr
    left = (softband.folder / "listing").read_text().split()
    assert "run.json" not in left and not [name for name in left if name.endswith(".part")]
    assert (softband.folder / "kept").read_text() == "former\n"


@pytest.mark.parametrize(
    "words",
    [
        ("fabric", "generate", "star", "--hosts", "60", "--expand", "--out", "disk/new"),
        ("fabric", "show", str(FABRICS / "fat-tree-16.toml"), "--svg", "disk/new"),
    ],
)
def test_a_file_that_a_command_is_to_write_is_whole_or_what_it_was(softband: Softband, words: tuple[str, ...]) -> None:
    (softband.folder / "disk").mkdir()
    (softband.folder / "disk" / "new").write_text("former\n")
    done = softband.command(*words, wrapper=("sh", "-c", 'ulimit -f 4; exec "$@"', "sh"))
    assert done.returncode == 2, done.stderr
    assert "cannot write disk/new: File too large" in done.stderr and "\n  help: raise the limit" in done.stderr
    assert [path.name for path in (softband.folder / "disk").iterdir()] == ["new"]
    assert (softband.folder / "disk" / "new").read_text() == "former\n"


def test_a_place_that_cannot_be_written_to_is_told_with_a_remedy(softband: Softband) -> None:
    for place, remedy in (("no/such/folder.svg", "make the folder no/such first"), (".", "name a file, not a folder")):
        done = softband.command("fabric", "show", str(FABRICS / "two-hosts.toml"), "--svg", place)
        assert done.returncode == 2 and f"cannot write {place}: " in done.stderr, done.stderr
        assert f"\n  help: {remedy}" in done.stderr


def test_a_pipe_gets_the_text_and_a_link_leads_where_it_did(softband: Softband) -> None:
    shown = softband.command("fabric", "generate", "star", "--hosts", "3", "--out", "/dev/stdout")
    assert shown.returncode == 0 and 'kind = "star"' in shown.stdout
    target, link = softband.folder / "target.toml", softband.folder / "link.toml"
    target.write_text("former\n")
    target.chmod(0o640)
    os.symlink(target, link)
    assert softband.command("fabric", "generate", "star", "--hosts", "3", "--out", "link.toml").returncode == 0
    assert link.is_symlink() and 'kind = "star"' in target.read_text()
    assert target.stat().st_mode & 0o777 == 0o640


def test_programs_do_not_inherit_that_a_file_limit_is_an_error(softband: Softband, tmp_path: Path) -> None:
    outcome = softband.run("two-hosts", ("a", "grep -E 'SigIgn' /proc/self/status"), options=("--pace", "wall")).assert_ok()
    ignored = int(outcome.program("a-0").split()[1], 16)
    assert not ignored >> 24 & 1
