"""Files that take simulated time: the page cache and the disk of a host."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import FABRICS, Softband
from test_conformance import shim_programs

__all__ = ["shim_programs"]

# Its hosts copy 1,600 MB/s, and have a disk of 60 MB/s and 8 ms.
FABRIC = FABRICS / "karlsruhe" / "rfio-pcie.toml"
MEBIBYTE = 1 << 20
COPY = MEBIBYTE / 1.6
DISK = MEBIBYTE * 1000 / 60
SEEK = 8e6
CACHED = ("write", "pwrite", "writev", "pwritev", "pread", "preadv", "read", "readv")
FREE = ("fsync-again", "pread-end", "device", "proc")


def times(softband: Softband, program: Path, fabric: str | Path) -> dict[str, int]:
    """Returns the nanoseconds of each call of the program."""
    text = softband.run(fabric, ("a", f"{program} times")).assert_ok().program("a-0")
    return {name: int(nanos) for name, nanos in (line.split() for line in text.splitlines() if "ok" not in line)}


def test_reads_and_writes_take_the_time_of_their_copies(softband: Softband, shim_programs: Path) -> None:
    took = times(softband, shim_programs / "file_costs", FABRIC)
    assert [took[name] for name in CACHED] == [pytest.approx(COPY, abs=100)] * len(CACHED)
    assert took["pread-small"] == pytest.approx(1000 / 1.6, abs=100)
    # Each takes its reads of the clock.
    assert all(took[name] < 100 for name in FREE)


def test_a_disk_takes_time_for_syncs_direct_and_synchronous_transfers(softband: Softband, shim_programs: Path) -> None:
    took = times(softband, shim_programs / "file_costs", FABRIC)
    assert took["fsync"] == took["fdatasync"] - 1 == pytest.approx(SEEK + DISK, abs=100)
    if "no-direct" in took:
        pytest.skip("the file system of the tests has no O_DIRECT")
    assert took["direct-seek"] == took["direct-write"] == pytest.approx(SEEK + DISK / 2, abs=100)
    assert took["direct-next"] == pytest.approx(DISK / 2, abs=100)
    assert took["synchronous-write"] == pytest.approx(COPY / 2 + SEEK + DISK / 2, abs=100)


def test_a_sync_pays_for_bytes_of_its_process_that_the_file_still_has(softband: Softband, shim_programs: Path) -> None:
    took = times(softband, shim_programs / "file_costs", FABRIC)
    assert took["fsync-cut"] == pytest.approx(SEEK + DISK / 2, abs=100)
    assert took["fsync-parent"] == pytest.approx(SEEK + DISK, abs=100)
    assert all(took[name] < 100 for name in ("fsync-empty", "fsync-other", "fsync-child"))


def test_an_append_continues_at_the_end_of_the_file(softband: Softband, shim_programs: Path) -> None:
    took = times(softband, shim_programs / "file_costs", FABRIC)
    assert took["append-seek"] == pytest.approx(COPY / 2 + SEEK + DISK / 2, abs=100)
    assert took["append-next"] == pytest.approx(COPY / 2 + DISK / 2, abs=100)


def test_without_values_of_the_host_files_take_no_time(softband: Softband, shim_programs: Path) -> None:
    assert max(times(softband, shim_programs / "file_costs", "two-hosts").values()) < 100


def test_two_programs_of_a_host_share_its_disk(softband: Softband, tmp_path: Path) -> None:
    """Each writes 6 MB to a file of its own: 8 ms and 100 ms, the second behind the first."""
    code = (
        "import os, sys, time\n"
        f"at = os.open(os.path.join({str(tmp_path)!r}, sys.argv[1]), os.O_CREAT | os.O_WRONLY)\n"
        "os.write(at, bytes(6_000_000))\n"
        "before = time.monotonic_ns()\n"
        "os.fsync(at)\n"
        "print((time.monotonic_ns() - before) // 1_000_000)\n"
    )
    (tmp_path / "writer.py").write_text(code)
    writer = f"{sys.executable} {tmp_path / 'writer.py'}"
    outcome = softband.run(FABRIC, ("a", f"{writer} one"), ("a", f"{writer} two"), ("b", f"{writer} three")).assert_ok()
    took = [int(outcome.program(name)) for name in ("a-0", "a-1", "b-0")]
    assert sorted(took[:2]) == [pytest.approx(108, abs=2), pytest.approx(216, abs=5)]
    assert took[2] == pytest.approx(108, abs=2)
