"""`--main HOST`: a run ends with its main programs, and stops its servers."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from conftest import Softband

PACES = ("virtual", "wall")
SERVER = "import socket,sys; s=socket.create_server(('',7000)); print('listens',flush=True)\nwhile 1: s.accept()[0].sendall(b'hi')"
CLIENT = """
import socket, sys, time
while True:
    try:
        print(socket.create_connection(('a', 7000)).recv(9).decode())
        break
    except ConnectionRefusedError:
        time.sleep(0.01)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "client.py").write_text(CLIENT)
    return f"{sys.executable} {tmp_path / 'server.py'}", f"{sys.executable} {tmp_path / 'client.py'}"


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("status", [0, 7])
def test_the_run_ends_with_the_status_of_its_main_program(softband: Softband, pair: tuple[str, str], pace: str, status: int) -> None:
    server, client = pair
    outcome = softband.run("modern-pair", ("a", server), ("b", f"{client} {status}"), options=("--pace", pace, "--main", "b"))
    assert (outcome.status, outcome.stderr) == (status, "")
    assert (outcome.program("a-0"), outcome.program("b-0")) == ("listens\n", "hi\n")
    programs = outcome.report()["programs"]
    assert isinstance(programs, list)
    assert [(program["main"], program["stopped"]) for program in programs] == [(False, True), (True, False)]
    assert programs[1]["exit_status"] == status


def test_runs_with_servers_repeat(softband: Softband, pair: tuple[str, str]) -> None:
    server, client = pair
    runs = [softband.run("modern-pair", ("a", server), ("b", f"{client} 0"), options=("--main", "b")) for _ in range(3)]
    reports = [{key: value for key, value in run.report().items() if "wall" not in key} for run in runs]
    assert reports[0]["programs"] == reports[1]["programs"] == reports[2]["programs"]
    counters = [(run.out / "counters.json").read_text() for run in runs if run.out]
    assert counters[0] == counters[1] == counters[2]


def test_all_programs_of_all_main_hosts_end_first(softband: Softband) -> None:
    on = (("a", "sleep 1000000"), ("b", "sleep 1"), ("b", "sh -c 'sleep 3; exit 4'"))
    outcome = softband.run("modern-pair", *on, options=("--main", "b"))
    assert outcome.status == 4
    outcome = softband.run("modern-pair", *on, options=("--main", "b", "--main", "a", "--time-limit", "10 s"))
    assert outcome.status == 124


def test_a_server_that_fails_early_is_named_and_does_not_count(softband: Softband) -> None:
    outcome = softband.run("modern-pair", ("a", "false"), ("b", "sleep 1"), options=("--main", "b"))
    assert outcome.status == 0
    assert outcome.stderr == "softband: a: the server 'false' ended with status 1 before the main programs\n"


def test_a_main_host_needs_a_program(softband: Softband) -> None:
    outcome = softband.run("modern-pair", ("a", "true"), options=("--main", "c"))
    assert outcome.status == 2
    assert outcome.stderr == "softband: error: --main c: the fabric has no host of this name\n  help: the hosts are: a, b\n"
    outcome = softband.run("modern-pair", ("a", "true"), options=("--main", "b"))
    assert outcome.status == 2
    assert outcome.stderr == "softband: error: --main b: no program runs on this host\n  help: programs run on a\n"


@pytest.mark.parametrize("pace", PACES)
def test_a_real_server_is_stopped_quietly(softband: Softband, pace: str, tmp_path: Path) -> None:
    if not shutil.which("redis-server"):
        pytest.skip("no redis-server")
    server = f"redis-server --save '' --protected-mode no --loglevel warning --dir {tmp_path}"
    outcome = softband.run("modern-pair", ("a", server), ("b", "sh -c 'sleep 0.5; redis-cli -h a ping'"), options=("--pace", pace, "--main", "b"))
    assert (outcome.status, outcome.stderr, outcome.program("b-0")) == (0, "", "PONG\n")
