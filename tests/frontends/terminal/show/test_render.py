"""The renderer: events in, rows out, on a pipe, a file and a terminal."""

from __future__ import annotations

import io
import re

import pyte
import pytest
from prompt_toolkit.data_structures import Size
from rich.cells import cached_cell_len

from codelet import events
from codelet.call_record import CommandEnd
from codelet.frontends.terminal.show.bottom import Bottom
from codelet.frontends.terminal.show.console import OutputConsole
from codelet.frontends.terminal.show.diff_rows import diff_size, is_diff
from codelet.frontends.terminal.show.event_rows import call_title
from codelet.frontends.terminal.show.numbers import duration, tokens
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.usage import Usage

DIFF = "--- a/app.py\n+++ b/app.py\n@@ -10,3 +10,3 @@\n def f(a, b):\n-    return a - b\n+    return a + b\n \n"


class Screen:
    """A renderer on a terminal that pyte draws."""

    def __init__(self, columns: int = 80, rows: int = 30, **options: object) -> None:
        self.file = io.StringIO()
        self.console = OutputConsole(
            file=self.file,
            force_terminal=True,
            width=columns,
            height=rows,
            color_system="standard",
            _environ={"TERM": "xterm-256color", **dict(options.pop("env", {}))},
        )
        self.time = 100.0
        self.bottom = Bottom(self.file, lambda: Size(rows=rows, columns=columns))
        self.renderer = Renderer(self.console, clock=lambda: self.time, bottom=self.bottom, key="ctrl-o")
        self._screen = pyte.HistoryScreen(columns, rows, history=10_000)
        self._stream = pyte.Stream(self._screen)
        self._seen = 0

    @property
    def text(self) -> str:
        written = self.file.getvalue()
        self._stream.feed(written[self._seen :].replace("\n", "\r\n"))
        self._seen = len(written)
        past = ["".join(line[x].data for x in range(self._screen.columns)) for line in self._screen.history.top]
        return "\n".join(line.rstrip() for line in [*past, *self._screen.display]).rstrip()

    def show(self, *shown: events.Event) -> str:
        for event in shown:
            self.time += 0.1
            self.renderer.show(event)
        if self.renderer.has_waiting:
            self.renderer.tick()
        return self.text


def plain(*shown: events.Event, columns: int = 80) -> str:
    """The output to a pipe."""
    file = io.StringIO()
    renderer = Renderer(OutputConsole(file=file, width=columns), clock=lambda: 100.0)
    for event in shown:
        renderer.show(event)
    renderer.stop()
    return file.getvalue()


def result(name: str, text: str, status: events.ResultStatus = "done", **more: object) -> events.ToolResult:
    if name == "bash" and (code := re.search(r"\[(exit code|ended by signal) (\d+)\]", text)):
        more = {"ended": CommandEnd(code=int(code[2]) if "exit" in code[1] else -int(code[2])), **more}
    return events.ToolResult(id="1", name=name, status=status, text=text, **more)


def test_a_pipe_gets_plain_lines() -> None:
    out = plain(
        events.TurnStart(1, "m"),
        events.StepStart(1),
        events.Reasoning("Let me think.\nMore."),
        events.Text("# Title\n\nSome **bold**"),
        events.Text(" text"),
        events.ToolCallStarted(id="1", name="read", arguments={"path": "app.py", "offset": 3, "limit": 10}),
        result("read", "3\ta\n4\tb\n", counted="line"),
        events.TurnEnd("done", 1, Usage(total_input=1000, cache_read=800, cache_write=0, output=50)),
    )
    assert "\x1b" not in out
    assert "\r" not in out
    assert [line for line in out.split("\n") if line] == [
        "· thought: Let me think.",
        "Title",
        "Some bold text",
        "✓ read app.py:3-12 · 2 lines",
        "1 step · 1k in (800 cached) · 50 out",
    ]


def test_a_note_is_shown_whole() -> None:
    out = plain(
        events.TurnStart(1, "m"), events.StepStart(1), events.Note("it is asked not to reason " * 6), columns=40
    )
    assert out.count("reason") == 6


@pytest.mark.parametrize("columns", [20, 80, 200])
def test_nothing_is_wider_than_the_terminal(columns: int) -> None:
    long = "x" * 30 + " words and more words" * 30
    out = plain(
        events.TurnStart(1, long),
        events.Reminder("claudeMd", "added", 100),
        events.StepStart(1),
        events.Note(long),
        events.Retry(attempt=1, attempts=5, wait=3.0, reason=long),
        events.Reasoning(long),
        events.Text(long + "\n\n- " + long + "\n\n> " + long),
        events.ToolCallStarted(id="1", name="bash", arguments={"command": long}),
        result("bash", f"{long}\n{long}\n[exit code 1]", "failed"),
        result("edit", "edited", display=DIFF.replace("return", long)),
        result("bash", long, "refused"),
        events.Compaction(phase="starting", reason="hard", before=1000, after=1000),
        events.Compaction(phase="done", reason="hard", before=1000, after=10, lost=(long, long), note=long),
        events.Compaction(phase="stopped", reason="cost", before=10, after=10, note=long),
        events.Interrupted(done=("1",), half_done=("2",), not_done=("3",)),
        events.TurnEnd("failed", 1, Usage(total_input=1, cache_read=2, cache_write=3, output=4), long),
        columns=columns,
    )
    assert max(len(line) for line in out.split("\n")) <= columns


def test_what_comes_from_outside_is_cleaned_and_never_markup() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J[red]red[/red] \u202egnp.exe [link=http://x]y[/link]"
    screen = Screen()
    text = screen.show(
        events.TurnStart(1, evil),
        events.Reminder(evil, "added", 1),
        events.StepStart(1),
        events.Reasoning(evil),
        events.Text(evil[:3]),
        events.Text(evil[3:]),
        events.ToolCallStarted(id="1", name="bash", arguments={"command": evil}),
        events.ToolProgress("1", evil[:9]),
        events.ToolProgress("1", evil[9:]),
        result("bash", evil, "failed"),
        events.ToolCallStarted(id="1", name=evil, arguments={evil: evil}),
        result(evil, evil, display=DIFF.replace("return", evil)),
        events.ToolCallStarted(id="1", name="read", arguments=evil),
        events.Retry(attempt=1, attempts=2, wait=1.0, reason=evil),
        events.Compaction(phase="done", reason="asked", before=1, after=1, lost=(evil,), note=evil),
        events.UsageReport(usage=Usage(), context=1, window=2),
        events.Interrupted(done=("1",), half_done=(evil,), not_done=()),
        events.TurnEnd("failed", 1, Usage(), evil),
    )
    written = screen.file.getvalue()
    assert "owned" not in written
    assert "\x1b[2J" not in written
    assert "\u202e" not in written
    assert "]8;" not in written
    assert text.count("[red]red[/red]") >= 8
    assert set(re.findall(r"\x1b(?!\[[0-9;]*m|\[\?25[hl]|\[\?2026[hl]|\[\d*A|\[J)", written)) == set()


@pytest.mark.parametrize(("number", "told"), [(9, "SIGKILL"), (2, "SIGINT"), (50, "signal 50")])
def test_a_signal_is_told_by_its_name(number: int, told: str) -> None:
    out = plain(
        events.ToolCallStarted(id="1", name="bash", arguments={"command": "make"}),
        result("bash", f"[ended by signal {number}]", "failed"),
    )
    assert f"ended by {told}" in out
    assert "[ended by" not in out


def test_results_say_what_matters() -> None:
    output = "".join(f"line {n}\n" for n in range(20))
    out = plain(
        events.ToolCallStarted(id="1", name="bash", arguments={"command": "pytest -q"}),
        result("bash", f"{output}FAILED test_x\n[exit code 1]", "failed", seconds=1.24),
        events.ToolCallStarted(id="1", name="edit", arguments={"path": "app.py", "edits": []}),
        result("edit", "edited", display=DIFF),
        events.ToolCallStarted(id="1", name="grep", arguments={"pattern": "x"}),
        result("grep", "no matches", counted="line"),
        events.ToolCallStarted(id="1", name="grep", arguments={"pattern": "y"}),
        result("grep", "a:1:y\nb:2:y\n[more matches follow]", counted="line"),
        events.ToolCallStarted(id="1", name="list_tickets", arguments={"team": "web"}),
        result("list_tickets", "17\n23\n", counted="ticket"),
        events.ToolCallStarted(id="1", name="bash", arguments={"command": "rm -rf x"}),
        result(
            "bash",
            "refused by the user: not now. Do not repeat this call. Try another way, or ask what is wanted.",
            "refused",
        ),
    )
    assert out.rstrip().split("\n") == [
        "✗ bash pytest -q · exit 1 · 1.2 s",
        "  … 13 lines above",
        *[f"  line {n}" for n in range(13, 20)],
        "  FAILED test_x",
        "",
        "✓ edit app.py · +1 -1",
        "    10   def f(a, b):",
        "    11 -     return a - b",
        "    11 +     return a + b",
        "    12",
        "",
        "✓ grep x · no matches",
        "✓ grep y · 2 lines",
        "✓ list_tickets team=web · 2 tickets",
        "⊘ bash rm -rf x",
        "  refused by the user: not now",
    ]


def test_a_pipeline_with_a_failed_part_is_no_success() -> None:
    shown = [
        events.ToolCallStarted(id="1", name="bash", arguments={"command": "false | tail -3"}),
        result("bash", "[exit code 0]\n[pipeline exit codes: 1 0]", caveat="exit 1 | 0", seconds=0.1),
    ]
    assert plain(*shown).rstrip() == "! bash false | tail -3 · exit 1 | 0 · 0.1 s"
    screen = Screen()
    screen.show(*shown)
    assert "\x1b[33m! " in screen.file.getvalue() and "✓" not in screen.text


@pytest.mark.parametrize(
    ("output", "rows"),
    [
        ("", []),
        ("\n\n", []),
        ("one\n\ntwo\n", ["one", "two"]),
        ("\n\none\n", ["one"]),
        ("a\n\nb\nc\nd\n\n", ["… 2 lines above", "b", "c", "d"]),
        ("a\nb\n\nc\nd\n", ["… 1 line above", "b", "c", "d"]),
    ],
)
def test_only_lines_above_are_counted(output: str, rows: list[str]) -> None:
    out = plain(
        events.ToolCallStarted(id="1", name="bash", arguments={"command": "make"}),
        result("bash", f"{output}[exit code 0]"),
    )
    assert [line.strip() for line in out.rstrip().split("\n")] == ["✓ bash make", *rows]


def test_the_receipt_names_calls_and_continue() -> None:
    out = plain(
        events.ToolCallStarted(id="a", name="read", arguments={"path": "x.py"}),
        events.ToolCallStarted(id="b", name="bash", arguments={"command": "make test"}),
        events.ToolCallStarted(id="c", name="edit", arguments={"path": "y.py"}),
        events.ToolCallStarted(id="d", name="write", arguments={"path": "z.py"}),
        events.ToolCallStarted(id="e", name="bash", arguments={"command": "rm x"}),
        events.Interrupted(done=("a",), half_done=("b",), not_done=("c", "e"), failed=("d",), refused=("e",)),
    )
    lines = out.rstrip().split("\n")
    assert lines[0] == "■ stopped"
    assert lines[1].split(maxsplit=1) == ["done", "read x.py"]
    assert lines[2].split(maxsplit=1) == ["failed", "write z.py"]
    assert lines[3].split(" · ")[0].split(maxsplit=1) == ["interrupted", "bash make test"]
    assert "process was ended" in lines[4]
    assert lines[5].split(maxsplit=1) == ["refused", "bash rm x"]
    assert lines[6].split() == ["not", "started", "edit", "y.py"]
    assert '"continue"' in lines[7]
    assert len(lines) == 8


def test_what_continue_does_is_told_whole_on_a_narrow_screen() -> None:
    out = plain(events.Interrupted(done=(), half_done=(), not_done=("c",)), columns=40)
    *_, first, last = out.rstrip().split("\n")
    assert '"continue"' in first and last == "  prompt"


def test_the_receipt_keeps_the_end_of_what_a_call_wrote() -> None:
    out = plain(
        events.ToolCallStarted(id="b", name="bash", arguments={"command": "make"}),
        events.ToolProgress(id="b", delta="".join(f"line {n}\n" for n in range(9))),
        events.Interrupted(done=(), half_done=("b",), not_done=()),
    )
    rows = [row.strip() for row in out.rstrip().split("\n")]
    assert rows[1].startswith("interrupted")
    assert rows[2:-2] == [f"line {n}" for n in range(4, 9)]
    assert " after 0.0 s" in rows[-2] and "remain" in rows[-2]


def test_live_rows_are_replaced_not_repeated() -> None:
    screen = Screen()
    text = screen.show(events.TurnStart(1, "m"), events.StepStart(1))
    assert "waiting" in text
    screen.show(events.Text("Hello"))
    screen.time += 1
    screen.renderer.tick()
    assert "Hello" in screen.text
    assert "writing" in screen.text
    screen.show(events.Text(" world, this goes on\n\nNext"))
    screen.show(
        events.ToolCallStarted(id="1", name="bash", arguments={"command": "make"}),
        events.ToolProgress("1", "compiling\n"),
    )
    screen.time += 5
    screen.renderer.tick()
    assert "bash make" in screen.text
    assert "compiling" in screen.text
    text = screen.show(result("bash", "ok\n[exit code 0]"), events.TurnEnd("done", 1, Usage()))
    screen.renderer.stop()
    assert screen.text.count("Hello world, this goes on") == 1
    assert screen.text.count("make") == 1
    assert "writing" not in screen.text
    assert "waiting" not in screen.text


def test_a_progress_bar_is_one_row_that_grows() -> None:
    screen = Screen()
    screen.show(
        events.TurnStart(1, "m"),
        events.ToolCallStarted(id="1", name="bash", arguments={"command": "fetch"}),
        events.ToolProgress("1", "fetching\r\n"),
    )
    for share in (10, 20, 30, 40):
        screen.time += 1
        screen.show(events.ToolProgress("1", "\r\x1b[3"), events.ToolProgress("1", f"2m{share}% of it\x1b[0m\x1b[K"))
        screen.renderer.tick()
    frame = screen.text.rpartition("bash fetch")[2]
    assert [line.strip() for line in frame.split("\n") if line.strip()][1:] == ["fetching", "40% of it"]


def test_a_retry_counts_down() -> None:
    screen = Screen()
    screen.show(events.TurnStart(1, "m"), events.Retry(attempt=2, attempts=5, wait=9.0, reason="529 overloaded"))
    screen.time += 5
    screen.renderer.tick()
    assert "in 9.0 s" in screen.text
    assert "in 4.0 s" in screen.text
    assert "529 overloaded" in screen.text and "2 of 5" in screen.text


def test_a_long_failure_is_shown_whole_with_its_retry() -> None:
    screen = Screen()
    reason = "http://127.0.0.1:34737/v1 answered with status 503: down again"
    screen.show(events.TurnStart(1, "m"), events.Retry(attempt=2, attempts=5, wait=0.8, reason=reason))
    rows = [row.rstrip() for row in screen.text.splitlines()]
    at = next(at for at, row in enumerate(rows) if row.startswith(f"↻ {reason} · "))
    assert rows[at + 1].startswith("  ") and f"{rows[at]}{rows[at + 1][1:]}".endswith("try 2 of 5 in 0.8 s")


def test_reasoning_is_one_line_and_kept_for_whoever_asks() -> None:
    screen = Screen()
    thoughts = "First I look.\n\nThen " + "more " * 200
    text = screen.show(events.TurnStart(1, "m"), events.Reasoning(thoughts), events.Text("Answer.\n\n"))
    assert "First I look." in text
    assert "more" not in text
    part = screen.renderer.shown_parts.last()
    assert part is not None and part.text == thoughts


def test_nothing_of_what_was_forgotten_stays_in_the_memory_of_widths() -> None:
    screen = Screen()
    screen.show(events.TurnStart(1, "m"), events.Text("An answer.\n\n"), events.TurnEnd("done", 1, Usage()))
    assert cached_cell_len.cache_info().currsize > 0
    screen.renderer.shown_parts.forget()
    assert cached_cell_len.cache_info().currsize == 0 and screen.renderer.shown_parts.last() is None


def test_only_the_palette_of_the_terminal() -> None:
    screen = Screen()
    screen.show(
        events.Text("# T\n\n`x` **b**\n\n```python\ndef f():\n    return 'x' # c\n```\n\n"),
        result("edit", "x", display=DIFF),
        events.TurnEnd("failed", 1, Usage(), "no"),
    )
    codes = {code for found in re.findall(r"\x1b\[([0-9;]*)m", screen.file.getvalue()) for code in found.split(";")}
    assert codes <= {"", "0", "1", "2", "3", "4", "9", *map(str, range(31, 37))}
    assert codes & {"32", "35"}


def test_no_color_loses_no_meaning() -> None:
    screen = Screen(env={"NO_COLOR": "1"})
    text = screen.show(result("bash", "x\n[exit code 2]", "failed"), result("edit", "x", display=DIFF))
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", screen.file.getvalue())
    assert "✗ bash · exit 2" in text
    assert "11 -     return a - b" in text


def test_an_old_encoding_gets_plain_signs() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    renderer = Renderer(OutputConsole(file=file, width=80))
    renderer.show(result("bash", "x\n[exit code 0]"))
    renderer.show(events.Text("- a\n- [x] b\n\n> c\n"))
    renderer.show(events.Interrupted(done=(), half_done=("1",), not_done=()))
    file.flush()
    assert raw.getvalue().startswith(b"+ bash") and b"* a\nx b\n\n| c" in raw.getvalue()
    assert b"?" not in raw.getvalue()


def test_titles() -> None:
    assert call_title("read", {"path": "a.py"}) == "read a.py"
    assert call_title("read", {"path": "a.py", "offset": 10}) == "read a.py:10-"
    assert call_title("bash", {"command": "a\nb"}) == "bash a b"
    assert call_title("grep", {"pattern": "x y", "path": "src"}) == "grep x y in src"
    assert call_title("other", {"a": 1, "b": "c"}) == "other a=1 b=c"
    assert call_title("read", '{"path": ') == 'read {"path":'


def test_diffs_are_counted_as_they_are() -> None:
    tricky = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n"
    assert is_diff(tricky)
    assert not is_diff("- a list\n- of things\n")
    assert diff_size(tricky) == "+1 -1"


def test_numbers() -> None:
    assert [tokens(n) for n in (0, 999, 1000, 12_345, 99_949, 123_456, 999_499, 1_250_000)] == [
        "0", "999", "1k", "12.3k", "99.9k", "123k", "999k", "1.2M",
    ]  # fmt: skip
    assert [duration(s) for s in (0, 9.94, 9.96, 59.4, 59.6, 185, 3720)] == [
        "0.0 s", "9.9 s", "10 s", "59 s", "1 min 00 s", "3 min 05 s", "1 h 02 min",
    ]  # fmt: skip


def test_a_compaction_leaves_a_receipt() -> None:
    out = plain(
        events.Compaction(phase="starting", reason="hard", before=120_000, after=120_000),
        events.Compaction(
            phase="done",
            reason="hard",
            before=120_000,
            after=32_000,
            tier=2,
            kept_turns=3,
            anchors=("error fixed: x",),
            lost=("src/a.py",),
        ),
        events.Compaction(phase="stopped", reason="hard", before=10, after=10, note="nothing can shrink"),
    )
    begun, done, lost, commands, stopped = out.rstrip().split("\n")
    assert begun.startswith("· compacting 120k ") and "budget" in begun and "esc" in begun
    assert done.startswith("· compacted: ") and "120k → 32k" in done and "3 turns" in done
    assert lost == "  1 detail dropped from context: src/a.py"
    assert commands == "  /compact undo · /compact why"
    assert stopped == "✗ not compacted: nothing can shrink"


def test_the_receipt_of_a_reduction_and_of_what_was_taken_back() -> None:
    anchors = tuple(f"decision: number {n}" for n in range(7))
    out = plain(
        events.Compaction(
            phase="done",
            reason="hard",
            before=46_400,
            after=27_400,
            tier=1,
            kept_turns=9,
            anchors=anchors,
            reduced=13,
            lost=("src/a.py",),
        ),
        events.Compaction(
            phase="done", reason="hard", before=46_400, after=27_400, tier=2, kept_turns=9, anchors=anchors, segments=1
        ),
        events.Compaction(phase="undone", reason="asked", before=27_400, after=46_400, note="compaction"),
        events.Compaction(phase="undone", reason="asked", before=27_400, after=27_500, note="drop"),
    )
    receipts = [" ".join(receipt.split()) for receipt in re.split(r"^· ", out, flags=re.MULTILINE)[1:]]
    reduced, summarized, compaction, drop = receipts
    for receipt in (reduced, summarized):
        assert receipt.startswith("compacted: ") and receipt.endswith(" /compact undo · /compact why")
        assert "46.4k → 27.4k" in receipt and "9 turns" in receipt
        assert (receipt is reduced) == ("13 new messages" in receipt) == ("src/a.py" in receipt)
        assert (receipt is summarized) == ("summarized" in receipt)
    assert compaction.startswith("undid the compaction") and "27.4k → 46.4k" in compaction
    assert drop.startswith("undid the drop") and "27.4k → 27.5k" in drop


def test_what_comes_within_a_frame_is_drawn_once() -> None:
    screen = Screen()
    screen.show(events.TurnStart(1, "m"), events.StepStart(1))
    before = screen.file.getvalue().count("\x1b[?2026h")
    words = [f"word{number} " + "\n\n" * (number % 20 == 19) for number in range(400)]
    for word in words:
        screen.time += 0.001
        screen.renderer.show(events.Text(word))
    screen.renderer.tick()
    assert screen.file.getvalue().count("\x1b[?2026h") - before == 1
    screen.renderer.stop()
    assert re.findall(r"word\d+", screen.text) == [word.strip() for word in words]


def test_reasoning_streams_and_folds() -> None:
    screen = Screen(columns=60)
    screen.show(events.TurnStart(1, "m"), events.StepStart(1))
    thoughts = [f"Thought number {number} takes a row of its own.\n" for number in range(8)]
    live = screen.show(*(events.Reasoning(thought) for thought in thoughts))
    assert "thinking" in live and "Thought number 7" in live and "Thought number 5" in live
    assert "Thought number 3" not in live, "the newest rows only"
    folded = screen.show(events.Text("The answer."))
    assert "Thought number 0 takes a row" in folded and "(ctrl-o)" in folded
    assert "Thought number 7" not in folded
    screen.renderer.stop()
    rows, place = screen.renderer.shown_parts.rows(60)
    assert "Thought number 7" in "\n".join(row.plain for row in rows[place:])


def test_a_request_that_fails_as_before_does_not_repeat_why() -> None:
    screen = Screen()
    busy = [events.Retry(attempt=number, attempts=5, wait=1.0, reason="the engine is overloaded") for number in (2, 3)]
    text = screen.show(events.TurnStart(1, "m"), *busy, events.Note("other goes on"), busy[0], events.Text("Hello"))
    told = [line for line in text.split("\n") if line.startswith("↻")]
    assert [line.partition(" · ")[0] for line in told] == [
        "↻ the engine is overloaded",
        "↻ the engine is overloaded",
    ], "another model's failure is not the same"
    assert "try 3 of 5" not in text


def test_each_request_has_its_own_waiting_time() -> None:
    screen = Screen()
    screen.show(events.TurnStart(1, "m"), events.StepStart(1))
    screen.time += 5
    read = events.ToolCallStarted(id="a", name="read", arguments={"path": "x.py"})
    screen.show(read)
    screen.time += 60
    screen.show(events.ToolResult(id="a", name="read", status="done", text="x", seconds=60), events.StepStart(2))
    screen.time += 2
    screen.renderer.tick()
    assert re.search(r"waiting .*· 2\.0 s", screen.text), "neither the call nor the question before it was waiting"


def test_a_stall_is_told_once_an_answer_has_begun() -> None:
    screen = Screen()
    screen.show(events.TurnStart(1, "m"), events.StepStart(1))
    screen.time += 13
    screen.renderer.tick()
    assert re.search(r"waiting .*· 13 s", screen.text)
    screen.show(events.Text("It begins"))
    screen.time += 13
    screen.renderer.tick()
    assert re.search(r"writing · no data .*13 s", screen.text)
    screen.show(events.Text(" and goes on"))
    screen.renderer.tick()
    assert "no data" not in screen.text


def test_what_comes_while_another_program_has_the_screen_is_drawn_afterwards() -> None:
    screen = Screen()
    screen.show(events.TurnStart(1, "m"), events.StepStart(1), events.Text("Before."))
    screen.bottom.hold(True)
    written = len(screen.file.getvalue())
    screen.show(events.Text(" Meanwhile.\n\n"), events.Retry(attempt=1, attempts=2, wait=1.0, reason="busy"))
    screen.renderer.tick()
    assert len(screen.file.getvalue()) == written
    screen.bottom.hold(False)
    assert "Before. Meanwhile." in screen.text and "busy" in screen.text


def test_how_a_command_ended_is_no_matter_of_what_it_printed() -> None:
    forged = "[exit code 3]\n[timed out after 9 s; it and all its processes were ended]"
    out = plain(result("bash", forged, "failed", seconds=9.0, ended=CommandEnd(code=None)))
    assert "exit 3" not in out.splitlines()[0] and "9.0 s" in out.splitlines()[0]
    assert "exit 4" in plain(result("bash", "[exit code 3]", "failed", ended=CommandEnd(code=4))).splitlines()[0]
