"""The imports of a piece of source, from part of a file, with numbers before its lines or without."""

from __future__ import annotations

import pytest

from codelet.context.relations.imports import LONGEST_SOURCE, MOST_IMPORTS, imports_in


@pytest.mark.parametrize(
    ("path", "text", "wanted"),
    [
        (
            "src/a.py",
            "from pkg.util import trim, pad\nimport pkg.net",
            {"pkg/util", "pkg/util/trim", "pkg/util/pad", "pkg/net"},
        ),
        ("src/pkg/a.py", "from .b import c\nfrom ..top import d", {"src/pkg/b", "src/pkg/b/c", "src/top", "src/top/d"}),
        ("src/pkg/a.py", "    from . import b", {"src/pkg", "src/pkg/b"}),
        ("web/app.ts", 'import { x } from "./lib/x.js";\nexport * from "../y";', {"web/lib/x", "y"}),
        ("web/app.tsx", "import {\n  a,\n  b,\n} from './lib/index'\nconst c = require('./c')", {"web/lib", "web/c"}),
        ("web/app.js", 'import fs from "node:fs";\nimport "./style.css";', {"web/style"}),
        ("src/m.c", '#include "net/socket.h"\n#include <stdio.h>', {"net/socket"}),
        ("notes.md", "from a import b", set()),
        ("Makefile", "include x", set()),
        ("a.py", "     1\tfrom pkg.b import c", {"pkg/b", "pkg/b/c"}),
        ("a.py", "12:import pkg.b", {"pkg/b"}),
        ("a.py", "import\x00 \ud800 from import from", set()),
    ],
)
def test_what_is_imported(path: str, text: str, wanted: set[str]):
    assert imports_in(path, text) == wanted


def test_it_is_bounded():
    text = "\n".join(f"import module_{n}" for n in range(5_000))
    assert len(imports_in("a.py", text)) == MOST_IMPORTS
    assert imports_in("a.py", "#" * LONGEST_SOURCE + "\nimport pkg") == set()
