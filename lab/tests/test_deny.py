"""All dependencies come from crates.io; `make deny` names the tool for the other rules of deny.toml."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
RULES = tomllib.loads((ROOT / "deny.toml").read_text())


@pytest.mark.parametrize("lock", ["Cargo.lock", "fuzz/Cargo.lock"])
def test_each_package_of_a_lock_file_is_ours_or_from_crates_io(lock: str) -> None:
    packages = tomllib.loads((ROOT / lock).read_text())["package"]
    ours = {package["name"] for package in packages if "source" not in package}
    assert all(name == "xtask" or name.startswith("softband-") for name in ours)
    assert {package.get("source", CRATES_IO) for package in packages} == {CRATES_IO}


def test_each_exception_for_a_duplicate_has_a_reason_and_a_duplicate() -> None:
    packages = [package["name"] for package in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]]
    for entry in RULES["bans"]["skip"]:
        assert entry["reason"]
        assert packages.count(entry["crate"].split("@")[0]) > 1, entry


def test_make_deny_without_cargo_deny_names_the_installation(tmp_path: Path) -> None:
    for name in ("sh", "make", "sed", "find"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        ["make", "-s", "deny"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert "cargo install --locked cargo-deny" in done.stderr
