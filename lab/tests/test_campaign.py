from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from conftest import TESTS, Tree

from softband_lab.base.errors import LabError
from softband_lab.base.parquet import parquet_bytes, read_parquet
from softband_lab.base.tables import Kind, Table
from softband_lab.campaign.runner import exclusive


def read_claims(out: Path) -> dict[str, dict[str, str]]:
    with (out / "claims.csv").open() as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_a_study_leaves_tables_claims_figures_and_a_page(tree: Tree) -> None:
    status, printed = tree.run()
    assert status == 0, printed
    claims = read_claims(tree.out)
    assert {claim_id: row["verdict"] for claim_id, row in claims.items()} == {
        "M1": "reproduced",
        "M2": "reproduced",
        "M3": "reproduced",
        "M4": "contradicted",
        "M5": "as given",
        "M6": "reproduced",
        "M7": "not testable",
        "M8": "off",
        "M9": "as given",
    }
    assert list(claims["M1"]) == [
        "id", "claim", "published", "unit", "predicted", "deviation_percent", "verdict", "basis",
    ]  # fmt: skip
    assert claims["M3"]["basis"] == "calibrated"
    assert {path.name: ElementTree.parse(path).getroot().tag for path in (tree.out / "figures").iterdir()} == {
        f"figure-{name}.svg": "{http://www.w3.org/2000/svg}svg"
        for name in ("01", "01-bandwidth", "01-latency", "02", "02-bandwidth")
    }
    table = pl.read_parquet(tree.out / "results.parquet")
    assert table.filter(pl.col("run") == "ddr-rc-bandwidth")["figures"].unique().to_list() == ["1 2"]
    assert table.height == 4 * 23 + 2 * 3
    assert table.drop("versions").equals(pl.read_csv(tree.out / "results.csv", schema=table.schema).drop("versions"))


def test_the_page_stands_alone_and_is_escaped(tree: Tree) -> None:
    tree.run(quick=True)
    page = (tree.out / "report.html").read_text()
    assert "Two figures &lt;b&gt;&amp;&lt;/b&gt; no more." in page
    assert "<script src" not in page
    assert "<link" not in page
    assert page.count('<svg class="chart"') == 1
    assert "data:image/svg+xml;base64," in page
    assert str(tree.out) not in page


def test_finished_runs_are_not_run_again_and_the_result_repeats_to_the_byte(tree: Tree) -> None:
    tree.run()
    names = ("results.csv", "claims.csv", "claims_notes.csv", "report.html", "results.parquet", "figures/figure-02.svg")
    before = {name: (tree.out / name).read_bytes() for name in names}
    runs = len(tree.runs())
    assert tree.run()[0] == 0
    assert len(tree.runs()) == runs
    assert {name: (tree.out / name).read_bytes() for name in names} == before


def test_a_changed_fabric_reruns_its_runs_only(tree: Tree) -> None:
    tree.run(quick=True)
    before = len(tree.runs())
    tree.append("switch-vl1.toml", "bus_mib = 900.0")
    tree.run(quick=True)
    assert [Path(line).name for line in tree.runs()[before:]] == ["switch-vl1.toml"]


def test_a_half_written_run_is_run_again(tree: Tree) -> None:
    tree.run(quick=True)
    run = tree.out / "data/measurements/ddr-rc-bandwidth.parquet"
    run.write_bytes(run.read_bytes()[:100])
    before = len(tree.runs())
    assert tree.run(quick=True)[0] == 0
    assert [Path(line).name for line in tree.runs()[before:]] == ["ddr.toml"]


def test_a_run_of_another_version_is_run_again_and_that_is_said(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    tree.run(quick=True)
    run = tree.out / "data/measurements/ddr-rc-bandwidth.parquet"
    pl.read_parquet(run).write_parquet(run)
    record = tree.out / "checksums/ddr-rc-bandwidth.json"
    content = json.loads(record.read_text())
    content["sha256"]["data/measurements/ddr-rc-bandwidth.parquet"] = hashlib.sha256(run.read_bytes()).hexdigest()
    record.write_text(json.dumps(content))
    before = len(tree.runs())
    assert tree.run(quick=True)[0] == 0
    assert [Path(line).name for line in tree.runs()[before:]] == ["ddr.toml"]
    assert f"{tree.out}: runs of another version start again: 1" in capsys.readouterr().err


@pytest.mark.parametrize("change", ["left out", "of another type"])
def test_a_run_with_other_columns_is_run_again_and_that_is_said(
    tree: Tree, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    tree.run(quick=True)
    run = tree.out / "data/measurements/ddr-rc-bandwidth.parquet"
    table, column = read_parquet(run.read_bytes()), "bw_average_mib_s"
    names = [name for name in table.schema if change != "left out" or name != column]
    kinds = {name: Kind.STRING if name == column else table.schema[name] for name in names}
    values = {name: list(map(str, table.columns[name])) if name == column else table.columns[name] for name in names}
    run.write_bytes(parquet_bytes(Table(kinds, values)))
    record = tree.out / "checksums/ddr-rc-bandwidth.json"
    content = json.loads(record.read_text())
    content["sha256"]["data/measurements/ddr-rc-bandwidth.parquet"] = hashlib.sha256(run.read_bytes()).hexdigest()
    record.write_text(json.dumps(content))
    before = len(tree.runs())
    assert tree.run(quick=True)[0] == 0
    assert [Path(line).name for line in tree.runs()[before:]] == ["ddr.toml"]
    assert f"{run}: has no column `{column}` as runs have it: the run starts again" in capsys.readouterr().err


def test_what_runs_left_is_as_it_was_written_or_the_run_starts_again(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    """Claims are judged by it, too."""
    tree.run(quick=True)
    counters = tree.out / "runs/ddr-rc-bandwidth/step-0/counters.json"
    whole = counters.read_text()
    counters.write_text(whole.replace("3", "4"))
    before = len(tree.runs())
    assert tree.run(quick=True)[0] == 0
    assert [Path(line).name for line in tree.runs()[before:]] == ["ddr.toml"]
    assert capsys.readouterr().err == f"{counters}: is not as it was written: the run starts again\n"
    assert counters.read_text() == whole
    # Taken away for the room that it takes, it is not missed.
    shutil.rmtree(tree.out / "runs")
    assert tree.run(quick=True)[0] == 0
    assert len(tree.runs()) == before + 1


def test_a_program_that_left_simulated_time_fails_its_run(tree: Tree) -> None:
    tree.append("switch.toml", 'escape = "a: a program did not load the library: it runs outside simulated time"')
    status, printed = tree.run()
    assert status == 1
    assert "a program ran outside simulated time" in printed


def test_a_failing_run_is_named_and_the_others_go_on(tree: Tree) -> None:
    tree.append("switch.toml", 'fail = "no such part: flux-capacitor"')
    status, printed = tree.run()
    assert status == 1
    assert "switch-rc-bandwidth" in printed
    assert "no such part: flux-capacitor" in printed
    assert "ib_send_bw -a -c RC -n 20 a" in printed
    kept = tree.out / "runs/failed/switch-rc-bandwidth"
    assert f"  what it left: {kept}\n" in printed
    assert "flux-capacitor" in (kept / "step-0/softband.log").read_text()
    assert f"what their programs printed: {kept.parent}\n" in printed
    claims = read_claims(tree.out)
    assert claims["M1"]["verdict"] == "reproduced"
    assert claims["M2"]["verdict"] == "not run"
    assert "the run switch-rc-bandwidth failed" in (tree.out / "claims_notes.csv").read_text()


def test_quick_says_which_claims_it_leaves_open(tree: Tree) -> None:
    assert tree.run(quick=True)[0] == 0
    claims = read_claims(tree.out)
    assert claims["M2"]["verdict"] == "reproduced"
    assert claims["M1"]["verdict"] == "not run"
    assert "not part of --quick" in (tree.out / "claims_notes.csv").read_text()


def test_two_campaigns_in_one_folder_are_refused(tree: Tree) -> None:
    with exclusive(tree.out), pytest.raises(LabError, match="is in use by another campaign"), exclusive(tree.out):
        pass


def test_what_a_part_was_calibrated_on_is_never_called_predicted(tree: Tree) -> None:
    part = tree.home / "catalog/switch/some.toml"
    part.parent.mkdir(parents=True)
    part.write_text('port_buffer = { value = 1, unit = "B", source = "x", status = "calibrated", on = ["M2"] }\n')
    tree.run(quick=True)
    assert read_claims(tree.out)["M2"]["basis"] == "calibrated"
    assert "switch/some port_buffer" in (tree.out / "claims_notes.csv").read_text()


def test_ctrl_c_keeps_finished_runs_and_ends_the_runs(tree: Tree) -> None:
    tree.append("switch-vl1.toml", "seconds = 60")
    environment = {
        **os.environ,
        "SOFTBAND_HOME": str(tree.home),
        "SOFTBAND_BIN": str(tree.home / "bin/softband"),
        "PYTHONPATH": str(TESTS.parent / "src"),
    }
    command = [sys.executable, "-m", "softband_lab", "study", "mini", "--quick", "--jobs", "2", "--out", str(tree.out)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    run = tree.out / "data/measurements/switch-rc-bandwidth.parquet"
    deadline = time.monotonic() + 30
    while not run.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted: 2 of 3 runs are kept" in printed
    assert run.exists()
    alive = subprocess.run(["pgrep", "-f", str(tree.home / "bin/softband")], capture_output=True, check=False)
    assert alive.returncode == 1, "a run outlived the campaign"
