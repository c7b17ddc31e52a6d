"""Protection from other users, from programs that lie, and from scarce resources.

See LIMITATIONS.md, "Trust model".
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import ROOT, Fabrics, Softband, line_of, until

NOBODY = 65_534
HELLO = struct.Struct("=IIQII")
WELCOME = struct.Struct("=IiIIQII")
COMMAND = struct.Struct("=II112s")
FILE_REQUEST = struct.Struct("=IIQ")
VERSION = int(re.findall(r"VERSION: u32 = (\d+)", (ROOT / "crates" / "ipc" / "src" / "lib.rs").read_text())[0])
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def ask(engine: str, message: bytes, user: int | None = None) -> bytes:
    """Sends the engine a message from a foreign process, and returns the answer.

       The answer is empty if the engine hangs up.
       """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            if user is not None:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
                control.settimeout(10)
                control.connect("\0" + engine)
                control.send(message)
                os.write(writing, control.recv(4096))
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as answer:
        return answer.read()


def hello(ticket: str) -> bytes:
    return HELLO.pack(VERSION, os.getpid(), int(ticket, 16), 0, os.getpid())


def variables_of(fabrics: Fabrics, host: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in fabrics.say(host, "env").splitlines() if line.startswith("SOFTBAND_"))


@as_root
def test_another_user_of_the_machine_is_not_answered_whatever_he_knows(fabrics: Fabrics) -> None:
    fabrics.up()
    variables = variables_of(fabrics, "a")
    engine, ticket = variables["SOFTBAND_ENGINE"], variables["SOFTBAND_TICKET"]
    status = COMMAND.pack(VERSION, 1, b"")
    for message in (hello(ticket), status, FILE_REQUEST.pack(VERSION, 1, int(ticket, 16))):
        assert ask(engine, message, NOBODY) == b""
    assert ask(engine, status) != b""
    # A program of the fabric may become another user and still belongs to the fabric.
    devices = fabrics.say("a", "setpriv", "--reuid", str(NOBODY), "--clear-groups", "ibv_devices")
    assert "mlx5_0" in devices


def test_a_ticket_is_new_in_each_run_and_admits_one_image(softband: Softband, tmp_path: Path) -> None:
    tickets = set()
    for run in range(2):
        place = tmp_path / f"told-{run}"
        # The program attaches by its ticket before it prints its initial environment.
        code = f"import os, time; open({str(place)!r} + '.new', 'w').write(open('/proc/self/environ').read()); os.rename({str(place)!r} + '.new', {str(place)!r}); time.sleep(2)"
        words = [str(softband.binary), "run", "--seed", "1", "two-hosts", "--on", "a", f'{sys.executable} -c "{code}"']
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as engine:
            assert until(place.exists)
            told = dict(entry.split("=", 1) for entry in place.read_text().split("\0") if "=" in entry)
            tickets.add(told["SOFTBAND_TICKET"])
            engine.kill()
    assert len(tickets) == 2
    assert all(re.fullmatch("[0-9a-f]{16}", ticket) for ticket in tickets)


def test_a_used_ticket_is_refused_to_whoever_does_not_descend_from_its_holder(fabrics: Fabrics, tmp_path: Path) -> None:
    fabrics.up()
    engine = fabrics.status()[0]["engine"]
    passed = ask(engine, COMMAND.pack(VERSION, 0, b"a"))
    ticket = struct.unpack("=IiQ", passed)[2]
    text = f"{ticket:016x}"
    first = WELCOME.unpack(ask(engine, hello(text)))
    assert first[1] == 0, "an unused ticket was refused"
    assert WELCOME.unpack(ask(engine, hello(text)))[1] == errno.EACCES
    assert WELCOME.unpack(ask(engine, hello(f"{ticket ^ 1:016x}")))[1] == errno.EACCES
    assert WELCOME.unpack(ask(engine, hello("0" * 16)))[1] == errno.EACCES


def test_children_of_every_kind_attach(fabrics: Fabrics) -> None:
    fabrics.up()
    # The callers: a shell, a shell within it, an orphan in its own session, and a replaced shell.
    script = "ibv_devices; sh -c 'ibv_devices; true'; (setsid sh -c 'sleep 0.2; ibv_devices' &); exec sh -c 'sleep 1; ibv_devices'"
    assert fabrics.say("a", "sh", "-c", script).count("mlx5_0") == 4


STATIC = """
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    int failures = 0, status;
    for (int child = 0; child < 3 && count > 1; child++) {
        pid_t pid = fork();
        if (!pid) {
            execvp(words[1], words + 1);
            _exit(126);
        }
        failures += waitpid(pid, &status, 0) != pid || status;
    }
    return failures;
}
"""


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_all_children_of_a_statically_linked_program_attach(softband: Softband, tmp_path: Path, pace: str) -> None:
    (tmp_path / "parent.c").write_text(STATIC)
    subprocess.run(["cc", "-static", "-o", tmp_path / "parent", tmp_path / "parent.c"], check=True)
    # The first child uses the ticket of its parent, which cannot attach itself.
    done = softband.run("two-hosts", ("a", f"{tmp_path}/parent ibv_devices"), options=("--pace", pace)).assert_ok()
    assert done.program("a-0").count("mthca0") == 3


HELLOS = r"""
import os, socket, struct, sys
ticket = int(os.environ["SOFTBAND_TICKET"], 16)
control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
control.connect("\0" + os.environ["SOFTBAND_ENGINE"])
for _ in range(5):
    try:
        control.send(struct.pack("=IIQII", int(sys.argv[1]), os.getpid(), ticket, 0, os.getpid()))
    except BrokenPipeError:
        pass
"""


def test_a_connection_is_of_one_process_however_often_it_says_hello(fabrics: Fabrics, tmp_path: Path) -> None:
    (tmp_path / "hellos.py").write_text(HELLOS)
    fabrics.up()
    fabrics.say("a", sys.executable, str(tmp_path / "hellos.py"), str(VERSION))

    def programs() -> list[object]:
        return [program for host in fabrics.status()[0]["hosts"] for program in host["programs"]]

    assert until(lambda: not programs()), programs()


@as_root
def test_another_user_gains_nothing_by_the_number_of_a_process_that_has_ended(fabrics: Fabrics) -> None:
    last = Path("/proc/sys/kernel/ns_last_pid")
    if not os.access(last, os.W_OK):
        pytest.skip("this kernel gives no process a chosen number")
    fabrics.up()
    engine = fabrics.status()[0]["engine"]
    ended = int(fabrics.say("a", sys.executable, "-c", "import ctypes; print(ctypes.CDLL(None).syscall(39))"))
    answers = []
    for _ in range(20):
        last.write_text(str(ended - 1))
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
                    control.settimeout(2)
                    control.connect("\0" + engine)
                    with suppress(ConnectionResetError):
                        # The engine sends nothing before a hello. It hangs up on foreign users.
                        control.recv(1)
                    os._exit(3)
            os._exit(4)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if child == ended:
            answers.append(status)
            break
    assert answers == [3]


@as_root
def test_programs_of_the_same_user_do_not_reach_the_engine_s_files(fabrics: Fabrics, tmp_path: Path) -> None:
    shutil.copy(fabrics.binary, tmp_path / "softband")
    home = Path(os.environ.get("SOFTBAND_HOME", ROOT / "target" / "dist"))
    for folder in ("catalog", "fabrics", "lib"):
        shutil.copytree(home / folder, tmp_path / "home" / folder)
    for folder in [tmp_path, *tmp_path.parents]:
        if folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    script = "./softband up --detach >&2; ls /proc/$(pgrep -u nobody -x softband)/fd; ./softband exec a -- ibv_devices; ./softband down >&2"
    environment = {**os.environ, "SOFTBAND_HOME": str(tmp_path / "home")}
    environment.pop("XDG_RUNTIME_DIR")
    command = ["runuser", "-u", "nobody", "--", "sh", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert "Permission denied" in done.stderr and "mlx5_0" in done.stdout, done


CUT = """
import ctypes, os, sys
cut = kept = 0
for pid in [int(sys.argv[1]), os.getpid()]:
    for folder in ("fd", "map_files"):
        for entry in os.listdir(f"/proc/{pid}/{folder}"):
            path = f"/proc/{pid}/{folder}/{entry}"
            try:
                if "memfd:softband" not in os.readlink(path):
                    continue
                file = os.open(path, os.O_RDWR)
            except OSError:
                continue
            for size in (0, 1 << 50):
                try:
                    os.ftruncate(file, size)
                    cut += 1
                except OSError:
                    kept += 1
print(cut, kept > 0)
"""


@as_root
@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_no_program_changes_the_size_of_shared_memory(softband: Softband, tmp_path: Path, pace: str) -> None:
    (tmp_path / "cut.py").write_text(CUT)
    # The engine is the program's first parent. Root may open its files.
    attack = f"sh -c '{sys.executable} {tmp_path}/cut.py $(cut -d\" \" -f4 /proc/$$/stat)'"
    done = softband.run("two-hosts", ("a", attack), ("a", "ib_send_lat -n 1000"), ("b", "ib_send_lat -n 1000 a"), options=("--pace", pace)).assert_ok()
    assert done.program("a-0").split() == ["0", "True"]


def test_nobody_else_writes_to_the_sockets_that_tell_of_events(fabrics: Fabrics) -> None:
    fabrics.up()
    server = fabrics.on("a", "ibv_rc_pingpong", "-e", "-n", "2000")
    assert until(lambda: len(names_of_datagram_sockets(server.pid)) >= 2)
    for name in names_of_datagram_sockets(server.pid):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger, pytest.raises(PermissionError):
            stranger.sendto(b"x", "\0" + name)
    client = fabrics.on("b", "ibv_rc_pingpong", "-e", "-n", "2000", "a")
    assert client.wait(60) == 0 and server.wait(60) == 0


GREEDY = r"""
import errno, os, socket, struct, time
held, refused = [], set()
for _ in range(600):
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.setblocking(False)
    try:
        control.connect("\0" + os.environ["SOFTBAND_ENGINE"])
    except BlockingIOError:
        time.sleep(0.01)
        continue
    held.append(control)
deadline = time.monotonic() + 3
while time.monotonic() < deadline and len(refused) < 100:
    for control in held:
        try:
            answer = control.recv(64)
            refused |= {(control.fileno(), struct.unpack("=IiIIQII", answer)[1])} if answer else set()
        except OSError:
            pass
    time.sleep(0.05)
print({errno.errorcode[status] for _, status in refused}, len(refused) >= 100, flush=True)
time.sleep(1000)
"""


def test_a_program_that_opens_many_connections_leaves_room_for_others(fabrics: Fabrics, tmp_path: Path) -> None:
    (tmp_path / "greedy.py").write_text(GREEDY)
    # The engine has few descriptors, so a single program could use them all.
    done = fabrics.command("up", "--detach", wrapper=("sh", "-c", 'ulimit -n 200; exec "$0" "$@"'))
    assert done.returncode == 0, done.stderr
    greedy = fabrics.on("a", sys.executable, str(tmp_path / "greedy.py"))
    assert line_of(greedy) == "{'EUSERS'} True\n"
    assert all("mlx5_0" in fabrics.say(host, "ibv_devices") for host in "aabb")
    greedy.kill()


def names_of_datagram_sockets(pid: int) -> list[str]:
    """Returns the abstract names of a process's Unix sockets, from the kernel's table."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            inodes |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(entry)))
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return [row[7][1:] for row in rows if len(row) == 8 and row[6] in inodes and row[7].startswith("@")]


@pytest.mark.parametrize("where", ["all", "behind"])
def test_programs_that_write_over_shared_memory_hold_nobody_up(fabrics: Fabrics, c_programs: Path, where: str) -> None:
    fabrics.up()
    soaking = [fabrics.on(host, str(c_programs / "soak"), "7", "8", str(rank), "a", "b") for rank, host in enumerate("ab")]
    deadline = time.monotonic() + 8
    rounds = 0
    while time.monotonic() < deadline:
        liars = [fabrics.on(host, str(c_programs / "scribble"), "1", str(rounds * 2 + number), where) for number, host in enumerate("ab")]
        # Connections with events send each message through the engine.
        port = str(20_000 + rounds)
        server = fabrics.on("a", "ibv_rc_pingpong", "-e", "-c", "-n", "200", "-p", port)
        client = fabrics.on("b", "ibv_rc_pingpong", "-e", "-c", "-n", "200", "-p", port, "a")
        assert client.wait(20) == 0 and server.wait(20) == 0
        for liar in liars:
            liar.wait(20)
        rounds += 1
    for program in soaking:
        out, errors = program.communicate(timeout=60)
        assert program.returncode == 0 and "none wrong" in out, errors
    assert rounds > 1
    warnings = fabrics.status()[0]["warnings"]
    assert (where == "behind") or any("has written over memory" in line for line in warnings), warnings


@pytest.mark.parametrize("pace", ["virtual", "wall"])
@pytest.mark.parametrize("limit", [*(f"-n {files}" for files in range(4, 26, 3)), *(f"-v {kib}" for kib in (60_000, 100_000, 200_000, 800_000, 1_600_000))])
def test_a_machine_that_is_short_of_something_is_told_of_in_one_line(softband: Softband, limit: str, pace: str) -> None:
    limited = ("sh", "-c", f'ulimit {limit}; exec "$0" "$@"')
    done = softband.command("run", "two-hosts", "--pace", pace, "--on", "a", "ibv_devices", wrapper=limited)
    if done.returncode == 0:
        assert "mthca0" in done.stdout, done.stderr
        return
    # The library ends a program with status 112 if it cannot attach.
    assert "panicked" not in done.stderr and done.returncode in (1, 2, 112, 127, 255), done
    lines = [line for line in done.stderr.splitlines() if "ulimit" in line or "softband" in line]
    assert lines, done
