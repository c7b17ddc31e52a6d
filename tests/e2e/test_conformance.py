"""Our own C programs: the whole verbs API, all waits, and all clocks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, Softband

SHIM = ROOT / "crates" / "shim" / "tests" / "c"
NAMES = sorted(source.stem for source in SHIM.glob("*.c"))


@pytest.fixture(scope="session")
def shim_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shim")
    for name in NAMES:
        command = ["cc", "-O1", "-o", str(folder / name), str(SHIM / f"{name}.c"), "-lpthread", "-lrt"]
        subprocess.run(command, check=True, timeout=120)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_the_same_program_holds_under_the_kernel_and_in_simulated_time(softband: Softband, shim_programs: Path, name: str) -> None:
    native = subprocess.run([str(shim_programs / name)], capture_output=True, text=True, timeout=120, check=False)
    assert native.returncode == 0, native.stdout + native.stderr
    outcome = softband.run("two-hosts", ("a", str(shim_programs / name))).assert_ok()
    assert f"{name}: ok" in outcome.program("a-0")


@pytest.mark.parametrize("fabric", ["two-hosts", "ddr-through-switch"])
@pytest.mark.parametrize("options", [(), ("--no-preload",)])
def test_the_verbs_surface_holds_by_both_ways_in(softband: Softband, c_programs: Path, fabric: str, options: tuple[str, ...]) -> None:
    program = c_programs / "verbs_all"
    outcome = softband.run(fabric, ("a", f"{program}"), ("b", f"{program} a"), options=options).assert_ok()
    for name in ("a-0", "b-0"):
        assert "all parts hold" in outcome.program(name)


def test_threads_of_one_process_share_queues(softband: Softband, c_programs: Path) -> None:
    outcome = softband.run("two-hosts", ("a", str(c_programs / "verbs_threads"))).assert_ok()
    assert "all parts hold" in outcome.program("a-0")


@pytest.mark.parametrize("fabric", ["two-hosts", "modern-pair"])
@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_every_error_comes_as_the_specification_has_it(softband: Softband, c_programs: Path, fabric: str, pace: str) -> None:
    outcome = softband.run(fabric, ("a", str(c_programs / "verbs_errors")), options=("--pace", pace)).assert_ok()
    assert "all parts hold" in outcome.program("a-0")


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_a_forked_child_releases_a_region_and_leaves_it_to_its_parent(softband: Softband, c_programs: Path, pace: str) -> None:
    done = softband.run("two-hosts", ("a", str(c_programs / "forked_region")), options=("--pace", pace)).assert_ok()
    assert done.program("a-0").splitlines() == ["child 0 released its copy", "child 1 released its copy", "parent released its region"]
    assert done.stderr == ""


@pytest.mark.parametrize("fabric", ["two-hosts", "modern-pair"])
@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_what_a_queue_pair_has_completed_goes_with_it(softband: Softband, c_programs: Path, fabric: str, pace: str) -> None:
    outcome = softband.run(fabric, ("a", str(c_programs / "completion_room")), options=("--pace", pace)).assert_ok()
    assert "the room is there again" in outcome.program("a-0")


@pytest.mark.parametrize("fabric", ["two-hosts", "modern-pair"])
@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_a_read_is_complete_before_the_reply_to_a_later_request(softband: Softband, c_programs: Path, fabric: str, pace: str) -> None:
    program = str(c_programs / "read_before_reply")
    outcome = softband.pair(fabric, program, options=("--pace", pace)).assert_ok()
    assert "each read was there" in outcome.program("b-0")


def test_random_work_between_all_pairs_loses_and_changes_nothing(softband: Softband, c_programs: Path) -> None:
    hosts = ("a", "b", "c")
    programs = [(host, f"{c_programs / 'soak'} 42 0.01 {rank} {' '.join(hosts)}") for rank, host in enumerate(hosts)]
    outcome = softband.run("three-hosts", *programs).assert_ok()
    assert all("none wrong" in outcome.program(f"{host}-0") for host in hosts)


@pytest.mark.parametrize("options", [(), ("--no-preload",)])
def test_verbs_that_not_every_hca_has_hold_where_they_are(
    softband: Softband, c_programs: Path, options: tuple[str, ...]
) -> None:
    program = c_programs / "verbs_optional"
    outcome = softband.run("modern-pair", ("a", f"{program}"), ("b", f"{program} a"), options=options).assert_ok()
    for name in ("a-0", "b-0"):
        assert "all parts hold" in outcome.program(name)


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_random_verbs_answer_what_the_model_of_their_objects_says(softband: Softband, c_programs: Path, pace: str) -> None:
    """tests/full runs the program for longer and with other seeds. The program prints its seed."""
    command = f"{c_programs / 'life_cycle'} 1 {0.1 if pace == 'virtual' else 3}"
    outcome = softband.pair("modern-pair", command, options=("--pace", pace)).assert_ok()
    assert "not a byte has changed" in outcome.program("a-0")
    assert "answered as the model says" in outcome.program("b-0")


@pytest.mark.parametrize("fabric", ["two-hosts", "modern-pair"])
@pytest.mark.parametrize("pace", ["virtual", "wall"])
@pytest.mark.parametrize("seed", [1, 2])
def test_random_work_completes_and_changes_memory_as_the_model_says(softband: Softband, c_programs: Path, fabric: str, pace: str, seed: int) -> None:
    """Seeds 1 and 2 once failed: early flushes, reads behind a refusal, late receives."""
    outcome = softband.pair(fabric, f"{c_programs / 'data_path'} {seed} 150", options=("--pace", pace)).assert_ok()
    assert outcome.stdout.count("all as the model says") == 2
