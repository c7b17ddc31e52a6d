"""Names that are nearly right are told with their line and the name that was meant, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Tree
from test_refusals import change, refused

from softband_lab.claims import load_rules
from softband_lab.errors import LabError
from softband_lab.published import load_published
from softband_lab.spelling import nearest
from softband_lab.strict import parse_model
from softband_lab.study_file import list_studies, load_study
from softband_lab.toml_lines import place
from softband_lab.whatif import WhatIfDefaults, load_defaults

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'direction = "pingpong"',
            'direction = "ping"',
            r"study\.toml:27: tests\.latency\.direction: `ping` is not known\n  instead: `pingpong`, if that is meant; "
            "one of uni, bi, pingpong",
        ),
        ("[study]", "[studdy]", r"study\.toml:2: studdy: is no key here\n  instead: rename it to `study`, if that is"),
        ("claims = ", "clamis = ", r"study\.toml:7: study\.clamis: is no key .*\n  instead: rename it to `claims`"),
        ("claims = ", "seed = 1 #", r"study\.toml:2: study\.claims: is missing\n  instead: add `claims = \.\.\.`"),
        ("[tests.latency]", "[test.latency]", r"study\.toml:23: test: is no key here\n  instead: rename it to `tests`"),
        ("{ from = 2, to = 8 }", "{ form = 2, to = 8 }", r":35: tests\.latency\.sizes\.RC\.form: .*\n .* to `from`"),
        ('transport = "RC"', 'transport = "CR"', r":42: figures\.0\.transport: `CR` is not known\n.*RC, UC, UD"),
        ('name = "rc-100m", fabric', 'name = "rc-100m", febric', r":53: figures\.1\.curves\.1\.febric: .*\n.*`fabric`"),
        (
            'column = "latency_typical_us"',
            'column = "latency_typ"',
            r":28: tests\.latency\.column: .*\n.*: `latency_typ",
        ),
        ('tests = ["bandwidth"]', 'tests = ["bandwith"]', r":52: figure 2, tests: .*\n  instead: `bandwidth`, if"),
    ],
)
def test_a_misspelt_name_in_a_study_is_told_with_its_line(tree: Tree, old: str, new: str, message: str) -> None:
    change(tree.home / "studies/mini/study.toml", old, new)
    with pytest.raises(LabError, match=message):
        tree.study()


KINDS = "value, ratio, difference, improvement, below, "


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'kind = "value"',
            'knd = "value"',
            rf"claims\.toml:4: M1\.knd: is no key of a rule\n  instead: rename it to `kind`, which is one of {KINDS}",
        ),
        (
            'kind = "value"',
            "",
            rf"claims\.toml:2: M1: has no kind\n  instead: add `kind = \.\.\.`, which is .* {KINDS}",
        ),
        ('kind = "value"', 'kind = "valeu"', r":4: M1\.kind: `valeu` is no kind of rule\n  instead: `value`, if that"),
        ('kind = "value"', "kind = 7", r":4: M1\.kind: `7` is no kind of rule\n  instead: one of value, "),
        (
            'curves = ["rc-sdr"]',
            'curvs = ["rc-sdr"]',
            r":6: M1\.curvs: is no key here\n  instead: rename it to `curves`",
        ),
        ('field = "subnet', 'fild = "subnet', r":68: M9\.fild: is no key here\n  instead: rename it to `field`"),
        ('field = "subnet.max_op_vls"', "field = 3", r":68: M9\.field: "),
        ('basis = "calibrated"', 'basis = "calibrat"', r":25: M3\.basis: `calibrat` is not .*\n.*: `calibrated`, if"),
        ('rate = "SDR"', 'rate = "SRD"', r":35: M5\.rate: `SRD` is no link rate\n  instead: `SDR`, if that is meant"),
        (
            'link = "4X SDR"',
            'link = "4x SDR"',
            r":35: M5\.link: `4x SDR` is no link\n  instead: its width and rate, as",
        ),
    ],
)
def test_a_misspelt_name_in_a_rule_is_told_with_its_line(tree: Tree, old: str, new: str, message: str) -> None:
    change(tree.home / "studies/mini/claims.toml", old, new)
    refused(tree, message)


def test_a_misspelt_key_of_the_what_if_file_is_told(tree: Tree) -> None:
    path = tree.home / "studies/what-if.toml"
    change(path, "cable_part", "cabel_part")
    with pytest.raises(
        LabError, match=r"what-if\.toml:3: cabel_part: is no key here\n  instead: rename it to `cable_p"
    ):
        load_defaults(tree.home)
    with pytest.raises(LabError, match=r"absent\.toml: fabric: is missing"):
        parse_model(WhatIfDefaults, {}, path.with_name("absent.toml"))


def test_every_shipped_study_and_table_is_read() -> None:
    for path in sorted((CHECKOUT / "references").glob("*.csv")):
        assert load_published(path), path
    for name in list_studies(CHECKOUT):
        study = load_study(CHECKOUT, name)
        reference = study.claims_path(CHECKOUT)
        assert load_rules(study, load_published(reference), reference), name


def test_lines_are_those_of_the_key_or_of_what_it_is_in(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        'text = """\n[b]\nc = 1\n"""\n[b]\nd.e = 1\nf = [\n  ["g", "h"],\n  ["i"],\n]\nc = 1 # c\n'
        '[["j k"]] # j\n[[j]]\n[[ j ]]\nl=1\n'
    )
    for steps, line in (
        (["b", "c"], 11),
        (["b", "d", "e"], 6),
        (["b", "f", 0, 1], 7),
        (["j k", 0], 12),
        (["j", 1, "l"], 15),
        (["j", 0, "l"], 13),
    ):
        assert place(path, steps).startswith(f"{path}:{line}: "), steps
    assert place(path, ["m"]) == f"{path}: m"


def test_the_nearest_name_is_one_that_has_much_in_common() -> None:
    assert nearest("sze", ["note", "size_bytes"]) == "size_bytes"
    assert nearest("knd", ["kind", "and"]) == "kind"
    assert nearest("sure", ["exact", "about", "relative claim", "ordering only"]) is None
    assert nearest("x", []) is None
