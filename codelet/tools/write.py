"""The tool `write`: a whole file."""

from __future__ import annotations

from codelet.errors import ToolError
from codelet.tools import encoding, files
from codelet.tools.change import MOST_BYTES, Change, with_line_ends_of
from codelet.tools.tool import Progress, ToolContext, ToolOutput


async def write(context: ToolContext, progress: Progress, *, path: str, content: str) -> ToolOutput:
    """Create a file, or replace one that you have read. Makes missing folders."""
    change = plan_write(context, path, content)
    diff = change.diff()
    change.make(context)
    lines = content.count("\n") + (not content.endswith("\n") and bool(content))
    verb = "created" if change.expected is None else "replaced"
    return ToolOutput(f"{verb} {change.name}: {lines} lines{change.note}", display=diff or None)


def plan_write(context: ToolContext, path: str, content: str) -> Change:
    """What `write` would do, without doing it. Raises ToolError."""
    encoding.must_be_text(content, "the content")
    resolved = files.resolve(context, path)
    name = files.shown(context, resolved)
    expected = context.seen.get(resolved)
    try:
        status = resolved.lstat()
    except FileNotFoundError:
        return Change(resolved, name, None, content, encoding.Format(), None, "")
    except OSError as error:
        raise files.failure(error, name) from error
    files.must_be_current(resolved, name, expected)
    if status.st_size > MOST_BYTES:
        return Change(resolved, name, None, content, encoding.Format(), expected, "")
    data, current = files.read_whole(resolved, name, MOST_BYTES)
    if current != expected:
        raise ToolError(f"{name} changed since it was read: read it again, then repeat the call")
    old = encoding.decode(data)
    if old is None:
        return Change(resolved, name, None, content, encoding.Format(), expected, "")
    before, form = old
    after = with_line_ends_of(content, before)
    kept = [form.codec] if form.bom or form.codec != "utf-8" else []
    kept += ["CRLF line ends"] if after != content else []
    note = f" ({' and '.join(kept)} kept)" if kept else ""
    return Change(resolved, name, before, after, form, expected, note)
