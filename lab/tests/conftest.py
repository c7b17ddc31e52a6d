"""A small tree of its own for each test: a study with two figures, four fabrics, and the fake engine."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from softband_lab.base.softband import Softband
from softband_lab.campaign.cluster import Cluster
from softband_lab.spec.study import Study
from softband_lab.spec.study_file import load_study
from softband_lab.study.pipeline import run_study
from softband_lab.study.plan import StudyOptions

TESTS = Path(__file__).parent

STUDY = """
[study]
name = "mini"
title = "A small study"
source = "nobody, 2026"
summary = "Two figures <b>&</b> no more."
claims = "mini_claims.csv"
quick_figures = [2]

[tests.bandwidth]
title = "Bandwidth"
quantity = "bandwidth"
unit = "MB/s"
direction = "uni"
column = "bw_average_mib_s"
iterations = 20
server_host = "a"
server = "ib_send_bw -a -c {transport} -n {iterations}"
client_host = "b"
client = "ib_send_bw -a -c {transport} -n {iterations} a"
sizes = { RC = { from = 2, to = 8388608 }, UD = { from = 2, to = 2048 } }

[tests.latency]
title = "Latency"
quantity = "latency, one way"
unit = "us"
direction = "pingpong"
column = "latency_typical_us"
iterations = 20
server_host = "a"
server = "ib_send_lat -s {size} -c {transport} -n {iterations}"
client_host = "b"
client = "ib_send_lat -s {size} -c {transport} -n {iterations} a"
run_per_size = true
sizes = { RC = { from = 2, to = 8 }, UD = { from = 2, to = 8 } }

[[figures]]
number = 1
title = "Back to back"
section = "1"
caption = "Two hosts."
transport = "RC"
tests = ["bandwidth", "latency"]
curves = [{ name = "rc-sdr", fabric = "sdr.toml" }, { name = "rc-ddr", fabric = "ddr.toml" }]

[[figures]]
number = 2
title = "Through a switch"
section = "2"
caption = "Two hosts, one switch."
transport = "RC"
tests = ["bandwidth"]
curves = [
  { name = "rc-ddr", fabric = "ddr.toml" },
  { name = "rc-100m", fabric = "switch.toml" },
  { name = "rc-100m-vl1", fabric = "switch-vl1.toml" },
]
"""

CLAIMS = """
[M1]
claim = "SDR peak"
kind = "value"
figures = [1]
curves = ["rc-sdr"]
tests = ["bandwidth"]

[M2]
claim = "100 m is slower"
kind = "below"
figures = [2]
lower = ["rc-100m"]
upper = ["rc-ddr"]
tests = ["bandwidth"]
factor = 0.8

[M3]
claim = "one lane cures it"
kind = "ratio"
figures = [2]
curves = ["rc-100m-vl1"]
base = "rc-ddr"
tests = ["bandwidth"]
basis = "calibrated"

[M4]
claim = "100 m is as fast as DDR back to back"
kind = "equal"
figures = [2]
groups = [["rc-100m", "rc-ddr"]]
tests = ["bandwidth"]
at = "peak"

[M5]
claim = "longest 4X SDR copper"
kind = "longest-accepted"
fabric = "sdr.toml"
part = "copper-4x"
rate = "SDR"
link = "4X SDR"

[M6]
claim = "where 8 lanes start to hurt"
kind = "longest-full"
fabric = "switch.toml"
cables = [1]
above_m = 1
below_m = 100

[M7]
claim = "somebody's opinion"
kind = "not-testable"
reason = "an opinion"

[M8]
claim = "loss with 100 m"
kind = "difference"
figures = [2]
curves = ["rc-100m"]
base = "rc-ddr"
tests = ["bandwidth"]

[M9]
claim = "five"
kind = "field"
files = ["fabrics/switch.toml"]
field = "subnet.max_op_vls"
"""

PUBLISHED = """id,source,section,value,unit,quality,note
M1,nobody,1,950,MB/s,about,
M2,nobody,2,slower,ordering,ordering only,
M3,nobody,2,1.0,ratio,relative claim,
M4,nobody,2,equal,ordering,ordering only,wrong on purpose
M5,nobody,1,15,m,exact,
M6,nobody,2,1 < L < 100,m,relative claim,
M7,nobody,3,good,,about,
M8,nobody,2,100,MB/s,about,
M9,nobody,2,5,code,exact,
"""

WHAT_IF = """
fabric = "switch.toml"
cable_part = "optical-active"
fixed_parts = ["cx4"]
lengths = "1m,10m,100m"
vls = [1, 8]
command = "ib_send_bw -F -s 65536 -n 100"
server_host = "a"
client_host = "b"
size_bytes = 65536
"""


def fabric_text(
    cables: list[tuple[str, str, str]], max_op_vls: int = 5, rate: str = "DDR", switch: bool = False
) -> str:
    parts = [f'[subnet]\nmax_op_vls = {max_op_vls}\n[fake]\nrate = "{rate}"\n']
    if switch:
        parts.append('[switches.sw]\npart = "some-switch"\n')
    parts += [f'[hosts.{name}]\npart = "some-host"\n' for name in ("a", "b")]
    parts += [f'[[cables]]\npart = "{part}"\nfrom = "{a}"\nto = "{b}"\n' for part, a, b in cables]
    return "".join(parts)


@dataclass
class Tree:
    home: Path
    out: Path

    @property
    def softband(self) -> Softband:
        return Softband(self.home / "bin" / "softband", self.home)

    def study(self) -> Study:
        return load_study(self.home, "mini")

    def run(self, quick: bool = False) -> tuple[int, str]:
        text = io.StringIO()
        console = Console(file=text, width=200)
        with Cluster(None, 2) as cluster:
            options = StudyOptions(self.home, self.out, quick, cluster, "softband study mini")
            return run_study(self.study(), self.softband, options, console).status, text.getvalue()

    def runs(self) -> list[str]:
        log = self.home / "bin" / "runs.log"
        return log.read_text().splitlines() if log.exists() else []

    def append(self, fabric: str, text: str) -> None:
        path = self.home / "fabrics" / fabric
        path.write_text(path.read_text().replace("[fake]\n", f"[fake]\n{text}\n"))

    def replace_study(self, old: str, new: str) -> None:
        path = self.home / "studies/mini/study.toml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    home = tmp_path / "home"
    for folder in ("bin", "fabrics", "references", "studies/mini"):
        (home / folder).mkdir(parents=True)
    fake = home / "bin" / "softband"
    # With this Python, which has the packages that the fake may need.
    fake.write_text((TESTS / "fake_softband.py").read_text().replace("/usr/bin/env python3", sys.executable, 1))
    fake.chmod(0o755)
    (home / "studies/mini/study.toml").write_text(STUDY)
    (home / "studies/mini/claims.toml").write_text(CLAIMS)
    (home / "studies/what-if.toml").write_text(WHAT_IF)
    (home / "references/mini_claims.csv").write_text(PUBLISHED)
    straight = [("cx4", "a/mthca0/1", "b/mthca0/1")]
    switched = [("cx4", "a/mthca0/1", "sw/1"), ("intel-100m", "b/mthca0/1", "sw/2")]
    (home / "fabrics/sdr.toml").write_text(fabric_text(straight, rate="SDR"))
    (home / "fabrics/ddr.toml").write_text(fabric_text(straight))
    (home / "fabrics/switch.toml").write_text(fabric_text(switched, switch=True))
    (home / "fabrics/switch-vl1.toml").write_text(fabric_text(switched, max_op_vls=1, switch=True))
    return Tree(home, tmp_path / "out")
