"""The scripts that judge tests: which are near a file, what hangs on the clock, which faults go unnoticed."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.mutants.operators import mutants
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
    "codelet/decks/__init__.py": "",
    "tests/__init__.py": "",
    "tests/parts/__init__.py": "",
    "tests/boats/__init__.py": "",
    "tests/boats/parts/__init__.py": "",
    "tests/support/__init__.py": "",
    "codelet/parts/__init__.py": "from codelet.parts.wheel import Wheel\n",
    "codelet/parts/wheel.py": "class Wheel: ...\n",
    "codelet/car.py": "from codelet.parts import Wheel\n",
    "codelet/boat.py": "",
    "codelet/decks/upper.py": "",
    "tests/parts/test_wheel.py": "from codelet.parts import Wheel\n",
    "tests/parts/conftest.py": "",
    "tests/test_car.py": "from codelet.car import drive\n",
    "tests/test_boat.py": "import codelet.boat\n",
    "tests/test_whole.py": "# near: codelet/decks\n",
    "tests/test_race.py": "from tests.support.track import run\n",
    "tests/boats/parts/test_sail.py": "",
    "tests/support/track.py": "from codelet.car import drive\n",
}


@pytest.mark.parametrize(
    ("file", "near"),
    [
        ("codelet/parts/wheel.py", ["parts/test_wheel", "test_car"]),
        ("codelet/parts/__init__.py", ["parts/test_wheel", "test_car"]),
        ("codelet/boat.py", ["test_boat"]),
        ("codelet/decks/upper.py", ["test_whole"]),
        ("codelet/car.py", ["test_car", "test_race"]),
        ("tests/test_boat.py", ["test_boat"]),
    ],
)
def test_near_is_what_bears_the_name_then_what_imports_it(tmp_path: Path, file: str, near: list[str]) -> None:
    root = written(tmp_path, PROJECT)
    shutil.copytree(ROOT / "scripts", root / "scripts")
    done = subprocess.run([*SCRIPT, "scripts.near", file], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [line.removeprefix("tests/").removesuffix(".py") for line in done.stdout.splitlines()]
    assert found[: len(near)] == near
    assert "boats/parts/test_sail" not in found, "its folder has the name of another one"
    assert ("test_boat" in found) == ("test_boat" in near)
    assert ("test_whole" in found) == ("test_whole" in near)


def test_near_refuses_a_file_that_is_not_there() -> None:
    done = subprocess.run([*SCRIPT, "scripts.near", "codelet/nothing.py"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "codelet/nothing.py" in done.stderr


def test_each_mutant_is_another_program(tmp_path: Path) -> None:
    source = (
        "def f(a: int, b: list[int] = []) -> int:\n"
        '    """What it does: 1."""\n'
        "    if a and not b or a >= 2:\n"
        '        print(f"{a + 1} é")\n'
        "        return min(a, 3) + 1\n"
        "    for é, _ in zip(b, b, strict=True):\n"
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
        "codelet/sign.py": "MOST = 3\n\n\n"
        "def sign(n: int) -> int:\n    if n < 0:\n        return -1\n    return 1\n\n\n"
        "def most(n: int = 2) -> int:\n    return min(n, MOST)\n",
        "tests/__init__.py": "",
        # The first of them loads the file, and so runs its lines outside functions.
        "tests/test_sign.py": ""
        "def test_plus() -> None:\n    from codelet.sign import sign\n    assert sign(3) == 1\n\n\n"
        "def test_minus() -> None:\n    from codelet.sign import sign\n    assert sign(-1)\n\n\n"
        "def test_most() -> None:\n    from codelet.sign import most\n    assert most() == 2\n\n\n"
        "def test_wrong() -> None:\n    from codelet.sign import sign\n    assert sign(1) == 2\n",
        "pytest.ini": "[pytest]\n",
    }
    root = written(tmp_path / "project", files)
    shutil.copytree(ROOT / "scripts", root / "scripts")
    done = subprocess.run(
        [*SCRIPT, "scripts.mutants", "--count", "100", "codelet/sign.py"], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    tried = [line.split(maxsplit=2)[1:] for line in done.stdout.splitlines() if "codelet/sign.py:" in line]
    assert ["killed", "codelet/sign.py:7: off by one"] in tried, "the failing test alone would kill it"
    assert ["SURVIVED", "codelet/sign.py:6: off by one"] in tried, "-2 is as true as -1"
    assert ["killed", "codelet/sign.py:10: off by one"] in tried, "a default is run by what runs its function"
    assert ["SURVIVED", "codelet/sign.py:1: off by one"] in tried, "2 is less than 3 and less than 4"
    assert "passed: 1 of tests/test_sign.py" in done.stdout, "test_minus alone runs line 6"


SMALL = '"""By itself because it is small."""\n'
CONTRACTS = """
[tool.importlinter]
root_package = "codelet"

[[tool.importlinter.contracts]]
name = "layers"
type = "layers"
containers = ["codelet"]
layers = ["roof", "wall"]

[[tool.importlinter.contracts]]
name = "circles"
type = "acyclic_siblings"
ancestors = ["codelet"]
"""
INVARIANT = '"""It stands (tests/test_roof.py)."""\n'
HOUSE = {
    "pyproject.toml": CONTRACTS,
    "codelet/__init__.py": "",
    "codelet/roof/__init__.py": INVARIANT,
    "codelet/roof/tile.py": f"{SMALL}from codelet.wall import brick\n\nclass Tile: ...\n",
    "codelet/wall/__init__.py": INVARIANT,
    "codelet/wall/brick.py": f"{SMALL}def lay(): ...\n",
    "tests/test_roof.py": "",
}
SOUND = "house: no import upwards, no circle, no name for two things, all within bounds"
FAULTS = [
    ({}, [SOUND]),
    ({"wall/tile.py": SMALL}, ["file tile stands for 2 things: codelet/roof/tile.py, codelet/wall/tile.py"]),
    (
        {"wall/stone.py": f"{SMALL}class Tile: ...\n"},
        ["class Tile stands for 2 things: codelet/roof/tile.py:4, codelet/wall/stone.py:2"],
    ),
    (
        {"roof/slate.py": f"{SMALL}async def lay(): ...\n"},
        ["function lay stands for 2 things: codelet/roof/slate.py:2, codelet/wall/brick.py:2"],
    ),
    (
        {"roof/slate.py": '"""Short."""\n'},
        ["codelet/roof/slate.py: 1 lines, at least 40, or a reason in its docstring"],
    ),
    ({"roof/slate.py": "\n" * 501}, ["codelet/roof/slate.py: 501 lines, at most 500"]),
    (
        {"roof/slate.py": SMALL + "def high():\n" + "    pass\n" * 50},
        ["codelet/roof/slate.py:2: high has 51 lines, at most 50"],
    ),
    ({"roof/__init__.py": '"""It stands."""'}, ["codelet/roof/__init__.py names no test"]),
    (
        {"wall/__init__.py": '"""It stands (tests/test_roof.py, tests/test_it.py)."""'},
        ["codelet/wall/__init__.py names tests/test_it.py that is not there"],
    ),
    ({f"roof/slate{number}.py": SMALL for number in range(25)}, ["codelet/roof: 26 files, at most 25"]),
]


def house(root: Path, *options: str) -> tuple[int, list[str]]:
    command = [*SCRIPT, "scripts.house", "--root", str(root), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(("planted", "said"), FAULTS, ids=[" ".join(said)[:40] for _, said in FAULTS])
def test_a_planted_fault_of_the_house_is_named(tmp_path: Path, planted: dict[str, str], said: list[str]) -> None:
    root = written(tmp_path, HOUSE | {f"codelet/{name}": text for name, text in planted.items()})
    assert house(root, "--quiet") == (1 if planted else 0, said)


@pytest.mark.parametrize(
    ("planted", "named"),
    [
        (
            {"wall/stone.py": f"{SMALL}def late():\n    import codelet.roof.slate\n", "roof/slate.py": SMALL},
            "codelet.wall.stone -> codelet.roof.slate",
        ),
        (
            {"wall/a.py": f"{SMALL}import typing\nif typing.TYPE_CHECKING:\n    from codelet.wall import b\n",
             "wall/b.py": f"{SMALL}import codelet.wall.a\n"},
            "circles BROKEN",
        ),
    ],
)  # fmt: skip
def test_a_forbidden_import_is_named(tmp_path: Path, planted: dict[str, str], named: str) -> None:
    root = written(tmp_path, HOUSE | {f"codelet/{name}": text for name, text in planted.items()})
    status, said = house(root, "--quiet")
    assert status == 1 and any(named in line for line in said), said


def test_the_drawing_says_where_imports_lead(tmp_path: Path) -> None:
    status, (roof, wall, verdict) = house(written(tmp_path, HOUSE))
    assert roof.split() == ["roof/", "2", "files", "5", "lines", "->", "wall", "1"]
    assert wall.split() == ["wall/", "2", "files", "3", "lines"]
    assert (status, verdict) == (0, SOUND)
