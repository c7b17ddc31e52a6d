"""Each missing feature names itself in one line, and the program goes on."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from conftest import FABRICS, ROOT, Outcome, Softband, which

LIBRARY = ROOT / "crates" / "libibverbs"
# An HCA without shared receive queues and multicast: every HCA of the catalog has both.
PLAIN_PART = """summary = "an HCA with neither shared receive queues nor multicast"
like = "modern-hca"

max_srq = { value = 0, unit = "count", source = "a test", status = "assumed" }
max_multicast_groups = { value = 0, unit = "count", source = "a test", status = "assumed" }
"""
CALLS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
struct entry { const char *name, *version; int kind; } entries[] = {
%s
};
int main(void)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    int wrong = 0;
    for (int round = 0; round < 2; round++) {
        for (struct entry *e = entries; e->name; e++) {
            void *found = dlvsym(library, e->name, e->version);
            long answer;
            if (!found) {
                printf("no %%s\\n", e->name);
                return 1;
            }
            errno = 0;
            answer = e->kind == 1 ? (long)((void *(*)(void *))found)(NULL) : ((int (*)(void *))found)(NULL);
            if (e->kind == 0 ? answer != EOPNOTSUPP : answer != (e->kind == 1 ? 0 : -1) || errno != EOPNOTSUPP)
                wrong += printf("%%s answers %%ld, errno %%d\\n", e->name, answer, errno);
        }
    }
    return wrong != 0;
}
"""
KINDS = {"softband_unsupported_status": 0, "softband_unsupported_object": 1, "softband_unsupported_call": 2}


def said(outcome: Outcome) -> Counter[str]:
    """Returns Softband's own lines on the standard error of the program on host a."""
    assert outcome.out is not None
    lines = (outcome.out / "a-0.err").read_text().splitlines()
    return Counter(line.removeprefix("softband: ") for line in lines if line.startswith("softband: "))


def refusals() -> set[str]:
    """Returns every feature name that the library's source passes to `refuse`."""
    texts = [path.read_text().partition("#[cfg(test)]")[0] for path in sorted((LIBRARY / "src").glob("*.rs"))]
    direct = [found for text in texts for found in re.findall(r'refuse\(\s*"([^"]+)"', text)]
    tables = [body for text in texts for body in re.findall(r"refused_\w+! \{\n(.*?)\n\}", text, re.DOTALL)]
    return {*direct, *(found for body in tables for found in re.findall(r'= "([^"]+)";', body))}


def test_every_verb_attribute_and_flag_that_is_refused_says_so_once(softband: Softband, c_programs: Path) -> None:
    parts = softband.folder / "catalog" / "hca"
    parts.mkdir(parents=True)
    (parts / "plain.toml").write_text(PLAIN_PART)
    plain = softband.folder / "plain.toml"
    plain.write_text((FABRICS / "default.toml").read_text().replace('"modern-hca"', '"plain"'))
    known = refusals()
    assert len(known) > 70
    heard: set[str] = set()
    for fabric in ("two-hosts", "modern-pair", plain):
        outcome = softband.run(fabric, ("a", str(c_programs / "refusals"))).assert_ok()
        assert "all parts hold" in outcome.program("a-0")
        lines = said(outcome)
        assert set(lines.values()) == {1}, lines.most_common(3)
        heard |= set(lines)
    assert heard == {f"{name} is not supported (EOPNOTSUPP)" for name in known}
    # Each line names the called function, or the entry of the table.
    assert all(re.search(r"ibv_\w+", line) for line in heard)


@pytest.mark.parametrize("options", [(), ("--no-preload",)])
def test_every_entry_of_old_programs_and_drivers_says_its_name_once(softband: Softband, options: tuple[str, ...]) -> None:
    rows = [line.split() for line in (LIBRARY / "versions.txt").read_text().splitlines() if line and not line.startswith("#")]
    stubs = [(name, version, KINDS[target]) for name, version, _, target in rows if target in KINDS]
    assert len(stubs) > 80
    entries = "".join(f'{{"{name}", "{version}", {kind}}},\n' for name, version, kind in stubs) + "{0}"
    (softband.folder / "calls.c").write_text(CALLS % entries)
    program = softband.folder / "calls"
    subprocess.run(["cc", "-Wall", "-o", program, softband.folder / "calls.c", "-ldl"], check=True)
    lines = said(softband.run("two-hosts", ("a", str(program)), options=options).assert_ok())
    assert Counter(line.split(",")[0] for line in lines.elements()) == Counter(f"{name}@{version}" for name, version, _ in stubs)
    assert all(line.endswith(" is not supported (EOPNOTSUPP)") for line in lines)


@pytest.mark.parametrize("command", ["ibstat", "ibv_devinfo"])
def test_debians_own_tools_end_in_order_and_miss_nothing(softband: Softband, command: str) -> None:
    # ibverbs-utils are always installed. The other tool may be missing.
    if not which(command):
        pytest.skip(f"{command} is not installed")
    outcome = softband.run("two-hosts", ("a", command)).assert_ok()
    assert said(outcome) == {}


@pytest.mark.skipif(not which("strace"), reason="no strace")
def test_a_tracer_ends_in_simulated_time_and_says_why(softband: Softband) -> None:
    outcome = softband.run("two-hosts", ("a", "strace -f true"), options=("--time-limit", "10 s"))
    assert outcome.status not in (0, 124)
    assert "no program traces another in simulated time (strace, gdb): use --pace wall" in outcome.stderr
