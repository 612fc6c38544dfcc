"""`codelet sessions …`: look at, search and clear away the exports in a folder or a Redis database.

Nothing but what the user asked for is written or removed. A session in use, and a file that is no export, stays.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NotRequired, TypedDict

from codelet.frontends.commands.number_arguments import positive
from codelet.system.text import clean, one_line

if TYPE_CHECKING:
    from codelet.export.document import Document
    from codelet.export.stores.store import Store, StoredExport

_WIDTH = 200
_PROMPT_WIDTH = 60


def add_arguments(sessions: argparse.ArgumentParser) -> None:
    """Add what `codelet sessions` takes to its parser."""
    actions = sessions.add_subparsers(dest="sessions_command", metavar="list|show|delete|prune|search", required=True)
    listing = _action(actions, "list", "list sessions, newest first", default=".")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    show = _action(actions, "show", "print one session's conversation")
    show.add_argument("name", metavar="NAME", nargs="?", help="not needed if the first argument names the session")
    show.add_argument("--last", type=positive, metavar="N", help="only the last N messages")
    show.add_argument("--all", action="store_true", help="reminders, too")
    delete = _action(actions, "delete", "remove sessions by name")
    delete.add_argument("names", nargs="+", metavar="NAME")
    delete.add_argument("--force", action="store_true", help="even a file that is not an export")
    prune = _action(actions, "prune", "remove old sessions")
    prune.add_argument("--older-than", metavar="TIME", help="not saved for this long, such as 12h or 30d")
    prune.add_argument("--keep", type=positive, metavar="N", help="all but the N newest")
    prune.add_argument("--dry-run", action="store_true", help="only say what would go")
    search = _action(actions, "search", "search sessions, by words and by meaning")
    search.add_argument("words", nargs="+", metavar="WORD", help='all must occur; a "quoted phrase" verbatim')
    search.add_argument("--most", type=positive, default=50, metavar="N", help="at most N places (50)")


def run_sessions(options: argparse.Namespace) -> int:
    """Run one of the commands; return the exit status. Raises ExportError."""
    from codelet.export.store_target import open_place, open_target

    if options.sessions_command == "show" and options.name is None:
        target = open_target(options.place)
        return _show(target.store, _known(target.store, target.name), options)
    store = open_place(options.place)
    match options.sessions_command:
        case "list":
            return _list(store, as_json=options.json)
        case "show":
            return _show(store, _known(store, options.name), options)
        case "delete":
            return _delete(store, options.names, force=options.force)
        case "prune":
            return _prune(store, options)
        case _:
            return _search(options.place, " ".join(options.words), options.most)


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, default: str | None = None
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=text)
    note = "a folder, or redis://host[:port][/database]" + (" (the current folder)" if default else "")
    parser.add_argument("place", metavar="DIR|URL", nargs="?" if default else None, default=default, help=note)
    return parser


def _say(line: str) -> None:
    print(one_line(line, _WIDTH))


def _note(line: str) -> None:
    print(f"codelet: {one_line(line, _WIDTH)}", file=sys.stderr)


def _read(store: Store, name: str) -> Document:
    from codelet.errors import ExportError
    from codelet.export.decode import from_json

    stored = store.load(name)
    if stored is None:
        raise ExportError(f"{store.shown(name)}: no such session")
    return from_json(stored.data, store.shown(name))


class _Row(TypedDict):
    """A line of `sessions list`; `problem` says why a file is not an export."""

    name: str
    saved: float | None
    bytes: int | None
    held: str | None
    messages: NotRequired[int]
    tokens: NotRequired[int]
    model: NotRequired[str | None]
    prompt: NotRequired[str]
    problem: NotRequired[str]


def _list(store: Store, *, as_json: bool) -> int:
    import json

    for entry in store.entries():
        row = _row(store, entry)
        print(json.dumps(row) if as_json else _line(row))
    return 0


def _row(store: Store, entry: StoredExport) -> _Row:
    from codelet.errors import UsageError

    row: _Row = {"name": entry.name, "saved": entry.saved, "bytes": entry.size, "held": entry.holder}
    if entry.problem:
        return {**row, "saved": None, "bytes": None, "problem": entry.problem}
    try:
        document = _read(store, entry.name)
    except UsageError as error:
        return {**row, "problem": str(error).removeprefix(store.shown(entry.name) + ": ")}
    prompt, count = first_prompt(document), len(document.messages)
    return {**row, "messages": count, "tokens": document.token_count, "model": document.model, "prompt": prompt}


def _line(row: _Row) -> str:
    import time

    saved, size = row["saved"], row["bytes"]
    when = f"{'time unknown':16}" if saved is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(saved))
    start = f"{when}  {'?' if size is None else _size(size):>8}  {one_line(row['name'], 80)}"
    if "problem" in row:
        return f"{start}  (not an export: {one_line(row['problem'], _WIDTH)})"
    held = f", in use by {one_line(row['held'], 80)}" if row["held"] else ""
    return f"{start}  ({row['messages']} messages{held})  {one_line(row['prompt'], _PROMPT_WIDTH)}"


def _size(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.0f} KiB" if count < 1024 * 1024 else f"{count / 1024 / 1024:.1f} MiB"


def first_prompt(snapshot: Document) -> str:
    """Return the beginning of the user's first prompt."""
    from codelet.messages import kind_of

    for message in snapshot.messages:
        if kind_of(message) in ("prompt", "segment"):
            return " ".join((message["content"] or "")[:1000].split())
    return ""


def _known(store: Store, name: str) -> str:
    """The name as the store knows it: a file's ending may be left out."""
    full = f"{name}.json"
    return full if store.revision(name) is None and store.revision(full) is not None else name


def _show(store: Store, name: str, options: argparse.Namespace) -> int:
    from codelet.messages import kind_of

    snapshot = _read(store, name)
    listed = [(n, m) for n, m in enumerate(snapshot.messages) if options.all or kind_of(m) != "reminder"]
    left_out = len(snapshot.messages) - len(listed)
    beside = f" ({left_out} of them reminders, which --all shows)" if left_out else ""
    count = f"{len(snapshot.messages)} messages{beside}"
    _say(f"{name}: {count}, {snapshot.token_count} tokens, {snapshot.model or 'no model'}")
    for fact in snapshot.facts:
        _say(f"fact: {fact}")
    for number, message in listed[-options.last :] if options.last else listed:
        # A search names messages by the same number.
        heading = f"{number} {message['role']} {message.get('tool_call_id', '')}"
        print(f"\n── {one_line(heading, 80)}")
        if message["content"]:
            print(clean(message["content"]))
        for call in message.get("tool_calls", ()):
            print(clean(f"→ {call['function']['name']} {call['function']['arguments']}"))
    return 0


def _delete(store: Store, names: list[str], *, force: bool) -> int:
    for given in names:
        name = _known(store, given)
        if not force:
            _read(store, name)
        store.delete(name)
        _say(f"deleted {store.shown(name)}")
    return 0


def _prune(store: Store, options: argparse.Namespace) -> int:
    from codelet.errors import UsageError

    if options.older_than is None and options.keep is None:
        raise UsageError("prune needs --older-than or --keep")
    for entry in _old(store.entries(), options):
        if entry.problem:
            _note(f"kept: {store.shown(entry.name)}: {entry.problem}")
            continue
        try:
            _read(store, entry.name)
            if entry.holder is not None:
                raise UsageError(f"{store.shown(entry.name)} is in use by {entry.holder}")
            if not options.dry_run:
                store.delete(entry.name)
        except UsageError as error:
            _note(f"kept: {error}")
        else:
            _say(f"{'would delete' if options.dry_run else 'deleted'} {store.shown(entry.name)}")
    return 0


def _old(entries: list[StoredExport], options: argparse.Namespace) -> list[StoredExport]:
    """The entries to remove: those that meet both conditions, if two are given."""
    import time

    from codelet.export.store_target import seconds

    old = entries[options.keep :] if options.keep is not None else entries
    if options.older_than is not None:
        limit = time.time() - seconds(options.older_than)
        old = [entry for entry in old if entry.saved < limit]
    return old


def _search(place: str, words: str, most: int) -> int:
    from codelet.export.search import BEGIN, END, SessionSearch
    from codelet.settings import current_folder, load_settings

    model = load_settings({}, workspace=current_folder()).file_of("facts_model")
    search = SessionSearch(place, raw=True, model=model, most_sessions=sys.maxsize)
    hits = search.passages(words, most)
    for problem in search.passed_over:
        _note(f"passed over: {problem}")
    bold, plain = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    for hit in hits:
        # The marks are control characters, which cleaning would take out with the rest.
        marked = hit.excerpt.replace(END, BEGIN).split(BEGIN)  # every second piece is a match
        pieces = [one_line(f"|{piece}|", _WIDTH)[1:-1] for piece in marked]
        excerpt = "".join(f"{bold}{piece}{plain}" if number % 2 else piece for number, piece in enumerate(pieces))
        near = " (by meaning)" if hit.by_meaning else ""
        print(f"{one_line(hit.session, 80)}: {one_line(hit.place, 80)}{near}: {excerpt}")
    if not hits:
        _note("nothing found")
    return 0
