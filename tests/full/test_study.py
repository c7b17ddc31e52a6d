"""The whole studies, on the built tree. Slow: `make test-full`."""

from __future__ import annotations

import csv
import subprocess
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOFTBAND = ROOT / "target" / "dist" / "bin" / "softband"


def test_the_cable_paper_is_reproduced(tmp_path: Path) -> None:
    out = tmp_path / "cables"
    done = subprocess.run([str(SOFTBAND), "study", "cables", "--out", str(out)], capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    with (out / "claims.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [f"A{number:03}" for number in range(1, 48)]
    assert list(rows[0]) == ["id", "claim", "published", "unit", "predicted", "deviation_percent", "verdict", "basis"]
    verdicts = Counter(row["verdict"] for row in rows)
    assert verdicts["reproduced"] + verdicts["as given"] + verdicts["not testable"] >= 40, verdicts
    assert verdicts["contradicted"] == 0, [row for row in rows if row["verdict"] == "contradicted"]
    for name in ("results.csv", "results.parquet", "report.html"):
        assert (out / name).stat().st_size > 1000
    figures = {path.name: ElementTree.parse(path).getroot() for path in (out / "figures").glob("*.svg")}
    assert {f"figure-{number:02}.svg" for number in range(1, 15)} <= set(figures)
    assert all(len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 0 for root in figures.values())


def run_study(name: str, out: Path) -> subprocess.CompletedProcess[str]:
    command = [str(SOFTBAND), "study", name, "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)


@pytest.mark.parametrize(("name", "minutes"), [("pcie", 20), ("xt3", 20), ("generations", 20)])
def test_a_paper_is_reproduced_in_time(tmp_path: Path, name: str, minutes: int) -> None:
    began = time.monotonic()
    done = run_study(name, tmp_path / name)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert time.monotonic() - began < minutes * 60
    with (tmp_path / name / "claims.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row for row in rows if row["verdict"] == "contradicted"] == []


def test_every_row_that_is_off_has_an_explanation(tmp_path: Path) -> None:
    done = run_study("accuracy", tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    with (tmp_path / "accuracy.csv").open() as file:
        rows = list(csv.DictReader(file))
    off = [row for row in rows if row["deviation_percent"] and abs(float(row["deviation_percent"])) > 5]
    assert all(row["explanation"] for row in off), [row["id"] for row in off if not row["explanation"]]
    assert len({row["generation"] for row in rows}) >= 9
