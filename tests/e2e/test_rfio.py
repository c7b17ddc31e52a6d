"""softband-rfio: copies of files over InfiniBand, in both paces, and all that can go wrong."""

from __future__ import annotations

import os
import re
import resource
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import FABRICS, PROGRAMS, ROOT, Outcome, Softband

PACES = pytest.mark.parametrize("pace", ["virtual", "wall"])
METHODS = pytest.mark.parametrize("method", ["rdma", "send"])
PCIE = FABRICS / "karlsruhe" / "rfio-pcie.toml"
MAGIC = 0x53425246
# Neither a multiple of a buffer nor of a word.
ODD_BYTES = 3 * 262_144 + 4_099


def rfio(softband: Softband) -> str:
    return str(softband.binary.with_name("softband-rfio"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Makes the folder of a server, with a file."""
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "data").write_bytes(os.urandom(ODD_BYTES))
    return folder
def copy(softband: Softband, store: Path, words: str, server: str = "--transfers 1", pace: str = "virtual", fabric: str | Path = "two-hosts") -> Outcome:
    """Runs a server on a and one copy on b."""
    serve = f"{rfio(softband)} serve --root {store} {server}"
    return softband.run(fabric, ("a", serve), ("b", f"{rfio(softband)} cp {words}"), options=("--pace", pace))


def said(outcome: Outcome) -> str:
    return outcome.stdout + outcome.stderr


def seconds(outcome: Outcome) -> float:
    """Returns the second column of a line of --csv."""
    return float(outcome.assert_ok().program("b-0").split(",")[1])


@PACES
@METHODS
@pytest.mark.parametrize("buffers", ["", "--buffers 1 --buffer-size 4K", "--buffers 3 --buffer-size 12288"])
def test_a_file_arrives_whole(softband: Softband, store: Path, tmp_path: Path, pace: str, method: str, buffers: str) -> None:
    target = tmp_path / "copy"
    outcome = copy(softband, store, f"--method {method} {buffers} --verify a:/data {target}", pace=pace).assert_ok()
    assert target.read_bytes() == (store / "data").read_bytes()
    assert re.search(rf"^{ODD_BYTES} bytes in [\d.]+ s, [\d.]+ MB/s, checksum [0-9a-f]{{16}}$", outcome.program("b-0"), re.MULTILINE)
    assert outcome.program("a-0").startswith(f"1 readers, 0 failed, {ODD_BYTES} bytes in ")
    assert not target.with_name("copy.part").exists()


@PACES
@pytest.mark.parametrize("size", [0, 1, 4096, 262_144])
def test_files_of_special_sizes_arrive(softband: Softband, store: Path, tmp_path: Path, pace: str, size: int) -> None:
    (store / "data").write_bytes(b"x" * size)
    copy(softband, store, f"--verify a:data {tmp_path / 'copy'}", pace=pace).assert_ok()
    assert (tmp_path / "copy").read_bytes() == b"x" * size


def test_a_copy_replaces_an_older_file_and_keeps_its_mode(softband: Softband, store: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").write_text("old")
    (tmp_path / "copy").chmod(0o640)
    copy(softband, store, f"a:data {tmp_path / 'copy'}").assert_ok()
    assert (tmp_path / "copy").stat().st_size == ODD_BYTES
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("kind", ["pipe", "link", "second name"])
def test_an_unfinished_file_of_another_kind_is_refused(softband: Softband, store: Path, tmp_path: Path, kind: str) -> None:
    part, other = tmp_path / "copy.part", tmp_path / "other"
    other.write_text("keep")
    if kind == "pipe":
        os.mkfifo(part)
    elif kind == "link":
        part.symlink_to(other)
    else:
        part.hardlink_to(other)
    serve = f"timeout 1 {rfio(softband)} serve --root {store}"
    outcome = softband.run("two-hosts", ("a", serve), ("b", f"{rfio(softband)} cp a:data {tmp_path}/copy"))
    assert f"`{part}` is not an unfinished copy of yours: remove it" in said(outcome)
    assert other.read_text() == "keep" and part.exists()


def test_copies_in_a_row_to_one_name_need_one_reader_only(softband: Softband, store: Path, tmp_path: Path) -> None:
    """The process of a reader ends after the copy. The server waits for it before it refuses."""
    one = f"{rfio(softband)} cp --verify a:data {tmp_path}/copy"
    outcome = softband.run(
        "two-hosts",
        ("a", f"{rfio(softband)} serve --root {store} --readers 1 --transfers 20"),
        ("b", f"sh -ec 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do {one}; done'"),
        options=("--pace", "wall"),
    )
    assert f"20 readers, 0 failed, {20 * ODD_BYTES} bytes" in outcome.assert_ok().program("a-0")


def test_silent_connections_lose_their_places_after_five_seconds(softband: Softband, store: Path, tmp_path: Path) -> None:
    """They take all places of the server, with its usual time limit of 30 s."""
    hold = script(
        tmp_path,
        'import socket, time\nheld = [socket.create_connection(("a", 18517)) for _ in range(16)]\ntime.sleep(5.5)\n',
    )
    reader = f"sh -c '{hold}; {rfio(softband)} cp --verify a:data {tmp_path}/copy'"
    refused = f"sh -c 'sleep 2; {rfio(softband)} cp a:data {tmp_path}/early'"
    outcome = softband.run("two-hosts", ("a", f"{rfio(softband)} serve --root {store} --transfers 17"), ("b", reader), ("b", refused))
    assert f"17 readers, 16 failed, {ODD_BYTES} bytes" in outcome.program("a-0"), said(outcome)
    assert "the server has all the readers that it takes" in said(outcome)
    assert (tmp_path / "copy").read_bytes() == (store / "data").read_bytes()


def test_the_memory_of_a_reader_covers_the_buffer_for_copies(softband: Softband, store: Path) -> None:
    server = "--transfers 1 --memory 2M --readers 1"
    copy(softband, store, "--buffers 8 a:data /dev/null", server=server).assert_ok()
    copy(softband, store, "--method send --buffers 7 a:data /dev/null", server=server).assert_ok()
    outcome = copy(softband, store, "--method send --buffers 8 a:data /dev/null", server=server)
    assert "8 buffers of 262144 bytes and one for copies exceed the 2097152 bytes of a reader" in said(outcome)


def test_simulated_time_is_the_same_in_each_run(softband: Softband, store: Path) -> None:
    lines = {copy(softband, store, "--csv --verify a:data /dev/null", fabric=PCIE).assert_ok().program("b-0") for _ in range(2)}
    assert len(lines) == 1
    assert re.fullmatch(rf"{ODD_BYTES},[\d.]+,[\d.]+,[0-9a-f]{{16}}\n", lines.pop())


def test_memory_comes_at_the_rate_of_the_link_and_files_at_most_at_that_of_copies(softband: Softband, store: Path) -> None:
    """The host copies 1,600 MB/s from its page cache.

    Without pipelining, copy and transfer add up.
    """
    (store / "data").write_bytes(bytes(16 << 20))

    def rate(words: str) -> float:
        return (16 << 20) / seconds(copy(softband, store, f"--csv {words} /dev/null", fabric=PCIE)) / 1e6

    memory, file, serial = rate("a:mem:16M"), rate("a:data"), rate("--buffers 1 a:data")
    # An SDR link has 1,000 MB/s, its headers included.
    assert 800 < memory < 1000
    assert file == pytest.approx(memory, rel=0.03)
    assert serial < 1 / (1 / memory + 1 / 1600)
    assert serial > 0.8 / (1 / memory + 1 / 1600)
    assert rate("--method send a:data") < file


def test_the_disk_of_a_host_limits_direct_reads(softband: Softband, store: Path) -> None:
    (store / "data").write_bytes(bytes(6_000_000))
    outcome = copy(softband, store, "--csv --direct a:data /dev/null", fabric=PCIE)
    if "cannot read around the page cache" in said(outcome):
        pytest.skip("the file system of the tests has no O_DIRECT")
    # 60 MB/s behind a seek of 8 ms.
    assert seconds(outcome) == pytest.approx(0.108, rel=0.01)


def test_a_host_without_costs_of_files_reads_in_no_time(softband: Softband, store: Path) -> None:
    (store / "data").write_bytes(bytes(4 << 20))
    file, memory = (seconds(copy(softband, store, f"--csv a:{source} /dev/null")) for source in ("data", "mem:4M"))
    assert file == pytest.approx(memory, rel=0.001)


@PACES
def test_twelve_readers_share_a_server(softband: Softband, store: Path, tmp_path: Path, pace: str) -> None:
    readers = [(f"r{at}", f"{rfio(softband)} cp --verify server:data {tmp_path}/copy-{at}") for at in range(1, 13)]
    server = ("server", f"{rfio(softband)} serve --root {store} --transfers 12")
    outcome = softband.run(FABRICS / "karlsruhe" / "rfio-readers.toml", server, *readers, options=("--pace", pace)).assert_ok()
    assert all((tmp_path / f"copy-{at}").read_bytes() == (store / "data").read_bytes() for at in range(1, 13))
    found = re.search(rf"12 readers, 0 failed, {12 * ODD_BYTES} bytes in [\d.]+ s, ([\d.]+) MB/s", outcome.program("server-0"))
    assert found is not None
    # The server's bus is PCI-X of 133 MHz.
    assert pace == "wall" or 500 < float(found[1]) < 1067


def test_too_many_readers_or_buffers_are_refused(softband: Softband, store: Path, tmp_path: Path) -> None:
    outcome = copy(softband, store, f"a:data {tmp_path}/copy", server="--transfers 1 --memory 16M --readers 16")
    assert outcome.status == 1
    assert "8 buffers of 262144 bytes exceed the 1048576 bytes of a reader" in said(outcome)
    cp = f"{rfio(softband)} cp"
    both = f"sh -c '{cp} a:mem:64M /dev/null & sleep 0.01; {cp} a:data /dev/null; wait; {cp} a:data /dev/null'"
    outcome = softband.run("two-hosts", ("a", f"{rfio(softband)} serve --root {store} --transfers 2 --readers 1"), ("b", both)).assert_ok()
    assert "the server has all the readers that it takes (--readers)" in said(outcome)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("copy")) == []


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nothing", "cannot open `nothing`: No such file or directory"),
        ("../secret", "`../secret` leads out of the server's folder"),
        ("/../../etc/passwd", "leads out of the server's folder"),
        ("out", "`out` leads out of the server's folder"),
        ("away/secret", "`away/secret` leads out of the server's folder"),
        ("/", "`/` is no regular file"),
        ("pipe", "`pipe` is no regular file"),
        ("mem:0", "`mem:0` is not mem:SIZE"),
        ("mem:9999999999G", "is not mem:SIZE, with a size from 1 to 1024G"),
        ("mem:1Q", "is not mem:SIZE"),
        ("x" * 300, "File name too long"),
        ("a\33[31m", "cannot open `a?[31m`"),
    ],
)
def test_paths_that_lead_out_or_nowhere_are_refused(softband: Softband, store: Path, tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "secret").write_text("secret")
    (store / "out").symlink_to(tmp_path / "secret")
    (store / "away").symlink_to("..")
    os.mkfifo(store / "pipe")
    outcome = copy(softband, store, f"a:{path} {tmp_path}/copy")
    assert outcome.status == 1
    assert message in said(outcome)
    assert "\33[31m" not in said(outcome)
    assert not list(tmp_path.glob("copy*"))


def test_a_link_within_the_folder_is_followed(softband: Softband, store: Path, tmp_path: Path) -> None:
    (store / "link").symlink_to("data")
    copy(softband, store, f"--verify a:/link {tmp_path}/copy").assert_ok()


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("a:data", 2, "is not HOST:PATH DESTINATION"),
        (":data x", 2, "source: `:data` is not HOST:PATH"),
        ("a: x", 2, "source: `a:` is not HOST:PATH"),
        ("--buffers 0 a:data x", 2, "--buffers: `0` is not a number from 1 to 256"),
        ("--buffer-size 5000 a:data x", 2, "--buffer-size: `5000` is not a multiple of 4096 bytes"),
        ("--buffer-size 1G a:data x", 2, "--buffer-size: `1G` is not a size from 1 to 16777216 bytes"),
        ("--method tcp a:data x", 2, "--method: `tcp` is not rdma or send"),
        ("--root . a:data x", 2, "--root: `.` is not for a copy"),
        ("nobody:data x", 1, "no host `nobody`"),
        ("-d mlx5_0 a:data x", 1, "there is no HCA `mlx5_0` on this host"),
        ("--port 7 a:data x", 1, "cannot connect to a:7 (does `softband-rfio serve` run there?)"),
        ("a:data .", 1, "`.` is a folder: name a file"),
        ("a:data none/x", 1, "cannot write `none/x.part`: No such file or directory"),
    ],
)
def test_wrong_use_is_named(softband: Softband, words: str, status: int, message: str) -> None:
    serve = f"timeout 1 {rfio(softband)} serve"
    outcome = softband.run("two-hosts", ("a", serve), ("b", f"sh -c '{rfio(softband)} cp {words}; echo status $?'"))
    assert message in said(outcome)
    assert f"status {status}" in outcome.program("b-0")


@PACES
@METHODS
def test_a_full_disk_leaves_no_half_file(softband: Softband, store: Path, tmp_path: Path, pace: str, method: str) -> None:
    outcome = copy(softband, store, f"--method {method} a:data /dev/full", pace=pace)
    assert outcome.status == 1
    assert "cannot write `/dev/full`: No space left on device" in said(outcome)
    target = tmp_path / "copy"
    limited = f"sh -c 'ulimit -f 512; {rfio(softband)} cp --method {method} a:data {target}'"
    outcome = softband.run("two-hosts", ("a", f"{rfio(softband)} serve --root {store} --transfers 1"), ("b", limited), options=("--pace", pace))
    assert outcome.status == 1
    assert f"cannot write `{target}`: File too large" in said(outcome)
    assert not list(tmp_path.glob("copy*"))


# Seconds after which a program of a test dies: enough to start, in the pace's own time.
DEATH = {"virtual": "0.05", "wall": "1"}


@PACES
def test_a_reader_that_dies_costs_its_own_transfer_only(softband: Softband, store: Path, tmp_path: Path, pace: str) -> None:
    dies = f"timeout -s KILL {DEATH[pace]} {rfio(softband)} cp a:mem:1000G /dev/null"
    lives = f"{rfio(softband)} cp --verify a:data {tmp_path}/copy"
    later = f"sh -c 'sleep 2; {rfio(softband)} cp --verify a:data {tmp_path}/copy-2'"
    serve = f"{rfio(softband)} serve --root {store} --transfers 3"
    outcome = softband.run("two-hosts", ("a", serve), ("b", dies), ("b", lives), ("b", later), options=("--pace", pace))
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "copy-2").read_bytes() == (store / "data").read_bytes()
    assert f"3 readers, 1 failed, {2 * ODD_BYTES} bytes" in outcome.program("a-0"), said(outcome)


@PACES
def test_a_server_that_dies_leaves_no_half_file(softband: Softband, store: Path, tmp_path: Path, pace: str) -> None:
    # The limit keeps a copy that goes on from the disk of the machine.
    target = tmp_path / "copy"
    serve = f"timeout -s KILL {DEATH[pace]} {rfio(softband)} serve --root {store}"
    reader = f"sh -c 'ulimit -f 20000000; {rfio(softband)} cp a:mem:1000G {target}'"
    outcome = softband.run("two-hosts", ("a", serve), ("b", reader), options=("--pace", pace))
    assert outcome.status != 0
    causes = ("the other side has left in the middle of the transfer", "the connection to the other side has broken")
    assert any(cause in said(outcome) for cause in causes), said(outcome)
    assert not list(tmp_path.glob("copy*"))


def head(kind: int, length: int, magic: int = MAGIC, version: int = 1) -> bytes:
    return struct.pack(">IHHI", magic, version, kind, length)


def opening(buffers: int = 8, size: int = 8192, mtu: int = 4, method: int = 0, path: bytes = b"data", more: int = 0) -> bytes:
    """Returns an OPEN. `more` adds to the length of the path."""
    body = struct.pack(">IIHBB16xBBIIIQH", 7, 7, 1, mtu, 0, method, 0, buffers, size, 1, 0, len(path) + more) + path
    return head(1, len(body)) + body


# Bytes of a reader, and what the server says about them.
BAD = [
    (b"", "the other side has left in the middle of the transfer"),
    (opening()[:-1], "the other side has left in the middle of the transfer"),
    (head(1, 0, magic=7), "these are no messages of softband-rfio"),
    (b"GET / HTTP/1.0\r\n\r\n", "these are no messages of softband-rfio"),
    (head(1, 0, version=2), "the versions of softband-rfio differ"),
    (head(9, 0), "an unknown type of message"),
    (head(1, 1 << 31), "a message is too long"),
    (head(1, 4) + bytes(4), "a message is too short"),
    (head(3, 0), "a message of type 3, where 1 belongs"),
    (opening(more=9), "a message is too short"),
    (opening(more=-1), "a message has bytes behind its end"),
    (opening(path=b""), "the path is empty"),
    (opening(path=b"a\0b"), "a message is too short"),
    (opening(buffers=0), "the number of buffers is not 1 to 256"),
    (opening(buffers=1 << 31), "the number of buffers is not 1 to 256"),
    (opening(size=1 << 31), "the buffer size is no multiple of 4096 up to 16 MiB"),
    (opening(size=4097), "the buffer size is no multiple of 4096 up to 16 MiB"),
    (opening(buffers=256, size=1 << 24), "256 buffers of 16777216 bytes exceed"),
    (opening(mtu=9), "an unknown MTU or route"),
    (opening(method=2), "an unknown method or flag"),
    (head(6, 6) + b"\0\4a\33[3", "the other side says: a?[3"),
]

SPEAK = """
import socket, sys, time
for data in {all}:
    at = socket.create_connection(("a", 18517))
    at.sendall(data)
    at.shutdown(socket.SHUT_WR)
    while at.recv(1000):
        pass
silent = socket.create_connection(("a", 18517))
print(b"the other side is silent" in silent.recv(1000))
"""

ANSWER = """
import socket
at = socket.create_server(("", 18517)).accept()[0]
at.recv(10000)
at.sendall({answer})
at.shutdown(socket.SHUT_WR)
while at.recv(1000):
    pass
"""


def script(tmp_path: Path, text: str) -> str:
    (tmp_path / "script.py").write_text(text)
    return f"{sys.executable} {tmp_path / 'script.py'}"


def test_bad_control_bytes_end_their_connection_only(softband: Softband, store: Path, tmp_path: Path) -> None:
    count = len(BAD) + 1
    speak = script(tmp_path, SPEAK.format(all=[data for data, _ in BAD]))
    reader = f"sh -c '{speak}; {rfio(softband)} cp --verify a:data {tmp_path}/copy'"
    server = f"{rfio(softband)} serve --root {store} --timeout 2 --transfers {count + 1}"
    outcome = softband.run("two-hosts", ("a", server), ("b", reader))
    for _, message in BAD:
        assert message in said(outcome)
    assert outcome.program("b-0").startswith("True\n")
    assert f"{count + 1} readers, {count} failed, {ODD_BYTES} bytes" in outcome.program("a-0")
    assert (tmp_path / "copy").read_bytes() == (store / "data").read_bytes()


END = struct.pack(">IIHBB16x", 7, 7, 1, 4, 0)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "the other side has left in the middle of the transfer"),
        (head(2, 36) + END + b"\xff" * 8, "the file is longer than 2^63 bytes"),
        (head(2, 36) + END[:-18] + b"\7" + END[-17:] + bytes(8), "an unknown MTU or route"),
        (head(2, 37) + END + bytes(9), "a message has bytes behind its end"),
        (head(2, 36) + END + b"\0" * 7 + b"\1" + head(4, 16) + bytes(16), "cannot understand the other side"),
        (head(6, 4) + b"\0\2no", "the other side says: no"),
    ],
)
def test_bad_answers_of_a_server_leave_no_file(softband: Softband, tmp_path: Path, answer: bytes, message: str) -> None:
    server = script(tmp_path, ANSWER.format(answer=answer))
    reader = f"sh -c 'sleep 1; {rfio(softband)} cp a:data {tmp_path}/copy'"
    outcome = softband.run("two-hosts", ("a", server), ("b", reader))
    assert outcome.status == 1
    assert message in said(outcome)
    assert not list(tmp_path.glob("copy*"))


def test_a_server_goes_on_after_a_shortage_of_descriptors(softband: Softband) -> None:
    """It needs seven; the connection then has none until the limit grows. No HCA is in use."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve = ["sh", "-c", f"ulimit -Sn 7; exec {rfio(softband)} serve --port {port} --transfers 1"]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        client = dial(port)
        time.sleep(0.3)
        assert server.poll() is None
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (64, resource.prlimit(server.pid, resource.RLIMIT_NOFILE)[1]))
        client.sendall(bytes(12))
        assert b"these are no messages of softband-rfio" in client.recv(1000)
        assert "1 readers, 1 failed, 0 bytes" in server.communicate(timeout=10)[0]
    finally:
        server.kill()
        server.wait()


def dial(port: int) -> socket.socket:
    """Connects to a server that may still start."""
    for _ in range(100):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=10)
        except ConnectionRefusedError:
            time.sleep(0.05)
    pytest.fail("the server does not listen")


def test_the_parser_survives_any_bytes(tmp_path: Path) -> None:
    program = tmp_path / "parser"
    checks = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover", "-Wall", "-Wextra", "-Werror"]
    sources = [str(PROGRAMS / "rfio_message.c"), str(ROOT / "tools" / "rfio" / "message.c")]
    subprocess.run(["cc", *checks, f"-I{ROOT}/tools/rfio", "-o", str(program), *sources], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.stdout == "the parser survives\n", done.stderr[-3000:]


def test_a_copy_does_not_wait_for_completions_of_its_credits(tmp_path: Path) -> None:
    """The server's DONE can come by TCP before the acknowledgment of the last credit."""
    program = tmp_path / "late"
    sources = [str(PROGRAMS / "rfio_late_completion.c"), *(str(ROOT / "tools" / "rfio" / name) for name in ("copy.c", "checksum.c"))]
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/tools/rfio", "-o", str(program), *sources], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("8192 bytes in ")


@pytest.mark.parametrize(("words", "status", "message"), [([], 0, "2 locks"), (["no-locks"], 1, "cannot lock `copy.part`: No locks available")])
def test_a_copy_takes_a_new_unfinished_file_after_another_copy_has_finished(tmp_path: Path, words: list[str], status: int, message: str) -> None:
    program = tmp_path / "part"
    sources = [str(PROGRAMS / "rfio_part.c"), str(ROOT / "tools" / "rfio" / "target.c")]
    flags = ["-Wall", "-Wextra", "-Werror", "-Wl,--wrap=flock", f"-I{ROOT}/tools/rfio"]
    subprocess.run(["cc", *flags, "-o", str(program), *sources], check=True)
    done = subprocess.run([str(program), *words], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (status, f"{message}\n"), done.stderr
    assert words or (tmp_path / "copy").read_text() == "new"
