"""A claim about recorded computation states its value on a host that computes slower or faster."""

from __future__ import annotations

import csv
import stat

import pytest
from conftest import Tree

from softband_lab.campaign.cluster import Cluster
from softband_lab.study.plan import StudyOptions, plan

TEST = """
[tests.kernel]
title = "Kernel"
quantity = "execution time"
unit = "us"
direction = "uni"
column = "latency_max_us"
iterations = 1
mpi = { program = "softband-npb is", ranks = 2, hosts = ["a", "b"], COMPUTATION }
sizes = { RC = { from = 1, to = 1 } }

[[figures]]
"""
COMPUTATION = 'computation = { recording = "is.rec", kind = "memory", host = "a-host" }'
FIGURE = """
[[figures]]
number = 3
title = "Kernel"
section = "3"
caption = "Two ranks."
transport = "RC"
tests = ["kernel"]
curves = [{ name = "sdr", fabric = "sdr.toml" }, { name = "ddr", fabric = "ddr.toml" }]
"""
RULES = """
[M10]
claim = "DDR is faster"
kind = "improvement"
figures = [3]
curve = "ddr"
base = "sdr"
test = "kernel"
at = 1
better = "less"

[M11]
claim = "how long"
kind = "value"
figures = [3]
curves = ["ddr"]
tests = ["kernel"]
"""
PUBLISHED = "M10,nobody,3,11,%,relative claim,\nM11,nobody,3,2.66,s,exact,\n"


@pytest.fixture
def kernel(tree: Tree) -> Tree:
    """The tree with a kernel, whose computation comes from a recording."""
    study = tree.home / "studies/mini"
    test = TEST.replace("COMPUTATION", COMPUTATION)
    path = study / "study.toml"
    path.write_text(path.read_text().replace("[[figures]]\n", test.lstrip(), 1) + FIGURE)
    (study / "is.rec").write_text("a recording")
    (study / "claims.toml").write_text((study / "claims.toml").read_text() + RULES)
    path = tree.home / "references/mini_claims.csv"
    path.write_text(path.read_text() + PUBLISHED)
    program = tree.home / "bin/softband-npb"
    program.write_text("#!/bin/sh\necho npb\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return tree


def notes(tree: Tree) -> dict[str, str]:
    with (tree.out / "claims_notes.csv").open() as file:
        return {row["id"]: row["note"] for row in csv.DictReader(file)}


def commands(tree: Tree, quick: bool) -> dict[str, str]:
    with Cluster(None, 1) as cluster:
        planned = plan(tree.study(), [], StudyOptions(tree.home, tree.out, quick, cluster, ""))
    return {job.id: job.command() for job in planned.all_jobs() if "kernel" in job.id}


def test_each_run_with_a_recording_has_a_slower_and_a_faster_host(kernel: Tree) -> None:
    found = commands(kernel, quick=False)
    ids = [f"{fabric}-rc-kernel{host}" for host in ("", "-host-slower", "-host-faster") for fabric in ("sdr", "ddr")]
    assert list(found) == ids
    assert "--compute-factor" not in found["sdr-rc-kernel"]
    assert "--compute-host a-host --compute-factor 1.25 " in found["sdr-rc-kernel-host-slower"]
    assert "--compute-host a-host --compute-factor 0.833333 " in found["sdr-rc-kernel-host-faster"]


def test_a_claim_states_how_far_it_moves_with_the_rate_of_the_host(kernel: Tree) -> None:
    status, printed = kernel.run()
    assert status == 0, printed
    found = notes(kernel)
    # SDR takes 1 s for communication, and DDR 942 / 1424 s.
    values = [100 * (1 - (2 / rate + 942 / 1424) / (2 / rate + 1)) for rate in (0.8, 1.2)]
    effect = f"{values[0]:.1f} % if the host computes 20 % slower, {values[1]:.1f} % if the host computes 20 % faster"
    assert effect in found["M10"]
    assert "s if the host computes 20 % slower" in found["M11"]
    assert all("if the host computes" not in note for claim, note in found.items() if claim not in ("M10", "M11"))
    page = (kernel.out / "report.html").read_text()
    assert effect in page
    assert "for the effect of the host&#39;s rate on claims" in page


def test_the_quick_mode_and_a_test_without_a_recording_need_no_further_runs(kernel: Tree) -> None:
    path = kernel.home / "studies/mini/study.toml"
    path.write_text(path.read_text().replace("quick_figures = [2]", "quick_figures = [3]"))
    assert list(commands(kernel, quick=True)) == ["sdr-rc-kernel", "ddr-rc-kernel"]
    path.write_text(path.read_text().replace(f", {COMPUTATION}", ""))
    assert list(commands(kernel, quick=False)) == ["sdr-rc-kernel", "ddr-rc-kernel"]


def test_a_failed_run_of_another_host_leaves_the_claim_judged(kernel: Tree) -> None:
    program = kernel.home / "bin/softband"
    fails = 'factor = float(option.get("--compute-factor", "1")) if "--compute" in option else 0.0\n'
    text = program.read_text()
    assert fails in text
    program.write_text(text.replace(fails, f"{fails}    if factor > 1:\n        return 1\n"))
    assert kernel.run()[0] == 1
    assert "20 % slower" not in notes(kernel)["M10"]
    assert "20 % faster" in notes(kernel)["M10"]
