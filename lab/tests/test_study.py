from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Tree

from softband_lab.base.errors import LabError
from softband_lab.rules.claims import check_calibrated, check_claims, load_rules
from softband_lab.spec.published import load_published
from softband_lab.spec.study_file import check_fabrics, list_studies, load_study

CHECKOUT = Path(__file__).resolve().parents[2]


def test_a_run_that_two_figures_share_exists_once(tree: Tree) -> None:
    assert [run.id for run in tree.study().runs()] == [
        "sdr-rc-bandwidth",
        "ddr-rc-bandwidth",
        "sdr-rc-latency",
        "ddr-rc-latency",
        "switch-rc-bandwidth",
        "switch-vl1-rc-bandwidth",
    ]
    assert tree.study().runs(quick=True)[0].id == "ddr-rc-bandwidth"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('column = "bw_average_mib_s"', 'column = "speed"', r"tests\.bandwidth\.column: `speed` is not a column"),
        (
            'caption = "Two hosts."',
            'captoin = "Two hosts."',
            r"toml:41: figures\.0\.captoin: is not a key here\n  help: did you mean `caption`\?",
        ),
        ('tests = ["bandwidth", "latency"]', 'tests = ["bandwith"]', r"there is no test `bandwith`"),
        ('"switch.toml" }', '"switch.toml", test = "lag" }', r"curve rc-100m: there is no test `lag`"),
        ('"switch.toml" }', '"switch.toml", test = "latency" }', r"rc-100m: its test has `latency_typical_us` in us,"),
        ('"sdr.toml" }', '"sdr.toml", test = "latency" }', r"rc-sdr: has the test `latency`, and the figure has"),
        ("quick_figures = [2]", "quick_figures = [9]", r"quick_figures: there is no figure 9"),
        ('name = "rc-100m", fabric', 'name = "rc-sdr", fabric', r"curve rc-sdr: the name already stands for"),
        ("[study]", "[study", r"study\.toml: is not valid TOML"),
    ],
)
def test_a_mistake_in_a_study_is_named_with_its_place(tree: Tree, old: str, new: str, message: str) -> None:
    path = tree.home / "studies/mini/study.toml"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(LabError, match=message):
        tree.study()


def test_an_unknown_study_lists_the_known_ones(tree: Tree) -> None:
    with pytest.raises(LabError, match="there is no study `cabels`\n  help: one of the studies here: mini"):
        load_study(tree.home, "cabels")


def test_every_published_claim_needs_a_rule(tree: Tree) -> None:
    reference = tree.home / "references/mini_claims.csv"
    reference.write_text(reference.read_text() + "M99,nobody,1,1,m,exact,\n")
    with pytest.raises(LabError, match=r"claims\.toml: M99: is missing"):
        load_rules(tree.study(), load_published(reference), reference)


def test_the_cable_study_is_complete() -> None:
    study = load_study(CHECKOUT, "cables")
    assert [figure.number for figure in study.figures] == list(range(1, 15))
    assert all(len(figure.tests) == 3 for figure in study.figures)
    assert len({run.id for run in study.runs()}) == len(study.runs())
    reference = CHECKOUT / "references" / study.head.claims
    rules = load_rules(study, load_published(reference), reference)
    assert list(rules) == [f"A{number:03}" for number in range(1, 48)]


@pytest.mark.parametrize(
    ("name", "claims"),
    [
        ("pcie", [*(f"E{number:03}" for number in range(1, 46)), "E069", "E070"]),
        ("xt3", [f"C{number:03}" for number in range(1, 23)]),
        ("generations", [f"G{number:03}" for number in range(1, 217)]),
        (
            "sockets",
            [*(f"S{number:03}" for number in range(1, 11)), *(f"S{number:03}" for number in range(20, 24)), "S046"],
        ),
        (
            "sockets-unnamed",
            [
                *(f"S{number:03}" for number in (*range(11, 18), *range(24, 33))),
                *(f"S{number:03}" for number in range(40, 44)),
            ],
        ),
    ],
)
def test_a_study_judges_all_claims_of_its_paper(name: str, claims: list[str]) -> None:
    study = load_study(CHECKOUT, name)
    reference = CHECKOUT / "references" / study.head.claims
    assert list(load_rules(study, load_published(reference), reference)) == claims


@pytest.mark.parametrize("name", list_studies(CHECKOUT))
def test_a_study_names_fabrics_and_curves_that_exist(name: str) -> None:
    study = load_study(CHECKOUT, name)
    for run in study.runs():
        assert (CHECKOUT / "fabrics" / run.fabric).is_file(), run.fabric
    included = study.accuracy.includes if study.accuracy else []
    studies = [study, *(load_study(CHECKOUT, other) for other in included)]
    known = {curve.name for one in studies for figure in one.figures for curve in figure.curves}
    reference = CHECKOUT / "references" / study.head.claims
    published = load_published(reference)
    rules = load_rules(study, published, reference)
    check_fabrics(study, CHECKOUT)
    check_claims(study, published, rules, studies[1:], CHECKOUT)
    for claim_id, rule in rules.items():
        fields = rule.model_dump()
        groups = fields.get("groups") or []
        named = [*fields.get("curves", []), *fields.get("lower", []), *fields.get("upper", [])]
        named += [curve for group in groups for curve in group]
        named += [fields[name] for name in ("base", "curve") if name in fields]
        assert set(named) <= known, claim_id


def test_calibrated_values_name_rows_of_the_references(tree: Tree) -> None:
    check_calibrated(CHECKOUT)
    part = tree.home / "catalog/hca/odd.toml"
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_text('gap = { value = 1, unit = "ns", source = "x", status = "calibrated", on = ["M1", "Z999"] }\n')
    with pytest.raises(LabError, match=r"hca/odd gap: is calibrated on `Z999`, which no file of references/ has"):
        tree.run()
