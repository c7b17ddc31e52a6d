package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bell is the compiled program: `go test` builds only the tests.
var bell string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "bell")
	if err != nil {
		panic(err)
	}
	bell = filepath.Join(folder, "bell")
	build := exec.Command("go", "build", "-o", bell)
	build.Stderr = os.Stderr
	status := 1
	if build.Run() == nil {
		status = m.Run()
	}
	os.RemoveAll(folder)
	os.Exit(status)
}

// run starts the bell on host a and its ringer on host b. It returns all output and the error.
func run(t *testing.T, rings string, options ...string) (string, error) {
	t.Helper()
	softband := os.Getenv("SOFTBAND_BIN")
	if softband == "" {
		softband = "softband"
	}
	words := append([]string{"run", "default", "--timeout", "60"}, options...)
	words = append(words, "--on", "a", bell+" "+rings, "--on", "b", bell+" "+rings+" a")
	out, err := exec.Command(softband, words...).CombinedOutput()
	t.Logf("%s", out)
	return string(out), err
}

func plan(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "plan.toml")
	if err := os.WriteFile(path, []byte("[[faults]]\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRingsArrive(t *testing.T) {
	for _, pace := range []string{"virtual", "wall"} {
		if out, err := run(t, "100", "--pace", pace); err != nil || !strings.Contains(out, "a: 100 rings heard") {
			t.Errorf("%s: %v", pace, err)
		}
	}
}

func TestALostRingIsRungAgain(t *testing.T) {
	drop := plan(t, "kind = \"drop\"\nport = \"b/mlx5_0/1\"\npacket = \"send\"\nnumber = 7\n")
	out, err := run(t, "100", "--faults", drop)
	if err != nil || !strings.Contains(out, "a: 100 rings heard") || !strings.Contains(out, "b/mlx5_0 sent again 1 time") {
		t.Error(err)
	}
}

func TestADeadHostIsReported(t *testing.T) {
	death := plan(t, "kind = \"host_dies\"\nhost = \"a\"\nat = \"1 ms\"\n")
	out, err := run(t, "4000000", "--faults", death)
	if err == nil || !strings.Contains(out, "b: bell: send: transport retry counter exceeded") {
		t.Error("the ringer does not report the death")
	}
}
