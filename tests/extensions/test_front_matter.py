"""Front matter is read as people write it, with or without a YAML reader, and files are bounded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from codelet.extensions.front_matter import FileFault, fields_of, read_text_file, split_front

PLAIN = (
    "name: pdf\ndescription: Use this when: a PDF is there, e.g. `a.pdf`\nargument-hint: [file] [page]\nhidden: true\n"
)
FORMS = {
    PLAIN: {
        "name": "pdf",
        "description": "Use this when: a PDF is there, e.g. `a.pdf`",
        "argument-hint": "[file] [page]",
        "hidden": "true",
    },
    'name: "a b" # note\ndescription: >\n  folded\n  text\n': {"name": "a b", "description": "folded text"},
    "name: a\nmetadata:\n  by: me\nallowed-tools:\n  - read\n": {
        "name": "a",
        "metadata": "by: me",
        "allowed-tools": "- read",
    },
    "name: 'a\ndescription: broken: 'quotes\n  and more\n": {"name": "'a", "description": "broken: 'quotes and more"},
    "name: 'It''s'\ndescription: \"say \\\"hi\\\": now\"\n": {"name": "It's", "description": 'say "hi": now'},
    "# a comment\nname: a # and one here\n": {"name": "a"},
    "- a list\n": {},
    "": {},
}


@pytest.mark.parametrize("front", FORMS, ids=range(len(FORMS)))
def test_fields_are_texts(front: str) -> None:
    assert fields_of(front) == FORMS[front]


def test_the_usual_form_needs_no_yaml_reader() -> None:
    """Its import is a tenth of the way to the first request."""
    code = f"import sys; from codelet.extensions.front_matter import fields_of; fields_of({PLAIN!r})"
    code += "; print('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize(
    ("text", "front", "body"),
    [
        ("---\nname: a\n---\nbody", "name: a\n", "body"),
        ("---\r\nname: a\r\n--- \r\nbody", "name: a\r\n", "body"),
        ("---\n---\n", "", ""),
        ("body\n---\nname: a\n---\n", None, "body\n---\nname: a\n---\n"),
    ],
)
def test_it_is_split_from_the_text(text: str, front: str | None, body: str) -> None:
    assert split_front(text) == (front, body)


def test_a_file_is_bounded_text_and_stays_in_its_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    path = project / "a.md"
    path.write_bytes("é".encode() * 100)
    assert read_text_file(path, 200, within=project) == "é" * 100
    assert read_text_file(path, 101, within=project, cut=True) == "é" * 50
    for broken, most in ((path, 199), (project, 200), (project / "none", 200)):
        with pytest.raises(FileFault):
            read_text_file(broken, most, within=None)
    (project / "bad.md").write_bytes(b"one\ntwo \xff")
    with pytest.raises(FileFault) as fault:
        read_text_file(project / "bad.md", 200, within=None)
    assert fault.value.line == 2
    (tmp_path / "secret").write_text("key")
    (project / "link.md").symlink_to(tmp_path / "secret")
    assert read_text_file(project / "link.md", 200, within=None) == "key"
    with pytest.raises(FileFault):
        read_text_file(project / "link.md", 200, within=project)
