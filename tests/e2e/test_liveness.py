"""A run in simulated time continues if a process sends the engine hand-made messages."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
import time

from conftest import ROOT, Softband

VERSION = int(re.findall(r"VERSION: u32 = (\d+)", (ROOT / "crates" / "ipc" / "src" / "lib.rs").read_text())[0])
# An attached program sends a second hello, as a new process would, and does not wait for its turn.
AGAIN = r"""
import os, socket, struct, sys, time
ticket = int(os.environ["SOFTBAND_TICKET"], 16)
with open("/proc/self/environ", "rb") as file:
    # The library puts the process's own secret where the used ticket stood.
    told = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
for secret in {ticket, int(told[b"SOFTBAND_TICKET"], 16)}:
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.connect("\0" + os.environ["SOFTBAND_ENGINE"])
    control.send(struct.pack("=IIQII", int(sys.argv[1]), os.getpid(), secret, 0, 0))
    time.sleep(0.01)
    answer = control.recv(64)
    print("answer", struct.unpack("=IiIIQII", answer)[1], flush=True)
for _ in range(20):
    time.sleep(0.001)
print("goes on")
"""
# A program bypasses the library: it sends a hello and never takes its turn.
SILENT = r"""
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(void)
{
    struct { uint32_t version, pid; uint64_t ticket; uint32_t forked, tid; } hello = {%d, getpid(), 0, 0, 0};
    struct { uint32_t version; int32_t status; uint32_t process, slot; uint64_t secret; uint32_t table_number, reserved; } welcome;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *engine = getenv("SOFTBAND_ENGINE");
    int control = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    hello.ticket = strtoull(getenv("SOFTBAND_TICKET"), NULL, 16);
    memcpy(to.sun_path + 1, engine, strlen(engine));
    if (connect(control, (struct sockaddr *)&to, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(engine)))
        return 1;
    if (send(control, &hello, sizeof hello, 0) != sizeof hello || recv(control, &welcome, sizeof welcome, 0) != sizeof welcome)
        return 2;
    fprintf(stderr, "welcome %%d\n", welcome.status);
    for (;;)
        pause();
}
"""
LONG = r"""
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/timex.h>
static long seconds(void)
{
    struct timex now = {0};
    long result = SYS_adjtimex;
    __asm__ volatile("syscall" : "+a"(result) : "D"(&now) : "rcx", "r11", "memory");
    return now.time.tv_sec;
}
__attribute__((constructor)) static void compute(void)
{
    for (long end = seconds() + 13; seconds() < end;)
        ;
}
int main(void)
{
    puts("computed");
    return 0;
}
"""


def test_a_process_cannot_say_hello_as_a_second_one(softband: Softband) -> None:
    program = softband.folder / "again.py"
    program.write_text(AGAIN)
    done = softband.run("two-hosts", ("a", f"{sys.executable} {program} {VERSION}"), options=("--timeout", "30")).assert_ok()
    lines = done.program("a-0").splitlines()
    assert lines[-1] == "goes on"
    assert lines[:-1] and set(lines[:-1]) <= {f"answer {errno.EBUSY}", f"answer {errno.EACCES}"}


def test_a_process_that_never_plays_its_turn_is_ended(softband: Softband) -> None:
    (softband.folder / "silent.c").write_text(SILENT % VERSION)
    silent = softband.folder / "silent"
    subprocess.run(["cc", "-static", "-o", silent, softband.folder / "silent.c"], check=True)
    started = time.monotonic()
    command = f"sh -c '{silent} & ibv_devices; echo on'"
    done = softband.run("two-hosts", ("a", command), ("b", "ibv_devices"), options=("--timeout", "60")).assert_ok()
    assert time.monotonic() - started < 40
    assert "mthca0" in done.program("a-0") and done.program("a-0").endswith("on\n") and "mthca0" in done.program("b-0")
    assert "welcome 0" in done.stderr, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("softband:")]
    assert len(lines) == 1 and "never took its turn" in lines[0], lines


def test_a_program_that_computes_for_long_at_its_start_is_no_such_process(softband: Softband) -> None:
    # The program computes longer than the engine waits for the first turn of a process.
    # It reads the machine's clock by a call that Softband leaves to the kernel.
    (softband.folder / "long.c").write_text(LONG)
    program = softband.folder / "long"
    subprocess.run(["cc", "-O1", "-o", program, softband.folder / "long.c"], check=True)
    done = softband.run("two-hosts", ("a", str(program))).assert_ok()
    assert done.program("a-0") == "computed\n"
    assert "softband" not in done.stderr
