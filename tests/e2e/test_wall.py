"""Wall pace: host names, sockets, processes, and fabrics that stay up."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, WAIT_SECONDS, Fabrics, left_behind, line_of, state_of, until

PYTHON = sys.executable

SERVER = """
import socket, sys
listener = socket.create_server(('', 7777))
print('listening', flush=True)
peer, address = listener.accept()
print(peer.recv(100).decode(), address[0], peer.getsockname()[0], socket.gethostbyaddr(address[0])[0], flush=True)
peer.sendall(socket.gethostname().encode())
peer.close()
"""

CLIENT = """
import socket, sys
peer = socket.socket()
peer.connect((sys.argv[1], 7777))
peer.sendall(b'from ' + socket.gethostname().encode())
print(peer.recv(100).decode(), peer.getsockname()[0], peer.getpeername()[0])
"""


def test_two_hosts_use_the_same_port_and_know_each_other_by_name(fabrics: Fabrics) -> None:
    fabrics.up()
    servers = {host: fabrics.python(host, SERVER) for host in ("a", "b")}
    for server in servers.values():
        assert line_of(server) == "listening\n"
    a, b = fabrics.address("a"), fabrics.address("b")
    assert a != b
    assert fabrics.say("b", PYTHON, "-c", CLIENT, "a") == f"a {b} {a}"
    assert fabrics.say("a", PYTHON, "-c", CLIENT, "b") == f"b {a} {b}"
    assert servers["a"].communicate(timeout=WAIT_SECONDS)[0] == f"from b {b} {a} b\n"
    assert servers["b"].communicate(timeout=WAIT_SECONDS)[0] == f"from a {a} {b} a\n"


def test_fabrics_do_not_share_ports_either(fabrics: Fabrics) -> None:
    servers = []
    for name in ("one", "other"):
        fabrics.up("--name", name)
        servers.append(fabrics.on("a", PYTHON, "-c", SERVER, name=name))
    for name, server in zip(("one", "other"), servers, strict=True):
        assert line_of(server) == "listening\n"
        assert fabrics.say("b", PYTHON, "-c", CLIENT, "a", name=name).startswith("a ")
        assert server.wait(WAIT_SECONDS) == 0


def test_localhost_is_the_own_host(fabrics: Fabrics) -> None:
    fabrics.up()
    server = fabrics.python("b", SERVER)
    assert line_of(server) == "listening\n"
    code = "import socket; s = socket.socket(); print(s.connect_ex(('localhost', 7777)), s.connect_ex(('127.0.0.1', 7777)))"
    assert fabrics.say("a", PYTHON, "-c", code) == "111 111"
    assert fabrics.say("b", PYTHON, "-c", CLIENT, "localhost") == "b {0} {0}".format(fabrics.address("b"))
    server.communicate(timeout=WAIT_SECONDS)


def test_names_are_those_of_the_fabric_and_others_stay(fabrics: Fabrics) -> None:
    fabrics.up()
    assert fabrics.say("a", "hostname") == "a" and fabrics.say("b", "uname", "-n") == "b"
    a, b = fabrics.address("a"), fabrics.address("b")
    code = f"""
import os, socket
print(socket.gethostname(), os.uname().nodename, socket.gethostbyname('b'), socket.gethostbyaddr('{b}')[0])
print(sorted({{info[4][0] for info in socket.getaddrinfo('b', 80)}}), socket.getnameinfo(('{a}', 80), socket.NI_NUMERICSERV))
print(socket.gethostbyname('localhost'), socket.gethostbyname('10.1.2.3'))
try:
    socket.gethostbyname('no-such-host.invalid')
except socket.gaierror:
    print('unknown')
"""
    lines = fabrics.say("a", PYTHON, "-c", code).splitlines()
    assert lines == [f"a a {b} b", f"['{b}'] ('a', '80')", "127.0.0.1 10.1.2.3", "unknown"]


def test_ipv6_sockets_and_datagrams_have_the_hosts_addresses(fabrics: Fabrics) -> None:
    fabrics.up()
    code = """
import asyncio, socket
six = socket.socket(socket.AF_INET6); six.bind(('::', 0)); six.listen()
client = socket.socket(socket.AF_INET6); client.connect(('::1', six.getsockname()[1]))
print(six.getsockname()[0], client.getsockname()[0])
one, other = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
one.bind(('', 0))
other.sendto(b'x', ('a', one.getsockname()[1]))
print(one.getsockname()[0], one.recvfrom(9)[1][0])
other = socket.socket(type=socket.SOCK_DGRAM)
other.sendmsg([b'y'], [], 0, ('127.0.0.1', one.getsockname()[1]))
print(one.recvfrom(9)[1][0])
print(socket.socket(socket.AF_INET, socket.SOCK_STREAM).bind(('a', 0)))
try:
    socket.socket().bind(('b', 0))
except OSError as error:
    print(error.errno)
silent = socket.socket(); silent.listen(); print(silent.getsockname()[0])
async def serve():
    server = await asyncio.start_server(lambda r, w: w.close(), None, 7778)
    print(sorted({s.getsockname()[0] for s in server.sockets}))
    reader, writer = await asyncio.open_connection('a', 7778)
    print(await reader.read(), writer.get_extra_info('sockname')[0])
asyncio.run(serve())
"""
    lines = fabrics.say("a", PYTHON, "-c", code).splitlines()
    own = fabrics.address("a")
    assert lines == [f"::ffff:{own} ::ffff:{own}", f"{own} {own}", own, "None", "99", own, f"['{own}']", f"b'' {own}"]


def test_a_client_may_start_before_its_server(fabrics: Fabrics) -> None:
    fabrics.up()
    client = fabrics.on("b", PYTHON, "-c", CLIENT, "a")
    time.sleep(0.5)
    server = fabrics.python("a", SERVER)
    assert client.communicate(timeout=WAIT_SECONDS)[0] == f"a {fabrics.address('b')} {fabrics.address('a')}\n"
    server.communicate(timeout=WAIT_SECONDS)


def test_a_socket_that_does_not_block_is_refused_at_once(fabrics: Fabrics) -> None:
    fabrics.up()
    code = """
import socket, time
start = time.monotonic()
s = socket.socket(); s.settimeout(5)
print(s.connect_ex(('b', 7779)), time.monotonic() - start < 2)
"""
    assert fabrics.say("a", PYTHON, "-c", code) == "111 True"


def test_devices_are_those_of_the_host(fabrics: Fabrics) -> None:
    fabrics.up()
    both = [fabrics.say(host, "ibv_devinfo") for host in ("a", "b")]
    assert all("PORT_ACTIVE" in text for text in both)
    guid = [next(line for line in text.splitlines() if "node_guid" in line) for text in both]
    assert guid[0] != guid[1]


def test_rdma_programs_meet_by_name_on_the_same_port_of_two_hosts(fabrics: Fabrics) -> None:
    fabrics.up()
    servers = [fabrics.on(host, "ibv_rc_pingpong", "-n", "100") for host in ("a", "b")]
    for host, peer in (("a", "b"), ("b", "a")):
        assert "100 iters" in fabrics.say(host, "ibv_rc_pingpong", "-n", "100", peer)
    for server in servers:
        out, errors = server.communicate(timeout=WAIT_SECONDS)
        assert server.returncode == 0 and "100 iters" in out, errors
    assert [device["queue_pairs"] for host in fabrics.status()[0]["hosts"] for device in host["devices"]] == [0, 0]
    waiting = fabrics.on("b", "ibv_rc_pingpong")
    assert until(lambda: fabrics.programs("b") and fabrics.programs("b")[0]["queue_pairs"])
    assert fabrics.programs("b")[0]["queue_pairs"][0]["type"] == "RC"
    waiting.kill()
    waiting.wait(WAIT_SECONDS)
    assert until(lambda: not fabrics.programs("b"))


def test_exec_is_the_program_itself(fabrics: Fabrics) -> None:
    fabrics.up()
    program = fabrics.on("a", "sh", "-c", "cat; echo err >&2; echo $$; exit 7")
    out, errors = program.communicate("through stdin\n", timeout=WAIT_SECONDS)
    assert (program.returncode, out, errors) == (7, f"through stdin\n{program.pid}\n", "err\n")
    program = fabrics.on("a", "sleep", "1000")
    assert until(lambda: fabrics.programs("a"))
    program.send_signal(signal.SIGTERM)
    assert program.wait(WAIT_SECONDS) == -signal.SIGTERM
    assert until(lambda: not fabrics.programs("a"))


def test_status_names_hosts_devices_and_programs(fabrics: Fabrics) -> None:
    fabrics.up()
    program = fabrics.on("b", "sleep", "1000")
    assert until(lambda: fabrics.programs("b"))
    (fabric,) = fabrics.status()
    assert fabric["name"] == "default" and [host["name"] for host in fabric["hosts"]] == ["a", "b"]
    assert fabric["hosts"][1]["programs"] == [{"pid": program.pid, "command": "sleep 1000", "queue_pairs": [], "fallbacks": {}}]
    assert fabric["hosts"][0]["devices"][0]["ports"][0]["state"] == "active"
    text = fabrics.command("status").stdout
    assert str(program.pid) in text and "sleep 1000" in text and fabric["hosts"][1]["address"] in text
    assert fabrics.command("down").returncode == 0
    assert program.wait(WAIT_SECONDS) == -signal.SIGKILL
    done = fabrics.command("status")
    assert done.returncode == 1 and "no fabric is up" in done.stdout


def test_several_fabrics_are_up_at_once(fabrics: Fabrics, monkeypatch: pytest.MonkeyPatch) -> None:
    fabrics.up()
    fabrics.up("two-hosts", "--name", "old")
    assert [fabric["name"] for fabric in fabrics.status()] == ["default", "old"]
    assert "mthca0" in fabrics.say("a", "ibv_devices", name="old")
    assert "mthca0" not in fabrics.say("a", "ibv_devices")
    monkeypatch.setenv("SOFTBAND_FABRIC", "old")
    done = fabrics.command("exec", "b", "--", "sh", "-c", "ibv_devices; echo $SOFTBAND_FABRIC $SOFTBAND_HOST $SOFTBAND_HOSTS")
    assert "mthca0" in done.stdout and done.stdout.splitlines()[-1] == "old b a,b"
    assert fabrics.command("down").returncode == 0
    assert [fabric["name"] for fabric in fabrics.status("--name", "default")] == ["default"]
    monkeypatch.delenv("SOFTBAND_FABRIC")
    assert fabrics.records() == ["default.json"]


def test_up_in_the_foreground_ends_with_ctrl_c(fabrics: Fabrics) -> None:
    up = subprocess.Popen([str(fabrics.binary), "up", "--name", "front"], cwd=fabrics.folder, stdout=subprocess.PIPE, text=True)
    assert "'front' is up" in line_of(up)
    program = fabrics.on("a", "sleep", "1000", name="front")
    assert until(fabrics.status) and until(lambda: fabrics.programs("a"))
    up.send_signal(signal.SIGINT)
    assert up.wait(WAIT_SECONDS) == 0
    assert program.wait(WAIT_SECONDS) == -signal.SIGKILL


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] in "ZX"
    except OSError:
        return True


def kill_engine(fabrics: Fabrics) -> None:
    """Kills an engine, and waits until the kernel has released all of its resources."""
    engine = fabrics.status()[0]["pid"]
    os.kill(engine, signal.SIGKILL)
    assert until(lambda: has_ended(engine)), state_of(engine)


def test_a_stale_record_is_no_fabric(fabrics: Fabrics) -> None:
    fabrics.up()
    program = fabrics.on("a", "sleep", "1000")
    assert until(lambda: fabrics.programs("a"))
    kill_engine(fabrics)
    # The program ends as in a run, because no engine is left to carry its traffic.
    assert program.wait(WAIT_SECONDS) == -signal.SIGKILL
    assert fabrics.records() == ["default.json"]
    assert "no fabric is up" in fabrics.command("exec", "a", "--", "true").stderr
    assert fabrics.records() == []
    fabrics.up()
    kill_engine(fabrics)
    fabrics.up()


def test_bad_input_is_answered_with_what_would_be_right(fabrics: Fabrics, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*words: str, status: int = 2) -> str:
        done = fabrics.command(*words)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stderr

    for words in (("exec", "a", "--", "true"), ("down",), ("status", "--name", "default")):
        assert "softband up" in refused(*words)
    assert "no fabric file nowhere" in refused("up", "nowhere") and "no fabric file nowhere" in refused("up", "nowhere", "--detach")
    assert "cannot name a fabric" in refused("up", "--name", "a/b")
    fabrics.up()
    assert "up already" in refused("up") and "up already" in refused("up", "--detach")
    assert "--name" in refused("exec", "a", "--name", "other", "--", "true")
    assert "a, b" in refused("exec", "c", "--", "true")
    assert "nothing_of_that_name" in refused("exec", "a", "--", "nothing_of_that_name", status=127)
    assert "chmod" in refused("exec", "a", "--", str(ROOT / "README.md"), status=126)
    assert "COMMAND" in refused("exec", "a")
    assert "--on HOST" in refused("run", "two-hosts") and "-n 2" in refused("run")
    assert "ports for 64 hosts" in refused("run", "-n", "1000", "--", "true")
    assert "taskset" in refused("run", "--pace", "wall", "--processors", "1", "-n", "2", "--", "true")
    assert "simulated time" in refused("run", "--seed=7", "--pace", "wall", "-n", "2", "--", "true")
    monkeypatch.setenv("SOFTBAND_PROCESSORS", "1")
    assert fabrics.command("run", "--pace", "wall", "-n", "2", "--", "true").returncode == 0


def test_of_two_that_come_up_at_once_one_is_refused(fabrics: Fabrics) -> None:
    command = [str(fabrics.binary), "up", "--detach"]
    both = [subprocess.Popen(command, cwd=fabrics.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    assert sorted(one.wait(WAIT_SECONDS) for one in both) == [0, 2]


def test_processes_of_every_kind_live_as_on_the_host(fabrics: Fabrics) -> None:
    fabrics.up()
    assert fabrics.say("a", "sh", "-c", "hostname | tr a-z A-Z | (cat; hostname) | sort | tr '\\n' ' '") == "A a"
    assert fabrics.say("b", "sh", "-c", "exec env sh -c 'exec sh -c \"(hostname; exec hostname) & wait\"'") == "b\nb"
    code = """
import os, socket, subprocess, threading, multiprocessing
def ask(found): found.append(socket.gethostbyname('b') + os.uname().nodename)
found = []
threads = [threading.Thread(target=ask, args=(found,)) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(set(found))
child = os.fork()
if child == 0:
    print(socket.gethostname(), socket.gethostbyname('b'), flush=True)
    os.execvp('hostname', ['hostname'])
print(os.waitpid(child, 0)[1])
with multiprocessing.get_context('fork').Pool(3) as pool:
    print(set(pool.map(socket.gethostbyname, ['a'] * 9)))
print(subprocess.run(['hostname'], capture_output=True, text=True).stdout.strip(), os.system('exit 3') >> 8)
"""
    lines = fabrics.say("a", PYTHON, "-u", "-c", code).splitlines()
    a, b = fabrics.address("a"), fabrics.address("b")
    assert lines == [f"{{'{b}a'}}", f"a {b}", "a", "0", f"{{'{a}'}}", "a 3"]


def test_a_forked_child_has_verbs_of_its_own_and_leaves_its_parent_s_alone(fabrics: Fabrics, wall_fork: Path) -> None:
    fabrics.up()
    assert fabrics.say("a", str(wall_fork)) == "child ok\ngrandchild ok\nparent ok"


@pytest.fixture(scope="session")
def wall_fork(tmp_path_factory: pytest.TempPathFactory) -> Path:
    binary = tmp_path_factory.mktemp("programs") / "wall_fork"
    source = ROOT / "conformance" / "c" / "wall_fork.c"
    subprocess.run(["cc", "-O1", "-Wall", "-o", str(binary), str(source), "-libverbs", "-lpthread"], check=True, timeout=120)
    return binary


def test_a_killed_program_leaves_the_fabric_usable(fabrics: Fabrics) -> None:
    fabrics.up()
    program = fabrics.on("a", "sh", "-c", "sleep 1000 & sleep 1000")
    assert until(lambda: len(fabrics.programs("a")) == 3)
    program.kill()
    program.wait(WAIT_SECONDS)
    assert until(lambda: len(fabrics.programs("a")) == 2)
    assert fabrics.say("a", "hostname") == "a"


def test_down_ends_what_a_program_left_in_the_background(fabrics: Fabrics, tmp_path: Path) -> None:
    fabrics.up()
    code = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('deep', 'w').close()
        time.sleep(1000)
    os._exit(0)
"""
    program = fabrics.on("a", PYTHON, "-c", code, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    assert program.wait(WAIT_SECONDS) == 0
    assert until((tmp_path / "deep").exists)
    assert fabrics.command("down").returncode == 0
    assert not left_behind(tmp_path)


def test_many_programs_come_and_go(fabrics: Fabrics) -> None:
    # The engine cannot be dumped, so the kernel shows its descriptors and mappings to root alone. An
    # engine that keeps descriptors of 300 programs exceeds this limit. An ordinary user sees the sum
    # of its mappings; each program adds more than a gigabyte.
    done = fabrics.command("up", "--detach", wrapper=("sh", "-c", 'ulimit -n 160; exec "$0" "$@"'))
    assert done.returncode == 0, done.stderr
    status = Path(f"/proc/{fabrics.status()[0]['pid']}/status")
    come_and_go = "i=0; while [ $i -lt {0} ]; do /bin/true; i=$((i+1)); done; echo $i"
    assert fabrics.say("a", "sh", "-c", come_and_go.format(10)) == "10"
    assert until(lambda: mapped_gigabytes(status) < 10)
    assert fabrics.say("a", "sh", "-c", come_and_go.format(300)) == "300"
    assert until(lambda: mapped_gigabytes(status) < 10)
    assert "mlx5_0" in fabrics.say("b", "ibv_devices")


def mapped_gigabytes(status: Path) -> float:
    """Returns the size of a process's address space, from its status file."""
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmSize:")) / 2**20


def test_run_needs_no_file_and_says_who_is_who(fabrics: Fabrics) -> None:
    said = "echo $SOFTBAND_RANK $SOFTBAND_SIZE $SOFTBAND_HOST $SOFTBAND_HOSTS $(hostname)"
    done = fabrics.command("run", "--pace", "wall", "-n", "3", "--out", "out", "--", "sh", "-c", said)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["a: 0 3 a a,b,c a", "b: 1 3 b a,b,c b", "c: 2 3 c a,b,c c"]
    report = json.loads((fabrics.folder / "out" / "run.json").read_text())
    assert report["pace"] == "wall" and [program["host"] for program in report["programs"]] == ["a", "b", "c"]
    virtual = fabrics.command("run", "two-hosts", "-n", "3", "--", "sh", "-c", said)
    assert sorted(virtual.stdout.splitlines()) == ["a-0: 0 3 a a,b,a a", "a-1: 2 3 a a,b,a a", "b: 1 3 b a,b,a b"]
    assert fabrics.records() == []


def test_a_run_in_wall_pace_takes_the_machine_as_it_is(fabrics: Fabrics) -> None:
    code = "import os; print(len(os.sched_getaffinity(0)), open('/proc/self/personality').read().strip())"
    (line,) = set(fabrics.command("run", "--pace", "wall", "-n", "1", "--", PYTHON, "-c", code).stdout.splitlines())
    assert line == f"{len(os.sched_getaffinity(0))} {Path('/proc/self/personality').read_text().strip()}"


def test_ctrl_c_ends_a_run_in_wall_pace(fabrics: Fabrics, tmp_path: Path) -> None:
    command = [str(fabrics.binary), "run", "--pace", "wall", "-n", "2", "--", "sh", "-c", "sleep 1000 & sleep 1000"]
    run = subprocess.Popen(command, cwd=fabrics.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert until(lambda: sum("sleep" in line for line in left_behind(tmp_path)) >= 4)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=WAIT_SECONDS)
    assert run.returncode == 130 and "interrupted" in errors
    assert not left_behind(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_has_fabrics_of_its_own(fabrics: Fabrics, tmp_path: Path) -> None:
    shutil.copy(fabrics.binary, tmp_path / "softband")
    home = Path(os.environ.get("SOFTBAND_HOME", ROOT / "target" / "dist"))
    for folder in ("catalog", "fabrics", "lib"):
        shutil.copytree(home / folder, tmp_path / "home" / folder)
    for folder in [tmp_path, *tmp_path.parents]:
        if folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    fabrics.up()
    script = "umask 077; ./softband up --detach && ./softband exec b -- hostname && ls -ld /tmp/softband-$(id -u) && ./softband down; ls -ld /tmp/softband-$(id -u) 2>&1"
    environment = {**os.environ, "SOFTBAND_HOME": str(tmp_path / "home")}
    command = ["runuser", "-u", "nobody", "--", "sh", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    lines = done.stdout.splitlines()
    assert "b" in lines and "fabric 'default' is down" in lines, done.stdout
    assert any(line.startswith("drwx------") for line in lines) and "No such file" in lines[-1], done.stdout
    # Root's fabric of the same name is unaffected.
    assert fabrics.say("a", "hostname") == "a"
