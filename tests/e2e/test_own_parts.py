"""The user's own parts, beside a fabric file or in a folder that the user names."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from conftest import FABRICS, Softband

PART = """summary = "an HCA of our own"
like = "modern-hca"

processing_engines = { value = 1, unit = "count", source = "our measurement", status = "assumed" }
"""


def lay(folder: Path, part: str = "mine") -> Path:
    """Writes a fabric whose HCAs use `part`, and the part beside it."""
    hcas = folder / "catalog" / "hca"
    hcas.mkdir(parents=True, exist_ok=True)
    (hcas / f"{part}.toml").write_text(PART)
    fabric = folder / "own.toml"
    fabric.write_text((FABRICS / "default.toml").read_text().replace('"modern-hca"', f'"{part}"'))
    return fabric


def test_parts_beside_a_fabric_file_are_there_for_every_command(softband: Softband) -> None:
    fabric = lay(softband.folder)
    checked = softband.command("fabric", "check", "own.toml")
    assert (checked.returncode, checked.stderr) == (0, "") and "no faults" in checked.stdout
    assert softband.command("fabric", "show", "own.toml").returncode == 0
    assert softband.command("model", "own.toml", "stream", "--bytes", "64KiB", "--out", "m").returncode == 0
    outcome = softband.run(fabric, ("a", "ib_write_lat -n 50"), ("b", "ib_write_lat -n 50 a")).assert_ok()
    assert outcome.out is not None and "mine" in (outcome.out / "fabric.toml").read_text()


def test_named_folders_of_parts_are_listed_shown_and_used_anywhere(softband: Softband) -> None:
    fabric = lay(softband.folder / "there")
    parts = str(fabric.parent / "catalog")
    assert " mine " in softband.command("parts", "list", "--catalog", parts).stdout
    assert "an HCA of our own" in softband.command("parts", "show", "mine", "--catalog", parts).stdout
    assert softband.command("parts", "show", "mine").returncode == 2
    (softband.folder / "elsewhere.toml").write_text(fabric.read_text())
    assert softband.command("fabric", "check", "elsewhere.toml").returncode == 2
    assert softband.command("fabric", "check", "elsewhere.toml", "--catalog", parts).returncode == 0


def test_a_part_in_place_of_one_of_the_installation_is_said_once(softband: Softband) -> None:
    lay(softband.folder, "modern-hca")
    checked = softband.command("fabric", "check", "own.toml")
    assert checked.returncode == 0 and checked.stdout.endswith("no errors, 1 warning\n")
    said = "catalog/hca/modern-hca.toml: warning: hca part `modern-hca` takes the place of the one in"
    assert checked.stderr.count(said) == 1, checked.stderr


def test_a_sweep_has_the_parts_beside_the_fabric_and_runs_again_when_they_change(softband: Softband) -> None:
    lay(softband.folder)
    words = ("model", "own.toml", "stream", "--bytes", "64B", "--messages", "50", "--sweep", "vls=1,2", "--out", "s")

    def completions() -> list[int]:
        done = softband.command(*words)
        assert done.returncode == 0, done.stderr + done.stdout
        return pl.read_parquet(softband.folder / "s" / "data" / "runs" / "*.parquet").sort("vls")["completion_ps"].to_list()

    first = completions()
    part = softband.folder / "catalog" / "hca" / "mine.toml"
    part.write_text(PART + 'doorbell = { value = 9, unit = "us", source = "ours", status = "assumed" }\n')
    assert all(now > before for now, before in zip(completions(), first, strict=True))


def test_a_what_if_question_has_the_parts_beside_the_fabric(softband: Softband) -> None:
    lay(softband.folder)
    done = softband.command("what-if", "own.toml", "--vls", "1", "--cable-length", "1m", "--cable", "b/mlx5_0/1", "--part", "direct-attach", "--out", "w")
    assert done.returncode == 0, done.stderr + done.stdout


def test_a_part_that_no_program_could_read_is_refused_by_its_line(softband: Softband) -> None:
    lay(softband.folder)
    part = softband.folder / "catalog" / "hca" / "mine.toml"
    for value in (256, 1_000_000):
        part.write_text(PART + f'max_rd_atomic = {{ value = {value}, unit = "count", source = "ours", status = "assumed" }}\n')
        done = softband.command("fabric", "check", "own.toml")
        wanted = f"mine.toml:5:27: error: `max_rd_atomic`: {value} is too large: programs ask for it in 8 bits\n  help: write 0 to 255\n"
        assert done.returncode == 2 and wanted in done.stderr, done.stderr
