"""The table of deviations: generations, statistics, targets, explanations."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from conftest import Tree
from rich.console import Console

from softband_lab.base.errors import LabError
from softband_lab.campaign.cluster import Cluster
from softband_lab.spec.study import Accuracy, Targets
from softband_lab.spec.study_file import load_study
from softband_lab.study.accuracy import FORMAT, NO_HCA, NOTHING_PREDICTED, check_targets, run_accuracy
from softband_lab.study.plan import StudyOptions

STUDY = """
[study]
name = "sum"
title = "How far"
source = "others"
summary = "All of it."
claims = "sum_claims.csv"
quick_figures = [1]

[accuracy]
includes = ["mini"]
targets = { median_percent = 3.0, worst_percent = 10.0 }

[[accuracy.generations]]
title = "Old"
hcas = ["old-hca"]

[[accuracy.generations]]
title = "New"
hcas = ["new-hca"]

[tests.bandwidth]
title = "Bandwidth"
quantity = "bandwidth"
unit = "MB/s"
direction = "uni"
column = "bw_average_mib_s"
iterations = 20
server_host = "a"
server = "ib_send_bw -s {size}"
client_host = "b"
client = "ib_send_bw -s {size} a"
run_per_size = true
sizes = { RC = { from = 65536, to = 65536 } }

[[figures]]
number = 1
title = "One"
section = "1"
caption = "One."
transport = "RC"
tests = ["bandwidth"]
curves = [{ name = "own", fabric = "sdr.toml" }]
"""

CLAIMS = """
[Z1]
claim = "own number"
kind = "value"
curves = ["own"]
tests = ["bandwidth"]

[Z2]
claim = "a number of the other study"
kind = "value"
study = "mini"
curves = ["rc-ddr"]
tests = ["bandwidth"]
"""

PUBLISHED = """id,source,section,value,unit,quality,note
Z1,https://example.org,1,970,MiB/s,exact,
Z2,https://example.org,2,1424,MiB/s,exact,
"""


@pytest.fixture
def summed(tree: Tree) -> Tree:
    folder = tree.home / "studies/sum"
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY)
    (folder / "claims.toml").write_text(CLAIMS)
    (tree.home / "references/sum_claims.csv").write_text(PUBLISHED)
    for fabric, part in (("sdr", "old-hca"), ("ddr", "new-hca"), ("switch", "new-hca"), ("switch-vl1", "new-hca")):
        path = tree.home / f"fabrics/{fabric}.toml"
        hca = f'[[hosts.a.hcas]]\ndevice = "mthca0"\npart = "{part}"\n[[cables]]'
        path.write_text(path.read_text().replace("[[cables]]", hca, 1))
    return tree


def run(tree: Tree) -> tuple[int, str, dict[str, dict[str, str]]]:
    text = io.StringIO()
    console = Console(file=text, width=200)
    study = load_study(tree.home, "sum")
    assert study.accuracy is not None
    with Cluster(None, 2) as cluster:
        options = StudyOptions(tree.home, tree.out / "sum", False, cluster, "softband study sum")
        status = run_accuracy(study, study.accuracy, tree.softband, options, tree.out, console)
    with (tree.out / "sum/accuracy.csv").open() as file:
        return status, text.getvalue(), {row["id"]: row for row in csv.DictReader(file)}


def explain(tree: Tree, *claims: str) -> None:
    path = tree.home / "studies/mini/claims.toml"
    for claim in claims:
        path.write_text(path.read_text().replace(f"[{claim}]\n", f'[{claim}]\nexplanation = "because"\n'))


def test_every_row_stands_with_the_oldest_generation_that_it_touches(summed: Tree) -> None:
    explain(summed, "M4", "M8")
    status, printed, rows = run(summed)
    assert status == 0, printed
    assert rows["M1"]["generation"] == "Old"
    assert rows["M2"]["generation"] == rows["Z2"]["generation"] == "New"
    assert rows["M7"]["generation"] == NO_HCA
    assert {row["format"] for row in rows.values()} == {str(FORMAT)}
    assert (rows["Z1"]["study"], rows["Z1"]["source"]) == ("sum", "https://example.org, 1")
    assert "of the predicted rows under 3 %" in printed
    page = (summed.out / "sum/accuracy.html").read_text()
    assert "because" in page
    assert "not explained" not in page


def test_a_row_that_is_off_without_an_explanation_is_a_failure(summed: Tree) -> None:
    explain(summed, "M4")
    status, printed, _ = run(summed)
    assert status == 1
    assert "off without an explanation: M8" in printed
    assert "not explained" in (summed.out / "sum/accuracy.html").read_text()


def test_runs_of_included_studies_are_not_run_twice(summed: Tree) -> None:
    assert summed.study().head.name == "mini"
    explain(summed, "M4", "M8")
    run(summed)
    before = len(summed.runs())
    run(summed)
    assert len(summed.runs()) == before


def test_targets_of_some_studies_stand_apart_from_those_of_all(summed: Tree) -> None:
    explain(summed, "M4", "M8")
    path = summed.home / "studies/sum/study.toml"
    path.write_text(path.read_text().replace("worst_percent = 10.0 }", 'worst_percent = 10.0, studies = ["sum"] }'))
    _, printed, _ = run(summed)
    aimed, overall = (
        [line for line in printed.splitlines() if f"median of {which}" in line]
        for which in ("the predicted rows of sum under", "all predicted rows under")
    )
    assert len(aimed) == len(overall) == 1
    assert aimed[0].split(":")[-1] != overall[0].split(":")[-1]


def test_an_hca_of_no_generation_is_named_before_any_run_starts(summed: Tree) -> None:
    path = summed.home / "fabrics/sdr.toml"
    path.write_text(path.read_text().replace("old-hca", "other-hca"))
    with pytest.raises(LabError, match=r"fabrics/sdr\.toml: part `other-hca`: is an HCA of no generation"):
        run(summed)
    assert summed.runs() == []


def test_a_rule_may_name_included_studies_only(summed: Tree) -> None:
    path = Path(summed.home / "studies/sum/claims.toml")
    path.write_text(path.read_text().replace('study = "mini"', 'study = "maxi"'))
    with pytest.raises(LabError, match=r"Z2\.study: this study does not include `maxi`\n  help: one of \['mini'\]"):
        run(summed)


IMPROVEMENT = """
[M10]
claim = "faster by"
kind = "improvement"
curve = "rc-ddr"
base = "rc-sdr"
test = "bandwidth"
better = "more"
table = ["M1", "M11"]

[M11]
claim = "DDR peak"
kind = "value"
curves = ["rc-ddr"]
tests = ["bandwidth"]
"""


def test_a_row_says_by_which_value_it_was_judged(summed: Tree) -> None:
    explain(summed, "M4", "M8")
    for path, text in (
        (summed.home / "references/mini_claims.csv", "M10,x,1,89,%,relative claim,\nM11,x,1,1424,MB/s,exact,\n"),
        (summed.home / "studies/mini/claims.toml", IMPROVEMENT),
    ):
        path.write_text(path.read_text() + text)
    _, _, rows = run(summed)
    judged_by = rows["M10"]["judged_by"]
    assert judged_by == "49.9 % by the paper's own M1 and M11: ratio 1.499, predicted 1.512"
    assert float(rows["M10"]["deviation_percent"]) == pytest.approx(100 * (1.512 / 1.499 - 1), abs=0.1)
    assert (rows["M10"]["published"], rows["M1"]["judged_by"]) == ("89", "")
    page = (summed.out / "sum/accuracy.html").read_text()
    assert "judged by 49.9 % by the paper&#39;s own M1 and M11: ratio 1.499, predicted 1.512" in page


def test_a_curve_that_an_included_study_lacks_is_refused_before_any_run_starts(summed: Tree) -> None:
    path = summed.home / "studies/sum/claims.toml"
    right = path.read_text()
    path.write_text(right.replace('curves = ["rc-ddr"]', 'curves = ["own"]'))
    with pytest.raises(LabError, match=r"Z2: no figure of the study `mini` has a curve `own`"):
        run(summed)
    path.write_text(right)
    path = summed.home / "studies/mini/claims.toml"
    path.write_text(path.read_text().replace('base = "rc-ddr"', 'base = "rc-dr"'))
    with pytest.raises(LabError, match=r"M3: no figure of the study `mini` has a curve `rc-dr`"):
        run(summed)
    assert summed.runs() == []


def test_targets_name_studies_that_are_counted(summed: Tree) -> None:
    path = summed.home / "studies/sum/study.toml"
    path.write_text(path.read_text().replace("worst_percent = 10.0 }", 'worst_percent = 10.0, studies = ["mni"] }'))
    with pytest.raises(LabError, match=r"targets\.studies: `mni` is not counted here\n  help: some of \['mini', 'sum'"):
        run(summed)


def test_no_target_is_met_by_nothing() -> None:
    settings = Accuracy(includes=[], targets=Targets(median_percent=3.0, worst_percent=10.0), generations=[])
    targets = check_targets(settings, [])
    assert [target.verdict for target in targets] == ["not run"] * 3
    assert [target.value for target in targets] == [NOTHING_PREDICTED] * 3
