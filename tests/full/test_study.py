"""The whole study of the cable paper, on the built tree. Slow: `make test-full`."""

from __future__ import annotations

import csv
import subprocess
from collections import Counter
from pathlib import Path

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
    assert verdicts["reproduced"] + verdicts["not testable"] >= 40, verdicts
    assert verdicts["contradicted"] == 0, [row for row in rows if row["verdict"] == "contradicted"]
    for name in ("results.csv", "results.parquet", "report.html"):
        assert (out / name).stat().st_size > 1000
    assert len(list((out / "figures").glob("*.svg"))) >= 14
    assert len(list((out / "figures").glob("*.png"))) >= 14
