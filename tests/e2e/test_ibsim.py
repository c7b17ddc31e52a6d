"""The management tools print the same over Softband and over ibsim, except for explained differences.

`conformance/management/ibsim.toml` has the commands and the differences.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import ADMINISTRATORS, ROOT, WAIT_SECONDS, Softband, which

WRAPPER = next(Path("/usr/lib").glob("*/umad2sim/libumad2sim.so"), None)
pytestmark = pytest.mark.skipif(not (WRAPPER and which("ibsim") and which("opensm")), reason="no ibsim")
TABLE: dict[str, Any] = tomllib.loads((ROOT / "conformance" / "management" / "ibsim.toml").read_text())
PARTS = ["--host", "qdr-host", "--hca", "connectx2-qdr", "--device", "mlx4_0", "--switch", "infiniscale-iv"]
CABLES = ["--host-cable", "copper-4x", "--host-cable-length", "1 m"]
TOPOLOGIES = {
    "fat-tree": ["fat-tree", "--hosts", "8", "--levels", "2", "--ports", "8"],
    "torus": ["torus", "--dimensions", "3,3", "--hosts-per-switch", "1"],
}
# OpenSM sweeps such a fabric in less than two seconds.
START = 'opensm -f "$1/opensm.log" >/dev/null 2>&1 & manager=$!; sleep 5'


def script(path: Path) -> Path:
    lines = [START]
    for number, command in enumerate(TABLE["commands"]):
        lines.append(f'{{ {command}; echo "status $?"; }} >"$1/{number}" 2>&1')
    path.write_text("\n".join([*lines, "kill $manager; wait $manager"]))
    return path


@contextmanager
def ibsim(net: Path, folder: Path) -> Iterator[dict[str, str]]:
    """Runs ibsim. Yields the environment of a program on the first host."""
    name = f"softband-test-{os.getpid()}"
    environment = os.environ | {"IBSIM_SOCKNAME": name, "OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder)}
    words = ["ibsim", "-n", "-s", str(net)]
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as simulator:
        try:
            deadline = time.monotonic() + WAIT_SECONDS
            while name not in Path("/proc/net/unix").read_text():
                assert simulator.poll() is None and time.monotonic() < deadline, "ibsim does not start"
                time.sleep(0.05)
            yield environment | {"PATH": os.pathsep.join((os.environ["PATH"], *ADMINISTRATORS)), "SIM_HOST": "h0 mlx4_0", "LD_PRELOAD": str(WRAPPER)}
        finally:
            simulator.kill()


def outputs(softband: Softband, topology: str, folder: Path) -> tuple[list[str], list[str]]:
    """Returns the outputs of all commands over Softband, and over ibsim."""
    file, net, commands = folder / "fabric.toml", folder / "fabric.net", script(folder / "commands.sh")
    text = softband.command("fabric", "generate", *TOPOLOGIES[topology], *PARTS, *CABLES).stdout
    file.write_text(text)
    exported = softband.command("fabric", "export", "--format", "ibsim", str(file)).stdout
    # The comments hold LIDs, which ibsim would take over.
    net.write_text(re.sub(r"[ \t]*#.*", "", exported))
    file.write_text(f'[subnet]\nmanager = "opensm"\n\n{text}')
    ours, theirs = folder / "softband", folder / "ibsim"
    ours.mkdir()
    theirs.mkdir()
    softband.run(file, ("h0", f"sh {commands} {ours}")).assert_ok()
    with ibsim(net, theirs) as environment:
        subprocess.run(["sh", commands, theirs], env=environment, timeout=2 * WAIT_SECONDS, check=True)
    sides = [[(side / str(number)).read_text() for number in range(len(TABLE["commands"]))] for side in (ours, theirs)]
    return sides[0], sides[1]


def alike(command: str, text: str, used: set[str]) -> list[str]:
    """Returns the lines of an output without the explained differences. Notes those that it meets."""
    lines = text.splitlines()
    for difference in TABLE["differences"]:
        pattern = difference["pattern"]
        if not re.search(difference.get("commands", ""), command) or not any(re.search(pattern, line) for line in lines):
            continue
        used.add(pattern)
        if difference.get("drop"):
            lines = [line for line in lines if not re.search(pattern, line)]
        else:
            lines = [re.sub(pattern, "~", line) for line in lines]
    return lines


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_the_tools_print_what_they_print_over_ibsim(softband: Softband, tmp_path: Path, topology: str) -> None:
    ours, theirs = outputs(softband, topology, tmp_path)
    used: set[str] = set()
    unlike = []
    for command, our, their in zip(TABLE["commands"], ours, theirs, strict=True):
        left, right = alike(command, our, used), alike(command, their, used)
        if left != right:
            found = "\n".join([*(f"- {line}" for line in right if line not in left), *(f"+ {line}" for line in left if line not in right)])
            unlike.append(f"{command}\n{found or 'another order'}")
    assert not unlike, "\n\n".join(unlike)
    vain = [difference["pattern"] for difference in TABLE["differences"] if difference["pattern"] not in used]
    assert not vain, f"no output has these differences: {vain}"
