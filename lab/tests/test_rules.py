"""Rules that compare with a paper's own tables, and units between a program's column and a claim."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from conftest import Tree

from softband_lab.base.errors import LabError
from softband_lab.base.units import column_factor
from softband_lab.spec.published import Published, load_published

RAILS = """
[tests.rails]
title = "Two ports"
quantity = "bandwidth"
unit = "MB/s"
direction = "uni"
column = "bw_average_mb_s"
iterations = 20
server_host = "a"
server = "softband-multirail --ports 2 -s {smallest}:{largest}"
client_host = "b"
client = "softband-multirail --ports 2 -s {smallest}:{largest} a"
sizes = { RC = { from = 4096, to = 8192 } }

[tests.rail]
title = "One port"
quantity = "bandwidth"
unit = "MB/s"
direction = "uni"
column = "bw_average_mb_s"
iterations = 20
server_host = "a"
server = "softband-multirail --ports 1"
client_host = "b"
client = "softband-multirail --ports 1 a"
sizes = { RC = { from = 4096, to = 8192 } }

[[figures]]
number = 3
title = "Ports"
section = "3"
caption = "Bars."
transport = "RC"
chart = "bars"
tests = ["rails", "rail"]
curves = [{ name = "sdr", fabric = "sdr.toml" }, { name = "ddr", fabric = "ddr.toml" }]
"""


def add(tree: Tree, published: str, rules: str, study: str = "") -> None:
    """More claims and rules of the small study."""
    for path, text in (
        (tree.home / "references/mini_claims.csv", published),
        (tree.home / "studies/mini/claims.toml", rules),
        (tree.home / "studies/mini/study.toml", study),
    ):
        path.write_text(path.read_text() + text)


def judged(tree: Tree, claim: str) -> dict[str, str]:
    status, printed = tree.run()
    assert status == 0, printed
    row = next(row for row in csv.DictReader((tree.out / "claims.csv").open()) if row["id"] == claim)
    notes = next(row for row in csv.DictReader((tree.out / "claims_notes.csv").open()) if row["id"] == claim)
    return {**row, "note": notes["note"]}


IMPROVEMENT = """
[N1]
claim = "slow"
kind = "value"
curves = ["rc-sdr"]
tests = ["bandwidth"]

[N2]
claim = "fast"
kind = "value"
curves = ["rc-ddr"]
tests = ["bandwidth"]

[N3]
claim = "faster by"
kind = "improvement"
figures = [1]
curve = "rc-ddr"
base = "rc-sdr"
test = "bandwidth"
better = "more"
table = ["N1", "N2"]
"""


def test_an_improvement_is_judged_by_its_ratio(tree: Tree) -> None:
    add(tree, "N1,x,1,942,MB/s,exact,\nN2,x,1,1424,MB/s,exact,\nN3,x,1,50,%,relative claim,\n", IMPROVEMENT)
    row = judged(tree, "N3")
    assert (row["verdict"], row["predicted"]) == ("reproduced", "51.2")
    assert abs(float(row["deviation_percent"])) < 1
    assert "contradicts" not in row["note"]


def test_a_statement_that_contradicts_the_papers_own_table_is_judged_by_the_table(tree: Tree) -> None:
    add(tree, "N1,x,1,942,MB/s,exact,\nN2,x,1,1424,MB/s,exact,\nN3,x,1,89,%,relative claim,\n", IMPROVEMENT)
    row = judged(tree, "N3")
    assert row["verdict"] == "reproduced"
    assert "the statement contradicts the paper's own numbers (N1 and N2)" in row["note"]
    assert "by the statement -20.0 %" in row["note"]


PORTS = """
[P1]
claim = "two ports"
kind = "ports-used"
figures = [3]
curve = "sdr"
host = "b"
ports = { rails = 2, rail = 1 }

[P2]
claim = "wrong number of ports"
kind = "ports-used"
figures = [3]
curve = "sdr"
host = "b"
ports = { rail = 2 }

[P3]
claim = "decimal megabytes"
kind = "value"
figures = [3]
curves = ["sdr"]
tests = ["rail"]
"""


def test_ports_in_use_are_counted_and_bars_are_drawn(tree: Tree) -> None:
    add(tree, "P1,x,3,2,,ordering only,\nP2,x,3,2,,ordering only,\nP3,x,3,7.536,Gb/s,exact,\n", PORTS, RAILS)
    row = judged(tree, "P1")
    assert (row["verdict"], row["predicted"]) == ("reproduced", "1 to 2 ports")
    assert judged(tree, "P2")["verdict"] == "contradicted"
    assert float(judged(tree, "P3")["deviation_percent"]) == pytest.approx(0, abs=4)
    assert (tree.out / "figures/figure-03-rails.svg").is_file()
    assert ">published 942<" in (tree.out / "report.html").read_text()


def test_a_part_value_is_converted_into_the_claims_unit(tree: Tree) -> None:
    part = tree.home / "catalog/bus/old.toml"
    part.parent.mkdir(parents=True)
    part.write_text('clock = { value = 133, unit = "MHz", source = "x", status = "datasheet" }\n')
    rule = (
        '[Q1]\nclaim = "peak"\nkind = "part-value"\nfile = "catalog/bus/old.toml"\nfield = "clock"\n'
        'times = 8\nreads_as = "MB/s"\n'
    )
    add(tree, "Q1,x,1,1.064,GB/s,exact,\n", rule)
    row = judged(tree, "Q1")
    assert (row["verdict"], row["predicted"], row["basis"]) == ("as given", "1.064", "input")


def test_a_part_value_of_another_kind_is_refused(tree: Tree) -> None:
    part = tree.home / "catalog/bus/old.toml"
    part.parent.mkdir(parents=True)
    part.write_text('clock = { value = 133, unit = "MHz", source = "x", status = "datasheet" }\n')
    rule = '[Q1]\nclaim = "peak"\nkind = "part-value"\nfile = "catalog/bus/old.toml"\nfield = "clock"\n'
    add(tree, "Q1,x,1,1.064,GB/s,exact,\n", rule)
    with pytest.raises(
        LabError, match=r"mini_claims\.csv:11: Q1: is in `GB/s`, which `MHz` of clock in .*old\.toml does"
    ):
        tree.run()


def test_a_claim_in_a_unit_that_its_test_does_not_measure_is_refused(tree: Tree) -> None:
    rule = '[R1]\nclaim = "peak"\nkind = "value"\ncurves = ["rc-sdr"]\ntests = ["bandwidth"]\n'
    add(tree, "R1,x,1,4,us,exact,\n", rule)
    with pytest.raises(
        LabError, match=r"mini_claims\.csv:11: R1: is in `us`, which `bw_average_mib_s` .* does not convert"
    ):
        tree.run()


SETTINGS = """
[S1]
claim = "length of the cable"
kind = "field"
files = ["catalog/cable/long.toml"]
field = "length.value"

[S2]
claim = "sizes"
kind = "sizes"
curves = ["rc-sdr"]
tests = ["bandwidth"]
smallest = 2
largest = 8388608

[S3]
claim = "peak"
kind = "value"
curves = ["rc-sdr"]
tests = ["bandwidth"]
"""


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        (
            "S1,x,1,23,m",
            "S1,x,1,23,us",
            r":11: S1: `us` is not a unit for `23`: its rule is about a length\n .*one of m;",
        ),
        ("S1,x,1,23,m", "S1,x,1,23,", r":11: S1: `23` has no unit: its rule is about a length\n  help: one of m"),
        ("S1,x,1,23,m", "S1,x,1,abc,m", r":11: S1: the value `abc` is not a number to compare with"),
        (
            "S2,x,1,2..2^23,bytes",
            "S2,x,1,2..2^23,ns",
            r":12: S2: `ns` is not a unit for `2..2\^23`: .* is about a size",
        ),
        ("S2,x,1,2..2^23,bytes", "S2,x,1,large,bytes", r":12: S2: `large` is not a range of sizes"),
        ("S3,x,1,942,MB/s", "S3,x,1,abc,MB/s", r":13: S3: the value `abc` is not a number to compare with"),
        ("S3,x,1,942,MB/s", "S3,x,1,942,us", r":13: S3: is in `us`"),
    ],
)
def test_what_a_rule_cannot_judge_is_refused_before_any_run_starts(
    tree: Tree, right: str, wrong: str, message: str
) -> None:
    part = tree.home / "catalog/cable/long.toml"
    part.parent.mkdir(parents=True)
    part.write_text('length = { value = 23, unit = "m", source = "x", status = "datasheet" }\n')
    rows = "S1,x,1,23,m,exact,\nS2,x,1,2..2^23,bytes,exact,\nS3,x,1,942,MB/s,exact,\n"
    add(tree, rows.replace(right, wrong), SETTINGS)
    with pytest.raises(LabError, match=message):
        tree.run()
    assert not list(tree.out.rglob("*.parquet"))


@pytest.mark.parametrize("claim", ["M1", "M4"])
def test_a_column_that_its_programs_do_not_print_is_a_reason_and_no_agreement(tree: Tree, claim: str) -> None:
    path = tree.home / "studies/mini/study.toml"
    path.write_text(path.read_text().replace('column = "bw_average_mib_s"', 'column = "bw_average_mb_s"'))
    rules = tree.home / "studies/mini/claims.toml"
    rules.write_text(rules.read_text().replace('at = "peak"\n', ""))
    row = judged(tree, claim)
    assert row["verdict"] == "not testable"
    assert "the programs of the test bandwidth print no `bw_average_mb_s`" in row["note"]


def test_a_quotient_is_a_mark_in_its_figure(tree: Tree) -> None:
    add(
        tree,
        "",
        SETTINGS[SETTINGS.index("[S3]") :].replace('tests = ["bandwidth"]', 'figures = [1]\ntests = ["bandwidth"]'),
    )
    add(tree, "S3,x,1,1884/2,MB/s,exact,\n", "")
    assert judged(tree, "S3")["verdict"] == "reproduced"
    assert ">published: 942<" in (tree.out / "report.html").read_text()


def test_an_unknown_unit_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "claims.csv"
    path.write_text("id,source,section,value,unit,quality,note\nA1,x,1,3,m,exact,\nA2,x,1,3,furlongs,exact,\n")
    with pytest.raises(LabError, match=r"claims\.csv:3: `furlongs` is not a unit\n  help: one of %, B, B/s"):
        load_published(path)


def test_an_id_that_comes_twice_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "claims.csv"
    path.write_text("id,source,section,value,unit,quality,note\nA1,x,1,3,m,exact,\nA1,x,1,3,m,exact,\n")
    with pytest.raises(LabError, match=r"claims\.csv:3: has the id `A1` again"):
        load_published(path)


def test_megabytes_are_what_the_source_means_by_them() -> None:
    assert column_factor("bw_average_mib_s", "MB/s", 1 << 20) == 1.0
    assert column_factor("bw_average_mib_s", "MB/s", 1_000_000) == pytest.approx(1.048576)
    assert column_factor("bw_average_mb_s", "Gb/s", 1_000_000) == pytest.approx(0.008)
    assert column_factor("latency_avg_us", "MB/s", 1_000_000) is None


def test_a_published_value_that_is_no_number_is_named() -> None:
    def row(value: str) -> Published:
        return Published("X1", "a paper", "1", value, "us", "exact", "", "my.csv:2")

    assert row("945").number == 945.0
    assert row("2727/946").number == pytest.approx(2.8827, rel=1e-4)
    for value in ("30-60", "6.4 / 8.5 Gb", "0", "1/0", ""):
        with pytest.raises(LabError, match=r"^my\.csv:2: X1: the value `.*` is no") as error:
            _ = row(value).number
        assert "a number other than 0" in str(error.value)


BOUNDS = """
[Q1]
claim = "above a bound"
kind = "at-least"
figures = [3]
curves = ["sdr"]
tests = ["rail"]

[Q2]
claim = "below a bound"
kind = "at-least"
figures = [3]
curves = ["sdr"]
tests = ["rail"]

[Q3]
claim = "nobody loses"
kind = "drop"
figures = [3]
losing = ["sdr"]
keeping = ["ddr"]
before = "rail"
after = "rail"
factor = 0.9

[Q4]
claim = "both lose the second port"
kind = "drop"
figures = [3]
losing = ["sdr"]
keeping = ["ddr"]
before = "rails"
after = "rail"
factor = 0.9
"""


def test_bounds_and_losses_are_judged_without_a_deviation(tree: Tree) -> None:
    rows = "Q1,x,3,>800,MB/s,relative claim,\nQ2,x,3,>1000,MB/s,relative claim,\n"
    add(tree, f"{rows}Q3,x,3,drop,ordering,ordering only,\nQ4,x,3,drop,ordering,ordering only,\n", BOUNDS, RAILS)
    verdicts = {claim: judged(tree, claim) for claim in ("Q1", "Q2", "Q3", "Q4")}
    assert [row["verdict"] for row in verdicts.values()] == ["reproduced", *["contradicted"] * 3]
    assert verdicts["Q3"]["predicted"] == "sdr x 1.00, ddr x 1.00"
    assert {row["deviation_percent"] for row in verdicts.values()} == {""}


def test_a_bound_needs_a_bound(tree: Tree) -> None:
    add(tree, "Q1,x,3,900,MB/s,exact,\n", BOUNDS[: BOUNDS.index("[Q2]")], RAILS)
    with pytest.raises(LabError, match="`900` is no bound"):
        judged(tree, "Q1")
