"""At wall pace, programs with system calls of their own see the fabric, and programs without the library are named."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Softband

FABRIC = "modern-pair"
STATE = "4: ACTIVE"

# Threads of C make calls by instructions, in a handler of a signal, too: files, the host's name, a child, a wait that
# a signal interrupts, and pointers that are bad.
BY_INSTRUCTION = r"""
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long call(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
}

static const char FILE_NAME[] = "/sys/class/infiniband/mlx5_0/ports/1/state";
static char seen[64];

static void look(const char *where) {
    char text[64] = "";
    long fd = call(SYS_openat, AT_FDCWD, (long)FILE_NAME, O_RDONLY, 0, 0, 0);
    long count = call(SYS_read, fd, (long)text, sizeof text - 1, 0, 0, 0);
    call(SYS_close, fd, 0, 0, 0, 0, 0);
    text[count < 1 ? 0 : count - 1] = 0;
    if (where) printf("%s: %s\n", where, text);
    else strcpy(seen, text);
}

static void on_signal(int number) {
    (void)number;
    look(NULL);
}

static void *thread(void *none) {
    look("thread");
    return none;
}

int main(void) {
    look("main");
    struct utsname name;
    call(SYS_uname, (long)&name, 0, 0, 0, 0, 0);
    printf("host: %s\n", name.nodename);
    printf("bad: %ld %ld\n", call(SYS_openat, AT_FDCWD, 8, 0, 0, 0, 0), call(SYS_uname, 8, 0, 0, 0, 0, 0));
    struct sigaction action = {.sa_handler = on_signal};
    sigfillset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    alarm(1);
    struct timespec wait = {.tv_sec = 20};
    printf("wait: %ld, in the handler: ", call(SYS_nanosleep, (long)&wait, (long)&wait, 0, 0, 0, 0));
    printf("%s\n", seen);
    pthread_t other;
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    fflush(stdout);
    int status;
    if (fork() == 0) {
        look("child");
        fflush(stdout);
        _exit(0);
    }
    wait4(-1, &status, 0, NULL);
    long child = call(SYS_vfork, 0, 0, 0, 0, 0, 0);
    if (child == 0) {
        char *words[] = {"cat", (char *)FILE_NAME, NULL}, *none[] = {NULL};
        call(SYS_execve, (long)"/bin/cat", (long)words, (long)none, 0, 0, 0);
        _exit(1);
    }
    wait4(child, &status, 0, NULL);
    return status != 0;
}
"""

GO = r"""
package main

// int own(void) { return 7; }
import "C"

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

func main() {
	C.own()
	name, _ := os.Hostname()
	devices, err := os.ReadDir("/sys/class/infiniband")
	fmt.Println(name, len(devices), err)
	var all sync.WaitGroup
	for one := 0; one < 8; one++ {
		all.Add(1)
		go func() {
			defer all.Done()
			if one%2 == 0 {
				runtime.LockOSThread()
			}
			for turn := 0; turn < 50; turn++ {
				text, err := os.ReadFile("/sys/class/infiniband/mlx5_0/ports/1/state")
				if err != nil || string(text) != "4: ACTIVE\n" {
					panic(fmt.Sprint(string(text), err))
				}
				for work := 0; work < 1000000; work++ {
					_ = work
				}
				_ = make([]byte, 1<<16)
				_ = syscall.Kill(syscall.Getpid(), syscall.SIGURG)
			}
		}()
	}
	all.Wait()
	out, err := exec.Command("cat", "/sys/class/infiniband/mlx5_0/ports/1/state").Output()
	fmt.Print(string(out), err, "\n")
}
"""

# The server listens as the package chooses (by MPTCP since Go 1.24). The client finds its address by Go's own
# resolver, and waits until it answers.
GO_PEERS = r"""
package main

// int own(void) { return 7; }
import "C"

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func ask(host, name string) {
	for turn := 0; ; turn++ {
		answer, err := http.Get("http://" + host + ":8000/?" + name)
		if err == nil {
			text, _ := io.ReadAll(answer.Body)
			fmt.Printf("%s: %s\n", answer.Status, text)
			return
		}
		if turn == 1000 {
			panic(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func main() {
	_ = C.own()
	asked := make(chan bool, 2)
	if len(os.Args) > 1 {
		name, _ := os.Hostname()
		ask(os.Args[1], name)
		ask(os.Args[1], name)
		return
	}
	go http.ListenAndServe(":8000", http.HandlerFunc(func(to http.ResponseWriter, from *http.Request) {
		fmt.Fprint(to, "page for ", from.URL.RawQuery)
		asked <- true
	}))
	<-asked
	<-asked
	time.Sleep(200 * time.Millisecond)
}
"""

STATIC = "#include <stdio.h>\nint main(void) { puts(\"static\"); return 3; }\n"


def at_wall_pace(softband: Softband, program: str) -> list[str]:
    return softband.run(FABRIC, ("a", program), options=("--pace", "wall")).assert_ok().program("a-0").splitlines()


def test_calls_by_instructions_see_the_fabric(softband: Softband, tmp_path: Path) -> None:
    (tmp_path / "own.c").write_text(BY_INSTRUCTION, encoding="utf-8")
    subprocess.run(["cc", "-O2", "-pthread", "-o", tmp_path / "own", tmp_path / "own.c"], check=True)
    expected = [f"main: {STATE}", "host: a", "bad: -14 -14", f"wait: -4, in the handler: {STATE}", f"thread: {STATE}", f"child: {STATE}", STATE]
    assert at_wall_pace(softband, str(tmp_path / "own")) == expected


@pytest.fixture(scope="session")
def go_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("go-cache")


def built_by_go(text: str, folder: Path, cache: Path) -> Path:
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not Path(go).exists():
        pytest.skip("no Go here")
    (folder / "main.go").write_text(text, encoding="utf-8")
    environment = {"PATH": f"{Path(go).parent}:/usr/bin:/bin", "HOME": str(cache), "CGO_ENABLED": "1"}
    subprocess.run([go, "build", "-o", folder / "program", folder / "main.go"], check=True, env=environment, cwd=folder)
    return folder / "program"


def test_a_program_of_go_sees_the_fabric(softband: Softband, tmp_path: Path, go_cache: Path) -> None:
    assert at_wall_pace(softband, str(built_by_go(GO, tmp_path, go_cache))) == ["a 1 <nil>", STATE, "<nil>"]


@pytest.mark.parametrize("options", [("--pace", "virtual"), ("--pace", "wall"), ("--pace", "wall", "--network", "modelled")])
def test_programs_of_go_on_two_hosts_talk_by_sockets(softband: Softband, tmp_path: Path, go_cache: Path, options: tuple[str, ...]) -> None:
    program = built_by_go(GO_PEERS, tmp_path, go_cache)
    outcome = softband.run(FABRIC, ("a", f"{program}"), ("b", f"{program} a"), options=options).assert_ok()
    assert outcome.program("b-0").splitlines() == ["200 OK: page for b", "200 OK: page for b"]


@pytest.mark.parametrize("pace", ["virtual", "wall"])
@pytest.mark.parametrize("command", ["{}", "sh -c '{}; echo status $?'", "env {}", "python3 -c 'import os; os.spawnv(os.P_WAIT, \"{}\", [\"x\"])'"])
def test_a_static_program_runs_with_a_warning(softband: Softband, tmp_path: Path, command: str, pace: str) -> None:
    (tmp_path / "alone.c").write_text(STATIC, encoding="utf-8")
    alone = tmp_path / "alone"
    subprocess.run(["cc", "-static", "-o", alone, tmp_path / "alone.c"], check=True)
    outcome = softband.run(FABRIC, ("a", command.format(alone)), options=("--pace", pace))
    assert "static" in outcome.program("a-0")
    assert f"'{alone}' is statically linked, so it cannot load Softband's library" in outcome.stderr
    if "status" in command:
        assert "status 3" in outcome.program("a-0")


def test_a_script_and_a_dynamic_program_run_without_a_warning(softband: Softband, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nexec cat /dev/null\n", encoding="utf-8")
    script.chmod(0o755)
    outcome = softband.run(FABRIC, ("a", f"sh -c '{script}; true'"), options=("--pace", "wall")).assert_ok()
    assert "library" not in outcome.stderr
