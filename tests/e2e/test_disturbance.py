"""A disturbed machine changes no byte of a run in simulated time. `tests/full` has more programs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROGRAMS, ROOT, Softband

sys.path.insert(0, str(ROOT / "tests"))

import disturbance
from disturbance import FEW_WAYS, on

# Programs that once differed from run to run: they fork and share memory, or ask for processors.
ALONE = ("forked_sharer", "processor_set", "ended_by_signal")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("disturbed")
    for name in ALONE:
        command = ["cc", "-O1", "-Wall", "-o", str(folder / name), str(PROGRAMS / f"{name}.c"), "-lpthread"]
        subprocess.run(command, check=True, timeout=120)
    return folder


@pytest.mark.parametrize("name", ALONE)
def test_processes_leave_the_same_bytes(programs: Path, name: str) -> None:
    disturbance.check(on("modern-pair", ("a", str(programs / name))), FEW_WAYS)


def test_perftest_leaves_the_same_bytes() -> None:
    command = "ib_write_bw -n 200 -s 4096"
    disturbance.check(on("modern-pair", ("a", command), ("b", f"{command} a")), FEW_WAYS)


@pytest.mark.skipif(not shutil.which("fio"), reason="no fio")
def test_fio_leaves_the_same_bytes() -> None:
    jobs = ROOT / "tests" / "fio"
    disturbance.check(on("modern-pair", ("a", f"fio {jobs / 'serve.fio'}"), ("b", f"fio {jobs / 'read.fio'}")), FEW_WAYS)


def test_a_program_sees_one_processor_by_every_way(softband: Softband, programs: Path) -> None:
    lines = softband.run("modern-pair", ("a", str(programs / "processor_set"))).assert_ok().program("a-0").splitlines()
    sets = [line for line in lines if ", processors" in line]
    assert len(sets) == 8 and all(line.endswith(", processors 0") for line in sets), sets
    shown = dict(line.rsplit(": ", 1) for line in lines if ": " in line)
    assert shown["set the second"] == shown["new thread on the second"] == "22"
    assert (shown["set the first"], shown["of a thread"], shown["new thread on the first"], shown["no such process"]) == ("0", "0, 22", "0", "3")
    assert shown["sysconf: 1 of 1, get_nprocs"] == "1 of 1" and shown["sched_getcpu"] == "0"
    assert shown["getcpu"] == shown["system call"] == "0, 0 on node 0"
    assert lines.count("/proc/self/status: Cpus_allowed:\t1") == lines.count("/proc/self/status: Cpus_allowed_list:\t0") == 1
    assert lines.count("/proc/1000/status: Cpus_allowed:\t1") == lines.count("/proc/1000/status: Pid:\t1000") == 1
    assert [line for line in lines if line.startswith("/proc/cpuinfo")] == ["/proc/cpuinfo: processor\t: 0"]
    assert shown["/sys/devices/system/cpu/online"] == shown["/sys/devices/system/node/node0/cpulist"] == "0"
    assert (shown["/sys/devices/system/cpu"], shown["cpu1"]) == ("1 of cpu", "-1")
