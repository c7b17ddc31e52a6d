"""`hot.svg` of `softband model`: the load of each cable direction, or matrices of loads."""

from __future__ import annotations

import csv
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from conftest import FABRICS, Softband

SVG = "{http://www.w3.org/2000/svg}"
PARTS = ["--host", "qdr-host", "--hca", "connectx2-qdr", "--device", "mlx4_0", "--switch", "infiniscale-iv"]
CABLES = ["--host-cable", "copper-4x", "--host-cable-length", "1 m"]
# Shares at which a darker colour begins.
CLASSES = [0.01, 0.2, 0.4, 0.6, 0.8]


def model(softband: Softband, fabric: Path, *words: str) -> tuple[ET.Element, list[dict[str, str]], str]:
    """Runs a workload and returns its picture, its ports and its output."""
    done = softband.command("model", str(fabric), *words, "--threads", "1", "--out", "out")
    assert done.returncode == 0, done.stderr
    ports = list(csv.DictReader((softband.folder / "out" / "ports.csv").open()))
    return ET.parse(softband.folder / "out" / "hot.svg").getroot(), ports, done.stdout


def generated(softband: Softband, *words: str) -> Path:
    to = softband.folder / "generated.toml"
    done = softband.command("fabric", "generate", *words, *PARTS, *CABLES, "--out", str(to))
    assert done.returncode == 0, done.stderr
    return to


def halves(picture: ET.Element) -> dict[str, ET.Element]:
    """Returns the drawing of each cable direction, by the sending port."""
    told = [(path.findtext(f"{SVG}title"), path) for path in picture.iter(f"{SVG}path")]
    named = [(title.split(" to ")[0], path) for title, path in told if title]
    assert len({name for name, _ in named}) == len(named)
    return dict(named)


def words_of(picture: ET.Element) -> list[str]:
    return ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]


def colour(share: str) -> int:
    return sum(float(share) >= least for least in CLASSES)


def test_an_incast_shows_its_root_darkest_and_who_waits_for_it_widest(softband: Softband) -> None:
    picture, _, text = model(softband, generated(softband, "star", "--hosts", "6"), "incast", "--bytes", "256KiB", "--root", "h2")
    drawn = halves(picture)
    assert [port for port, path in drawn.items() if path.get("class") == "b5"] == ["sw/3"]
    widths = {port: float(path.get("stroke-width", "0")) for port, path in drawn.items()}
    senders = {f"h{host}/mlx4_0/1" for host in (0, 1, 3, 4, 5)}
    assert min(widths[port] for port in senders) > max(width for port, width in widths.items() if port not in senders)
    assert any(words.startswith("sw/3 to h2/mlx4_0/1: sends") for words in words_of(picture))
    assert "load by level" in text and "h0..h5 -> sw" in text and "█" in text


@pytest.mark.parametrize("fabric", ["fat-tree-16", "torus-4x4", "ring-of-five", "two-hosts", "two-rails", "two-switches-12x"])
def test_each_end_of_a_cable_is_drawn_once_in_its_colour_and_each_node_is_named(softband: Softband, fabric: str) -> None:
    picture, ports, _ = model(softband, FABRICS / f"{fabric}.toml", "permutation", "--bytes", "64KiB")
    drawn = halves(picture)
    assert {port: path.get("class") for port, path in drawn.items()} == {
        port["port"]: f"b{colour(port['xmit_utilisation'])}" for port in ports
    }
    assert {port["port"].split("/")[0] for port in ports} <= set(words_of(picture))


def test_a_picture_tells_its_subject_to_readers_that_do_not_see_it_and_has_dark_colours(softband: Softband) -> None:
    picture, _, _ = model(softband, FABRICS / "fat-tree-16.toml", "permutation", "--bytes", "64KiB")
    title = picture.findtext(f"{SVG}title") or ""
    assert (picture.get("role"), picture.get("aria-label")) == ("img", title)
    assert title.startswith("Sixteen hosts in a fat tree of two levels: permutation")
    described = picture.findtext(f"{SVG}desc") or ""
    hottest = [words for words in words_of(picture) if ": sends " in words]
    assert "16 hosts, 6 switches, 32 cables" in described and hottest and all(words in described for words in hottest)
    light, dark = (picture.findtext(f"{SVG}style") or "").split("@media (prefers-color-scheme: dark)")
    for rule in [f".{letter}{index} {{ stroke: " for letter in "bs" for index in range(6)]:
        assert light.count(rule) == dark.count(rule) == 1
    brightness = [[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in re.findall(r"\.b\d { stroke: (#\w{6})", light + dark)]
    shades = [0.3 * red + 0.59 * green + 0.11 * blue for red, green, blue in brightness]
    assert shades[:6] == sorted(shades[:6], reverse=True) and shades[6:] == sorted(shades[6:])


def runs(path: str) -> int:
    """Returns the number of cells that a path of strokes covers."""
    assert re.fullmatch(r"M\d+\.5 \d+v\d+(m-?\d+ -?\d+v\d+)*", path)
    return sum(int(length) for length in re.findall(r"v(\d+)", path))


def cells(picture: ET.Element) -> dict[str, int]:
    counts: dict[str, int] = {}
    for group in picture.iter(f"{SVG}g"):
        for path in group.iter(f"{SVG}path"):
            name = path.get("class", "")
            counts[name] = counts.get(name, 0) + runs(path.get("d", ""))
    return counts


@pytest.mark.parametrize(
    "form",
    [
        ("fat-tree", "--ports", "8", "--levels", "3"),
        ("torus", "--dimensions", "6,6"),
        ("dragonfly", "--hosts-per-switch", "2", "--groups", "9", "--switches-per-group", "4", "--global-links", "2"),
    ],
)
def test_a_large_fabric_has_a_cell_for_each_port_in_its_colour(softband: Softband, form: tuple[str, ...]) -> None:
    picture, ports, _ = model(softband, generated(softband, *form), "permutation", "--bytes", "100000", "--messages", "1")
    expected: dict[str, int] = {}
    for port in ports:
        name = f"b{colour(port['xmit_utilisation'])}"
        expected[name] = expected.get(name, 0) + 1
    counts = cells(picture)
    assert {name: count for name, count in counts.items() if name.startswith("b")} == expected
    assert sum(count for name, count in counts.items() if name.startswith("s")) == len(ports)


def test_many_ports_of_one_switch_and_thousands_of_many_stay_readable_and_small(softband: Softband) -> None:
    done = softband.command("fabric", "generate", "star", "--hosts", "64", "--out", "star.toml")
    assert done.returncode == 0, done.stderr
    picture, ports, _ = model(softband, softband.folder / "star.toml", "permutation", "--bytes", "64KiB")
    assert sum(cells(picture).values()) == 2 * len(ports)
    tree = generated(softband, "fat-tree", "--ports", "16", "--levels", "3")
    picture, ports, text = model(softband, tree, "permutation", "--bytes", "20000", "--messages", "1")
    assert sum(cells(picture).values()) == 2 * len(ports) == 12288
    assert (softband.folder / "out" / "hot.svg").stat().st_size < 150_000
    assert "h0..h1023 to leaf0..leaf127" in " ".join(words_of(picture))
    assert "core0..core63 -> spine0..spine127" in text


def test_names_with_special_characters_leave_a_valid_picture(softband: Softband) -> None:
    file = softband.folder / "named.toml"
    file.write_text((FABRICS / "two-hosts.toml").read_text().replace("title = \"", "title = \"<a> & 'b' ", 1))
    picture, _, _ = model(softband, file, "stream", "--messages", "10")
    assert "<a> & 'b'" in (picture.findtext(f"{SVG}title") or "")
