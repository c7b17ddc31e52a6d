"""The papers of the tree: their chapters and runs, without a run."""

from __future__ import annotations

from conftest import Softband


def test_the_list_of_studies_has_the_papers(softband: Softband) -> None:
    listed = softband.command("study", "--list")
    assert listed.returncode == 0
    assert "papers" in listed.stdout.split()


def test_the_list_of_the_papers_has_five_chapters_in_order(softband: Softband) -> None:
    listed = softband.command("study", "papers", "--list")
    assert listed.returncode == 0, listed.stderr
    chapters = [line for line in listed.stdout.splitlines() if line[:1].isdigit()]
    assert [line.split(".")[0] for line in chapters] == ["1", "2", "3", "4", "5"]
    runs = [line.split() for line in listed.stdout.splitlines() if line.startswith("   ")]
    assert {"cables", "dell", "xt3", "karlsruhe", "pcie", "osu"} <= {words[0] for words in runs}
    quick = softband.command("study", "papers", "--list", "--quick").stdout.splitlines()
    assert len(chapters) < len(quick) < len(listed.stdout.splitlines())


def test_opensm_is_refused_for_the_papers(softband: Softband) -> None:
    refused = softband.command("study", "papers", "--sm", "opensm")
    assert refused.returncode == 2
    assert "--sm opensm: is not for `papers`" in refused.stderr
