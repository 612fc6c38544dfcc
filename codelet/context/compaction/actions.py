"""What a tool call does, told from its name and arguments: which file, which command, read or write."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from codelet.context.compaction.edits import shows_edit, texts_in, without_removed
from codelet.messages import call_arguments, call_name

# Names of arguments, in small letters and without what joins their words: `filePath` and `file_path` are one.
_PATH_KEYS = (
    "path", "filepath", "filename", "file", "notebookpath", "targetfile", "absolutepath", "relativepath",
)  # fmt: skip
_COMMAND_KEYS = ("command", "cmd", "script", "commandline")
_FROM_KEYS = ("source", "sourcepath", "oldpath", "src", "from", "path", "filepath")
_TO_KEYS = ("destination", "destinationpath", "newpath", "dest", "dst", "to", "targetpath", "target")
# How long a command may run and the like, which says nothing of what it did.
_RUNNING_KEYS = ("timeout", "timeoutms", "timeoutseconds", "yieldtimems", "maxoutputtokens", "login")
_OTHER_KEYS = ("pattern", "query", "url", "name", "prompt", "description")
_WRITERS = frozenset({"write", "edit", "create", "apply_patch", "multiedit", "multi_edit", "patch", "insert"})
_WRITING = ("write", "edit", "create", "replace", "insert", "patch")
READERS = frozenset({"read", "open", "cat", "view", "read_file", "open_file", "goto", "get_file"})
LABEL_LENGTH = 110
_WHOLE_WRITES = ("write", "create")
# What a writer is told beside the text: why it writes, and how often it may find the old text.
_REASONS = ("instruction", "instructions", "explanation", "reason", "description", "expectedreplacements", "replaceall")


# A tool with one name for several actions says here that it only looks.
_LOOKS = frozenset({"view", "read", "open"})
# … and here that it takes back its last edit of a file.
_UNDOES = frozenset({"undo_edit", "undo"})
_DELETERS = frozenset({"deletefile", "removefile"})
_MOVERS = frozenset({"movefile", "renamefile"})
# A command that applies a patch in its own text.
_PATCHES = re.compile(r"\b(?:apply_patch|git apply|patch)\b")
# Where the patch in such a command begins: what stands before it is no line of a file.
_PATCH_BEGINS = re.compile(r"\*\*\* Begin Patch|^(?:diff --git |--- \S|Index: |@@)", re.MULTILINE)
_QUOTED_PATH = re.compile(r"`[\w@~.+-]*[/.][\w@~./+-]*`")
_TELLS_FILE = re.compile(r"(?:The file|File created successfully at:) ([^\s`'\"]*/[^\s`'\"]+)")
# The folder that a command goes to first; its heading has room for the rest of the command beside it.
_IN_FOLDER = re.compile(r"\s*cd (/[^\s;&|\"'$`\]]{1,120})[ \t]*(&&|;|\n)\s*(?=\S)")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})


@dataclass(frozen=True)
class Edit:
    """One step of a call: `text` is what it says or adds, `removed` pairs of a file ("" if unknown) and lines."""

    text: str
    removed: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Action:
    """What a tool call does. `kind` is read, write, command or other; `subject` its file, command or main argument.

    `edits` are its other arguments in order, with real line ends and without their names. `written` and `deleted`
    are the files that a write changes and deletes; `whole` says that nothing of the file's old content is left,
    `undoes` that it takes back the last edit of its file, `moves` that what it deletes stands elsewhere now.
    """

    call_id: str
    name: str
    kind: str
    subject: str
    edits: tuple[Edit, ...] = ()
    written: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    whole: bool = False
    undoes: bool = False
    moves: bool = False

    @property
    def gone(self) -> tuple[str, ...]:
        """The files that it deletes and that stand nowhere else now."""
        return () if self.moves else self.deleted

    @property
    def values(self) -> tuple[str, ...]:
        """What the call says or adds, apart from its subject."""
        return tuple(edit.text for edit in self.edits if edit.text)


def action_of(call: Mapping[str, Any]) -> Action:
    """Return what a call does. Arguments that do not parse count as one value."""
    name, raw = call_name(call), call_arguments(call)
    call_id = str(call.get("id"))
    try:
        parsed = json.loads(raw) if raw else {}
    except (ValueError, RecursionError):
        parsed = raw
    if not isinstance(parsed, dict):
        kind = _kind(name, isinstance(parsed, str) and shows_edit(parsed))
        return _write(call_id, name, "", parsed) if kind == "write" else Action(call_id, name, kind, "", (Edit(raw),))
    path = _first(parsed, _PATH_KEYS) or _quoted_path(parsed)
    command = _first(parsed, _COMMAND_KEYS) or _listed(parsed)
    if (done := _of_whole_file(call_id, name, parsed, path, command)) is not None:
        return done
    subject = path or command or _first(parsed, _OTHER_KEYS)
    rest = {key: value for key, value in parsed.items() if value is not None and _unquoted(value) != subject}
    patches = any(isinstance(value, str) and shows_edit(value) for value in rest.values())
    kind = "command" if command and not path else _kind(name, bool(path) or patches)
    if path and command in _LOOKS:
        kind = "read"
    if path and kind in ("read", "write"):
        rest.pop("command", None)  # it says what the tool is to do, and is no text of the file
    if path and kind == "write":
        rest = {key: value for key, value in rest.items() if _plain(key) not in _REASONS}
    if kind == "command" and shows_edit(command) and _PATCHES.search(command):
        begins = _PATCH_BEGINS.search(command)
        return _write(call_id, name, "", [command[begins.start() :] if begins else command])
    if kind == "write":
        return _write(call_id, name, subject if path else "", rest, whole=command in _WHOLE_WRITES)
    if kind == "command":
        rest = {key: value for key, value in rest.items() if _plain(key) not in (*_COMMAND_KEYS, *_RUNNING_KEYS)}
    edits = tuple(Edit(text) for _, text in texts_in(rest) if text and text != subject)
    return Action(call_id, name, kind, subject, edits)


def _of_whole_file(call_id: str, name: str, parsed: dict[str, Any], path: str, command: str) -> Action | None:
    """A call that moves or deletes a file, or takes back what was done to it; None for any other."""
    plain = _plain(name)
    if plain in _MOVERS:
        old, new = _first(parsed, _FROM_KEYS), _first(parsed, _TO_KEYS)
        return Action(call_id, name, "write", new, written=(new,), deleted=(old,), moves=True) if old and new else None
    if not path or "\n" in path:
        return None
    if plain in _DELETERS:
        return Action(call_id, name, "write", path, deleted=(path,))
    return Action(call_id, name, "write", path, written=(path,), undoes=True) if command in _UNDOES else None


def _write(call_id: str, name: str, path: str, rest: object, *, whole: bool = False) -> Action:
    """A call that edits files: the one at `path`, and those that patches in its arguments name."""
    edits: list[Edit] = []
    written, deleted = [path] if path and "\n" not in path else [], []
    for old, text in texts_in(rest):
        if old:
            edits.append(Edit("", ((path, tuple(text.split("\n"))),)))
        elif text and shows_edit(text):
            own = without_removed(text)
            edits.append(Edit(own.text, tuple((file or path, tuple(lines)) for file, lines in own.removed)))
            written += own.written
            deleted += own.deleted
        elif text:
            edits.append(Edit(text))
    gone = dict.fromkeys(file for file in deleted if file not in written)
    stays = dict.fromkeys(file for file in written if file not in gone)
    whole = (whole or name.lower().startswith(_WHOLE_WRITES)) and not any(edit.removed for edit in edits)
    subject = path or next(iter([*stays, *gone]), "")
    return Action(call_id, name, "write", subject, tuple(edits), tuple(stays), tuple(gone), whole)


def _listed(parsed: dict[str, Any]) -> str:
    """A command given as a list of words, as one line: what a shell is told to run, or else the words themselves."""
    words: list[object] = next((parsed[key] for key in _COMMAND_KEYS if isinstance(parsed.get(key), list)), [])
    told = [word for word in words if isinstance(word, str)]
    if len(told) < len(words):
        return ""
    if len(told) == 3 and told[0].rpartition("/")[2] in _SHELLS and told[1] in ("-c", "-lc"):
        return told[2]
    return shlex.join(told)


def with_file_of(action: Action, answer: str) -> Action:
    """The same write with the file that its answer names, where the call itself names none."""
    told = _TELLS_FILE.match(answer) if action.kind == "write" and not action.subject else None
    return replace(action, subject=told.group(1), written=(told.group(1),)) if told else action


def _quoted_path(parsed: dict[str, Any]) -> str:
    """The path that is all there is of the arguments, as transcripts show it: `src/a.py`."""
    value = next(iter(parsed.values())) if len(parsed) == 1 else None
    return value.strip().strip("`") if isinstance(value, str) and _QUOTED_PATH.fullmatch(value.strip()) else ""


def _unquoted(value: object) -> object:
    return value.strip().strip("`") if isinstance(value, str) and value.startswith("`") else value


def _first(parsed: dict[str, Any], keys: tuple[str, ...]) -> str:
    named = {_plain(key): value for key, value in parsed.items() if isinstance(value, str) and value}
    return next((named[key] for key in keys if key in named), "")


def _plain(name: str) -> str:
    """A name in small letters and without what joins its words."""
    return name.lower().replace("_", "").replace("-", "")


def _kind(name: str, has_path: bool) -> str:
    low = name.lower()
    if low in _WRITERS or (has_path and any(word in low for word in _WRITING)):
        return "write"
    if low in READERS or (has_path and ("read" in low or "view" in low or "open" in low)):
        return "read"
    return "other"


def is_writer(name: str) -> bool:
    """Whether a tool of that name edits files."""
    return _kind(name, True) == "write"


def label_of(action: Action) -> str:
    """A short line that names the call: its name and the head of its subject."""
    folder = _IN_FOLDER.match(action.subject)
    start = folder.end() if folder else 0
    subject = " ".join(action.subject[start : start + 2 * LABEL_LENGTH].split())
    if len(subject) > LABEL_LENGTH:
        subject = subject[: LABEL_LENGTH - 1] + "…"
    if folder:
        subject = f"cd {folder[1]}{' && ' if '&' in folder[2] else '; '}{subject}"
    return f"{action.name} {subject}".strip().replace("]", ")")
