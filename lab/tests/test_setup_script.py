"""`scripts/setup.sh` installs the pinned Rust, and names the remedy where that fails."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLCHAIN = tomllib.loads((ROOT / "rust-toolchain.toml").read_text())["toolchain"]
PINNED = TOOLCHAIN["channel"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".cargo" / "bin").mkdir(parents=True)
    # Packages of the system are not the topic here, and no test installs them.
    program(tmp_path, "apt-get", "exit 0")
    program(tmp_path, "sudo", "exit 0")
    return tmp_path


def program(home: Path, name: str, text: str) -> None:
    path = home / ".cargo" / "bin" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def setup(home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(home)}
    script = ROOT / "scripts" / "setup.sh"
    return subprocess.run([script], env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_a_missing_pinned_rust_is_installed_with_its_components(home: Path) -> None:
    program(home, "cargo", f'[ -e "{home}/installed" ] && echo "cargo {PINNED} (0 2026-01-01)"')
    program(home, "rustup", f'echo "rustup $*"; touch "{home}/installed"')
    done = setup(home)
    assert done.returncode == 0, done.stderr
    components = " ".join(f"-c {name}" for name in TOOLCHAIN["components"])
    profile = TOOLCHAIN["profile"]
    assert f"rustup toolchain install {PINNED} --no-self-update --profile {profile} {components}\n" in done.stdout


def test_without_network_setup_names_the_way_to_build_with_another_rust(home: Path) -> None:
    program(home, "cargo", "exit 1")
    program(home, "rustup", "echo 'error: could not download file' >&2; exit 1")
    done = setup(home)
    assert done.returncode == 1
    assert f"setup: Rust {PINNED} cannot be installed" in done.stderr
    assert "export RUSTUP_TOOLCHAIN=stable" in done.stderr


def test_a_rust_that_is_too_old_is_named_with_the_remedy(home: Path) -> None:
    program(home, "cargo", "echo 'cargo 1.63.0 (0 2022-01-01)'")
    done = setup(home)
    assert done.returncode == 1
    assert "setup: cargo 1.63.0 is older than" in done.stderr
    assert PINNED in done.stderr


def test_the_pinned_rust_is_new_enough_for_the_manifest() -> None:
    wanted = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    assert [int(part) for part in PINNED.split(".")] >= [int(part) for part in wanted.split(".")]


def test_a_users_path_without_sbin_installs_nothing_again(home: Path) -> None:
    """`make setup` leaves all packages on this machine, so a second call must not ask for any."""
    program(home, "cargo", f'echo "cargo {PINNED} (0 2026-01-01)"')
    for name in ("apt-get", "sudo"):
        program(home, name, f'echo "{name} $*" >>"{home}/asked"')
    environment = {**os.environ, "HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    script = ROOT / "scripts" / "setup.sh"
    done = subprocess.run([script], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "installing" not in done.stdout
    assert not (home / "asked").exists()


def test_each_package_has_one_line_in_the_list() -> None:
    script = (ROOT / "scripts" / "setup.sh").read_text(encoding="utf-8")
    packages = [line.split()[1] for line in script.splitlines() if line.startswith("need ")]
    assert len(packages) == len(set(packages))
