"""`codelet demo` as a person or a pipe runs it: the real loop and tools, an honest last line, nothing left behind."""

from __future__ import annotations

import re
import shutil
import signal
import sys
from pathlib import Path

import pytest

from tests.support.program import ROOT, descendants, run
from tests.support.terminal import Terminal
from tests.support.waiting import Neighbour

COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Where the demo makes its folder."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def last_line(text: str) -> str:
    """What the demo says of its test at the end; after a success the next steps follow."""
    said, _, following = text.rstrip().partition("Next, ")
    succeeded = "passes." in said.rstrip().splitlines()[-1]
    assert succeeded == ("API_KEY=" in following and following.endswith("&& codelet")), following
    return said.rstrip().splitlines()[-1]


def test_the_fault_is_found_and_fixed_and_nothing_stays(tmp_path: Path, home: Path, temporary: Path):
    done = run("demo", cwd=tmp_path, home=home, env={"TMPDIR": str(temporary)})
    assert (done.exit, done.err) == (0, "")
    assert last_line(done.out)[0] == "✓"
    assert "demo: bash" in done.out
    steps = [
        "✗ bash",
        "AssertionError: -9000 != 900",
        "FAILED (failures=1)",
        "read till.py",
        "edit till.py · +1 -1",
        "✓ bash",
        "OK",
    ]
    places = [done.out.index(step) for step in steps]
    assert places == sorted(places)
    assert list(temporary.iterdir()) == []
    assert list(home.iterdir()) == []


def test_the_folder_can_be_kept(tmp_path: Path, home: Path, temporary: Path):
    done = run("demo", "--keep", cwd=tmp_path, home=home, env={"TMPDIR": str(temporary)})
    (folder,) = temporary.iterdir()
    assert f"Kept: {folder}" in done.out
    assert last_line(done.out)[0] == "✓"
    assert sorted(path.name for path in folder.iterdir()) == ["test_till.py", "till.py"]
    assert "discount_percent // 100" in (folder / "till.py").read_text(encoding="utf-8")


def test_a_test_that_does_not_pass_is_told(tmp_path: Path, home: Path, temporary: Path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "unittest.py").write_text("raise SystemExit('no tests today')\n", encoding="utf-8")
    root = str(ROOT)
    path = f"{broken}:{root}"
    done = run("demo", cwd=tmp_path, home=home, env={"TMPDIR": str(temporary), "PYTHONPATH": path})
    assert done.exit == 5
    assert last_line(done.out)[0] == "✗"
    assert list(temporary.iterdir()) == []


def test_no_other_program_is_needed(tmp_path: Path, home: Path):
    """A path with a shell alone: no git, no test runner."""
    programs = tmp_path / "programs"
    programs.mkdir()
    shell = shutil.which("sh")
    assert shell is not None
    (programs / "sh").symlink_to(shell)
    done = run("demo", cwd=tmp_path, home=home, env={"PATH": str(programs)})
    assert (done.exit, done.err) == (0, "")
    assert last_line(done.out)[0] == "✓"


@pytest.mark.needs("strace")
def test_no_address_is_looked_up_or_connected_to(tmp_path: Path, home: Path):
    trace = tmp_path / "trace"
    program = ("strace", "-f", "-qq", "-e", "trace=connect,sendto", "-o", str(trace), sys.executable, "-m", "codelet")
    assert run("demo", cwd=tmp_path, home=home, command=program).exit == 0
    found = [line for line in trace.read_text(encoding="utf-8").splitlines() if "AF_INET" in line]
    assert found == []


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(columns: int, tmp_path: Path, home: Path):
    done = run("demo", cwd=tmp_path, home=home, env={"COLUMNS": str(columns)})
    assert done.exit == 0
    assert "\x1b" not in done.out
    assert max(map(len, done.out.splitlines())) <= columns


def test_plain_signs_where_the_encoding_has_no_others(tmp_path: Path, home: Path):
    done = run("demo", cwd=tmp_path, home=home, env={"PYTHONIOENCODING": "ascii"})
    assert (done.exit, done.err) == (0, "")
    assert last_line(done.out)[0] == "+"


@pytest.mark.parametrize("columns", [80, 200])
def test_on_a_terminal_each_step_is_shown_in_colour(columns: int, tmp_path: Path, home: Path, temporary: Path):
    environment = {"TMPDIR": str(temporary)}
    with Terminal("demo", cwd=tmp_path, home=home, env=environment, columns=columns, rows=70) as terminal:
        terminal.wait_for("I'll run the tests first", timeout=20)
        assert terminal.wait_exit() == 0
        assert last_line(terminal.scrollback)[0] == "✓"
        assert "waiting" not in terminal.text
        assert COLOUR.search(terminal.raw)
    assert list(temporary.iterdir()) == []


def test_no_colour_where_none_is_wanted(tmp_path: Path, home: Path):
    with Terminal("demo", cwd=tmp_path, home=home, env={"NO_COLOR": "1"}, rows=70) as terminal:
        assert terminal.wait_exit() == 0
        coloured = re.findall(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7]|38)(?:;[0-9;]*)?m", terminal.raw)
        assert coloured == []
        assert last_line(terminal.scrollback)[0] == "✓"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("moment", ["I'll run the tests", "One of the three"])
def test_a_signal_stops_it_and_the_folder_goes(name: str, moment: str, tmp_path: Path, home: Path, temporary: Path):
    number = signal.Signals[name]
    status = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}[name]
    with Terminal("demo", cwd=tmp_path, home=home, env={"TMPDIR": str(temporary)}, rows=60) as terminal:
        terminal.wait_for(moment)
        assert len(list(temporary.iterdir())) == 1
        with Neighbour() as clock:
            if name == "SIGINT":
                terminal.key("ctrl-c")
            else:
                terminal.signal(number)
            assert terminal.wait_exit() == status
        assert clock.passed < 2
        assert descendants(terminal.pid) == []
        assert "The test passes" not in terminal.scrollback
        assert 'Traceback (most recent call last):\n  File "/usr' not in terminal.scrollback
        assert "stopped" in terminal.text.splitlines()[-1]
    assert list(temporary.iterdir()) == []


def test_a_reader_that_leaves_early_is_no_failure(tmp_path: Path, home: Path, temporary: Path):
    shell = ("sh", "-c", f"{sys.executable} -m codelet demo | head -1; ls -A {temporary}")
    done = run(cwd=tmp_path, home=home, env={"TMPDIR": str(temporary)}, command=shell)
    assert done.out == "codelet demo\n"
    assert done.err == ""
