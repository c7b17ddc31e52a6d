"""The time stamp counter, the clocks and the system's files agree on one rate, which no machine decides."""

from __future__ import annotations

import subprocess
from pathlib import Path

from conftest import Softband

FABRIC = "modern-pair"

# Compares the counter with the monotonic clock at the start, over a sleep, in a spin on either, in a thread and in a
# child. The spins make the library replace reads by jumps.
PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static long long nanos(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void look(const char *where) {
    unsigned processor = 9;
    long long before = nanos(CLOCK_MONOTONIC), ticks = __rdtsc(), again = __rdtscp(&processor), after = nanos(CLOCK_MONOTONIC_RAW);
    if (!(before <= ticks && ticks <= again && again <= after && processor == 0)) {
        printf("%s: %lld <= %lld <= %lld <= %lld does not hold\n", where, before, ticks, again, after);
        exit(1);
    }
    printf("%s: agrees\n", where);
}

static void *thread(void *none) {
    look("thread");
    return none;
}

int main(void) {
    look("start");
    usleep(10000);
    look("sleep");
    for (long long first = __rdtsc(); __rdtsc() - first < 2000000;) {}
    look("spin on the counter");
    for (long long first = nanos(CLOCK_REALTIME); nanos(CLOCK_REALTIME) - first < 2000000;) __rdtsc();
    look("spin on the clock");
    pthread_t other;
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    fflush(stdout);
    if (fork() == 0) {
        look("child");
        fflush(stdout);
        _exit(0);
    }
    int status;
    wait(&status);
    return status != 0;
}
"""
PLACES = ["start", "sleep", "spin on the counter", "spin on the clock", "thread", "child"]


def test_the_counter_is_the_monotonic_clock_everywhere(softband: Softband, tmp_path: Path) -> None:
    (tmp_path / "rate.c").write_text(PROGRAM, encoding="utf-8")
    subprocess.run(["cc", "-O2", "-pthread", "-o", tmp_path / "rate", tmp_path / "rate.c"], check=True)
    outcome = softband.run(FABRIC, ("a", str(tmp_path / "rate"))).assert_ok()
    assert outcome.program("a-0").splitlines() == [f"{place}: agrees" for place in PLACES]


def test_the_systems_files_state_the_counters_rate(softband: Softband) -> None:
    ask = "grep -hE '^(cpu MHz|bogomips)' /proc/cpuinfo | sort -u; cd /proc; sort -u cpuinfo | grep -c '@ '"
    outcome = softband.run(FABRIC, ("a", ask))
    assert outcome.program("a-0").splitlines() == ["bogomips\t: 2000.00", "cpu MHz\t\t: 1000.000", "0"]


def test_a_path_from_an_open_folder_states_the_rate_too(softband: Softband) -> None:
    read = "import os; folder = os.open('/proc', os.O_RDONLY); print(os.read(os.open('cpuinfo', os.O_RDONLY, dir_fd=folder), 65536).decode())"
    outcome = softband.run(FABRIC, ("a", f'python3 -c "{read}"')).assert_ok()
    assert {line for line in outcome.program("a-0").splitlines() if line.startswith("cpu MHz")} == {"cpu MHz\t\t: 1000.000"}


def test_files_with_the_machines_rate_do_not_exist(softband: Softband) -> None:
    cpu = "/sys/devices/system/cpu"
    files = [f"{cpu}/cpu0/cpufreq", f"{cpu}/cpufreq/policy0", f"{cpu}/cpu0/tsc_freq_khz", "/dev/cpu/0/msr"]
    outcome = softband.run(FABRIC, ("a", f"for file in {' '.join(files)}; do test -e $file && echo $file; done; echo looked")).assert_ok()
    assert outcome.program("a-0").splitlines() == ["looked"]


def test_wall_pace_shows_the_machines_rate(softband: Softband) -> None:
    ask = "grep '^bogomips' /proc/cpuinfo"
    outcome = softband.run(FABRIC, ("a", ask), options=("--pace", "wall")).assert_ok()
    here = [line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if line.startswith("bogomips")]
    assert outcome.program("a-0").splitlines() == here
