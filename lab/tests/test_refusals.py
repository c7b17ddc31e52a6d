"""What a study or claims file may not say: told with its place before anything runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import Tree

from softband_lab.base.errors import LabError
from softband_lab.spec.published import load_published
from softband_lab.spec.study_file import load_study

HEADER = "id,source,section,value,unit,quality,note\n"


def change(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def refused(tree: Tree, message: str) -> None:
    with pytest.raises(LabError, match=message):
        tree.run()
    assert tree.runs() == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("A1,x,1,NaN,MB/s,exact,", r"claims\.csv:2: the value `NaN` is not a finite number"),
        ("A1,x,1,inf,us,exact,", r"the value `inf` is not a finite number"),
        ("A1,x,1,1e400,MB/s,exact,", r"the value `1e400` is not a finite number"),
        ("A1,x,1,1e300/1e-300,ratio,exact,", r"the value `1e300/1e-300` is not a finite number"),
        ("A1,x,1,-5,MB/s,exact,", r":2: the value `-5` is negative, which nothing in `MB/s` is"),
        ("A1,x,1,-5,ratio,exact,", r"the value `-5` is negative"),
        ("A1,x,1,5,MB/s,exact,a, b", r"claims\.csv:2: has 8 fields, the header 7"),
        (",x,1,5,MB/s,exact,", r"claims\.csv:2: has no id"),
    ],
)
def test_a_row_that_means_nothing_is_named_with_its_line(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "claims.csv"
    path.write_text(f"{HEADER}{row}\n")
    with pytest.raises(LabError, match=message):
        load_published(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{HEADER.strip()},\nA1,x,1,5,MB/s,exact,,more\n".encode(), r"claims\.csv:1: column 8 has no name"),
        (f"{HEADER.strip()},unit\nA1,x,1,5,MB/s,exact,,us\n".encode(), r":1: has the column `unit` twice"),
        (HEADER.encode() + "A1,Müller,1,5,us,exact,\n".encode("latin-1"), r"claims\.csv: is no CSV file in UTF-8"),
    ],
)
def test_a_table_that_cannot_be_read_is_named(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "claims.csv"
    path.write_bytes(text)
    with pytest.raises(LabError, match=message):
        load_published(path)


def test_a_change_may_be_negative_and_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "claims.csv"
    path.write_text(f"\ufeff{HEADER}A1,x,1,-5,%,exact,\n", encoding="utf-8")
    assert [row.number for row in load_published(path)] == [-5.0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'unit = "MB/s"',
            'unit = "furlong"',
            r"tests\.bandwidth\.unit: `furlong` is not what `bw_average_mib_s` is in",
        ),
        ('unit = "MB/s"', 'unit = "us"', r"tests\.bandwidth\.unit: `us` is not .*\n  help: one of MB/s, MiB/s;"),
        (
            "quick_figures = [2]",
            "quick_figures = [2]\nmegabyte = 1000000",
            r"tests\.bandwidth\.unit: `MB/s` is not .*\n  help: one of MiB/s;",
        ),
        (
            "from = 2, to = 8388608",
            "from = 64, to = 2",
            r"tests\.bandwidth\.sizes\.RC: goes from 64 to 2, which is less",
        ),
        (
            "quick_figures = [2]",
            "quick_figures = [2]\ntimeout_seconds = 0",
            r"study\.timeout_seconds: .* greater than 0",
        ),
        ("quick_figures = [2]", "quick_figures = [2]\ntimeout_seconds = inf", r"study\.timeout_seconds: .* finite"),
        ("quick_figures = [2]", "quick_figures = [2]\nseed = -1", r"study\.seed: "),
        (
            "ib_send_lat -s {size}",
            "ib_send_lat -s {sise}",
            r"tests\.latency\.server: `{sise}` in .* stands for nothing",
        ),
        (
            "ib_send_lat -s {size}",
            "ib_send_lat -s {size",
            r"tests\.latency\.server: a brace in .* stands alone: unexpected",
        ),
        (
            "ib_send_lat -s {size}",
            "ib_send_lat -s size}",
            r"tests\.latency\.server: a brace in .* stands alone: Single",
        ),
        ("ib_send_lat -s {size}", "ib_send_lat -s {}", r"tests\.latency\.server: `{}` in .* stands for nothing"),
        (
            "ib_send_lat -s {size}",
            "ib_send_lat -s {size.x}",
            r"`{size\.x}` in .*\n  help: one of {iterations}, {largest}",
        ),
        (
            "ib_send_bw -a",
            "ib_send_bw -s {size}",
            r"tests\.bandwidth\.server: `{size}` has no value: the test runs once",
        ),
    ],
)
def test_a_study_that_could_not_run_or_be_shown_is_refused(tree: Tree, old: str, new: str, message: str) -> None:
    change(tree.home / "studies/mini/study.toml", old, new)
    with pytest.raises(LabError, match=message):
        tree.study()


def test_two_figures_of_one_number_are_refused(tree: Tree) -> None:
    path = tree.home / "studies/mini/study.toml"
    change(path, "quick_figures = [2]", "quick_figures = [1]")
    change(path, "number = 2", "number = 1")
    with pytest.raises(LabError, match="figures: there are two with the number 1"):
        tree.study()


def test_a_chart_may_have_the_columns_unit_or_another_name_of_it(tree: Tree) -> None:
    path = tree.home / "studies/mini/study.toml"
    change(path, 'column = "bw_average_mib_s"', 'column = "bw_average_mb_s"')
    assert tree.study().tests["bandwidth"].unit == "MB/s"
    change(path, 'column = "bw_average_mb_s"', 'column = "message_rate_mpps"')
    change(path, 'unit = "MB/s"', 'unit = "million/s"')
    assert tree.study().tests["bandwidth"].unit == "million/s"


def test_doubled_braces_reach_the_program(tree: Tree) -> None:
    change(tree.home / "studies/mini/study.toml", 'server = "ib_send_bw -a', 'server = "ib_send_bw -x {{a}} -a')
    assert tree.study().tests["bandwidth"].programs("RC", None)[0].command.startswith("ib_send_bw -x {a} -a -c RC")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "figures = [1]",
            "figures = [3]",
            r"claims\.toml:2: M1\.figures: there is no figure 3 .*\n  help: some of \[1, 2\]",
        ),
        (
            'curves = ["rc-sdr"]',
            'curves = ["rc-sdrr"]',
            r"M1: no figure of .* has a curve `rc-sdrr` .*\n  help: .*one of rc-100m, ",
        ),
        (
            'curves = ["rc-sdr"]\ntests = ["bandwidth"]',
            'curves = ["rc-sdr"]\ntests = ["bw"]',
            r"M1: .* with the test `bw`",
        ),
        ('curves = ["rc-sdr"]', 'curves = ["rc-sdr"]\nat = "all"', r"M1: `rc-sdr` has no value at `all`"),
        ("cables = [1]", "cables = [9]", r"cables: there is no cable 9 in .*\n  help: some of 0 to "),
        ("cables = [1]", "cables = []", r"cables: no cable is named"),
        ('fabric = "sdr.toml"', 'fabric = "sdrr.toml"', r"M5: fabric `sdrr\.toml`: there is no .*fabrics/sdrr\.toml"),
        ('fabric = "switch.toml"', 'fabric = "swich.toml"', r"M6: fabric `swich\.toml`: there is no "),
        ('base = "rc-ddr"', 'base = "rc-dr"', r"M3: no figure of .* has a curve `rc-dr`"),
        ('upper = ["rc-ddr"]', 'upper = ["rc-dr"]', r"M2: no figure of .* has a curve `rc-dr`"),
        ('groups = [["rc-100m", "rc-ddr"]]', 'groups = [["rc-100m", "rc-dr"]]', r"M4: no figure of .* a curve `rc-dr`"),
        ('curves = ["rc-sdr"]', "curves = []", r"claims\.toml:6: M1\.curves: List should have at least 1 item"),
        (
            'curves = ["rc-sdr"]',
            'curves = ["rc-sdr"]\nat = 3',
            r"M1: `rc-sdr` has no value at `3`\n  help: \"peak\" or",
        ),
        (
            'curves = ["rc-sdr"]',
            'curves = ["rc-sdr"]\nfollows_from = ["Z9"]',
            r"M1\.follows_from: no claims file has `Z9`",
        ),
        (
            'curves = ["rc-sdr"]',
            'curves = ["rc-sdr"]\nstudy = "maxi"',
            r"M1\.study: this study does not include `maxi`",
        ),
    ],
)
def test_a_rule_that_names_what_is_not_there_is_refused_before_any_run_starts(
    tree: Tree, old: str, new: str, message: str
) -> None:
    change(tree.home / "studies/mini/claims.toml", old, new)
    refused(tree, message)


RULES = """
[U1]
claim = "by so much"
kind = "improvement"
curve = "rc-ddr"
base = "rc-sdr"
test = "bandwidth"
better = "less"

[U2]
claim = "ports"
kind = "ports-used"
curve = "rc-sdr"
host = "b"
ports = { bandwidth = 1 }

[U3]
claim = "length"
kind = "field"
files = ["catalog/cable/long.toml"]
field = "length.value"

[U4]
claim = "rate"
kind = "shown"
fabric = "sdr.toml"
pattern = "([0-9]+) m"
"""
ROWS = "U1,x,1,33,%,exact,\nU2,x,1,one,ordering,ordering only,\nU3,x,1,23,us,exact,\nU4,x,1,8,m,exact,\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "U1,x,1,33,%",
            "U1,x,1,0.33,ratio",
            r":\d+: U1: `0\.33` in `ratio` may be .*\n  help: `33` in `%` if it is",
        ),
        ("U1,x,1,33,%", "U1,x,1,100,%", r":\d+: U1: `100` % less leaves nothing"),
        (
            'better = "less"',
            'better = "less"\ntable = ["M1", "M99"]',
            r"U1\.table: `M99` is not a claim of the study `mini`",
        ),
        ('better = "less"', 'better = "less"\ntable = ["M1"]', r"U1\.table: has the length 1\n  help: two ids"),
        ('host = "b"', 'host = "c"', r"U2\.host: `c` is not a host of the fabric of `rc-sdr`\n  help: one of a, b"),
        (
            "U3,x,1,23,us",
            "U3,x,1,23,ns",
            r":\d+: U3: is in `ns`, length\.value of .*long\.toml in `us`",
        ),
        ('pattern = "([0-9]+) m"', 'pattern = "([0-9]+ m"', r"U4\.pattern: is not a regular expression"),
        ('pattern = "([0-9]+) m"', 'pattern = "[0-9]+ m"', r"U4\.pattern: has no group"),
    ],
)
def test_a_rule_that_could_not_judge_is_refused_before_any_run_starts(
    tree: Tree, old: str, new: str, message: str
) -> None:
    part = tree.home / "catalog/cable/long.toml"
    part.parent.mkdir(parents=True)
    part.write_text('length = { value = 23, unit = "us", source = "x", status = "datasheet" }\n')
    rows, rules = tree.home / "references/mini_claims.csv", tree.home / "studies/mini/claims.toml"
    rows.write_text(rows.read_text() + ROWS.replace(old, new))
    rules.write_text(rules.read_text() + RULES.replace(old, new))
    refused(tree, message)


def test_a_ratio_in_percent_is_refused_as_it_could_mean_two_things(tree: Tree) -> None:
    change(tree.home / "references/mini_claims.csv", "M3,nobody,2,1.0,ratio", "M3,nobody,2,220,%")
    refused(
        tree,
        r"mini_claims\.csv:4: M3: `220` in `%` may be so much of the base, or so much more than it\n"
        r"  help: `2\.2` in `ratio` if it is 220 % of the base, `3\.2` if it is 220 % more; or the kind",
    )


def test_hosts_that_a_fabric_does_not_have_are_refused_before_any_run_starts(tree: Tree) -> None:
    path = tree.home / "studies/mini/study.toml"
    right = path.read_text()
    change(path, 'server_host = "a"', 'server_host = "z"')
    refused(tree, r"tests\.bandwidth\.server_host: `z` is not a host of fabrics/sdr\.toml, .*\n  help: one of a, b;")
    path.write_text(right.replace('client_host = "b"', 'client_host = "z"'))
    refused(tree, r"tests\.bandwidth\.client_host: `z` is not a host of fabrics/sdr\.toml")
    path.write_text(right.replace('fabric = "switch.toml"', 'fabric = "switch.toml", client_host = "z"'))
    refused(tree, r"figure 2, curve rc-100m\.client_host: `z` is not a host of fabrics/switch\.toml")
    path.write_text(right.replace('fabric = "switch.toml"', 'fabric = "swich.toml"'))
    refused(tree, r"fabric `swich\.toml`: there is no .*swich\.toml")


@pytest.mark.parametrize(("host", "count", "is_there"), [("h3", 4, True), ("h4", 4, False), ("a", 4, False)])
def test_hosts_of_a_generated_fabric_are_numbered(tree: Tree, host: str, count: int, is_there: bool) -> None:
    (tree.home / "fabrics/sdr.toml").write_text(f'[generate]\nkind = "star"\nhosts = {count}\n')
    path = tree.home / "studies/mini/study.toml"
    path.write_text(path.read_text().replace('"a"', '"h0"').replace('client_host = "b"', f'client_host = "{host}"'))
    # The other fabrics have a and b alone: the first one that is refused tells.
    refused(
        tree,
        r"fabrics/ddr\.toml" if is_there else rf"`{host}` is not a host of fabrics/sdr\.toml.*\n.* h0, h1 and so on",
    )


def test_the_claims_file_may_lie_beside_its_study(tree: Tree, tmp_path: Path) -> None:
    own, reference = tmp_path / "mine", tree.home / "references/mini_claims.csv"
    shutil.copytree(tree.home / "studies/mini", own)
    assert load_study(tree.home, str(own)).claims_path(tree.home) == reference
    shutil.copy(reference, own / "mini_claims.csv")
    assert load_study(tree.home, str(own)).claims_path(tree.home) == own / "mini_claims.csv"
    shutil.move(reference, tree.home / "studies/mini/mini_claims.csv")
    assert tree.run(quick=True)[0] == 0


def test_a_claims_file_that_is_nowhere_is_named_with_both_places(tree: Tree) -> None:
    (tree.home / "references/mini_claims.csv").unlink()
    refused(
        tree, r"references/mini_claims\.csv: cannot be read: .*\n  help: a claims file beside study\.toml or in ref"
    )
