"""Management datagrams of programs: the devices umadN and issmN, libibumad, and tools above it."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Softband, which


@pytest.mark.parametrize("fabric", ["two-hosts", "modern-pair"])
@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_the_devices_behave_as_the_kernel_s(softband: Softband, c_programs: Path, fabric: str, pace: str) -> None:
    outcome = softband.run(fabric, ("a", f"{c_programs / 'umad'} {pace}"), options=("--pace", pace)).assert_ok()
    assert "all parts hold" in outcome.program("a-0")
    assert outcome.stderr == ""


def test_two_programs_of_a_host_have_files_of_their_own(softband: Softband, c_programs: Path) -> None:
    """Both hosts run the same at once. A process that dies with open files leaves nothing behind."""
    program = c_programs / "umad"
    killed = "timeout -s KILL 0.02 cat /dev/infiniband/umad0; true"
    commands = [("a", f"sh -c '{killed}; {program} virtual'"), ("b", f"{program} virtual")]
    outcome = softband.run("two-hosts", *commands).assert_ok()
    assert all("all parts hold" in outcome.program(f"{host}-0") for host in ("a", "b"))


def test_children_and_new_images_share_an_open_file_in_simulated_time(softband: Softband) -> None:
    """A file that is gone would read as empty. A reader of the file waits until it is killed."""
    program = "exec 3<>/dev/infiniband/umad0; timeout 0.05 cat <&3; echo $?"
    outcome = softband.run("two-hosts", ("a", f"bash -c '{program}'")).assert_ok()
    assert outcome.program("a-0") == "124\n"


def test_a_run_that_ends_names_the_wait_for_a_mad(softband: Softband) -> None:
    outcome = softband.run("two-hosts", ("a", "cat /dev/infiniband/umad0"))
    assert outcome.status != 0
    assert "waits for a MAD at a/mthca0/1" in outcome.stderr


@pytest.mark.skipif(not which("ibstat"), reason="no infiniband-diags")
@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_ibstat_shows_the_ports(softband: Softband, pace: str) -> None:
    outcome = softband.run("two-hosts", ("a", "ibstat"), options=("--pace", pace)).assert_ok()
    text = outcome.program("a-0")
    assert "CA 'mthca0'" in text and "State: Active" in text and "Rate: 20" in text


def test_the_classes_name_each_port_of_infiniband(softband: Softband) -> None:
    listing = "cd /sys/class/infiniband_mad && cat abi_version && for d in umad* issm*; do echo $d $(cat $d/ibdev $d/port $d/dev); done"
    outcome = softband.run("two-hosts", ("a", f"bash -c '{listing}'")).assert_ok()
    assert outcome.program("a-0").splitlines() == [
        "5",
        "umad0 mthca0 1 231:0",
        "umad1 mthca0 2 231:1",
        "issm0 mthca0 1 231:64",
        "issm1 mthca0 2 231:65",
    ]


def test_ports_of_ethernet_have_no_device(softband: Softband) -> None:
    outcome = softband.run("roce-100g", ("a", "sh -c 'ls /dev/infiniband'")).assert_ok()
    assert "umad" not in outcome.program("a-0")
