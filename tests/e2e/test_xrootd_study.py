"""The figure of the study karlsruhe with Debian's xrootd, for a small file and few networks."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path

from conftest import ROOT, Softband
from test_network_programs import need

SIZE = 16 << 20
XROOTD = 'programs = ["xrootd", "xrdcp"]'


def small_study(folder: Path, labels: list[str], programs: str = XROOTD) -> Path:
    """Returns a copy of the study with one quick figure, that of xrootd, and the curves with these labels."""
    study = folder / "karlsruhe"
    shutil.copytree(ROOT / "studies" / "karlsruhe", study)
    text = (study / "study.toml").read_text()
    others, figure = text.split("[[figures]]\nnumber = 7\n")
    curves = [line for line in figure.splitlines() if not line.startswith("  { name") or any(f'"{name}"' in line for name in labels)]
    others = re.sub(r"quick_figures = .*", "quick_figures = [7]", others).replace(XROOTD, programs)
    text = f"{others}[[figures]]\nnumber = 7\n" + "\n".join(curves) + "\n"
    (study / "study.toml").write_text(text.replace("268435456", str(SIZE)))
    return study


def rates(out: Path) -> dict[str, float]:
    with (out / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert all(row["size_bytes"] == str(SIZE) for row in rows)
    return {row["curve"]: float(row["bw_average_mb_s"]) for row in rows}


def test_xrootd_is_slower_on_ethernet_than_over_sdp_and_twice_the_same(softband: Softband) -> None:
    need("xrootd", "xrdcp")
    study = small_study(softband.folder, ["1 GbE", "SDP"])
    found = []
    for out in (softband.folder / "first", softband.folder / "again"):
        done = softband.command("study", str(study), "--quick", "--out", str(out))
        assert done.returncode == 0, done.stdout + done.stderr
        found.append(rates(out))
    assert found[0] == found[1]
    # 1,448 bytes of each 1,538 on the wire.
    assert 0.9 < found[0]["xrootd-gigabit"] / (125 * 1448 / 1538) <= 1
    assert found[0]["xrootd-sdp"] > 2 * found[0]["xrootd-gigabit"]


def test_a_machine_without_xrootd_loses_only_its_bars(softband: Softband) -> None:
    study = small_study(softband.folder, ["SDP", "sends"], 'programs = ["xrootd-of-nobody"]')
    out = softband.folder / "out"
    done = softband.command("study", str(study), "--quick", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of them did not start: the machine of the run has no xrootd and xrdcp (Debian: xrootd-server" in done.stdout
    assert list(rates(out)) == ["native-send"]
    missing = "The machine of the run has no xrootd and xrdcp (Debian: xrootd-server, xrootd-client), so these curves are missing: SDP."
    assert missing in (out / "report.html").read_text()
