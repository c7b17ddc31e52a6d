"""The files of the kernel in which programs find their HCAs."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import Softband

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
