"""Runtimes of other languages make system calls by instructions of their own. They live in simulated time like C."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import Softband, which

# Goroutines sleep, meet in channels, and answer requests over TCP. A child sleeps and tells the date. The program
# signals itself and draws random numbers. A file goes out by `sendfile`.
PROGRAM = r"""
package main

// int own(void) { return 7; }
import "C"

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

var began = time.Now()

func say(what any) { fmt.Println(what, "after", time.Since(began).Round(time.Millisecond)) }

func need(err error) {
	if err != nil {
		panic(err)
	}
}

func waits() {
	time.Sleep(250 * time.Millisecond)
	say("slept")
	out := make(chan int)
	var all sync.WaitGroup
	for i := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			time.Sleep(time.Duration(i+1) * 10 * time.Millisecond)
			out <- (i + 1) * int(C.own())
		}()
	}
	sum := 0
	for range 8 {
		sum += <-out
	}
	all.Wait()
	say(sum)
	select {
	case <-out:
	case <-time.After(2 * time.Second):
	}
	say("the limit")
	date, err := exec.Command("sh", "-c", "sleep 1; date '+%F %T'").Output()
	need(err)
	fmt.Print(string(date))
	say("the child")
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	time.Sleep(time.Millisecond)
	need(syscall.Kill(syscall.Getpid(), syscall.SIGUSR1))
	fmt.Println(<-signals)
	number := make([]byte, 8)
	rand.Read(number)
	fmt.Println(number)
}

func serve() {
	listener, err := net.Listen("tcp", ":7000")
	need(err)
	for range 4 {
		peer, err := listener.Accept()
		need(err)
		go func() {
			time.Sleep(30 * time.Millisecond)
			peer.Write([]byte("hello"))
			peer.Close()
		}()
	}
	go http.ListenAndServe(":8000", http.FileServer(http.Dir(".")))
	time.Sleep(time.Second)
}

func ask(host string) {
	time.Sleep(100 * time.Millisecond)
	answers := make(chan string)
	for range 4 {
		go func() {
			peer, err := net.Dial("tcp", host+":7000")
			need(err)
			text, err := io.ReadAll(peer)
			need(err)
			answers <- string(text)
		}()
	}
	for range 4 {
		say(<-answers)
	}
	time.Sleep(100 * time.Millisecond)
	answer, err := http.Get("http://" + host + ":8000/served.txt")
	need(err)
	text, err := io.ReadAll(answer.Body)
	need(err)
	fmt.Println(answer.StatusCode, string(text))
}

func main() {
	if len(os.Args) > 1 {
		ask(os.Args[1])
	} else {
		waits()
		serve()
	}
}
"""


@pytest.fixture(scope="session")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if which("go") is None:
        pytest.skip("go is not installed")
    folder = tmp_path_factory.mktemp("go")
    (folder / "main.go").write_text(PROGRAM)
    (folder / "go.mod").write_text("module softband.test/waits\n\ngo 1.22\n")
    # The C compiler links it, so that it loads the C library.
    subprocess.run(["go", "build", "-tags", "netcgo", "-o", "waits", "."], cwd=folder, check=True, timeout=300)
    return folder / "waits"


def test_goroutines_wait_in_simulated_time(softband: Softband, go_program: Path) -> None:
    (softband.folder / "served.txt").write_text("served " * 1000)
    programs = (("a", str(go_program)), ("b", f"sleep 4; {go_program} a"))
    first, second = (softband.run("two-hosts", *programs, options=("--start-date", "2031-05-06")).assert_ok() for _ in range(2))
    waits = ["slept after 250ms", "252 after 330ms", "the limit after 2.33s", "2031-05-06 00:00:03"]
    lines = first.program("a-0").splitlines()
    assert lines[:4] == waits
    assert lines[4].startswith("the child after 3.3")
    assert lines[5] == "user defined signal 1"
    assert first.program("b-0").splitlines() == ["hello after 130ms"] * 4 + ["200 " + "served " * 1000]
    assert (first.stdout, first.stderr) == (second.stdout, second.stderr)


# Threads of OpenMP meet at a barrier after sleeps of different length, and wait for each other's locks.
TEAM = r"""
#include <omp.h>
#include <stdio.h>
#include <time.h>
int main(void)
{
    struct timespec start, end;
    int sum = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
#pragma omp parallel num_threads(4) reduction(+ : sum)
    {
        struct timespec span = {0, omp_get_thread_num() * 100000000L};
        nanosleep(&span, NULL);
#pragma omp barrier
#pragma omp critical
        sum += omp_get_thread_num();
#pragma omp for schedule(dynamic)
        for (int i = 0; i < 100; i++) sum += i;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%d after %.4f s\n", sum, (end.tv_sec - start.tv_sec) + (end.tv_nsec - start.tv_nsec) / 1e9);
}
"""


@pytest.mark.parametrize("policy", ["active", "passive"])
def test_a_team_of_openmp_waits_in_simulated_time(softband: Softband, policy: str) -> None:
    (softband.folder / "team.c").write_text(TEAM)
    program = softband.folder / "team"
    subprocess.run(["cc", "-O2", "-fopenmp", "-o", program, softband.folder / "team.c"], check=True)
    command = f"env OMP_WAIT_POLICY={policy} {program}"
    first, second = (softband.run("two-hosts", ("a", command)).assert_ok() for _ in range(2))
    assert first.program("a-0") == "4956 after 0.3000 s\n"
    assert (first.stdout, first.stderr) == (second.stdout, second.stderr)


# Ranks compute with four threads each between collectives.
RANKS = r"""
#include <mpi.h>
#include <stdio.h>
static double x[100000];
int main(int count, char **words)
{
    int level, rank;
    double total = 0;
    MPI_Init_thread(&count, &words, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double start = MPI_Wtime();
    for (int round = 0; round < 20; round++) {
        double part = 0;
#pragma omp parallel for num_threads(4) schedule(static)
        for (int i = 0; i < 100000; i++) x[i] = x[i] * 0.5 + i + rank + round;
        for (int i = 0; i < 100000; i++) part += x[i];
        MPI_Allreduce(MPI_IN_PLACE, &part, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        total += part;
    }
    printf("rank %d: %.0f in %.9f s\n", rank, total, MPI_Wtime() - start);
    MPI_Finalize();
}
"""


@pytest.mark.parametrize("compiler", ["mpicc.openmpi", "mpicc.mpich"])
def test_ranks_with_teams_of_openmp_repeat(softband: Softband, compiler: str) -> None:
    if which(compiler) is None:
        pytest.skip(f"no {compiler}")
    (softband.folder / "ranks.c").write_text(RANKS)
    program = softband.folder / "ranks"
    subprocess.run([compiler, "-O2", "-fopenmp", "-o", program, softband.folder / "ranks.c"], check=True)
    command = ("mpirun", "-n", "2", "--timeout", "100", str(program))
    first, second = (softband.command(*command) for _ in range(2))
    assert first.returncode == 0, first.stderr
    totals = {line.split()[3] for line in first.stdout.splitlines() if "] rank" in line}
    assert len(totals) == 1
    assert first.stdout.count("] rank") == 2
    assert (first.stdout, first.stderr) == (second.stdout, second.stderr)


# What the kernel permits only in wall pace: the strict mode of seccomp, and a dispatch of the program.
REFUSED = r"""
#include <errno.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static long raw(long number, long a, long b, long c)
{
    long result;
    register long none __asm__("r10") = 0, more __asm__("r8") = 0;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(none), "r"(more) : "rcx", "r11", "memory");
    return result;
}
int main(void)
{
    static char selector;
    printf("%d %d", prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0), errno);
    printf(" %ld %ld", raw(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0), raw(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, 0));
    printf(" %d %ld\n", prctl(59, 1, 0, 0, &selector), raw(SYS_prctl, 59, 1, 0));
}
"""


def test_modes_that_would_stop_softbands_own_calls_are_refused(softband: Softband) -> None:
    (softband.folder / "refused.c").write_text(REFUSED)
    program = softband.folder / "refused"
    subprocess.run(["cc", "-O1", "-o", program, softband.folder / "refused.c"], check=True)
    done = softband.run("two-hosts", ("a", str(program))).assert_ok()
    assert done.program("a-0") == "-1 22 -22 -22 -1 -22\n"
    assert done.stderr.count("no strict mode of seccomp in simulated time (EINVAL)") == 1
    assert done.stderr.count("no Syscall User Dispatch by programs in simulated time (EINVAL)") == 1


# Starts a command under a kernel without Syscall User Dispatch, as a filter shows it.
OLD_KERNEL = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words)
{
    (void)count;
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 59, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {6, steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 9;
    execv(words[1], words + 1);
    return 8;
}
"""
NUMBER = r"""
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void)
{
    long number;
    __asm__ volatile("syscall" : "=a"(number) : "a"(SYS_getpid) : "rcx", "r11", "memory");
    puts(number == getpid() ? "answered" : "bypassed");
}
"""


def test_own_calls_bypass_softband_on_a_kernel_without_dispatch(softband: Softband) -> None:
    for name, text in (("old", OLD_KERNEL), ("number", NUMBER)):
        (softband.folder / f"{name}.c").write_text(text)
        subprocess.run(["cc", "-O1", "-o", softband.folder / name, softband.folder / f"{name}.c"], check=True)
    number = ("a", str(softband.folder / "number"))
    assert softband.run("two-hosts", number).assert_ok().program("a-0") == "answered\n"
    old = softband.run("two-hosts", number, wrapper=(str(softband.folder / "old"),)).assert_ok()
    assert old.program("a-0") == "bypassed\n"
