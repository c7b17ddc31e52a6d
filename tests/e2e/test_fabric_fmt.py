"""`softband fabric fmt` gives fabric files one form, and changes no fabric."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from conftest import FABRICS, Softband

TIDY = """# Two hosts.
[fabric]
edition = "2026"
title = "a"

[hosts.a]
part = "modern-host"

[[hosts.a.hcas]]
device = "mlx5_0"
part = "modern-hca"  # NDR

[hosts.b]
part = "modern-host"

[[hosts.b.hcas]]
part = "modern-hca"

# Between both.
[[cables]]
part = "direct-attach"
length = "1 m"
from = "a/mlx5_0/1"
to = "b/mlx5_0/1"
"""
UNTIDY = (TIDY.replace(' = "', '="').replace("\n\n", "\n\n\n").replace('edition="2026"\ntitle="a"', 'title="a"   \n  edition="2026"')
          .replace('length="1 m"\nfrom="a/mlx5_0/1"', 'from="a/mlx5_0/1"\nlength="1 m"'))


def filtered(softband: Softband, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(softband.binary), "fabric", "fmt", *words, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


def test_a_file_is_formatted_in_place_once(softband: Softband) -> None:
    file = softband.folder / "f.toml"
    file.write_text(UNTIDY)
    file.chmod(0o640)
    before = softband.command("fabric", "show", "f.toml").stdout
    done = softband.command("fabric", "fmt", "f.toml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "formatted f.toml\n", "")
    assert file.read_text() == TIDY and file.stat().st_mode & 0o777 == 0o640
    time = file.stat().st_mtime_ns
    assert softband.command("fabric", "fmt", "f.toml").stdout == "" and file.stat().st_mtime_ns == time
    assert softband.command("fabric", "show", "f.toml").stdout == before != ""


def test_check_names_the_files_that_would_change_and_changes_none(softband: Softband) -> None:
    for name, text in (("one.toml", UNTIDY), ("two.toml", TIDY), ("three.toml", UNTIDY)):
        (softband.folder / name).write_text(text)
    done = softband.command("fabric", "fmt", "--check", "one.toml", "two.toml", "three.toml")
    assert (done.returncode, done.stdout) == (1, "would change one.toml\nwould change three.toml\n")
    assert (softband.folder / "one.toml").read_text() == UNTIDY
    assert softband.command("fabric", "fmt", "--check", "two.toml").returncode == 0


def test_every_installed_fabric_has_the_form(softband: Softband) -> None:
    done = softband.command("fabric", "fmt", "--check", *(str(path) for path in sorted(FABRICS.rglob("*.toml"))))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_standard_input_goes_to_standard_output(softband: Softband) -> None:
    done = filtered(softband, UNTIDY)
    assert (done.returncode, done.stdout) == (0, TIDY)
    assert (filtered(softband, UNTIDY, "--check").returncode, filtered(softband, TIDY, "--check").returncode) == (1, 0)
    wrong = filtered(softband, "[fabric\n")
    assert (wrong.returncode, wrong.stdout) == (2, "") and wrong.stderr.startswith("<stdin>:1:8: error: not valid TOML")


@pytest.mark.parametrize("broken", ['[fabric]\ntitle = "a\n', "[fabric]\ntitle = 1\ntitle = 2\n", "[hosts.a]\n[hosts.a]\n"])
def test_a_file_with_an_error_stays_and_the_others_are_formatted(softband: Softband, broken: str) -> None:
    (softband.folder / "bad.toml").write_text(broken)
    (softband.folder / "good.toml").write_text(UNTIDY)
    done = softband.command("fabric", "fmt", "bad.toml", "good.toml")
    assert done.returncode == 2 and done.stderr.startswith("bad.toml:") and ": error: not valid TOML" in done.stderr
    assert (softband.folder / "bad.toml").read_text() == broken and (softband.folder / "good.toml").read_text() == TIDY


def test_what_is_no_file_of_text_is_an_error_with_a_remedy(softband: Softband) -> None:
    (softband.folder / "binary.toml").write_bytes(b"\xff\xfe")
    (softband.folder / "folder").mkdir()
    for name, wrong in (("binary.toml", "not text in UTF-8"), ("folder", "folder is a folder"), ("none.toml", "cannot read none.toml")):
        done = softband.command("fabric", "fmt", name)
        assert done.returncode == 2 and wrong in done.stderr and "  help: " in done.stderr


def test_a_link_keeps_its_target_and_a_read_only_folder_is_an_error(softband: Softband) -> None:
    (softband.folder / "there.toml").write_text(UNTIDY)
    link = softband.folder / "link.toml"
    link.symlink_to("there.toml")
    assert softband.command("fabric", "fmt", "link.toml").returncode == 0 and link.is_symlink() and link.read_text() == TIDY
    if os.geteuid() != 0:
        link.write_text(UNTIDY)
        softband.folder.chmod(0o500)
        done = softband.command("fabric", "fmt", "there.toml")
        softband.folder.chmod(0o700)
        assert done.returncode == 2 and link.read_text() == UNTIDY


def edition(softband: Softband, line: str) -> subprocess.CompletedProcess[str]:
    Path(softband.folder / "f.toml").write_text(TIDY.replace('edition = "2026"\n', line))
    return softband.command("fabric", "check", "f.toml")


def test_a_file_of_a_newer_edition_names_the_newest_that_is_known(softband: Softband) -> None:
    done = edition(softband, 'edition = "2031"\n[unheard]\nof = 1\n')
    assert done.returncode == 2 and done.stderr.count("error:") == 1
    assert "f.toml:3:11: error: the file is of edition `2031`" in done.stderr and "is `2026`" in done.stderr
    for line in ('edition = "2026"\n', ""):
        assert edition(softband, line).returncode == 0
    assert "`edition` must be a text" in edition(softband, "edition = 2026\n").stderr
