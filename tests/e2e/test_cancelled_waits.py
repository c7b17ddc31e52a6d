"""`pthread_cancel` ends a thread that waits in the kernel, and its end takes part in simulated time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import Softband

PROGRAM = r"""
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *how;

static void *wait_for_ever(void *none) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, strcmp(how, "accept") ? SOCK_DGRAM : SOCK_STREAM, 0);
    bind(fd, (struct sockaddr *)&address, sizeof address.sun_family);
    char text[8];
    struct iovec part = {text, sizeof text};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    int pipes[2];
    if (pipe(pipes)) return NULL;
    if (!strcmp(how, "accept")) listen(fd, 1), accept(fd, NULL, NULL);
    else if (!strcmp(how, "recvmsg")) recvmsg(fd, &message, 0);
    else if (!strcmp(how, "read")) (void)!read(pipes[0], text, 1);
    return none;
}

int main(int count, char **words) {
    how = words[count - 1];
    pthread_t thread;
    void *result = NULL;
    pthread_create(&thread, NULL, wait_for_ever, NULL);
    sleep(1);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    puts(result == PTHREAD_CANCELED ? "cancelled" : "returned");
    sleep(1);
    puts("later");
    return 0;
}
"""


@pytest.mark.parametrize("how", ["accept", "recvmsg", "read"])
def test_a_cancelled_wait_ends(softband: Softband, tmp_path: Path, how: str) -> None:
    (tmp_path / "cancelled.c").write_text(PROGRAM, encoding="utf-8")
    subprocess.run(["cc", "-O1", "-pthread", "-o", tmp_path / "cancelled", tmp_path / "cancelled.c"], check=True)
    outcome = softband.run("two-hosts", ("a", f"{tmp_path / 'cancelled'} {how}"), options=("--timeout", "30")).assert_ok()
    assert outcome.program("a-0").split() == ["cancelled", "later"]
