"""Tests that need a property of the model: their claims are not testable until the model has it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from conftest import Tree

from softband_lab.base.errors import LabError
from softband_lab.spec.study import PowerRange

NEED = 'needs = { name = "magic", command = "cast", transports = ["RC"] }\nsizes = { RC = { from = 2, to = 8388608 }'


def needy(tree: Tree, **probe: str) -> Tree:
    """Makes the bandwidth test need magic, with the given answers of fabrics to the probe."""
    path = tree.home / "studies/mini/study.toml"
    path.write_text(path.read_text().replace("sizes = { RC = { from = 2, to = 8388608 }", NEED, 1))
    for name, answer in probe.items():
        tree.append(f"{name}.toml", f'probe = "{answer}"')
    return tree


def claims(out: Path) -> dict[str, dict[str, str]]:
    with (out / "claims.csv").open() as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_a_run_starts_if_the_model_has_what_it_needs(tree: Tree) -> None:
    assert needy(tree).run()[0] == 0
    assert claims(tree.out)["M1"]["verdict"] == "reproduced"


def test_claims_are_not_testable_while_the_model_lacks_what_they_need(tree: Tree) -> None:
    status, printed = needy(tree, sdr="not there").run()
    assert status == 0
    assert "1 of them did not start: the model has no magic" in printed
    rows = claims(tree.out)
    assert (rows["M1"]["verdict"], rows["M1"]["predicted"]) == ("not testable", "")
    assert rows["M3"]["verdict"] != "not testable"
    with (tree.out / "claims_notes.csv").open() as file:
        notes = {row["id"]: row["note"] for row in csv.DictReader(file)}
    assert notes["M1"].startswith("the model has no magic")
    page = (tree.out / "report.html").read_text()
    assert "The model has no magic, so these curves are missing: rc-sdr." in page
    assert "did not start" in page


def test_the_answer_is_kept_until_the_tree_changes(tree: Tree) -> None:
    needy(tree, sdr="not there").run()
    before = len(tree.runs())
    tree.run()
    assert len(tree.runs()) == before


def test_a_probe_without_an_answer_is_a_failed_run(tree: Tree) -> None:
    assert needy(tree, sdr="nothing of that").run()[0] == 1
    assert claims(tree.out)["M1"]["verdict"] == "not run"


def test_a_need_names_its_transports(tree: Tree) -> None:
    path = needy(tree).home / "studies/mini/study.toml"
    path.write_text(path.read_text().replace('transports = ["RC"]', 'transports = ["TCP"]'))
    with pytest.raises(LabError, match="`TCP` is not known"):
        tree.study()


def test_a_run_asks_again_for_programs(tree: Tree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program that the user installs later starts the run, without another tree."""
    path = needy(tree, sdr="not there").home / "studies/mini/study.toml"
    path.write_text(path.read_text().replace('command = "cast"', 'programs = ["cast", "spell"]'))
    _, printed = tree.run()
    assert "1 of them did not start: the machine of the run has no magic" in printed
    before = len(tree.runs())
    tree.run()
    assert len(tree.runs()) == before
    cast = tmp_path / "programs" / "cast"
    cast.parent.mkdir()
    cast.write_text("#!/bin/sh\n")
    cast.chmod(0o755)
    monkeypatch.setenv("PATH", str(cast.parent), prepend=":")
    tree.run()
    assert len(tree.runs()) > before


@pytest.mark.parametrize(
    ("found", "wrong", "problem"),
    [
        ('command = "cast", ', "", "has no `command` and no `programs`"),
        ('command = "cast"', 'command = "cast", programs = ["cast"]', "has `command` and `programs`"),
        ('command = "cast"', 'programs = ["cast; rm -r"]', "programs"),
    ],
)
def test_a_need_has_a_command_or_programs(tree: Tree, found: str, wrong: str, problem: str) -> None:
    path = needy(tree).home / "studies/mini/study.toml"
    path.write_text(path.read_text().replace(found, wrong))
    with pytest.raises(LabError, match=problem):
        tree.study()


def test_netpipe_has_sizes_halfway_between_powers() -> None:
    assert PowerRange.model_validate({"from": 1, "to": 9, "halfway": True}).sizes() == [1, 2, 3, 4, 6, 8]
    assert PowerRange.model_validate({"from": 64, "to": 256}).sizes() == [64, 128, 256]
