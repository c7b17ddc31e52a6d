"""The start date of simulated clocks: documented, set by file or option, equal for all calls."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from conftest import FABRICS, Softband, table

NOW = "date -u +%Y-%m-%dT%H:%M"
CLOCKS = "python3 -c 'import time, datetime; print(int(time.time()), int(time.clock_gettime(time.CLOCK_REALTIME)), datetime.date.today().year)'"


def dated(softband: Softband, start_date: str) -> Path:
    file = softband.folder / "dated.toml"
    file.write_text((FABRICS / "two-hosts.toml").read_text().replace("[fabric]\n", f'[fabric]\nstart_date = "{start_date}"\n', 1))
    return file


def test_clocks_start_at_the_date_that_is_asked_for(softband: Softband) -> None:
    default = softband.run("two-hosts", ("a", NOW), ("b", CLOCKS)).assert_ok()
    assert default.program("a-0") == "2026-01-01T00:00\n"
    assert default.program("b-0") == "1767225600 1767225600 2026\n"
    assert default.report()["start_date"] == "2026-01-01T00:00:00Z"
    by_file = softband.run(dated(softband, "1999-12-31T23:59"), ("a", NOW)).assert_ok()
    assert by_file.program("a-0") == "1999-12-31T23:59\n"
    by_option = softband.run(softband.folder / "dated.toml", ("a", NOW), ("b", CLOCKS), options=("--start-date", "2038-01-20")).assert_ok()
    assert by_option.program("a-0") == "2038-01-20T00:00\n" and by_option.program("b-0") == "2147558400 2147558400 2038\n"
    assert by_option.out is not None
    assert tomllib.loads((by_option.out / "fabric.toml").read_text())["fabric"]["start_date"] == "2038-01-20T00:00:00Z"


def test_a_start_date_changes_nothing_that_is_measured(softband: Softband) -> None:
    # perftest derives its first packet numbers from the clock and prints them.
    def measured(*options: str) -> tuple[object, object, str]:
        outcome = softband.run("two-hosts", ("a", "ib_write_lat -n 50"), ("b", "ib_write_lat -n 50 a"), options=options).assert_ok()
        assert outcome.out is not None
        return table(outcome.program("b-0")), outcome.report()["virtual_seconds"], (outcome.out / "counters.json").read_text()

    assert measured() == measured("--start-date", "2100-02-28T12:34:56Z")


@pytest.mark.parametrize(("date", "said"), [("tomorrow", "is not a date"), ("2026-02-29", "is not a date"), ("2600-01-01", "from 1970 to 2500")])
def test_what_is_no_date_is_refused_with_one_that_is(softband: Softband, date: str, said: str) -> None:
    for words in (("run", "two-hosts", "--start-date", date, "--on", "a", "true"), ("fabric", "check", str(dated(softband, date)))):
        done = softband.command(*words)
        assert done.returncode == 2 and said in done.stderr and "write 2026-01-31" in done.stderr, done.stderr
    assert "dated.toml:" in done.stderr and "\n  help: " in done.stderr


def test_a_start_date_means_nothing_on_the_clock_of_the_machine(softband: Softband) -> None:
    done = softband.command("run", "two-hosts", "--pace", "wall", "--start-date", "2026-01-31", "--on", "a", "true")
    assert done.returncode == 2 and "--start-date has no effect with --pace wall" in done.stderr
    assert done.stdout == ""
