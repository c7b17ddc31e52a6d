"""The `fabric.toml` of a run is a fabric file that repeats the run."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import FABRICS, Softband
from test_determinism import digest


def test_the_fabric_of_a_run_gives_the_same_run_again(softband: Softband) -> None:
    for fabric, program, options in (
        ("two-hosts", "ib_send_bw -s 4096 -n 200", ()),
        ("faults/noisy-cable", "ib_send_bw -s 4096 -n 2000", ("--seed", "5")),
        ("roce-100g", "ib_write_bw -s 65536 -n 100", ("--seed", "7")),
        ("modern-pair", "date +%s.%N && ib_send_lat -n 100", ("--start-date", "2027-03-04", "--seed", "9")),
    ):
        first = softband.run(fabric, *hosts(program), options=options)
        assert first.out is not None
        second = softband.run(first.out / "fabric.toml", *hosts(program))
        assert digest(first) == digest(second)
        assert second.out is not None
        assert (first.out / "fabric.toml").read_bytes() == (second.out / "fabric.toml").read_bytes()
        assert {name: first.report()[name] for name in ("seed", "start_date")} == {name: second.report()[name] for name in ("seed", "start_date")}


def hosts(program: str) -> tuple[tuple[str, str], ...]:
    return (("a", program), ("b", f"{program} a"))


def test_every_command_takes_it(softband: Softband) -> None:
    out = softband.run("two-hosts", ("a", "true")).assert_ok().out
    assert out is not None
    place = str(out / "fabric.toml")
    checked = softband.command("fabric", "check", place)
    assert checked.returncode == 0 and "no faults" in checked.stdout, checked
    assert softband.command("fabric", "show", place).stdout == softband.command("fabric", "show", str(FABRICS / "two-hosts.toml")).stdout
    models = [softband.command("model", name, "stream", "--bytes", "64KiB", "--out", f"m{number}") for number, name in enumerate((place, "two-hosts"))]
    assert all(done.returncode == 0 for done in models), models
    flows = [(softband.folder / f"m{number}" / "flows.csv").read_bytes() for number in range(2)]
    assert flows[0] == flows[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('part = "voltaire-ddr"', 'part = "voltaire-sdr"'), "`delay_ps`"),
        (('width = "4X"', 'width = "12X"'), "remove `width`: it follows from the parts"),
    ],
)
def test_a_changed_file_does_not_state_what_is_no_longer_so(softband: Softband, change: tuple[str, str], message: str) -> None:
    out = softband.run("two-hosts", ("a", "true")).assert_ok().out
    assert out is not None
    changed = Path(out / "changed.toml")
    changed.write_text((out / "fabric.toml").read_text().replace(*change).replace("delay_ps = 40000", "delay_ps = 1"))
    done = softband.command("fabric", "check", str(changed))
    assert done.returncode == 2 and message in done.stderr and "changed.toml:" in done.stderr, done
