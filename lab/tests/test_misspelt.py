"""Errors show names that are nearly right with their line and the name that was meant, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Tree
from test_refusals import change, refused

from softband_lab.base.errors import LabError
from softband_lab.base.spelling import nearest, suggest
from softband_lab.base.strict import parse_model
from softband_lab.base.toml_lines import place
from softband_lab.rules.claims import load_rules
from softband_lab.spec.host_rules import load_host_logs
from softband_lab.spec.published import load_published
from softband_lab.spec.study_file import list_studies, load_study
from softband_lab.sweep.whatif import WhatIfDefaults, load_defaults

CHECKOUT = Path(__file__).parents[2]
HEADER = "id,source,section,system,test,transport,op,size_bytes,direction,ports,procs,metric,value,unit,quality,note"
ROW = "A1,x,1,cluster,ib_send_lat,RC,send,4,pingpong,1,1,latency,4.5,us,exact,"


def load(tmp_path: Path, header: str = HEADER, row: str = ROW) -> str:
    """The error in a claims file; nothing if it is right."""
    path = tmp_path / "claims.csv"
    path.write_text(f"{header}\n{row}\n")
    try:
        load_published(path)
    except LabError as error:
        return str(error).removeprefix(f"{tmp_path}/")
    return ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("metric", "metrik"),
        ("ports", "prts"),
        ("size_bytes", "sze"),
        ("size_bytes", "size"),
        ("system", "sys"),
        ("quality", "qualty"),
        ("note", "nte"),
        ("value", "vlaue"),
        ("direction", "Direction"),
        ("procs", "porcs"),
    ],
)
def test_a_misspelt_column_is_told_with_the_one_that_was_meant(tmp_path: Path, right: str, wrong: str) -> None:
    assert load(tmp_path, HEADER.replace(right, wrong)) == (
        f"claims.csv:1: `{wrong}` is not a column of a claims file\n"
        f"  help: did you mean `{right}`? `x_{wrong}` is for a column of your own"
    )


def test_a_column_that_is_like_none_is_told_with_those_that_are_missing(tmp_path: Path) -> None:
    assert load(tmp_path, HEADER.replace("metric", "zzz")).endswith(
        "`zzz` is not a column of a claims file\n  help: one of metric; `x_zzz` is for a column of your own"
    )
    assert load(tmp_path, f"{HEADER},zzz", f"{ROW},").endswith("help: `x_zzz` is for a column of your own")


def test_a_column_of_ones_own_has_a_name_that_says_so(tmp_path: Path) -> None:
    assert load(tmp_path, f"{HEADER},x_sze", f"{ROW},17") == ""
    assert load(tmp_path, "id,source,section,value,unit,quality,note", "A1,x,1,4.5,us,exact,") == ""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "exact",
            "sure",
            ":2: quality: `sure` is not a quality\n  help: one of exact, about, relative claim, ordering ",
        ),
        ("exact", "exactly", ":2: quality: `exactly` is not a quality\n  help: did you mean `exact`? The names are: "),
        ("exact", "", ":2: quality: `` is not a quality\n  help: one of exact, "),
        (
            "pingpong",
            "pnigpong",
            ":2: direction: `pnigpong` is not a direction\n  help: did you mean `pingpong`? The names are: uni, ",
        ),
        (",1,1,", ",one,1,", ":2: ports: `one` is not a number of ports\n  help: a whole number; or nothing"),
        (",1,1,", ",1,0,", ":2: procs: `0` is not a number of procs"),
        ("4.5", "", ":2: has no value\n  help: what was published"),
        (",us,", ",usec,", ":2: `usec` is not a unit\n  help: one of %, "),
        (",exact,", ",exact", ":2: has 15 fields, the header 16\n  help: a field for each column, empty or not"),
    ],
)
def test_a_word_that_the_lab_does_not_know_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert load(tmp_path, row=ROW.replace(old, new)).startswith(f"claims.csv{message}")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'direction = "pingpong"',
            'direction = "ping"',
            r"study\.toml:27: tests\.latency\.direction: `ping` is not known\n  help: did you mean `pingpong`\? "
            "The names are: uni, bi, pingpong",
        ),
        ("[study]", "[studdy]", r"study\.toml:2: studdy: is not a key here\n  help: did you mean `study`\?"),
        ("claims = ", "clamis = ", r"study\.toml:7: study\.clamis: is not a key .*\n  help: did you mean `claims`\?"),
        ("claims = ", "seed = 1 #", r"study\.toml:2: study\.claims: is missing\n  help: add `claims = \.\.\.`"),
        (
            "[tests.latency]",
            "[test.latency]",
            r"study\.toml:23: test: is not a key here\n  help: did you mean `tests`\?",
        ),
        (
            "{ from = 2, to = 8 }",
            "{ form = 2, to = 8 }",
            r":35: tests\.latency\.sizes\.RC\.form: .*\n  help: did you mean `from`\?",
        ),
        ('transport = "RC"', 'transport = "CR"', r":42: figures\.0\.transport: `CR` is not known\n.*RC, UC, UD"),
        ('name = "rc-100m", fabric', 'name = "rc-100m", febric', r":53: figures\.1\.curves\.1\.febric: .*\n.*`fabric`"),
        (
            'column = "latency_typical_us"',
            'column = "latency_typ"',
            r":28: tests\.latency\.column: .*\n  help: did you mean `latency_typ",
        ),
        (
            'tests = ["bandwidth"]',
            'tests = ["bandwith"]',
            r":52: figure 2, tests: .*\n  help: did you mean `bandwidth`\?",
        ),
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
            rf"claims\.toml:4: M1\.knd: is not a key of a rule\n  help: rename it to `kind`, which is one of {KINDS}",
        ),
        (
            'kind = "value"',
            "",
            rf"claims\.toml:2: M1: has no kind\n  help: add `kind = \.\.\.`, which is .* {KINDS}",
        ),
        (
            'kind = "value"',
            'kind = "valeu"',
            r":4: M1\.kind: `valeu` is not a kind of rule\n  help: did you mean `value`\?",
        ),
        ('kind = "value"', "kind = 7", r":4: M1\.kind: `7` is not a kind of rule\n  help: one of value, "),
        (
            'curves = ["rc-sdr"]',
            'curvs = ["rc-sdr"]',
            r":6: M1\.curvs: is not a key here\n  help: did you mean `curves`\?",
        ),
        ('field = "subnet', 'fild = "subnet', r":68: M9\.fild: is not a key here\n  help: did you mean `field`\?"),
        ('field = "subnet.max_op_vls"', "field = 3", r":68: M9\.field: "),
        (
            "subnet.max_op_vls",
            "subnet.max_opvls",
            r"M9\.field: fabrics/switch.* no `subnet\.max_opvls`\n  help: did you mean `max_op_vls`",
        ),
        ("fabrics/switch.toml", "fabrics/swich.toml", r"M9: file `fabrics/swich\.toml`: there is no .*fabrics/swich"),
        (
            'basis = "calibrated"',
            'basis = "calibrat"',
            r":25: M3\.basis: `calibrat` is not .*\n  help: did you mean `calibrated`",
        ),
        ('rate = "SDR"', 'rate = "SRD"', r":35: M5\.rate: `SRD` is not a link rate\n  help: did you mean `SDR`\?"),
        (
            'link = "4X SDR"',
            'link = "4x SDR"',
            r":35: M5\.link: `4x SDR` is not a link\n  help: its width and rate, as",
        ),
    ],
)
def test_a_misspelt_name_in_a_rule_is_told_with_its_line(tree: Tree, old: str, new: str, message: str) -> None:
    change(tree.home / "studies/mini/claims.toml", old, new)
    refused(tree, message)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "950,MB/s",
            "fast,MB/s",
            r"references/mini_claims\.csv:2: M1: the value `fast` is not a number to compare with\n",
        ),
        (
            "950,MB/s",
            "0,MB/s",
            r":2: M1: the value `0` is nothing that a deviation is .*\n  help: a number other than",
        ),
        (
            "950,MB/s",
            "950,",
            r"mini_claims\.csv:2: M1: `950` has no unit, and its rule compares with `bw_average_mib_s` of the test "
            r"`bandwidth`\n  help: a unit of rate, one of B/s, GB/s, Gb/s, MB/s, ",
        ),
        (
            "950,MB/s",
            "950,us",
            r":2: M1: is in `us`, which `bw_.*\n  help: a unit of rate, one of .* quantity in .*toml",
        ),
    ],
)
def test_what_a_rule_cannot_compare_with_is_told_with_the_line_of_the_table(
    tree: Tree, old: str, new: str, message: str
) -> None:
    change(tree.home / "references/mini_claims.csv", old, new)
    refused(tree, message)


def test_a_misspelt_key_of_the_what_if_file_is_told(tree: Tree) -> None:
    path = tree.home / "studies/what-if.toml"
    change(path, "cable_part", "cabel_part")
    with pytest.raises(
        LabError, match=r"what-if\.toml:3: cabel_part: is not a key here\n  help: did you mean `cable_p"
    ):
        load_defaults(tree.home)
    with pytest.raises(LabError, match=r"absent\.toml: fabric: is missing"):
        parse_model(WhatIfDefaults, {}, path.with_name("absent.toml"))


def test_every_shipped_study_and_table_is_read() -> None:
    for path in sorted((CHECKOUT / "references").glob("*.csv")):
        read = load_host_logs if path.name == "host_rules.csv" else load_published
        assert read(path), path
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


def test_the_lab_suggests_what_the_command_line_suggests() -> None:
    """The cases are those of crates/catalog, whose tests read the same file."""
    text = (CHECKOUT / "crates/catalog/src/spelling_cases.txt").read_text(encoding="utf-8")
    cases = [line.split("|") for line in text.splitlines() if not line.startswith("#")]
    assert len(cases) >= 20
    for word, known, wanted in cases:
        assert (nearest(word.strip(), known.split()) or "") == wanted.strip(), word


def test_a_suggestion_is_followed_by_all_names() -> None:
    assert suggest("knd", ["kind", "figures"]) == "did you mean `kind`? The names are: kind, figures"
    assert suggest("zebra", ["kind", "figures"]) == "one of kind, figures"
