"""`softband fabric import` and `export`: topologies of `ibnetdiscover` and ibsim."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import FABRICS, FULL, ROOT, WAIT_SECONDS, Softband, which

SEEDS = ROOT / "fuzz" / "seeds" / "import"
WRAPPER = Path("/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so")
# ibsim 0.10 knows no faster links.
FASTEST = ("NDR", "XDR")
has_ibsim = pytest.mark.skipif(
    not (which("ibsim") and which("ibnetdiscover") and WRAPPER.exists()),
    reason="ibsim-utils, libumad2sim0 and infiniband-diags are not installed",
)


def graph(fabric: Path) -> tuple[set[Any], set[Any], set[Any]]:
    """Returns the HCAs, switches and cables of an imported file."""
    data = tomllib.loads(fabric.read_text())
    hcas = {(name, hca["device"], hca.get("node_guid")) for name, host in data["hosts"].items() for hca in host["hcas"]}
    switches = {(name, switch.get("node_guid")) for name, switch in data.get("switches", {}).items()}
    cables = {(*sorted((cable["from"], cable["to"])), cable["rate"]) for cable in data.get("cables", [])}
    return hcas, switches, cables


@contextmanager
def ibsim(softband: Softband, net: str) -> Iterator[dict[str, str]]:
    """Runs ibsim on a net file. Yields the environment of its clients."""
    environment = {**os.environ, "IBSIM_SOCKNAME": f"softband-{os.getpid()}"}
    options = re.search(r"^# It needs: ibsim (.*)$", (softband.folder / net).read_text(), re.MULTILINE)
    words = options[1].split() if options else []
    with subprocess.Popen(
        ["ibsim", "-s", "-n", *words, net], cwd=softband.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as simulator:
        try:
            yield {**environment, "LD_PRELOAD": str(WRAPPER)}
        finally:
            simulator.kill()


def discover(softband: Softband, net: str, host: str) -> str:
    """Returns the output of ibnetdiscover over ibsim, from a host."""
    with ibsim(softband, net) as environment:
        for _ in range(50):
            done = subprocess.run(
                [which("ibnetdiscover") or ""], env={**environment, "SIM_HOST": host}, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
            )
            if done.returncode == 0 and "guid=" in done.stdout:
                return done.stdout
    raise AssertionError(done.stderr)


def without_comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


@has_ibsim
@pytest.mark.parametrize("name", ["ddr-through-switch", "fat-tree-16", "torus-4x4", "two-switches-12x", "two-rails", "generations/hdr-switch"])
def test_an_export_is_the_output_of_ibnetdiscover_over_ibsim(softband: Softband, name: str) -> None:
    texts = {}
    for form in ("ibnetdiscover", "ibsim"):
        done = softband.command("fabric", "export", "--format", form, name, "-o", f"{form}.txt")
        assert done.returncode == 0, done.stderr
        texts[form] = (softband.folder / f"{form}.txt").read_text()
    first = re.search(r'^Hca\t\d+ "([^"]*)"', texts["ibsim"], re.MULTILINE)
    assert first
    real = discover(softband, "ibsim.txt", first[1])
    assert without_comments(real) == without_comments(texts["ibnetdiscover"])
    (softband.folder / "real.txt").write_text(real)
    for form in (*texts, "real"):
        done = softband.command("fabric", "import", f"{form}.txt", "-o", f"{form}.toml")
        assert done.returncode == 0, done.stderr
    assert graph(softband.folder / "real.toml") == graph(softband.folder / "ibsim.toml") == graph(softband.folder / "ibnetdiscover.toml")
    checked = softband.command("fabric", "check", "real.toml")
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("path", sorted(FABRICS.rglob("*.toml")), ids=lambda path: str(path.relative_to(FABRICS)))
def test_each_fabric_keeps_its_graph(softband: Softband, path: Path) -> None:
    if "ethernet" in path.read_text():
        done = softband.command("fabric", "export", "--format", "ibsim", str(path))
        assert done.returncode == 2 and "describes InfiniBand subnets\n  help: " in done.stderr
        return
    options = ("--format", "ibnetdiscover", "--allow-out-of-spec")
    assert softband.command("fabric", "export", *options, str(path), "-o", "first.txt").returncode == 0
    assert softband.command("fabric", "import", "first.txt", "-o", "first.toml").returncode == 0
    done = softband.command("fabric", "export", *options, "first.toml", "-o", "second.txt")
    assert done.returncode == 0, done.stderr
    assert (softband.folder / "second.txt").read_bytes() == (softband.folder / "first.txt").read_bytes()


def test_an_imported_cluster_carries_a_workload(softband: Softband) -> None:
    done = softband.command("fabric", "import", str(SEEDS / "field.txt"), "-o", "field.toml")
    assert done.returncode == 0 and "guessed part `switchx`" in done.stderr, done.stderr
    done = softband.command("model", "field.toml", "permutation", "--bytes", "64KiB", "--messages", "4", "--out", "out")
    assert done.returncode == 0, done.stderr


def test_a_mistake_has_its_line_and_leaves_no_file(softband: Softband) -> None:
    text = (SEEDS / "ibnetdiscover.txt").read_text()
    (softband.folder / "cut.txt").write_text(text[: len(text) // 2])
    done = softband.command("fabric", "import", "cut.txt", "-o", "cut.toml")
    assert done.returncode == 2 and re.match(r"cut\.txt:\d+:1: error: .*\n.*\n?  help: ", done.stderr), done.stderr
    assert not (softband.folder / "cut.toml").exists()
    missing = softband.command("fabric", "import", "missing.txt")
    assert missing.returncode == 2 and "cannot read missing.txt" in missing.stderr and "help: " in missing.stderr


def test_a_line_of_200_megabytes_is_refused(softband: Softband) -> None:
    (softband.folder / "long.txt").write_bytes(b'Switch 8 "a"\n' + b"[1] " * 50_000_000)
    done = softband.command("fabric", "import", "long.txt")
    assert done.returncode == 2 and "long.txt:2:1: error: a line has 200000000 bytes" in done.stderr, done.stderr[:500]


@pytest.mark.parametrize("hosts", [10_000 if FULL else 2_000])
def test_thousands_of_hosts_are_imported(softband: Softband, hosts: int) -> None:
    keys = ("--levels", "3", "--ports", "36", "--hosts", str(hosts), "--switch", "infiniscale-iv", "--hca", "connectx2-qdr")
    made = softband.command("fabric", "generate", "fat-tree", *keys, "--host", "qdr-host", "--out", "tree.toml")
    assert made.returncode == 0, made.stderr
    assert softband.command("fabric", "export", "--format", "ibnetdiscover", "tree.toml", "-o", "tree.txt").returncode == 0
    done = softband.command("fabric", "import", "tree.txt", "-o", "again.toml")
    assert done.returncode == 0, done.stderr
    assert len(graph(softband.folder / "again.toml")[0]) == hosts
