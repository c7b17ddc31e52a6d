"""Charts as SVG: equal strokes, names, published numbers, sentences from the data, words for a screen reader."""

from __future__ import annotations

import re
import shutil
import subprocess
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import STUDY, Tree

from softband_lab.base.errors import LabError
from softband_lab.report import svg
from softband_lab.report.accuracy_charts import Dot, scatter_chart, scatter_sentence, strip_chart
from softband_lab.report.charts import Mark, Panel, describe, page_panel, static_panel
from softband_lab.report.overlap import draw_lines
from softband_lab.report.takeaway import signed_percent, takeaway
from softband_lab.spec.study import Test
from softband_lab.spec.study_file import load_study
from softband_lab.sweep.whatif_charts import Spot, heat_chart, lines_chart, narrow_heat_charts

SIZES = (2, 4, 8)


def test_of(column: str) -> Test:
    return Test.model_validate({
        "title": "Latency" if column.startswith("latency") else "Bandwidth",
        "quantity": "a quantity",
        "unit": "us" if column.startswith("latency") else "MB/s",
        "direction": "uni",
        "column": column,
        "iterations": 1,
        "server_host": "a",
        "server": "x",
        "client_host": "b",
        "client": "x",
        "sizes": {"RC": {"from": 2, "to": 8}},
    })  # fmt: skip


test_of.__test__ = False  # type: ignore[attr-defined]


def panel(
    curves: dict[str, tuple[float, ...]], marks: tuple[Mark, ...] = (), column: str = "bw_average_mib_s"
) -> Panel:
    points = [
        {"curve": name, "size": size, "value": value}
        for name, values in curves.items()
        for size, value in zip(SIZES, values, strict=False)
    ]
    labels = {name: f"Curve {name.upper()}" for name in curves}
    return Panel("curves", "test", test_of(column), list(curves), points, list(marks), labels)


def lines_of(drawing: str, curve: str) -> list[tuple[str, str | None, str | None]]:
    """Where each run of a curve's line goes, and its dashes."""
    root = ElementTree.fromstring(drawing)
    group = next(one for one in root.iter() if one.get("data-curve") == curve)
    return [
        (one.attrib["d"], one.get("stroke-dasharray"), one.get("stroke-dashoffset"))
        for one in group
        if one.tag.endswith("path")
    ]


def test_curves_that_coincide_take_turns_in_dashes_of_the_same_width() -> None:
    drawing = page_panel(panel({"a": (100, 200, 900), "b": (100, 200, 300), "c": (700, 800, 900)}))
    (a_shared, a_alone), (b_shared, b_alone) = lines_of(drawing, "a"), lines_of(drawing, "b")
    assert a_shared[0] == b_shared[0]
    assert (a_shared[1:], b_shared[1:]) == (("7 7", "14"), ("7 7", "7"))
    assert a_alone[1] is None
    assert b_alone[1] is None
    assert a_alone[0] != b_alone[0]
    assert [dash for _, dash, _ in lines_of(drawing, "c")] == [None]
    # No line says its own width: the one rule holds for all.
    assert not re.search(r"<path[^>]*stroke-width", drawing)
    assert len(re.findall(r"\.line\{[^}]*stroke-width:2;", svg.page_rules())) == 1


def test_a_chart_says_in_words_what_it_shows() -> None:
    shown = panel({"a": (1, 2, 1500), "b": (1, 2, 900)}, (Mark(1400.0, "published: 1,400"),))
    label = ElementTree.fromstring(page_panel(shown)).attrib["aria-label"]
    assert label == describe(shown)
    assert "from 2 to 8 bytes" in label
    assert "Curve A: from 1 to 1,500." in label
    assert "Published: 1,400." in label


def test_published_numbers_stand_where_they_are_measured() -> None:
    at_size = Mark(450.0, "published: 450", "b", 4, "X1: https://example.org, table 2")
    across = Mark(900.0, "published: 900")
    root = ElementTree.fromstring(static_panel(panel({"a": (1, 2, 900), "b": (1, 450, 800)}, (at_size, across))))
    (diamond,) = [one for one in root.iter() if one.get("class") == "diamond"]
    assert diamond.attrib["data-tip"] == "published: 450. X1: https://example.org, table 2"
    dots = {one.attrib["data-tip"]: one for one in root.iter() if one.get("class") == "hit" and one.get("cx")}
    here = dots["Curve B: 450.00 MB/s at 4 bytes (predicted)"]
    places = [tuple(map(float, corner.split(","))) for corner in diamond.attrib["points"].split()]
    assert (float(here.attrib["cx"]), float(here.attrib["cy"])) == (places[0][0], places[1][1])
    level = next(one for one in root.iter() if one.get("class") == "published")
    top = dots["Curve A: 900.00 MB/s at 8 bytes (predicted)"]
    assert level.attrib["y1"] == level.attrib["y2"] == top.attrib["cy"]


@pytest.mark.parametrize(
    ("curves", "column", "sentence"),
    [
        (
            {"a": (1, 2, 500), "b": (1, 2, 1000)},
            "bw_average_mib_s",
            "Bandwidth: Curve B has the best value, 1,000 MB/s; Curve A has 500 MB/s, 50 % less.",
        ),
        (
            {"a": (2.0, 3, 4), "b": (5.0, 6, 7)},
            "latency_typical_us",
            "Latency: Curve A has the best value, 2 us; Curve B has 5 us, 150 % longer.",
        ),
        (
            {"a": (1, 2, 1000), "b": (1, 2, 995)},
            "bw_average_mib_s",
            "Bandwidth: both curves have 1,000 MB/s at best, within 1 %.",
        ),
        (
            {"a": (1, 2, 1000)},
            "bw_average_mib_s",
            "Bandwidth: Curve A has 1 MB/s at 2 bytes and 1,000 MB/s at 8 bytes.",
        ),
        ({"a": (7.5,)}, "bw_average_mib_s", "Bandwidth: Curve A has 7.5 MB/s at 2 bytes."),
        ({}, "bw_average_mib_s", ""),
    ],
)
def test_the_sentence_follows_the_data(curves: dict[str, tuple[float, ...]], column: str, sentence: str) -> None:
    assert takeaway([panel(curves, column=column)], []) == sentence


def test_a_deviation_that_rounds_to_zero_has_no_sign() -> None:
    assert [signed_percent(value) for value in (-0.04, 0.0, 1.44, -1.46)] == ["0.0 %", "0.0 %", "+1.4 %", "−1.5 %"]


def test_the_page_has_labels_sentences_and_both_themes(tree: Tree) -> None:
    path = tree.home / "studies/mini/study.toml"
    path.write_text(STUDY.replace('{ name = "rc-100m",', '{ name = "rc-100m", label = "100 m <of glass>",'))
    tree.run()
    page = (tree.out / "report.html").read_text()
    assert "100 m &lt;of glass&gt; has" in page
    assert re.search(
        r'<p class="takeaway">Bandwidth: [^<]*published numbers lie within 5 %; M8 lies farthest off', page
    )
    assert "@media (prefers-color-scheme:dark){:root{--ink:" in page
    described = re.findall(r'<svg class="chart"[^>]*aria-label="([^"]+)"', page)
    assert len(described) == 3
    assert all("from 2 to" in words for words in described)
    # Below 600 px every field stands under its heading's name.
    assert not re.search(r"<td(?![^>]*data-label)", page)


def test_two_curves_of_a_figure_with_the_same_label_are_refused(tree: Tree) -> None:
    path = tree.home / "studies/mini/study.toml"
    path.write_text(STUDY.replace('{ name = "rc-100m",', '{ name = "rc-100m", label = "rc-ddr",'))
    with pytest.raises(LabError, match=r"curve rc-100m: has the label `rc-ddr`, as another curve"):
        load_study(tree.home, "mini")


def dot(claim_id: str, deviation: float, generation: str = "Old", value: float | None = 1e6) -> Dot:
    values = None if value is None else ("rate", value, value * (1 + deviation / 100))
    return Dot(claim_id, "a claim", generation, "predicted", deviation, "1 MB/s", "1", "a source", values)


def test_deviations_stand_by_generation_and_none_hides_another() -> None:
    dots = [dot("A1", 1.0), dot("A2", 1.0), dot("A3", -20.0), dot("B1", 40.0, "New")]
    for width in (1000.0, 380.0):
        root = ElementTree.fromstring(strip_chart(dots, ["Old", "New", "None"], 5.0, width))
        found = {one.attrib["data-tip"][:2]: one for one in root.iter() if one.get("class") == "dot"}
        assert set(found) == {"A1", "A2", "A3", "B1"}
        place = {name: (float(one.attrib["cx"]), float(one.attrib["cy"])) for name, one in found.items()}
        assert place["A3"][0] < place["A1"][0] == place["A2"][0] < place["B1"][0] < width
        assert abs(place["A1"][1] - place["A2"][1]) >= 7.5
        assert place["B1"][1] > place["A3"][1]
        label = root.attrib["aria-label"]
        assert "Old: 3 numbers, median 1.0 % off, worst 20.0 %." in label
        assert "None" not in label


def test_the_same_value_is_on_the_diagonal() -> None:
    dots = [dot("A1", 0.0, value=2e6), dot("A2", 50.0, value=8e6), dot("A3", 0.0, value=None)]
    root = ElementTree.fromstring(scatter_chart(dots, "rate", ["Old"]))
    by_claim = {one.attrib["data-tip"][:2]: one for one in root.iter() if one.get("class") == "dot"}
    diagonal = [one for one in root.iter() if one.get("class") == "axis" and one.attrib["x1"] != one.attrib["x2"]][-1]
    x1, y1, x2, y2 = (float(diagonal.attrib[name]) for name in ("x1", "y1", "x2", "y2"))

    def above(one: ElementTree.Element) -> float:
        x, y = float(one.attrib["cx"]), float(one.attrib["cy"])
        return y1 + (y2 - y1) * (x - x1) / (x2 - x1) - y

    assert above(by_claim["A1"]) == pytest.approx(0, abs=0.2)
    assert above(by_claim["A2"]) > 10
    assert set(by_claim) == {"A1", "A2"}
    assert scatter_sentence(dots, "rate") == "1 of 2 lie within 10 %, the grey band."


def test_a_figure_by_itself_needs_no_page() -> None:
    drawing = static_panel(panel({"a": (1, 2, 900)}))
    assert "var(--" not in drawing
    assert ElementTree.fromstring(drawing).attrib["viewBox"].startswith("0 0 400 ")
    assert ">Curve A<" in drawing


def test_lines_that_coincide_share_their_dashes_though_their_points_differ() -> None:
    lines = draw_lines({"a": [(0.0, 10.0), (100.0, 10.0)], "b": [(0.0, 10.0), (40.0, 10.0), (100.0, 90.0)]})
    assert lines["a"].count("<path") == lines["b"].count("<path") == 2
    shared_a, shared_b = (re.search(r'd="([^"]+)" stroke-dasharray', lines[name]) for name in "ab")
    assert shared_a is not None
    assert shared_b is not None
    assert shared_a[1] == shared_b[1] == "M0 10L40 10"
    assert '"M40 10L100 10"/>' in lines["a"]
    assert draw_lines({"a": [(0.0, 10.0)], "b": []}) == {"a": "", "b": ""}


def test_a_question_has_lines_for_all_lanes_and_a_map_that_fits_a_narrow_page() -> None:
    spots = [Spot(f"{lanes} data lanes", length, 1000.0 / length) for lanes in range(1, 11) for length in (1.0, 2.0)]
    root = ElementTree.fromstring(lines_chart(spots, 400))
    assert len([one for one in root.iter() if one.get("stroke-dasharray")]) == 10
    maps = [heat_chart(spots), *narrow_heat_charts(spots)]
    fields = [len([one for one in ElementTree.fromstring(drawing).iter() if one.get("fill")]) for drawing in maps]
    assert fields == [20, 16, 4]
    assert [ElementTree.fromstring(drawing).attrib["viewBox"].split()[2] for drawing in maps[1:]] == ["380", "380"]
    assert "10 data lanes: 1,000 at 1 m, 500 at 2 m." in maps[2]


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium to lay pages out")
def test_no_page_scrolls_sideways_on_a_telephone(tree: Tree, tmp_path: Path) -> None:
    """In a frame: a window of chromium is never this narrow."""
    tree.run()
    page = (tree.out / "report.html").read_text()
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(
        f'<iframe style="width:390px;height:900px" srcdoc="{escape(page)}"></iframe><p>not measured</p><script>'
        "onload = () => { const page = document.querySelector('iframe').contentDocument.documentElement;"
        " document.querySelector('p').textContent = `${page.clientWidth} ${page.scrollWidth}`; };</script>"
    )
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [*command, "--dump-dom", f"file://{wrapper}"], capture_output=True, text=True, timeout=90, check=True
    )
    sizes = re.search(r"<p>(\d+) (\d+)</p>", done.stdout)
    assert sizes is not None, done.stderr
    assert int(sizes[2]) == int(sizes[1]) > 350
