"""The time of a small message on a left-out system, from the published logs of the others."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from conftest import Tree

from softband_lab.base.errors import LabError
from softband_lab.rules.host_rules import EVERY_CLASS, leave_one_out, spreads
from softband_lab.rules.spread import Spread
from softband_lab.spec.host_rules import COLUMNS, HostLog, load_host_logs

CHECKOUT = Path(__file__).resolve().parents[2]
HEADER = ",".join(COLUMNS)


def log(system: str, host_class: str, time: float) -> HostLog:
    return HostLog(system, host_class, time, "RC", "write", "64", "nowhere", "")


def test_a_system_takes_no_part_in_its_own_rule() -> None:
    logs = [log("a", "old", 100.0), log("b", "old", 200.0), log("c", "old", 400.0), log("d", "new", 50.0)]
    a, b, c, d = leave_one_out(logs)
    assert [row.rule_ns for row in (a, b, c)] == [300.0, 250.0, 150.0]
    # 300 ns a message are a third of the rate at 100 ns.
    assert a.error_percent == pytest.approx(-66.67, abs=0.01)
    assert c.error_percent == pytest.approx(166.67, abs=0.01)
    assert (a.rule_from, a.systems, d.rule_from, d.systems, d.rule_ns) == ("old", 2, EVERY_CLASS, 3, 200.0)


def test_one_system_has_no_rule() -> None:
    assert leave_one_out([log("a", "old", 100.0)]) == []
    assert spreads([]) == []


def test_errors_are_summed_up_by_the_origin_of_the_rule() -> None:
    logs = [log("a", "old", 100.0), log("b", "old", 200.0), log("c", "new", 150.0)]
    assert [(words, spread.numbers) for words, spread in spreads(leave_one_out(logs))] == [
        ("rule of old", 2),
        ("rule of all classes", 1),
        ("all systems", 3),
    ]


@pytest.mark.parametrize(
    ("count", "median", "ninth"),
    [(1, 1.0, 1.0), (9, 5.0, 9.0), (10, 5.5, 9.0), (11, 6.0, 10.0), (20, 10.5, 18.0)],
)
def test_nine_tenths_of_the_deviations_do_not_exceed_the_ninth(count: int, median: float, ninth: float) -> None:
    found = Spread.of((-1) ** value * float(value) for value in range(1, count + 1))
    assert (found.numbers, found.median, found.ninth, found.worst) == (count, median, ninth, float(count))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("system,class\na,b", r"csv:1: has no column `ns_per_message`"),
        (f"{HEADER},sorce\na,b,1,RC,write,64,x,,", r"csv:1: `sorce` is not a column of this table"),
        (f"{HEADER}\na,b,0,RC,write,64,x,", r"csv:2: `0` is no time of a message"),
        (f"{HEADER}\na,b,nan,RC,write,64,x,", r"csv:2: `nan` is no time of a message"),
        (f"{HEADER}\na,b,fast,RC,write,64,x,", r"csv:2: `fast` is no time of a message"),
        (f"{HEADER}\na,,1,RC,write,64,x,", r"csv:2: has no class"),
        (f"{HEADER}\na,b,1,RC,write,64,,", r"csv:2: has no source"),
        (f"{HEADER}\na,b,1,RC,write,64,x,\na,c,1,RC,write,64,x,", r"csv:3: has the system `a` again"),
        (f"{HEADER}\na,b,1,RC", r"csv:2: has 4 fields, the header 8"),
    ],
)
def test_a_mistake_in_the_table_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "logs.csv"
    path.write_text(text + "\n")
    with pytest.raises(LabError, match=message):
        load_host_logs(path)


def test_a_study_without_its_table_does_not_start(tree: Tree) -> None:
    tree.replace_study("quick_figures", 'host_rules = "logs.csv"\nquick_figures')
    with pytest.raises(LabError, match=r"logs\.csv: cannot be read"):
        tree.run(quick=True)
    assert tree.runs() == []


def test_a_study_writes_and_shows_its_table(tree: Tree) -> None:
    tree.replace_study("quick_figures", 'host_rules = "logs.csv"\nquick_figures')
    rows = "a,old,100,RC,write,64,<here>,\nb,old,200,RC,write,64,there,\n"
    (tree.home / "references/logs.csv").write_text(f"{HEADER}\n{rows}")
    status, printed = tree.run(quick=True)
    assert status == 0
    assert "small messages of a left-out system, all systems: 2, median 75 %" in " ".join(printed.split())
    with (tree.out / "host_rules.csv").open() as file:
        found = list(csv.DictReader(file))
    assert [(row["system"], row["rule_ns"], row["error_percent"]) for row in found] == [
        ("a", "200", "-50.0"),
        ("b", "100", "100.0"),
    ]
    page = (tree.out / "report.html").read_text()
    assert 'id="host-rules"' in page and "&lt;here&gt;" in page and "<here>" not in page


def test_the_published_logs_give_a_rule_for_each_system() -> None:
    logs = load_host_logs(CHECKOUT / "references/host_rules.csv")
    found = leave_one_out(logs)
    assert [row.log.system for row in found] == [row.system for row in logs]
    assert len({row.log.host_class for row in found}) >= 3
    assert all(row.systems < len(logs) for row in found)
