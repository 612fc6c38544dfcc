"""The points of a file: what the session touched, what the prompt names, and what the files in use import."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet.call_record import CallRecord, FileFact, PathEffect
from codelet.context.relations import FileRelations


def touch(path: str, effect: PathEffect = "read") -> CallRecord:
    return CallRecord(id=path, tool="read", title="", status="done", files=(FileFact(effect, path),))


def test_each_part_says_its_own(tmp_path: Path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/core.py").write_text("from src.util import trim\n")
    calls = [*(touch(f"old/f{n}.py") for n in range(20)), touch("src"), touch("src/core.py", "changed")]
    relations = FileRelations([*calls, touch("listed", "listed")], "now fix src/core.py and util", tmp_path)
    assert relations.points("src/core.py") == 10 + 5 + 10
    assert relations.points("old/f19.py") == 8, "touched before"
    assert relations.points("src/util.py") == 5 + 5, "imported by a file in use, and named without its ending"
    assert relations.points("lib/src/util/__init__.py") == 5
    assert relations.points("old/f3.py") == relations.points("other/util_2.py") == relations.points("listed") == 0
    (tmp_path / "src/core.py").unlink()
    assert FileRelations(calls, "", tmp_path).points("src/util.py") == 0, "what is gone imports nothing"


def test_no_part_is_counted_twice(tmp_path: Path):
    calls = [touch("a.py", "written") for _ in range(50)]
    assert FileRelations(calls, "a.py a.py ./a.py a", tmp_path).points("a.py") == 25


@pytest.mark.parametrize(
    ("path", "text", "imported"),
    [
        ("src/pkg/a.py", "from .b import c\nfrom ..top import d", {"src/pkg/b.py", "src/pkg/b/c.py", "src/top/d.py"}),
        ("src/pkg/a.py", "    from . import b", {"src/pkg/__init__.py", "src/pkg/b.py"}),
        ("src/a.py", "import pkg.net\nimport \ud800 from", {"pkg/net.py", "lib/pkg/net.py"}),
        ("web/app.ts", 'import { x } from "./lib/x.js";\nexport * from "../y";', {"web/lib/x.ts", "y.ts"}),
        (
            "web/app.tsx",
            "import {\n  a,\n} from './lib/index'\nconst c = require('./c')",
            {"web/lib/index.ts", "web/c.js"},
        ),
        ("src/m.c", '#include "net/socket.h"\n#include <stdio.h>', {"src/net/socket.c"}),
        ("notes.md", "from a import b", set()),
    ],
)
def test_what_a_file_imports(tmp_path: Path, path: str, text: str, imported: set[str]):
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_bytes(text.encode("utf-8", "surrogatepass"))
    relations = FileRelations([touch(path)], "", tmp_path)
    others = {"src/pkg/b.py", "y.ts", "pkg/net.py", "stdio.h", "a.py"}
    assert {each for each in imported | others if relations.points(each)} >= imported
    assert not any(relations.points(each) for each in others - imported)
