"""softband-tcpplay: traces over TCP, in both paces, and all that can go wrong."""

from __future__ import annotations

import random
import socket
import subprocess
import time
from pathlib import Path

import pytest
from conftest import ROOT, Outcome, Softband

PACES = pytest.mark.parametrize("pace", ["virtual", "wall"])
GIGABIT = "dell/dell-gigabit"
HOSTS = "abcd"
# Calculations of 10 ms in a row, with a message between each two.
CHAIN = """// softband: protocol ucx
num_ranks 4
rank 0 { c: calc 1000000
s: send 8b to 1 tag 5
s requires c }
rank 1 { r: recv 8b from 0 tag 5
c: calc 2000000 cpu 0
c requires r
s: send 8b to 2
s requires c }
rank 2 { r: recv 8 b from 1; c: calc 3000000; c requires r; s: send 8b to 3 tag 7 nic 0; s requires c }
rank 3 { /* the end */ r: recv 8b from 2 tag 7
c: calc 4000000 # of ten
c requires r }
"""


def tcpplay(softband: Softband) -> str:
    return str(softband.binary.with_name("softband-tcpplay"))


def play(softband: Softband, text: str, *, pace: str = "virtual", words: str = "", ranks: int = 4, **prefixes: str) -> Outcome:
    """Plays a trace on hosts with a rank each. `prefixes`: words before the command of a host."""
    trace = softband.folder / "app.goal"
    trace.write_text(text)
    names = ",".join(f"{host}-eth1" if pace == "virtual" else host for host in HOSTS[:ranks])
    on = [(host, f"{prefixes.get(host, '')} {tcpplay(softband)} --rank {rank} --hosts {names} {words} {trace}") for rank, host in enumerate(HOSTS[:ranks])]
    return softband.run(GIGABIT, *on, options=("--pace", pace))


def seconds(outcome: Outcome, ranks: int = 4) -> float:
    head, line = outcome.assert_ok().program("a-0").splitlines()
    assert head == "ranks,seconds" and line.startswith(f"{ranks},")
    return float(line.split(",")[1])


def alone(softband: Softband, text: str | bytes, *words: str) -> subprocess.CompletedProcess[str]:
    """Starts rank 0 outside any fabric, with all ranks on this machine."""
    trace = softband.folder / "app.goal"
    trace.write_bytes(text.encode() if isinstance(text, str) else text)
    given = words or ("--rank", "0", "--hosts", "127.0.0.1", "--ranks-per-host", "4", "--start-timeout", "1", str(trace))
    return subprocess.run([tcpplay(softband), *given], capture_output=True, text=True, timeout=60, check=False)


def test_a_chain_takes_its_calculations_and_the_time_of_its_messages(softband: Softband) -> None:
    first = play(softband, CHAIN)
    # A small message takes some tens of microseconds.
    assert 0.0100 < seconds(first) < 0.0106
    again = play(softband, CHAIN)
    assert again.program("a-0") == first.program("a-0")


def test_a_chain_plays_at_wall_pace(softband: Softband) -> None:
    assert 0.0100 < seconds(play(softband, CHAIN, pace="wall")) < 5


def test_a_long_message_has_the_rate_of_tcp(softband: Softband) -> None:
    text = "num_ranks 2\nrank 0 { send 20000000b to 1 tag 1 }\nrank 1 { recv 20000000b from 0 tag 1 }\n"
    # 941 Mb/s of payload, and a slow start.
    assert 0.170 < seconds(play(softband, text, ranks=2), 2) < 0.190


@pytest.mark.parametrize(
    ("steps", "nanos"),
    [
        ("calc 1000000\ncalc 2000000", 3_000_000),
        ("calc 1000000 cpu 1\ncalc 2000000 cpu 2", 2_000_000),
        ("a: calc 4000000\nb: calc 1000000 cpu 1\nb irequires a", 4_000_000),
        ("a: calc 4000000\nb: calc 1000000 cpu 1\nb requires a", 5_000_000),
        ("a: calc 3000000\ns: send 9b to 0 tag 2\ns requires a\nr: recv 9b from 0 tag 2\nb: calc 1000000 cpu 1\nb requires r", 4_000_000),
        ("", 0),
    ],
)
def test_steps_follow_their_orders_and_their_processor(softband: Softband, steps: str, nanos: int) -> None:
    taken = seconds(play(softband, f"num_ranks 1\nrank 0 {{\n{steps}\n}}\n", ranks=1), 1)
    assert nanos * 1e-9 <= taken < nanos * 1e-9 + 5e-6


def test_messages_of_a_tag_match_in_order_and_wait_for_their_receive(softband: Softband) -> None:
    """The first message is late, and both are there before the receives of tag 2."""
    text = """num_ranks 2
rank 0 { c: calc 1000000
a: send 100000b to 1 tag 1
a requires c
b: send 1b to 1 tag 1
b requires a
e: send 70000b to 1 tag 2 }
rank 1 { a: recv 100000b from 0 tag 1
b: recv 1b from 0 tag 1
c: calc 5000000
c requires a
d: recv 70000b from 0 tag 2
d requires c }
"""
    assert 0.0068 < seconds(play(softband, text, ranks=2), 2) < 0.0085


def test_two_ranks_that_send_much_before_they_receive_do_not_block_each_other(softband: Softband) -> None:
    block = "rank {0} {{ s: send 8000000b to {1} tag 3\nr: recv 8000000b from {1} tag 3\nr requires s }}\n"
    assert 0.06 < seconds(play(softband, "num_ranks 2\n" + block.format(0, 1) + block.format(1, 0), ranks=2), 2) < 0.15


def test_ranks_of_a_host_share_it_in_blocks(softband: Softband) -> None:
    trace = softband.folder / "app.goal"
    trace.write_text(CHAIN)
    (softband.folder / "hosts").write_text("# two hosts\na-eth1:700\n\nb-eth1\n")
    words = f"--hosts-file {softband.folder / 'hosts'} --ranks-per-host 2 {trace}"
    on = [(host, f"{tcpplay(softband)} --rank {rank} {words}") for rank, host in enumerate("aabb")]
    assert 0.0100 < seconds(softband.run(GIGABIT, *on)) < 0.0106


@PACES
def test_a_rank_that_is_killed_ends_all_others(softband: Softband, pace: str) -> None:
    text = CHAIN.replace("calc 2000000", "calc 60000000000")
    outcome = play(softband, text, pace=pace, b="timeout -s KILL 2")
    said = outcome.stdout + outcome.stderr
    assert outcome.status != 0 and "seconds" not in said
    # A rank that ends for this reason is a reason for others.
    assert "rank 1 has left before the end" in said and said.count("has left before the end") == 3, said


def test_ranks_that_wait_for_each_other_name_the_lines(softband: Softband) -> None:
    block = "rank {0} {{ r: recv 8b from {1} tag 3\ns: send 8b to {1} tag 3\ns requires r }}\n"
    outcome = play(softband, "num_ranks 2\n" + block.format(0, 1) + block.format(1, 0), ranks=2, words="--timeout 100")
    said = outcome.stdout + outcome.stderr
    assert outcome.status != 0
    assert "app.goal:2 waits for a message of rank 1 with tag 3" in said or "app.goal:5 waits for a message of rank 0 with tag 3" in said


def test_ranks_with_other_traces_refuse_each_other(softband: Softband) -> None:
    other = softband.folder / "other.goal"
    other.write_text(CHAIN.replace("calc 1000000", "calc 1000001"))
    outcome = play(softband, CHAIN, c=f"sh -c 'exec {tcpplay(softband)} --rank 2 --hosts a-eth1,b-eth1,c-eth1,d-eth1 {other}' #")
    said = outcome.stdout + outcome.stderr
    assert outcome.status != 0 and "plays another trace: all ranks need the same file" in said


def test_a_rank_that_does_not_start_is_named(softband: Softband) -> None:
    done = alone(softband, CHAIN)
    assert done.returncode == 1
    assert done.stderr == "softband-tcpplay: rank 0: 2 ranks have not connected in 1 s (--start-timeout): 1 2\n"
    trace = str(softband.folder / "app.goal")
    done = alone(softband, CHAIN, "--rank", "3", "--hosts", "127.0.0.1", "--ranks-per-host", "4", "--start-timeout", "1", trace)
    assert done.returncode == 1 and "cannot connect to rank 2 at 127.0.0.1:18602: does it run?: Connection refused" in done.stderr


def test_strangers_that_connect_do_no_harm(softband: Softband) -> None:
    trace = softband.folder / "app.goal"
    trace.write_text("num_ranks 2\nrank 0 { recv 1b from 1 }\nrank 1 { send 1b to 0 }\n")
    words = ["--hosts", "127.0.0.1:18790", "--ranks-per-host", "2", str(trace)]
    first = subprocess.Popen([tcpplay(softband), "--rank", "0", *words], stdout=subprocess.PIPE, text=True)
    strangers = []
    for greeting in (b"", b"GET / HTTP/1.0\r\n\r\n12345678", b"x"):
        until = time.monotonic() + 20
        while True:
            try:
                strangers.append(socket.create_connection(("127.0.0.1", 18790)))
                break
            except ConnectionRefusedError:
                assert time.monotonic() < until
        strangers[-1].sendall(greeting)
    second = subprocess.run([tcpplay(softband), "--rank", "1", *words], timeout=60, check=False)
    assert second.returncode == 0 and first.communicate(timeout=60)[0].startswith("ranks,seconds\n2,")
    for stranger in strangers:
        stranger.close()


WRONG = [
    ("", "app.goal:1: error: the trace is empty"),
    ("rank 0 {}", "app.goal:1: error: a trace begins with `num_ranks N`"),
    (b"num_ranks \x01\x02", "app.goal:1: error: the file is not text"),
    ("num_ranks 2\nrank 0 {}\n", "app.goal:3: error: the trace ends, and rank 1 of num_ranks 2 has no block"),
    ("num_ranks 1\nrank 0 {\ncalc 1\n", "app.goal:4: error: the trace ends within rank 0, which began on line 2"),
    ("num_ranks 1\nrank 0 { send 8b to", "app.goal:2: error: the trace ends before a rank of the trace"),
    ("num_ranks 2\nrank 0 {}\nrank 1 {\nsend 8b to 2 }", "app.goal:4: error: `2` is not a rank of the trace: a number from 0 to 1"),
    ("num_ranks 1\nrank 0 {}\nrank 0 {}", "app.goal:3: error: rank 0 has a block already, on line 2"),
    ("num_ranks 1\nrank 0 {\na: calc 1\na: calc 2 }", "app.goal:4: error: the label a is there already, on line 3"),
    ("num_ranks 1\nrank 0 {\na: calc 1\na requires b }", "app.goal:4: error: rank 0 has no label b"),
    ("num_ranks 1\nrank 0 {\na: calc 1\na needs a }", "app.goal:4: error: `a` is neither a step nor an order"),
    ("num_ranks 1\nrank 0 {\na: wait 1 }", "app.goal:3: error: there is no step `wait`"),
    ("num_ranks 1\nrank 0 {\ncalc 1x }", "app.goal:3: error: `1x` is not a time in nanoseconds"),
    ("num_ranks 1\nrank 0 {\ncalc 99999999999999999999 }", "is not a time in nanoseconds: a number from 0 to 3600000000000"),
    ("num_ranks 2\nrank 0 {\nrecv 8b from 1 tag -1 }\nrank 1 {}", "app.goal:3: error: `-1` is not a tag"),
    ("num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb requires a }", "app.goal:3: error: steps of rank 0 wait for each other"),
    (
        "num_ranks 2\nrank 0 {\nsend 8b to 1 tag 4 }\nrank 1 { recv 8b from 0 tag 5 }",
        "app.goal:3: error: rank 0 sends 1 messages with tag 4 to rank 1, which receives 0",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_wrong_trace_is_named_with_its_line_and_a_remedy(softband: Softband, text: str | bytes, message: str) -> None:
    done = alone(softband, text)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and "\n  help: " in done.stderr


OPTIONS = [
    (("--hosts", "a", "app.goal"), "--rank is missing"),
    (("--rank", "x", "--hosts", "a", "app.goal"), "--rank: `x` is not a number from 0 to"),
    (("--rank", "0", "app.goal"), "--hosts or --hosts-file is missing"),
    (("--rank", "0", "--hosts", "a", "--hosts-file", "b", "app.goal"), "exclude each other"),
    (("--rank", "0", "--hosts", "a"), "0 files in place of one trace"),
    (("--rank", "0", "--hosts", "a", "/no/such"), "cannot read the trace /no/such: No such file or directory"),
    (("--rank", "0", "--hosts", "a", "/dev"), "the trace /dev is not a regular file"),
    (("--rank", "0", "--hosts", "a,b", "TRACE"), "--hosts has 2 hosts, and the trace's 4 ranks need 4"),
    (("--rank", "0", "--hosts", "a:99999,b,c,d", "TRACE"), "--hosts:1: `99999` is not a port from 1 to 65535"),
    (("--rank", "0", "--hosts", "a,,c,d", "TRACE"), "--hosts:2: `` is not a name of a host"),
    (("--rank", "0", "--hosts-file", "/no/such", "TRACE"), "cannot read --hosts-file /no/such: No such file"),
    (("--rank", "7", "--hosts", "a,b,c,d", "TRACE"), "--rank 7 is beyond num_ranks 4"),
    (("--rank", "0", "--hosts", "a", "--ranks-per-host", "4", "--port", "65534", "TRACE"), "rank 2 would have port 65536"),
]


@pytest.mark.parametrize(("words", "message"), OPTIONS, ids=[message for _, message in OPTIONS])
def test_a_wrong_option_is_named(softband: Softband, words: tuple[str, ...], message: str) -> None:
    done = alone(softband, CHAIN, *(str(softband.folder / "app.goal") if word == "TRACE" else word for word in words))
    assert (done.returncode, done.stdout) == (2, "") and message in done.stderr


def test_the_help_is_complete(softband: Softband) -> None:
    done = alone(softband, CHAIN, "--help")
    assert done.returncode == 0 and all(f"--{name}=" in done.stdout for name in ("rank", "hosts", "hosts-file", "ranks-per-host", "port", "timeout"))


def test_a_name_without_a_host_is_named(softband: Softband) -> None:
    outcome = play(softband, CHAIN, words="--hosts a-eth1,b-eth7,c-eth1,d-eth1")
    assert outcome.status != 0 and "there is no host `b-eth7`" in outcome.stdout + outcome.stderr


# All words of a trace, for a rank that sends to itself.
OWN = b"""// softband: protocol ucx
num_ranks 1
rank 0 { a: calc 1 cpu 2; b: send 8b to 0 tag 5 nic 1
c: recv 8 b from 0 tag 5 /* its own */
b requires a
d: calc 2 # after the begin of b
d irequires b }
"""


def mutated(draw: random.Random) -> bytes:
    text = bytearray(OWN)
    for _ in range(draw.randint(1, 4)):
        at, length = draw.randrange(len(text)), draw.randint(0, 12)
        change = draw.choice([b"", bytes([draw.randrange(256)]), text[at : at + length] * 2, b"4294967296", b"18446744073709551616", b"{", b"}"])
        text[at : at + length] = change
    return bytes(text)


def test_the_reader_of_traces_survives_any_bytes(tmp_path: Path) -> None:
    program, trace, draw = tmp_path / "tcpplay", tmp_path / "app.goal", random.Random(1)
    checks = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *checks, "-o", str(program), *map(str, (ROOT / "tools" / "tcpplay").glob("*.c"))], check=True)
    words = [str(program), "--rank", "0", "--hosts", "127.0.0.1", "--port", "29700", "--start-timeout", "1", str(trace)]
    ended = []
    for text in [OWN, *(mutated(draw) for _ in range(200))]:
        trace.write_bytes(text)
        try:
            done = subprocess.run(words, capture_output=True, check=False, timeout=10)
        except subprocess.TimeoutExpired:
            continue  # a long calculation
        assert done.returncode in (0, 1, 2), (text, done.stderr[-2000:])
        own = (b"softband-tcpplay: ", f"{trace}:".encode())
        assert done.returncode == 0 or done.stderr.startswith(own), (text, done.stderr[-2000:])
        ended.append(done.returncode)
    assert ended[0] == 0 and {0, 2} <= set(ended) and len(ended) > 180
