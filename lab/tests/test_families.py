"""The numbers of a study by family, and the charts of its page."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from conftest import Tree

from softband_lab.base.errors import LabError
from softband_lab.report import scatter
from softband_lab.rules.claims import ClaimRow
from softband_lab.rules.curve_rules import ValueRule
from softband_lab.rules.families import Compared, compare, groups, panels
from softband_lab.rules.judgement import Basis, Judgement
from softband_lab.spec.published import Published

FABRIC = '[hosts.a]\n[[hosts.a.hcas]]\npart = "new-hca"\n'


def number(
    name: str, unit: str, value: str, off: float | None, basis: Basis = "predicted", **described: str
) -> ClaimRow:
    published = Published(name, "a log", described.pop("section", "1"), value, unit, "exact", "", "", **described)
    rule = ValueRule(claim=f"claim {name}", kind="value", curves=["c"], tests=["t"])
    predicted = "" if off is None else f"{published.number * (1 + off / 100):.4g}"
    return ClaimRow(published, rule, Judgement(predicted, "off", off), basis, [], frozenset({"new.toml"}))


@pytest.fixture
def numbers(tmp_path: Path) -> list[Compared]:
    (tmp_path / "fabrics").mkdir()
    (tmp_path / "fabrics/new.toml").write_text(FABRIC)
    rows = [
        number("A", "us", "1.0", 10.0, op="write", size_bytes="2"),
        number("B", "Gb/s", "100", -5.0, op="write", size_bytes="65536"),
        number("C", "MiB/s", "4000", 30.0, op="write", size_bytes="4096"),
        number("D", "Mmsg/s", "4.0", 50.0, "calibrated", op="read", size_bytes="64"),
        number("E", "Mmsg/s", "2.0", -50.0, transport="UD", op="send", size_bytes="16-32", section="2"),
        number("F", "us", "2.5", 0.0, op="fetch_add", size_bytes="8"),
        number("G", "us", "2.5", None, op="write", size_bytes="8"),
        number("H", "m", "2.5", 1.0),
    ]
    return compare(rows, tmp_path)


def test_each_number_has_its_family_in_the_unit_of_its_chart(numbers: list[Compared]) -> None:
    assert [(one.row.published.id, one.panel, round(one.published, 3)) for one in numbers] == [
        ("A", "writes and sends: latency", 1.0),
        ("B", "writes and sends: bandwidth from 64 KiB", 100.0),
        # 4000 MiB/s in messages of 4 KiB.
        ("C", "writes and sends: messages a second", 1.024),
        ("D", "reads: messages a second", 4.0),
        ("E", "datagrams: messages a second", 2.0),
        ("F", "atomics: latency", 2.5),
    ]
    assert {one.hca for one in numbers} == {"new-hca"}
    assert [round(one.deviation_percent) for one in numbers] == [10, -5, 30, 50, -50, 0]


def test_predicted_and_calibrated_numbers_stay_apart(numbers: list[Compared]) -> None:
    found = {(group.kind, group.name, group.basis): group for group in groups(numbers)}
    whole = found["all", "all numbers", "predicted"]
    assert (whole.spread.numbers, whole.spread.median, whole.within) == (5, pytest.approx(10.0), 3)
    assert found["all", "all numbers", "calibrated"].spread.numbers == 1
    assert found["system", "2", "predicted"].spread.worst == pytest.approx(50.0)
    assert groups([]) == []


def test_a_chart_has_a_dot_for_each_number_and_a_ring_for_a_calibrated_one(numbers: list[Compared]) -> None:
    kinds = scatter.legend(numbers)
    drawn = {name: scatter.scatter(name, own, kinds) for name, own in panels(numbers)}
    assert list(drawn)[:3] == [
        "writes and sends: latency",
        "writes and sends: messages a second",
        "writes and sends: bandwidth from 64 KiB",
    ]
    for name, own in panels(numbers):
        circles = list(ET.fromstring(drawn[name]).iter("circle"))
        assert len(circles) == len(own)
        assert [circle.get("class") for circle in circles] == [
            "ring" if one.row.basis == "calibrated" else "dot" for one in own
        ]
        assert all(60 <= float(circle.get("cx", "0")) <= 386 for circle in circles)
    # Above the diagonal the model's value is too high, so its dot lies higher.
    (circle,) = ET.fromstring(drawn["datagrams: messages a second"]).iter("circle")
    assert float(circle.get("cy", "0")) - 30 > 386 - float(circle.get("cx", "0"))
    assert 'class="edge"' in drawn["reads: messages a second"]


def test_a_chart_says_how_many_numbers_are_near(numbers: list[Compared]) -> None:
    assert scatter.sentence(numbers) == "Within 25 %: 3 of 5 predicted, 0 of 1 that rest on a calibration."


def test_only_a_study_that_asks_for_it_has_families(tree: Tree) -> None:
    tree.run(quick=True)
    assert 'id="families"' not in (tree.out / "report.html").read_text()
    tree.replace_study("quick_figures", "families = true\nquick_figures")
    assert tree.run()[0] == 0
    assert 'id="families"' in (tree.out / "report.html").read_text()
    with (tree.out / "families.csv").open() as file:
        found = list(csv.DictReader(file))
    assert (found[0]["group"], found[0]["basis"], found[0]["numbers"]) == ("all", "predicted", "1")


def test_a_test_takes_the_keys_of_the_test_that_it_is_like(tree: Tree) -> None:
    tree.replace_study("[[figures]]", LIKE)
    test = tree.study().tests["short"]
    assert (test.unit, test.title, test.expected_sizes("RC")) == ("us", "Short", [2, 8])
    server, client = test.programs("RC", 8)
    assert server.command == "ib_send_lat -m 256 -s 8" and client.command.endswith("-n 20 a")


LIKE = """[tests.short]
like = "latency"
title = "Short"
options = "-m 256"
server = "ib_send_lat {options} -s {size}"
sizes = { RC = { from = 2, to = 8, only = [2, 8] } }

[[figures]]"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('like = "latency"', 'like = "latncy"', r"tests\.short\.like: `latncy` is not a test .*\n  help: did you mean"),
        ('like = "latency"', 'like = "short"', r"`short` is not a test without `like`"),
        ("only = [2, 8]", "only = [2, 16]", r"only: has 16, which is not a power of two from 2 to 8"),
        ("only = [2, 8]", "only = [3]", r"only: has 3, which is not"),
        ("only = [2, 8]", "only = [0]", r"only"),
    ],
)
def test_a_mistake_in_a_test_like_another_is_named(tree: Tree, old: str, new: str, message: str) -> None:
    tree.replace_study("[[figures]]", LIKE.replace(old, new))
    with pytest.raises(LabError, match=message):
        tree.study()
