"""Runtimes of other languages make system calls by instructions of their own. They live in simulated time like C."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Softband

# Goroutines sleep, meet in channels, and answer requests over TCP. A child tells the year.
PROGRAM = r"""
package main

// int own(void) { return 7; }
import "C"

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
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
	year, err := exec.Command("date", "+%Y").Output()
	need(err)
	fmt.Print(string(year))
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
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    folder = tmp_path_factory.mktemp("go")
    (folder / "main.go").write_text(PROGRAM)
    (folder / "go.mod").write_text("module softband.test/waits\n\ngo 1.22\n")
    # The C compiler links it, so that it loads the C library.
    subprocess.run(["go", "build", "-tags", "netcgo", "-o", "waits", "."], cwd=folder, check=True, timeout=300)
    return folder / "waits"


def test_goroutines_wait_in_simulated_time(softband: Softband, go_program: Path) -> None:
    programs = (("a", str(go_program)), ("b", f"sleep 3; {go_program} a"))
    first, second = (softband.run("two-hosts", *programs).assert_ok() for _ in range(2))
    assert first.program("a-0").splitlines() == ["slept after 250ms", "252 after 330ms", "the limit after 2.33s", "2026"]
    assert first.program("b-0").splitlines() == ["hello after 130ms"] * 4
    assert (first.stdout, first.stderr) == (second.stdout, second.stderr)
