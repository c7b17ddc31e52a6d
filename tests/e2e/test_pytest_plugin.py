"""The plug-in pytest-softband: a fabric for each test, and logs of failed tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import ROOT, Fabrics, until

pytest_plugins = ["pytester"]

SOURCES = ROOT / "recipes" / "pytest-softband" / "src"
TIMEOUT_SECONDS = 120
PAIR = '{"a": "ibv_rc_pingpong -n 10", "b": "ibv_rc_pingpong -n 10 a"}'


class Project:
    """A folder with tests that use the plug-in."""

    def __init__(self, pytester: pytest.Pytester, fabrics: Fabrics, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester, self.fabrics = pytester, fabrics
        monkeypatch.setenv("PYTHONPATH", str(SOURCES))
        monkeypatch.setenv("SOFTBAND_BIN", str(fabrics.binary))

    def run(self, text: str, *options: str) -> pytest.RunResult:
        """Runs the tests of `text` in a process of their own."""
        self.pytester.makepyfile(test_it=f"import pytest, time\n{text}")
        words = ("-p", "pytest_softband.plugin", "--strict-markers", "-p", "no:cacheprovider", *options)
        return self.pytester.runpytest_subprocess(*words, timeout=TIMEOUT_SECONDS)

    def fails(self, text: str, *lines: str) -> None:
        """Runs the tests, which must all fail and show these lines."""
        result = self.run(text)
        outcomes = result.parseoutcomes()
        assert set(outcomes) <= {"failed", "error", "errors"}, outcomes
        result.stdout.fnmatch_lines_random([f"*{line}*" for line in lines])


@pytest.fixture
def project(pytester: pytest.Pytester, fabrics: Fabrics, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(pytester, fabrics, monkeypatch)


def test_programs_run_on_hosts_side_by_side(project: Project) -> None:
    result = project.run(
        f"""
@pytest.mark.softband(fabric="two-hosts")
@pytest.mark.parametrize("n", range(4))
def test_pair(softband, n):
    run = softband.run({PAIR})
    assert "10 iters" in run.output("b") and run.exit_status("a") == 0
    assert run.report["pace"] == "virtual" and run.folder.is_dir()

@pytest.mark.softband(pace="wall")
def test_copies(softband):
    run = softband.run_copies(3, ["sh", "-c", "echo $SOFTBAND_RANK of $SOFTBAND_SIZE"])
    assert [run.output(host) for host in "abc"] == ["0 of 3\\\\n", "1 of 3\\\\n", "2 of 3\\\\n"]
""".replace("\\\\n", "\\n"),
        "-n",
        "2",
    )
    result.assert_outcomes(passed=5)


def test_a_failed_test_shows_output_errors_and_the_folder(project: Project) -> None:
    project.fails(
        """
def test_fails(softband):
    softband.run({"a": "echo out of a; exit 3", "b": "echo errors of b >&2"})
""",
        "ProgramFailed: the run ended with status 3",
        "softband: a-0 output",
        "out of a",
        "softband: b-0 errors",
        "errors of b",
        "softband: folder of the test",
    )


def test_an_assertion_of_the_test_shows_the_logs_too(project: Project) -> None:
    project.fails('def test_fails(softband):\n    assert softband.run({"a": "echo seen"}).status == 1\n', "seen", "softband: a-0 output*")


def test_the_time_limit_names_the_waits(project: Project) -> None:
    project.fails(
        """
@pytest.mark.softband(fabric="two-hosts", pace="wall", timeout=1)
def test_hangs(softband):
    softband.run({"a": "ibv_rc_pingpong"})

@pytest.mark.softband(timeout=1)
def test_hangs_on_a_fabric_that_stays(softband):
    softband.up()
    softband.spawn("a", ["sleep", "100"]).wait()
""",
        "TimeLimit: the time limit ended the run",
        "waits for a connection to its TCP port 18515",
        "TimeLimit: 'sleep 100' on host a still runs at the time limit of the test",
    )


def test_a_missing_command_fails_tests_and_skips_none(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def test_it(softband):\n    pass\n"
    monkeypatch.setenv("SOFTBAND_BIN", "/nowhere/softband")
    project.fails(text, "no command softband: SOFTBAND_BIN names /nowhere/softband", "help: pip install softband")
    monkeypatch.delenv("SOFTBAND_BIN")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    project.fails(text, "no command softband: PATH has none")


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("fabrik='a'", "no key 'fabrik' in @pytest.mark.softband: the keys are fabric"),
        ("pace='fast'", "pace='fast' in @pytest.mark.softband: pace is \"virtual\" or \"wall\""),
        ("timeout=0", "timeout=0 in @pytest.mark.softband: timeout is a number of seconds above 0"),
        ("timeout=True", "timeout=True in @pytest.mark.softband"),
        ("faults='plan.toml'", "faults='plan.toml' in @pytest.mark.softband: faults is text with"),
        ("'two-hosts'", "takes named values only, not 'two-hosts'"),
    ],
)
def test_a_bad_mark_names_the_key_and_its_values(project: Project, mark: str, message: str) -> None:
    result = project.run(f"@pytest.mark.softband({mark})\ndef test_it(softband):\n    pass\n")
    assert message in result.stdout.str()
    result.assert_outcomes(errors=1)


def test_mistakes_of_the_fabric_reach_the_report(project: Project) -> None:
    project.fails(
        """
@pytest.mark.softband(fabric="two-hots")
def test_no_fabric(softband):
    softband.run({"a": "true"})

@pytest.mark.softband(faults='[[faults]]\\nkind = "drip"\\n')
def test_no_fault(softband):
    softband.run({"a": "true"})

@pytest.mark.softband(faults='[[faults]]\\nkind = "drip"\\n')
def test_no_fault_on_a_fabric_that_stays(softband):
    softband.up()

@pytest.mark.softband(pace="virtual")
def test_no_wall_pace(softband):
    softband.up()

def test_not_up(softband):
    softband.spawn("a", ["true"])
""",
        "did you mean `two-hosts`?",
        "no fault `drip`",
        "the fabric did not come up",
        "SoftbandError: a fabric that stays has wall pace",
        "SoftbandError: no fabric is up: call softband.up() first",
    )


def test_a_fault_plan_is_a_text_or_a_file(project: Project) -> None:
    plan = '[[faults]]\nkind = "host_dies"\nhost = "a"\nat = "10 us"\n'
    Path(project.pytester.path / "plan.toml").write_text(plan)
    result = project.run(
        f"""
@pytest.mark.softband(fabric="two-hosts")
class TestDeath:
    @pytest.mark.softband(faults={plan!r})
    def test_text(self, softband):
        run = softband.run({PAIR}, check=False)
        assert run.exit_status("a") == 137 and run.exit_status("b") != 0

    @pytest.mark.softband(faults="plan.toml")
    def test_file(self, softband):
        assert softband.run({PAIR}, check=False).exit_status("a") == 137
"""
    )
    result.assert_outcomes(passed=2)


def test_a_fabric_that_stays_ends_with_its_test(project: Project) -> None:
    result = project.run(
        """
def test_link(softband):
    softband.up()
    server = softband.spawn("a", ["ibv_rc_pingpong"])
    assert softband.spawn("b", "ibv_rc_pingpong a").wait() == 0
    assert server.wait() == 0 and "1000 iters" in server.output()
    softband.fault("link-down", "b/mlx5_0/1")
    show = softband.spawn("b", ["ibv_devinfo"])
    assert show.wait() == 0 and "PORT_DOWN" in show.output()
    with pytest.raises(AssertionError, match="status"):
        softband.fault("link-down", "nowhere")

def test_fails(softband):
    softband.up()
    program = softband.spawn("a", ["sh", "-c", "echo still; sleep 1000"])
    while "still" not in program.output():
        time.sleep(0.02)
    assert False
"""
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines_random(["*softband: a-0 output*", "still"])
    assert project.fabrics.status() == []


def test_an_interrupt_leaves_no_fabric(project: Project) -> None:
    result = project.run(
        """
import os, signal

def test_interrupted(softband):
    softband.up()
    softband.spawn("a", ["sleep", "1000"])
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
"""
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert until(lambda: project.fabrics.status() == [])


def test_the_package_names_its_entry_point() -> None:
    text = (SOURCES.parent / "pyproject.toml").read_text()
    assert 'pytest11]\nsoftband = "pytest_softband.plugin"' in text
    assert os.access(SOURCES / "pytest_softband" / "py.typed", os.R_OK)
