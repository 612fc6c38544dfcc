"""The scripts that judge tests: which are near a file, what hangs on the clock, which faults go unnoticed."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.mutants.named import NAMED, named
from scripts.mutants.operators import mutants
from scripts.mutants.trial import Copy
from scripts.near import near_all
from tests.support.program import ROOT

SCRIPT = [sys.executable, "-m"]


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


PROJECT = {
    "codelet/__init__.py": "",
    "codelet/parts/__init__.py": "from codelet.parts.wheel import Wheel\n",
    "codelet/parts/wheel.py": "class Wheel: ...\n",
    "codelet/car.py": "from codelet.parts import Wheel\n",
    "codelet/boat.py": "",
    "tests/parts/test_wheel.py": "from codelet.parts import Wheel\n",
    "tests/parts/conftest.py": "",
    "tests/test_car.py": "from codelet.car import drive\n",
    "tests/test_boat.py": "import codelet.boat\n",
    "tests/test_race.py": "from tests.support.track import run\n",
    "tests/support/track.py": "from codelet.car import drive\n",
}


@pytest.mark.parametrize(
    ("file", "near"),
    [
        ("codelet/parts/wheel.py", ["parts/test_wheel", "test_car"]),
        ("codelet/boat.py", ["test_boat"]),
        ("codelet/car.py", ["test_car", "test_race"]),
        ("tests/test_boat.py", ["test_boat"]),
    ],
)
def test_near_is_what_bears_the_name_then_what_imports_it(tmp_path: Path, file: str, near: list[str]) -> None:
    root = written(tmp_path, PROJECT)
    found = [str(path.relative_to(root / "tests").with_suffix("")) for path in near_all([root / file], root=root)]
    assert found[: len(near)] == near
    assert ("test_boat" in found) == ("test_boat" in near)


def test_near_names_the_tests_of_this_checkout() -> None:
    done = subprocess.run([*SCRIPT, "scripts.near", "codelet/record.py"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith("test_record.py")
    done = subprocess.run([*SCRIPT, "scripts.near", "codelet/nothing.py"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "near: no Python files: codelet/nothing.py\n"


def test_each_mutant_is_another_program(tmp_path: Path) -> None:
    source = (
        "def f(a: int, b: list[int] = []) -> int:\n"
        '    """What it does: 1."""\n'
        "    if a and not b or a >= 2:\n"
        '        print(f"{a + 1} é")\n'
        "        return min(a, 3) + 1\n"
        "    for é in b:\n"
        "        continue\n"
        "    b[0] = 0.5\n"
        "    raise ValueError\n"
    )
    (tmp_path / "a.py").write_text(source)
    found = mutants(tmp_path / "a.py")
    texts = [mutant.text(source) for mutant in found]
    assert len({ast.dump(ast.parse(text)) for text in [source, *texts]}) == len(texts) + 1
    assert {mutant.what for mutant in found} == {
        "negated a condition", "exchanged and with or", "dropped a condition", "dropped a not", "swapped a comparison",
        "dropped a statement", "returned None", "exchanged min", "exchanged an operator", "off by one",
        "dropped a jump", "dropped an assignment", "changed a number",
    }  # fmt: skip
    assert all("What it does: 1." in text and 'f"{a + 1} é"' in text for text in texts if "print" in text)


def test_a_mutant_is_tried_with_the_tests_that_run_its_line(tmp_path: Path) -> None:
    files = {
        "codelet/__init__.py": "",
        "codelet/sign.py": "MOST = 3\n\n\ndef sign(n: int) -> int:\n    if n < 0:\n        return -1\n    return 1\n",
        "tests/__init__.py": "",
        "tests/test_sign.py": "from codelet.sign import MOST, sign\n\n\n"
        "def test_plus() -> None:\n    assert sign(MOST) == 1\n\n\n"
        "def test_minus() -> None:\n    assert sign(-1)\n\n\n"
        "def test_wrong() -> None:\n    assert sign(1) == 2\n",
        "pytest.ini": "[pytest]\n",
    }
    root = written(tmp_path / "project", files)
    shutil.copytree(ROOT / "scripts", root / "scripts")
    found = {(one.line, one.what): one for one in mutants(root / "codelet" / "sign.py")}
    with Copy(root, budget=5.0) as copy:
        seen, unseen, outside = (found[line, "off by one"] for line in (7, 6, 1))
        tests = [{test.name[20:] for test in next(copy.suites(mutant))} for mutant in (seen, unseen, outside)]
        assert tests == [{"test_plus"}, {"test_minus"}, {"test_plus", "test_minus"}]
        assert not copy.survives(seen)
        assert copy.survives(unseen)


def test_the_named_mutants_are_found_by_their_code() -> None:
    found, lost = named(ROOT)
    assert len(found) == len(NAMED) and not lost
    for mutant in found:
        before = mutant.path.read_text(encoding="utf-8")
        ast.parse(mutant.text(before))
        assert mutant.text(before) != before
