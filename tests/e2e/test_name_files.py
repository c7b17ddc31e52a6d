"""Programs with a resolver of their own find the names of the fabric in /etc/hosts."""

from __future__ import annotations

import pytest
from conftest import Softband

PACES = pytest.mark.parametrize("pace", ["virtual", "wall"])
READ = "python3 -c 'import os; print(open(\"/etc/hosts\").read(), os.stat(\"/etc/hosts\").st_size > 0)'"


@PACES
def test_each_host_has_the_names_of_the_fabric(softband: Softband, pace: str) -> None:
    outcome = softband.run("two-hosts", ("a", READ), ("b", "cat /etc/hostname"), options=("--pace", pace)).assert_ok()
    lines = outcome.program("a-0").splitlines()
    assert lines[:3] == ["127.0.0.1 localhost", "198.18.0.1 a", "198.18.0.2 b"]
    assert lines[-1] == " True"
    assert outcome.program("b-0") == "b\n"


@pytest.mark.parametrize("options", [("--pace", "virtual"), ("--pace", "wall", "--network", "modelled")])
def test_each_interface_has_a_name_that_resolves(softband: Softband, options: tuple[str, ...]) -> None:
    look = "sh -c 'while read address name; do echo $address $(getent hosts $name); done < /etc/hosts'"
    lines = softband.run("ipoib", ("a", look), options=options).assert_ok().program("a-0").splitlines()
    named = {name: address for address, resolved, name in (line.split()[:3] for line in lines) if address == resolved}
    assert {"a", "b", "a-ib0", "b-ib0"} <= set(named)


@PACES
@pytest.mark.parametrize("how", [">", ">>"])
def test_programs_do_not_change_the_names(softband: Softband, pace: str, how: str) -> None:
    outcome = softband.run("two-hosts", ("a", f"sh -c 'echo 198.18.0.9 c {how} /etc/hosts; grep -c 198.18 /etc/hosts'"), options=("--pace", pace))
    outcome.assert_ok()
    assert outcome.program("a-0").splitlines()[-1] == "2"
    assert "the fabric file decides about /etc/hosts" in outcome.stderr
