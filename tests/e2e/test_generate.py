"""`softband fabric generate`: its files pass the checks, carry workloads, and run programs."""

from __future__ import annotations

import json

import pytest
from conftest import FABRICS, Softband, table

KINDS = {
    "back-to-back": ((), 2),
    "star": (("--hosts", "5"), 5),
    "fat-tree": (("--ports", "4", "--levels", "3"), 16),
    "torus": (("--dimensions", "3,4"), 12),
    "hypercube": (("--dimension", "3"), 8),
    "dragonfly": (("--groups", "5", "--switches-per-group", "2", "--global-links", "2"), None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_generated_fabric_is_sound_and_carries_workloads_and_programs(softband: Softband, kind: str) -> None:
    options, hosts = KINDS[kind]
    made = softband.command("fabric", "generate", kind, *options, "--out", "made.toml")
    assert made.returncode == 0, made.stderr
    checked = softband.command("fabric", "check", "made.toml")
    assert checked.returncode == 0 and "no faults" in checked.stdout and "loop" not in checked.stderr, checked.stderr
    count = int(checked.stdout.split(": ")[1].split()[0])
    assert hosts in (None, count)
    done = softband.command("model", "made.toml", "permutation", "--bytes", "64KiB", "--messages", "4", "--out", "out")
    assert done.returncode == 0, done.stderr
    flows = json.loads((softband.folder / "out" / "model.json").read_text())["flows"]
    assert len(flows) == count and all(flow["bytes"] == 4 * 65536 for flow in flows)
    last = f"h{count - 1}"
    outcome = softband.run(softband.folder / "made.toml", ("h0", "ib_send_lat -n 100"), (last, "ib_send_lat -n 100 h0")).assert_ok()
    assert table(outcome.program(f"{last}-0"))[0][0] == 2


def test_routing_by_service_levels_is_refused_on_ethernet(softband: Softband) -> None:
    fabric = (FABRICS / "roce-100g.toml").read_text()
    (softband.folder / "made.toml").write_text(fabric + '\n[subnet]\nrouting = "torus"\n')
    done = softband.command("fabric", "check", "made.toml")
    assert done.returncode == 2 and "on Ethernet programs choose their priorities" in done.stderr


def test_more_switches_than_a_subnet_has_lids_for_are_refused(softband: Softband) -> None:
    done = softband.command("fabric", "generate", "fat-tree", "--levels", "3", "--hosts", "46500")
    assert done.returncode == 2 and "do not fit in a subnet" in done.stderr


def test_what_cannot_be_made_is_said_before_a_file_is_there(softband: Softband) -> None:
    done = softband.command("fabric", "generate", "fat-tree", "--ports", "1", "--out", "made.toml")
    assert done.returncode != 0 and "ports" in done.stderr
    assert not (softband.folder / "made.toml").exists()


def test_a_kind_with_its_measures_is_enough(softband: Softband) -> None:
    (softband.folder / "tree.toml").write_text('[generate]\nkind = "fat-tree"\nports = 8\nlevels = 2\n')
    done = softband.command("fabric", "check", "tree.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "tree.toml: 32 hosts, 12 switches, 64 cables: no faults\n"
    made = softband.command("fabric", "generate", "fat-tree", "--ports", "9", "--levels", "2", "--oversubscription", "1.5")
    assert made.returncode == 0 and "oversubscription = 1.5\n" in made.stdout, made.stderr
    made = softband.command("fabric", "generate", "fat-tree", "--oversubscription", "nan")
    assert made.returncode == 2 and "`oversubscription` cannot be NaN" in made.stderr


def test_a_check_that_warns_does_not_say_that_all_is_well(softband: Softband) -> None:
    done = softband.command("fabric", "check", str(FABRICS / "ring-of-five.toml"))
    assert done.returncode == 0 and "warning: credit loop" in done.stderr
    assert done.stdout.endswith(f": no errors, {done.stderr.count('warning:')} warnings\n")
    fabric = (FABRICS / "modern-pair.toml").read_text().replace('to = "sw/2"', 'to = "other/2"')
    (softband.folder / "apart.toml").write_text(fabric + '\n[switches.other]\npart = "quantum-2"\n')
    done = softband.command("fabric", "check", "apart.toml")
    assert done.returncode == 0 and done.stdout.endswith(": no errors, 1 warning\n")
    assert "apart.toml: warning: not all hosts can reach each other: no cables lead from a port of a to one of b\n  help: " in done.stderr
