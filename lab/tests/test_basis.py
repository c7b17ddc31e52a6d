"""How a claim came to hold: predicted, calibrated, put in, or repeated from other claims; each is counted apart."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from conftest import Tree

from softband_lab.base.errors import LabError
from softband_lab.rules.claims import bases_of, calibrated_parameters, load_rules
from softband_lab.rules.curve_rules import RatioRule
from softband_lab.rules.evaluators import NotTestableRule
from softband_lab.rules.judgement import Rule, StatedBasis
from softband_lab.spec.published import load_published
from softband_lab.spec.study_file import load_study

CHECKOUT = Path(__file__).parents[2]


def rule(*follows_from: str, basis: StatedBasis = "predicted") -> RatioRule:
    return RatioRule(
        kind="ratio", claim="", curves=["c"], base="b", tests=["t"], follows_from=list(follows_from), basis=basis
    )


def test_what_follows_from_a_calibrated_claim_is_calibrated_and_what_repeats_a_prediction_is_derived() -> None:
    rules = {
        "fitted": rule(),
        "put in": rule(basis="input"),
        "free": rule(),
        "once": rule("fitted"),
        "twice": rule("once"),
        "of both": rule("fitted", "free"),
        "repeat": rule("free"),
        "repeat of a repeat": rule("repeat"),
        "of an input": rule("put in"),
        "of an input and a prediction": rule("put in", "free"),
    }
    assert bases_of(rules, {"fitted": ["hca/odd gap"]}) == {
        "fitted": "calibrated",
        "put in": "input",
        "free": "predicted",
        "once": "calibrated",
        "twice": "calibrated",
        "of both": "calibrated",
        "repeat": "derived",
        "repeat of a repeat": "derived",
        "of an input": "input",
        "of an input and a prediction": "derived",
    }


def test_a_claim_that_nobody_judges_has_no_basis() -> None:
    assert bases_of({"N": NotTestableRule(kind="not-testable", claim="", reason="why")}, {}) == {"N": ""}


def test_the_basis_of_a_claim_of_another_study_reaches_those_that_follow_from_it() -> None:
    other: dict[str, Rule] = {"E1": rule(), "E2": rule("E1")}
    assert bases_of({"X1": rule("E2")}, {"E1": ["hca/odd gap"]}, other) == {"X1": "calibrated"}
    assert bases_of({"X1": rule("E2")}, {}, other) == {"X1": "derived"}


def test_a_claim_that_follows_from_itself_is_refused(tree: Tree) -> None:
    path = tree.home / "studies/mini/claims.toml"
    text = path.read_text().replace("[M1]\n", '[M1]\nfollows_from = ["M2"]\n')
    path.write_text(text.replace("[M2]\n", '[M2]\nfollows_from = ["M1"]\n'))
    with pytest.raises(LabError, match=r"M1\.follows_from: `M1` follows from itself, by M2"):
        tree.run()
    assert tree.runs() == []


def test_inputs_are_as_given_and_are_not_counted_among_the_reproduced(tree: Tree) -> None:
    _, printed = tree.run()
    with (tree.out / "claims.csv").open() as file:
        claims = {row["id"]: row for row in csv.DictReader(file)}
    assert {name: (claims[name]["verdict"], claims[name]["basis"]) for name in ("M5", "M9", "M7", "M3", "M1")} == {
        "M5": ("as given", "input"),
        "M9": ("as given", "input"),
        "M7": ("not testable", ""),
        "M3": ("reproduced", "calibrated"),
        "M1": ("reproduced", "predicted"),
    }
    assert "predicted: 5 claims, 3 reproduced, 1 off, 1 contradicted" in printed
    assert "calibrated: 1 claim, 1 reproduced" in printed
    assert "input: 2 claims, 2 as given" in printed
    assert "without a basis: 1 claim, 1 not testable" in printed


def test_with_quick_a_claim_that_was_left_out_was_not_run(tree: Tree) -> None:
    _, printed = tree.run(quick=True)
    with (tree.out / "claims.csv").open() as file:
        claims = {row["id"]: row["verdict"] for row in csv.DictReader(file)}
    assert (claims["M1"], claims["M6"], claims["M7"]) == ("not run", "not run", "not testable")
    assert "2 not run" in printed
    page = (tree.out / "report.html").read_text()
    assert 'class="verdict not-run"' in page


# Which claims of the cable paper rest on what. A number in the catalogue decides the calibrated ones.
CABLES = {
    "predicted": {"A016", "A023", "A025", "A034", "A037", "A043"},
    "derived": {"A018", "A038", "A041"},
    "calibrated": {
        "A015", "A017", "A019", "A020", "A021", "A026", "A028", "A029", "A030", "A031", "A032", "A039", "A040", "A042",
        "A044", "A045", "A047",
    },
    "": {"A035"},
}  # fmt: skip


def test_of_the_cable_paper_six_claims_are_predictions_of_their_own() -> None:
    found = found_in("cables")
    for basis, claims in CABLES.items():
        assert {claim for claim, one in found.items() if one == basis} == claims, basis
    assert {found[claim] for claim in ("A007", "A008", "A013", "A022", "A024", "A027", "A036", "A046")} == {"input"}


def found_in(name: str) -> dict[str, str]:
    """The bases of a study's claims in this checkout."""
    study = load_study(CHECKOUT, name)
    reference = study.claims_path(CHECKOUT)
    rules = load_rules(study, load_published(reference), reference)
    return dict(bases_of(rules, calibrated_parameters(CHECKOUT / "catalog")))


def test_rates_that_a_post_was_inverted_from_calibrate_the_rows_of_their_log() -> None:
    """The part says it, not the study: the value itself is not a measurement."""
    calibrated = calibrated_parameters(CHECKOUT / "catalog")
    rows = [f"G{number:03}" for number in range(39, 44)]
    assert all(calibrated.get(row) == ["host/epyc-7003 post_send"] for row in rows)
    found = found_in("generations")
    assert {found[row] for row in rows} == {"calibrated"}
    assert found["G046"] == "predicted", "a row that no part names"


def test_what_two_parts_of_one_paper_share_is_one_fit() -> None:
    found = found_in("pcie")
    assert {found[row] for row in ("E014", "E017", "E019", "E010", "E025", "E031")} == {"calibrated"}
    assert {found[row] for row in ("E008", "E024", "E030", "E040")} == {"predicted"}
    assert (found["E033"], found["E044"], found["E045"]) == ("derived", "input", "input")
    assert found_in("xt3")["C011"] == "derived"
