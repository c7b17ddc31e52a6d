"""The papers: complete rows, shared runs, an interrupted campaign, the order of chapters, the quick figures."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import PUBLISHED, STUDY, Tree
from rich.console import Console

from softband_lab.base.errors import LabError
from softband_lab.base.files import cannot_write, write_whole
from softband_lab.campaign.cluster import Cluster
from softband_lab.campaign.estimate import Estimate, describe_seconds
from softband_lab.report.errors import percentile
from softband_lab.spec.papers import load_papers, load_seconds
from softband_lab.study.papers import run_papers
from softband_lab.study.plan import StudyOptions

ROOT = Path(__file__).resolve().parents[2]
# The rows of each of the five papers.
PREFIXES = {"A": 47, "B": 33, "C": 22, "D": 20, "E": 70}

PAPERS = """
title = "Two papers"
summary = "Small ones."
generations = "sum"

[[papers]]
title = "The second study"
source = "somebody"
prefix = "N"
rows = 2
studies = ["other"]

[[papers]]
title = "The first study"
source = "nobody"
prefix = "M"
rows = 3
studies = ["mini"]
"""

OTHER_CLAIMS = """
[N1]
claim = "DDR"
kind = "value"
figures = [2]
curves = ["rc-ddr"]
tests = ["bandwidth"]
"""
OTHER_PUBLISHED = """id,source,section,value,unit,quality,note
N001,somebody,1,1424,MB/s,about,
"""
UNANSWERED = """id,source,section,system,value,unit,quality,note,reason
N002,somebody,2,a moon,42,GFlop/s,exact,,Nobody has one.
"""
SUM = """
[study]
name = "sum"
title = "How far"
source = "others"
summary = "All of it."
claims = "sum_claims.csv"
quick_figures = []

[accuracy]
includes = []
targets = { median_percent = 3.0, worst_percent = 10.0 }
generations = [{ title = "Old", hcas = ["old-hca"] }]

[tests]
"""


@pytest.fixture
def papers(tree: Tree) -> Tree:
    """Two papers: the rows M001 to M003 of `mini`, and N001 of `other`, which has the same runs. N002 has a reason."""
    studies = tree.home / "studies"
    claims = (studies / "mini/claims.toml").read_text().split("[M4]")[0]
    published = [line for line in PUBLISHED.splitlines() if line[:3] in ("id,", "M1,", "M2,", "M3,")]
    (studies / "mini/claims.toml").write_text(claims.replace("[M", "[M00"))
    (tree.home / "references/mini_claims.csv").write_text("\n".join(published).replace("\nM", "\nM00") + "\n")
    for name, study in (("other", STUDY.replace('"mini"', '"other"').replace("mini_", "other_")), ("sum", SUM)):
        (studies / name).mkdir()
        (studies / name / "study.toml").write_text(study if name == "other" else f"figures = []\n{study}")
    (studies / "other/claims.toml").write_text(OTHER_CLAIMS.replace("N1", "N001"))
    (tree.home / "references/other_claims.csv").write_text(OTHER_PUBLISHED)
    (studies / "papers").mkdir()
    (studies / "papers/papers.toml").write_text(PAPERS)
    (studies / "papers/unanswered.csv").write_text(UNANSWERED)
    return tree


def run(tree: Tree, quick: bool = False) -> tuple[int, str]:
    text = io.StringIO()
    with Cluster(None, 2) as cluster:
        options = StudyOptions(tree.home, tree.out, quick, cluster, "softband study papers")
        status = run_papers(load_papers(tree.home), tree.softband, options, Console(file=text, width=200))
    return status, text.getvalue()


def rows_of(tree: Tree) -> list[dict[str, str]]:
    with (tree.out / "papers.csv").open() as file:
        return list(csv.DictReader(file))


def change(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_the_five_papers_have_each_of_their_192_rows_once() -> None:
    papers = load_papers(ROOT)
    assert {chapter.paper.prefix: chapter.paper.rows for chapter in papers.chapters} == PREFIXES
    assert papers.rows() == 192
    assert [chapter.paper.prefix for chapter in papers.chapters] == sorted(PREFIXES)


def test_the_page_has_the_chapters_in_order_and_every_row(papers: Tree) -> None:
    status, printed = run(papers)
    assert status == 0, printed
    assert [row["id"] for row in rows_of(papers)] == ["N001", "N002", "M001", "M002", "M003"]
    verdicts = {row["id"]: row["verdict"] for row in rows_of(papers)}
    assert (verdicts["N001"], verdicts["N002"], verdicts["M001"]) == ("reproduced", "not answered", "reproduced")
    page = (papers.out / "report.html").read_text()
    assert page.index("1. The second study") < page.index("2. The first study")
    assert page.count("Nobody has one.") == 2
    assert all(page.count(f">{row['id']}<") >= 2 for row in rows_of(papers))
    assert "<script src" not in page
    assert "<link" not in page
    assert "predicted: 2 numbers" in printed
    assert "calibrated: 1 numbers" in printed


def test_a_name_joins_the_rows_of_a_system(papers: Tree) -> None:
    names = 'rows = 2\nsystems = [{ name = "Any moon", match = ["star", "moon"] }]'
    change(papers.home / "studies/papers/papers.toml", "rows = 2", names)
    run(papers, quick=True)
    assert rows_of(papers)[1]["system"] == "a moon"
    assert ">Any moon</td>" in (papers.out / "report.html").read_text()


def test_two_studies_with_the_same_jobs_run_each_of_them_once(papers: Tree) -> None:
    _, printed = run(papers)
    assert "12 runs of 2 studies, 6 of them different" in printed
    with (papers.out / "other/results.csv").open() as file:
        shared = {row["run"] for row in csv.DictReader(file)}
    with (papers.out / "mini/results.csv").open() as file:
        assert {row["run"] for row in csv.DictReader(file)} == shared
    # The latency test starts `softband` once for each of its three sizes.
    assert len(papers.runs()) == 4 + 2 * 3


def test_the_same_command_runs_only_changed_content(papers: Tree) -> None:
    run(papers)
    before, page = len(papers.runs()), (papers.out / "report.html").read_bytes()
    assert run(papers)[0] == 0
    assert (len(papers.runs()), (papers.out / "report.html").read_bytes()) == (before, page)
    papers.append("switch-vl1.toml", "bus_mib = 900.0")
    run(papers)
    assert [Path(line).name for line in papers.runs()[before:]] == ["switch-vl1.toml"]


def test_a_test_with_other_iterations_is_another_run(papers: Tree) -> None:
    change(papers.home / "studies/other/study.toml", "iterations = 20", "iterations = 21")
    assert "12 runs of 2 studies, 12 of them different" in run(papers)[1]


KILLED = """
import sys
from pathlib import Path
from rich.console import Console
from softband_lab.base.softband import Softband
from softband_lab.base.files import cannot_write, write_whole
from softband_lab.campaign.cluster import Cluster
from softband_lab.spec.papers import load_papers
from softband_lab.study.papers import run_papers
from softband_lab.study.plan import StudyOptions
home, out = map(Path, sys.argv[1:])
with Cluster(None, 1) as cluster:
    options = StudyOptions(home, out, False, cluster, "softband study papers")
    run_papers(load_papers(home), Softband(home / "bin/softband", home), options, Console())
"""


def test_a_killed_campaign_goes_on_from_its_finished_runs(papers: Tree) -> None:
    papers.append("switch-vl1.toml", "seconds = 60")
    script = papers.home / "killed.py"
    script.write_text(KILLED)
    command = [sys.executable, str(script), str(papers.home), str(papers.out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    checksums = papers.out / "runs/data/measurements"
    deadline = time.monotonic() + 60
    while len(list(checksums.glob("*.parquet"))) < 5:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (papers.out / "report.html").exists()
    before = len(papers.runs())
    # The text of the fabric changes, so this run starts in any case.
    change(papers.home / "fabrics/switch-vl1.toml", "seconds = 60", "seconds = 0")
    assert run(papers)[0] == 0
    assert [Path(line).name for line in papers.runs()[before:]] == ["switch-vl1.toml"]
    assert len(rows_of(papers)) == 5


def test_a_damaged_shared_run_starts_again(papers: Tree) -> None:
    run(papers)
    before = len(papers.runs())
    for name in ("other", "mini"):
        (papers.out / name / "data/measurements/sdr-rc-latency.parquet").unlink()
    damaged = [path for path in (papers.out / "runs/runs").glob("*/sdr.toml") if (path.parent / "step-2").exists()]
    assert len(damaged) == 1
    damaged[0].write_text("damaged")
    assert run(papers)[0] == 0
    assert [Path(line).name for line in papers.runs()[before:]] == ["sdr.toml"] * 3


def test_the_quick_mode_takes_the_figures_of_the_papers(papers: Tree) -> None:
    assert "6 runs of 2 studies, 3 of them different" in run(papers, quick=True)[1]
    change(
        papers.home / "studies/papers/papers.toml", 'studies = ["mini"]', 'studies = ["mini"]\nquick = { mini = [1] }'
    )
    assert "7 runs of 2 studies, 6 of them different" in run(papers, quick=True)[1]
    page = (papers.out / "report.html").read_text()
    assert "Left out by --quick: figure 2 of mini." in page
    assert "Left out by --quick: figure 1 of other." in page


def test_a_failed_run_fails_once_and_its_rows_are_not_run(papers: Tree) -> None:
    papers.append("sdr.toml", 'fail = "no luck"')
    status, printed = run(papers)
    assert status == 1
    assert "other sdr-rc-bandwidth" in printed
    assert {row["id"]: row["verdict"] for row in rows_of(papers)}["M001"] == "not run"
    assert "no luck" in (papers.out / "report.html").read_text()


def test_a_full_disk_leaves_no_half_page_and_names_the_file(papers: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    write = "softband_lab.campaign.dataset.write_whole"

    def full(path: Path, content: bytes) -> None:
        if path.parent.name == "measurements" and papers.runs()[3:]:
            raise cannot_write(path, OSError(28, "No space left on device"))
        write_whole(path, content)

    monkeypatch.setattr(write, full)
    with pytest.raises(LabError, match=r"cannot be written: No space left[^~]*the same command goes on"):
        run(papers)
    assert not (papers.out / "report.html").exists()
    monkeypatch.setattr(write, write_whole)
    assert run(papers)[0] == 0


@pytest.mark.parametrize(
    ("file", "old", "new", "error"),
    [
        (
            "papers.toml",
            '"mini"',
            '"mni"',
            r"papers\.toml:\d+: studies: there is no study `mni`\n.*did you mean `mini`",
        ),
        ("papers.toml", '"mini"', '"other"', r"`other` already belongs to `The second study`"),
        ("papers.toml", "rows = 3", "rows = 4", r"M004: no study answers this published row, and unanswered"),
        ("papers.toml", "rows = 3", "rows = 2", r"M003: is not a row of `The first study`, M001 to M002"),
        ("papers.toml", "rows = 2", "rows = 1", r"unanswered\.csv:2: N002: is not a row of any paper"),
        ("papers.toml", '"sum"', '"mini"', r"generations: `mini` has no generations"),
        ("papers.toml", 'prefix = "M"', 'prefix = "M"\nquick = { mini = [9] }', r"quick\.mini: there is no figure 9"),
        ("papers.toml", 'prefix = "M"', 'prefix = "M"\nquick = { sum = [1] }', r"`sum` is not a study of the paper"),
        ("papers.toml", 'prefix = "M"', 'prefx = "M"', r"prefx: is not a key here\n.*did you mean `prefix`"),
        ("papers.toml", "rows = 2", 'rows = 2\nsystems = [{ name = "Sun", match = ["sun"] }]', r"`Sun` matches no row"),
        ("unanswered.csv", "N002", "N001", r"N001: the row also stands in .*unanswered\.csv:2"),
        ("unanswered.csv", "Nobody has one.", " ", r"unanswered\.csv:2: has no reason"),
        ("unanswered.csv", "reason\n", "why\n", r"unanswered\.csv:1: has the columns"),
    ],
)
def test_a_fault_in_the_data_is_named_before_any_run(papers: Tree, file: str, old: str, new: str, error: str) -> None:
    change(papers.home / "studies/papers" / file, old, new)
    with pytest.raises(LabError, match=error):
        run(papers)
    assert papers.runs() == []


def test_durations_come_from_the_tree_and_from_the_results_folder(papers: Tree) -> None:
    run(papers, quick=True)
    assert load_seconds(papers.home, papers.out)["mini", "ddr-rc-bandwidth"] == 0.1
    path = papers.home / "studies/papers/seconds.csv"
    path.write_text("study,run,seconds\nmini,ddr-rc-bandwidth,9\nmini,x,1.5\n")
    found = load_seconds(papers.home, papers.out)
    assert (found["mini", "ddr-rc-bandwidth"], found["mini", "x"]) == (0.1, 1.5)
    path.write_text("study,run,seconds\nmini,x,soon\n")
    with pytest.raises(LabError, match=r"seconds\.csv:2: seconds: `soon` is not a duration"):
        run(papers)


def test_the_estimate_weighs_runs_by_their_duration_and_by_the_speed_of_the_machine() -> None:
    estimate = Estimate(["long", "short", "new"], {"long": 100.0, "short": 10.0})
    # One core has the long run, and the other core has 10 s and the median of 55 s.
    assert estimate.seconds_left(0.0, 2) == pytest.approx(100.0)
    assert estimate.seconds_left(0.0, 1) == pytest.approx(165.0)
    estimate.start("long", 0.0)
    estimate.start("short", 0.0)
    estimate.finish("short", 20.0)
    # This machine takes twice the time. 20 of 200 s of the long run are over.
    assert estimate.seconds_left(20.0, 2) == pytest.approx(180.0)
    estimate.finish("long", 200.0)
    estimate.finish("new", 201.0)
    assert estimate.seconds_left(201.0, 2) is None
    assert Estimate(["a"], {}).seconds_left(0.0, 1) is None


def test_durations_are_short_texts() -> None:
    assert [describe_seconds(seconds) for seconds in (40, 700, 3900)] == ["40 s", "12 min", "1 h 05 min"]


def test_the_percentile_is_a_value_of_the_list() -> None:
    assert [percentile([float(n) for n in range(1, 11)], 90), percentile([3.0], 90)] == [9.0, 3.0]
