"""The files of the kernel in which programs find their HCAs."""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import Softband, which

LOOK = """
import os, stat, sys
hca = '/sys/class/infiniband/mlx5_0'
print(sorted(os.listdir('/sys/class/infiniband')), os.path.basename(os.path.realpath(hca + '/../..')))
print(open(hca + '/ports/1/state').read().strip(), open(hca + '/ports/1/lid').read().strip(), open(hca + '/device/numa_node').read().strip())
uverbs = '/dev/infiniband/uverbs0'
print(stat.S_ISCHR(os.stat(uverbs).st_mode), os.access(uverbs, os.R_OK | os.W_OK), os.path.exists('/sys/class/infiniband/mlx4_0'))
print(os.environ['SOFTBAND_FILES'])
"""


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_a_program_finds_the_files_of_its_own_hosts_hcas(softband: Softband, pace: str) -> None:
    look = softband.folder / "look.py"
    look.write_text(LOOK)
    outcome = softband.run("modern-pair", ("a", f"{sys.executable} {look}"), ("b", f"{sys.executable} {look}"), options=("--pace", pace))
    outcome.assert_ok()
    folders = set()
    for host, lid in (("a", "0x1"), ("b", "0x2")):
        lines = outcome.program(f"{host}-0").splitlines()
        assert lines[:3] == ["['mlx5_0'] 0000:00:01.0", f"4: ACTIVE {lid} -1", "True True False"]
        folders.add(lines[3])
    assert len(folders) == 2
    assert not any(Path(folder).exists() for folder in folders), "the folders outlive the fabric"


def test_shells_find_the_files_of_the_hosts_hcas(softband: Softband) -> None:
    """ibstatus enters the folders and lists them by patterns."""
    commands = {
        "dash": "dash -c 'cd /sys/class/infiniband && echo * $PWD && cat mlx5_0/ports/1*/lid'",
        "bash": "bash -c 'cd -P /sys/class/infiniband && pwd && echo /sys/class/infiniband/*/ports/[12] && cat */ports/1/lid'",
        "find": "sh -c 'find /sys/class/infiniband/ -name mlx5_0; test -d /sys/class/infiniband/mlx5_0/ports && echo a folder'",
    }
    for host, lid in (("a", "0x1"), ("b", "0x2")):
        text = {name: softband.run("modern-pair", (host, command)).assert_ok().program(f"{host}-0") for name, command in commands.items()}
        assert text["dash"].splitlines() == ["mlx5_0 /sys/class/infiniband", lid]
        assert text["bash"].splitlines() == ["/sys/class/infiniband", "/sys/class/infiniband/mlx5_0/ports/1 /sys/class/infiniband/mlx5_0/ports/2", lid]
        assert text["find"].splitlines() == ["/sys/class/infiniband/mlx5_0", "a folder"]


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_ibstatus_shows_the_ports_of_each_host(softband: Softband, pace: str) -> None:
    if which("ibstatus") is None:
        pytest.skip("ibstatus is not installed (Debian: infiniband-diags)")
    outcome = softband.run("modern-pair", ("a", "ibstatus"), ("b", "ibstatus mlx5_0:1"), options=("--pace", pace)).assert_ok()
    for host, lid in (("a", "0x1"), ("b", "0x2")):
        lines = [re.sub(r"\s+", " ", line).strip() for line in outcome.program(f"{host}-0").splitlines()]
        assert lines[0] == "Infiniband device 'mlx5_0' port 1 status:"
        assert {f"base lid: {lid}", "state: 4: ACTIVE", "phys state: 5: LinkUp", "link_layer: InfiniBand"} <= set(lines)


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_functions_that_walk_through_folders_show_the_hosts_hcas(softband: Softband, c_programs: Path, pace: str) -> None:
    outcome = softband.run("modern-pair", ("b", str(c_programs / "folder_walks")), options=("--pace", pace)).assert_ok()
    assert outcome.program("b-0").splitlines() == [
        "glob 0 /sys/class/infiniband/mlx5_0",
        "glob 0 /sys/class/infiniband/mlx5_0/ports/1/lid /sys/class/infiniband/mlx5_0/ports/2/lid",
        "glob 3",
        "nftw /sys/class/infiniband/mlx5_0/ports/1/lid at level 1",
        "ftw finds files",
        "fts finds files",
        "in /sys/class/infiniband, /sys/class/infiniband, not in four bytes",
        "glob 0 mlx5_0",
        "lid is there",
    ]


def test_what_a_killed_engine_left_is_removed_by_the_next_one(softband: Softband) -> None:
    stale = Path(tempfile.gettempdir()) / f"softband-{os.getpid()}-feedface-files"
    stale.mkdir()
    softband.run("modern-pair", ("a", "true")).assert_ok()
    assert not stale.exists()


WRITE_WITHOUT_A_BUFFER = """
import ctypes, os
read_end, write_end = os.pipe()
libc = ctypes.CDLL(None, use_errno=True)
print(libc.write(write_end, None, 200_000), ctypes.get_errno())
"""


def test_a_write_without_a_buffer_fails_as_on_the_machine(softband: Softband, tmp_path: Path) -> None:
    """Each write to a pipe that goes in parts hands the program's pointer to the kernel."""
    script = tmp_path / "write.py"
    script.write_text(WRITE_WITHOUT_A_BUFFER)
    outcome = softband.run("two-hosts", ("a", f"{sys.executable} {script}")).assert_ok()
    assert f"-1 {errno.EFAULT}" in outcome.stdout
