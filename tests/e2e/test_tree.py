"""The built tree works from any folder and for any user, by both entry points."""

from __future__ import annotations

import os
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from conftest import DIST, Softband, table

SVG = "{http://www.w3.org/2000/svg}"


def test_both_ways_in_print_the_same(softband: Softband) -> None:
    preloaded = softband.pair("cables/sdr-cx4", "ib_send_bw -s 4096 -n 200").assert_ok()
    by_path = softband.pair("cables/sdr-cx4", "ib_send_bw -s 4096 -n 200", options=("--no-preload",)).assert_ok()
    assert table(preloaded.program("b-0")) == table(by_path.program("b-0"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_runs_a_copy_of_the_tree_from_any_folder(tmp_path: Path) -> None:
    home = tmp_path / "elsewhere"
    shutil.copytree(DIST, home / "softband", symlinks=True)
    for folder in [home, *home.parents]:
        if folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    words = "softband/bin/softband run cables/sdr-cx4 --on a 'ib_send_lat -n 100' --on b 'ib_send_lat -n 100 a'"
    command = ["runuser", "-u", "nobody", "--", "sh", "-c", f"cd {home} && {words}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "t_typical" in done.stdout


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_the_tree_may_lie_in_a_folder_that_the_dynamic_linker_cannot_be_told(tmp_path: Path, pace: str) -> None:
    tree = tmp_path / "a copy: mit Ümlaut"
    shutil.copytree(DIST, tree, symlinks=True)
    command = [str(tree / "bin/softband"), "run", "two-hosts", "--pace", pace, "--out", "out", "--on", "a", "hostname"]

    def run_with(temporary: Path) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"TMPDIR": str(temporary)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)

    done = run_with(Path("/tmp"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\n", "")
    spaced = tmp_path / "another one"
    spaced.mkdir()
    refused = run_with(spaced)
    assert refused.returncode != 0 and "set TMPDIR to a folder without" in refused.stderr
    nowhere = run_with(tmp_path / "gone")
    assert nowhere.returncode != 0 and str(tmp_path / "gone") in nowhere.stderr and "TMPDIR" in nowhere.stderr


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_a_program_closes_all_that_it_does_not_know_and_goes_on(softband: Softband, pace: str) -> None:
    code = "import ctypes, socket; ctypes.CDLL(None).syscall(436, 3, 2**32 - 1, 0); print(socket.gethostbyname('b')); socket.create_connection(('b', 7))"
    outcome = softband.run("two-hosts", ("a", f'python3 -c "{code}"'), options=("--pace", pace))
    assert outcome.status != 0 and outcome.program("a-0").count(".") == 3 and "ConnectionRefusedError" in outcome.stderr


def test_names_loopback_and_ports_belong_to_each_host(softband: Softband) -> None:
    commands = [("a", "hostname"), ("b", "hostname"), ("a", "uname -n")]
    outcome = softband.run("two-hosts", *commands).assert_ok()
    assert [outcome.program(name).strip() for name in ("a-0", "b-0", "a-1")] == ["a", "b", "a"]
    both = [("a", "ib_send_bw -n 50"), ("b", "ib_send_bw -n 50"), ("a", "ib_send_bw -n 50 b"), ("b", "ib_send_bw -n 50 a")]
    outcome = softband.run("two-hosts", *both).assert_ok()
    assert table(outcome.program("a-1")) and table(outcome.program("b-1"))


def test_the_run_folder_holds_what_it_promises(softband: Softband) -> None:
    outcome = softband.pair("cables/ddr-switch-cx4-10m", "ib_send_bw -s 65536 -n 50").assert_ok()
    assert outcome.out is not None
    names = {file.name for file in outcome.out.iterdir()}
    assert {"a-0.out", "b-0.out", "run.json", "counters.json", "fabric.toml"} <= names
    report = outcome.report()
    assert {"versions", "seed", "virtual_seconds", "wall_seconds", "programs"} <= report.keys()
    assert [program["exit_status"] for program in report["programs"]] == [0, 0]  # type: ignore[attr-defined]
    text = (outcome.out / "counters.json").read_text()
    assert "port_xmit_data" in text and "sw" in text


def test_drawings(softband: Softband) -> None:
    file = "cables/ddr-switch-cx4-100m"
    text = softband.command("fabric", "show", file)
    assert text.returncode == 0 and "sw" in text.stdout and "100" in text.stdout
    drawings = [softband.folder / name for name in ("first.svg", "second.svg")]
    for drawing in drawings:
        assert softband.command("fabric", "show", file, "--svg", str(drawing)).returncode == 0
    assert drawings[0].read_bytes() == drawings[1].read_bytes()
    picture = ET.parse(drawings[0]).getroot()
    title = "DDR through the switch, 8 m CX4 copper and 100 m Intel Connects"
    assert (picture.get("role"), picture.get("aria-label"), picture.findtext(f"{SVG}title")) == ("img", title, title)
    described = picture.findtext(f"{SVG}desc") or ""
    assert described.startswith("2 hosts, 1 switch, 2 cables;") and described.count("4X DDR") == 2
    assert "@media (prefers-color-scheme: dark)" in (picture.findtext(f"{SVG}style") or "")
    assert {"a", "b", "sw", "A", "B"} <= {text.text for text in picture.iter(f"{SVG}text")}
    assert softband.command("fabric", "check", file).returncode == 0


def test_a_drawing_of_a_large_fabric_has_a_box_for_each_level(softband: Softband) -> None:
    parts = ["--host", "qdr-host", "--hca", "connectx2-qdr", "--device", "mlx4_0", "--switch", "infiniscale-iv", "--host-cable", "copper-4x"]
    lengths = ["--host-cable-length", "1 m", "--switch-cable", "copper-4x", "--switch-cable-length", "5 m"]
    form = ["fat-tree", "--ports", "8", "--levels", "3"]
    assert softband.command("fabric", "generate", *form, *parts, *lengths, "--out", "tree.toml").returncode == 0
    assert softband.command("fabric", "show", "tree.toml", "--svg", "tree.svg").returncode == 0
    picture = ET.parse(softband.folder / "tree.svg").getroot()
    words = ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]
    levels = ["core0..core15", "16 switches", "128 cables B", "spine0..spine31", "32 switches", "128 cables B", "leaf0..leaf31", "32 switches"]
    first = words.index(levels[0])
    assert words[first : first + 11] == [*levels, "128 cables A", "h0..h127", "128 hosts"]


def test_unknown_commands_run_the_tool_of_that_name(softband: Softband) -> None:
    assert softband.command("study", "--help").returncode == 0
    done = softband.command("nonsense")
    assert done.returncode == 2 and "softband-nonsense" in done.stderr
