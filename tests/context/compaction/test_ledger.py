"""What the ledger of a summary says of files, errors, runs and anchors, over several summaries and in little room."""

from __future__ import annotations

from itertools import count

import pytest

from codelet.context.compaction import compact
from codelet.context.compaction.history import History, outcome_line
from codelet.context.compaction.ledger import Ledger, NewLines, OpenError
from codelet.context.compaction.parsing import normalise, parse_messages
from codelet.context.compaction.score import TurnAnchor
from tests.context.compaction.lists import Message, calling, coding_session, result, says, segments_of, user

DONE = "[exit code 0]"
_numbers = count()


def call(name: str, answer: str, **arguments: str) -> list[Message]:
    number = f"c{next(_numbers)}"
    return [calling((number, name, arguments)), result(number, answer)]


def ran(line: str, output: str = DONE) -> list[Message]:
    return call("bash", output, command=line)


def wrote(path: str, answer: str = "edited: 1 replacement") -> list[Message]:
    return call("edit", answer, path=path, old="1", new="2")


def looked(path: str, answer: str = "x = 1") -> list[Message]:
    return call("read", answer, path=path)


def after(*turns: list[Message], ledger: Ledger | None = None) -> Ledger:
    """The ledger after some turns."""
    found = ledger or Ledger()
    readings = parse_messages(normalise([m for turn in turns for m in [user("go on"), *turn]]).messages)
    found.take_in(list(enumerate(readings)), History(readings), [])
    return found


def earlier(*lines: str) -> Ledger:
    """The ledger that earlier summaries left, given its lines in the order in which they were written."""
    found = Ledger()
    found.carry_on([(key, text) for key, _, text in (line.partition(": ") for line in lines)])
    return found


def test_what_is_carried_on_is_the_newest_that_was_said_of_each_file():
    found = earlier(
        "changed: src/a.py (t2), src/b.py (t3)",
        "read: src/c.py (t1), src/b.py (t1)",
        "deleted: src/d.py (t4)",
        "changed: src/d.py (t6), src/b.py (t5)",
        "deleted: src/a.py (t7)",
        "read: src/c.py (t5)",
    )
    assert found.changed == {"src/b.py": 5, "src/d.py": 6}
    assert found.deleted == {"src/a.py": 7}
    assert found.read == {"src/c.py": 5, "src/b.py": 1}
    assert earlier("changed: src/a.py (t9)", "changed: src/a.py (t4)").changed == {"src/a.py": 9}


def test_errors_statuses_anchors_and_the_narrative_are_carried_on_once_each():
    lines = (
        "open error: t3 ValueError: x [pytest -q]",
        "status: tests failed (t3): pytest -q",
        "anchor: t2 decision: keep it",
        "narrative: The start.",
    )
    found = earlier(
        *lines, *lines[1:], "open error: nobody can read this", "status: nor this", "ran: tests passed (t1): make"
    )
    assert [error.text for error in found.errors] == ["t3 ValueError: x [pytest -q]"]
    assert found.status == {"pytest -q": "tests failed (t3): pytest -q"}
    assert (found.anchors, found.narrative) == (["t2 decision: keep it"], ["The start."])
    assert found.lines(1_000) == [tuple(line.split(": ", 1)) for line in lines[:3]]
    assert found.told(1_000) == [("narrative", "The start.")]


@pytest.mark.parametrize("text", ["t3 boom [pytest -q ;; make]", "t3 boom", "t12 a [b] c [make; ran again, how it "])
def test_an_open_error_is_read_back_as_it_was_written(text: str):
    read = OpenError.read(text)
    assert read is not None and read.text == text


def test_an_error_is_open_until_all_that_it_may_come_from_has_passed():
    both = OpenError(1, "boom", ("pytest a.py", "make"), place=2)

    def then(*runs: tuple[str, str]) -> OpenError | None:
        messages = [user("x"), says("y"), user("z")]
        for line, output in runs:
            messages += ran(line, output)
        return both.after(History(parse_messages(messages)).executions)

    assert then() == both
    assert then(("pytest a.py", "1 passed\n[exit code 0]")) == both
    settled = then(("pytest a.py", "1 passed\n[exit code 0]"), ("make", DONE))
    assert settled is not None and settled.settled == "make (t2)", "by the last of them"
    failed_again = ("pytest a.py", "1 failed\n[exit code 1]")
    assert then(("pytest a.py", "1 passed\n[exit code 0]"), failed_again, ("make", DONE)) == both
    unknown = then(("pytest a.py | tail", "1 passed\n[exit code 0]"))
    assert unknown is not None and unknown.again and unknown.origins == both.origins
    passed = History(parse_messages([user("x"), *ran("make"), *ran("pytest", "1 passed\n[exit code 0]")])).executions
    assert OpenError(1, "boom", ("make",), place=2).after(passed) is not None, "it passed before"
    assert OpenError(1, "boom", ()).after(()) == OpenError(1, "boom", ())


def test_a_file_is_where_the_last_call_left_it():
    assert after(looked("a.py"), wrote("b.py")).read == {"a.py": 1}
    assert after(looked("")).read == {}
    assert after(looked("a.py", "no such file: a.py")).read == {}
    assert after(wrote("a.py", "the old text does not occur")).changed == {}
    assert after(wrote("a.py"), looked("c.py"), wrote("a.py")).changed == {"a.py": 3}
    gone = after(wrote("a.py"), looked("b.py"), ran("rm a.py b.py c.py"))
    assert (gone.changed, gone.read, gone.deleted) == ({}, {}, {"a.py": 3, "b.py": 3, "c.py": 3})
    assert after(ran("rm build/*.o")).deleted == {}, "which files these were nobody knows"
    assert after(ran("rm a.py"), looked("a.py")).deleted == {}, "it is there again"
    assert after(ran("rm a.py"), wrote("a.py")).deleted == {}
    assert after(ran("rm src/a.py b.py"), looked("./src/a.py")).deleted == {"b.py": 1}


def test_what_is_taken_back_is_not_changed_unless_it_was_committed():
    assert after(wrote("a.py"), wrote("b.py"), ran("git checkout -- a.py")).changed == {"b.py": 2}
    assert after(wrote("a.py"), wrote("b.py"), ran("git reset --hard")).changed == {}
    committed = after(wrote("a.py"), ran("git commit -am x"), wrote("b.py"), ran("git reset --hard"))
    assert committed.changed == {"a.py": 1}


def test_a_run_before_the_last_change_is_told_to_be_so():
    passed, failed = "1 passed\n[exit code 0]", "1 failed\n[exit code 1]"
    assert after(wrote("a.py"), ran("pytest", passed)).status == {"pytest": "tests passed (t2): pytest"}
    since = after(ran("pytest", passed), ran("ruff check .", failed), ran("rm a.py")).status
    assert next(iter(since.values())) == "tests passed (t1, files changed since): pytest"
    assert after(ran("pytest a.py", failed), ran("pytest", passed)).status == {"pytest": "tests passed (t2): pytest"}
    assert after(ran("pytest", passed), ran("pytest | tail", passed)).status == {}
    assert after(ran("pytest", failed), wrote("a.py")).status == {
        "pytest": "tests failed (t1, files changed since): pytest"
    }
    old = earlier("status: tests passed (t1): pytest", "status: build failed (t1): make")
    assert list(after(wrote("a.py"), ledger=old).status.values()) == [
        "tests passed (t1, files changed since): pytest",
        "build failed (t1, files changed since): make",
    ]
    old = earlier("status: tests passed (t1, files changed since): pytest")
    assert list(after(wrote("a.py"), ledger=old).status.values()) == ["tests passed (t1, files changed since): pytest"]
    old = earlier("status: tests passed (t1): pytest -k 'a or (b): c'")
    assert list(after(wrote("a.py"), ledger=old).status.values()) == [
        "tests passed (t1, files changed since): pytest -k 'a or (b): c'"
    ]
    assert list(
        after(looked("a.py"), ran("ls"), ledger=earlier("status: tests passed (t1): pytest")).status.values()
    ) == ["tests passed (t1): pytest"]


def test_an_anchor_stands_once():
    found = Ledger()
    for _ in range(2):
        found.take_in([], History([]), [TurnAnchor(2, "milestone", "tests pass", by_run=True)])
    assert found.anchors == ["t2 milestone: tests pass"]


def many() -> Ledger:
    """A ledger with more of everything than a summary tells."""
    numbers = range(20)
    return Ledger(
        changed={f"src/changed_{n}.py": n for n in numbers},
        read={**{f"src/read_{n}.py": n for n in numbers}, "src/changed_3.py": 30},
        deleted={f"src/deleted_{n}.py": n for n in numbers},
        errors=[OpenError(n, f"ValueError: number {n}", ("make",), again=n > 16) for n in numbers],
        status={f"make {n}": f"build {'failed' if n % 5 == 0 else 'passed'} (t{n}): make {n}" for n in numbers},
        anchors=[f"t{n} decision: number {n} stays" for n in numbers],
    )


def told(ledger: Ledger, room: int) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, text in ledger.lines(room):
        found.setdefault(key, []).append(text)
    return found


@pytest.mark.parametrize("room", [*range(0, 400, 7), 700, 1_500, 3_000])
def test_the_lines_of_a_ledger_take_no_more_than_their_room_and_leave_out_nothing_that_fits(room: int):
    lines = many().lines(room)
    assert sum(len(key) + len(text) + 3 for key, text in lines) <= room
    files = {f"src/{n:03}.py": 9 for n in range(99)}
    item = len("src/000.py (t9), ")
    for alone in (Ledger(changed=files), Ledger(read=files), Ledger(deleted=files)):
        listed = sum(len(text.split(", ")) for _, text in alone.lines(room))
        assert min(99, room // item // 5 - 1) <= listed <= min(99, room // item)


def test_each_line_costs_its_characters_and_its_end():
    for line in ("anchor: t1 decision: it stays", "open error: t1 boom [make]", "status: build failed (t1): make"):
        one, cost = earlier(line), len(line) + 1
        assert [": ".join(told) for told in one.lines(cost)] == [line] and one.lines(cost - 1) == []
    said = Ledger(narrative=["The start.", "The end."])
    costs = [len(f"narrative: {text}") + 1 for text in said.narrative]
    for room in range(sum(costs) + 2):
        assert len(said.told(room)) == (room >= costs[0]) + (room >= sum(costs))


def test_what_is_open_and_what_failed_comes_first_and_the_newest_of_each():
    found = told(many(), 3_000)
    assert list(found) == ["open error", "status", "deleted", "changed", "read", "anchor"]
    newest_sure = [text for text in found["open error"] if "ran again" not in text]
    assert newest_sure and all("ValueError: number 1" in text for text in newest_sure)
    assert [text.split(" (")[0] for text in found["status"]] == ["build failed"] * 4
    assert [text[-2:].strip() for text in found["status"]] == ["15", "10", "5", "0"]
    for key in ("deleted", "changed", "read"):
        turns = [int(item.rpartition("(t")[2].rstrip(")")) for item in found[key][0].split(", ")]
        assert turns == sorted(turns, reverse=True) and turns[0] == 19, key
    assert "changed" not in found["read"][0], "a file that was changed is not told to be read, too"
    assert found["anchor"][0] == "t19 decision: number 19 stays"


def test_many_errors_leave_room_for_the_files():
    both = Ledger(
        changed={"src/a.py": 9}, errors=[OpenError(n, "ValueError: " + "x" * 70, ("make",)) for n in range(9)]
    )
    assert "changed" in told(both, 420)
    only = Ledger(errors=both.errors)
    assert len(told(only, 420)["open error"]) > len(told(both, 420)["open error"]) > 0


def test_the_newest_two_dozen_errors_are_kept_those_of_earlier_summaries_too():
    failed = [ran(f"python a{n}.py", f"ValueError: {n}\n[exit code 1]") for n in range(1, 27)]
    assert [error.turn for error in after(*failed).errors] == list(range(3, 27))
    known = earlier(*(f"open error: t1 OSError: {n} [make]" for n in range(30)))
    lines = [error.line for error in after(*failed[:2], ledger=known).errors]
    assert lines == [*(f"OSError: {n}" for n in range(8, 30)), "ValueError: 1", "ValueError: 2"]


def test_errors_are_found_where_a_command_that_may_fail_printed_them():
    long = "ValueError: " + "y" * 240
    found = after(ran("python a.py", f"{long}\n[exit code 1]"), ran("make", "Error: b\n[exit code 2]")).errors
    assert [(error.turn, len(error.line), error.origins) for error in found] == [
        (1, 200, ("python a.py",)),
        (2, 8, ("make",)),
    ]
    again = after(ran("make", "Error: b\n[exit code 2]"), ran("make", "Error: b\n[exit code 2]")).errors
    assert [error.turn for error in again] == [2], "an error that came again is told once, as it came last"
    moved = after(ran("make", "Error: a\nError: b\n[exit code 2]"), ran("make", "Error: a\n[exit code 2]")).errors
    assert [error.line for error in moved] == ["Error: b", "Error: a"]
    unnamed = after(
        ran(" && ".join(f"python {letter * 90}.py" for letter in "abc"), "ValueError: b\n[exit code 1]")
    ).errors
    assert [error.origins for error in unnamed] == [()]
    assert after(ran("python a.py", "ValueError: b\n" + "z\n" * 31_000 + "[exit code 1]")).errors == []
    assert after(looked("a.log", "ValueError: b")).errors == []


def test_a_summary_has_the_ledger_of_the_summaries_before_it():
    """The whole way: summaries that are too large to stay are written anew, and what they knew is still told."""
    rows = "\n".join(f"total_{n} = count_{n}(rows)" for n in range(200))
    first = "changed: src/a.py (t1), src/b.py (t1)\nopen error: t1 ValueError: x [make]\nanchor: t1 decision: it stays"
    second = "changed: src/c.py (t2)\ndeleted: src/a.py (t2)"
    messages = [
        user(f'<compacted turns="{n}-{n}">\n{lines}\n[t{n} user] request {n}\n[t{n}]\n{rows}')
        for n, lines in enumerate((first, second), 1)
    ]
    made = compact([*messages, *coding_session(12)[1:]], 5_000, narrative=["It began."])
    [segment] = segments_of(made.messages)
    ledger = dict(segment.ledger)
    assert {"src/b.py (t1)", "src/c.py (t2)"} <= set(ledger["changed"].split(", "))
    assert ledger["deleted"] == "src/a.py (t2)" and ledger["narrative"] == "It began."
    assert ledger["open error"] == "t1 ValueError: x [make]"


def told_by(*prompts: str) -> Ledger:
    """The ledger after prompts that were answered in words."""
    found = Ledger()
    readings = parse_messages([message for text in prompts for message in (user(text), says("I see."))])
    found.take_in(list(enumerate(readings)), History(readings), [])
    return found


def test_the_goal_is_the_first_request_that_says_something():
    assert told_by("ok", "Mend the importer.", "Then the exporter.").goal == (2, "Mend the importer.")
    by_programs = ("<log>Mend it.</log>", "[1] Mend it.", "/review now")
    assert told_by(*by_programs, "Mend   the\nimporter.").goal == (4, "Mend the importer.")
    assert told_by("word " * 100).goal == (1, "word " * 46 + "word […]"), "what is cut says so, and at no word's middle"
    assert told_by("x" * 500).goal == (1, "x" * 236 + " […]") and told_by("y" * 240).goal == (1, "y" * 240)
    assert told_by("Mend it." + " " * 600 + "Then stop.").goal == (1, "Mend it. […]")
    assert told_by("ok ".ljust(119, "x")).goal[1] == "" and told_by("ok ".ljust(120, "x")).goal[0] == 1
    assert earlier("goal: t2 Mend it.", "goal: t9 Another.").goal == (2, "Mend it.")
    known = Ledger(goal=(3, "Mend it."))
    assert known.lines(200) == [("goal", "t3 Mend it.")] and known.lines(200, goal=False) == []


def test_orders_are_kept_as_they_were_given_and_when_they_were_given_last():
    found = told_by("Never touch legacy/. Is it slow?", "Always run the linter first.", "Never touch legacy/.")
    assert list(found.rules.items()) == [("Always run the linter first.", 2), ("Never touch legacy/.", 3)]
    many = [f"Never rename column {n}." for n in range(9)]
    assert list(told_by(" ".join(many)).rules) == many[:4], "of one prompt"
    for length, kept in ((15, False), (16, True), (240, True), (241, False)):
        order = "Never use ".ljust(length - 1, "x") + "."
        assert (order in told_by(order).rules) is kept, length
    for text in (
        "Should we never touch legacy/?",
        "`Never touch legacy/ here.`",
        "x.py:3: never touch legacy/ at all.",
    ):
        assert told_by(text).rules == {}
    assert told_by("The donkeys are in src/donkeys.py as before.").rules == {}
    assert earlier("standing order: t4 Never touch legacy/.").rules == {"Never touch legacy/.": 4}


def test_an_order_that_points_back_has_the_sentence_before_it():
    said = "The old reports are read by finance. Never rename them. Never touch legacy/. Is it slow?"
    assert list(told_by(said).rules) == [
        "The old reports are read by finance. Never rename them.",
        "Never touch legacy/.",
    ]
    for alone in ("Only run it on changed files.", "Write a parser and never import it in core."):
        assert list(told_by(alone).rules) == [alone]
    assert list(told_by(f"{'x' * 220}. Never rename them again.").rules) == ["Never rename them again."]


@pytest.mark.parametrize(
    ("rule", "later"),
    [
        ("Don't squash my commits.", "You may squash now, I changed my mind."),
        ("Don't touch src/legacy.", "ok, you can edit src/legacy/Address.tsx, only that file."),
        ("Never apply without showing me the plan.", "From now on applying on staging is fine."),
        ("Please always run rubocop before committing.", "Forget rubocop, it is too slow."),
        ("Retry at most 5 times.", "Sorry, make it 8 retries."),
        ("Never use javax in core.", "javax is allowed in core for the old reports."),
        ("Lines must have at most 80 characters.", "We no longer need short lines."),
        ("Never log the payload.", "The payload does not matter any more, log it."),
    ],
)
def test_what_the_user_took_back_of_an_order_stands_beside_it(rule: str, later: str):
    found = told_by(rule, "Thanks, go on with it.", later)
    assert list(found.rules.items()) == [(f"{rule} (t3: {later})", 1)]
    carried = earlier(*(f"{key}: {text}" for key, text in found.lines(4_000)))
    assert carried.rules == found.rules, "it is read back"
    again = told_by(rule, "Thanks, go on with it.", later, rule)
    assert list(again.rules.items()) == [(rule, 4)], "what is ordered anew holds"


@pytest.mark.parametrize(
    "later",
    [
        "You can run the tests now.",
        "May we squash them?",
        "You can't squash these either.",
        "Squash them never again.",
        "I saw that you squash 3 of them.",
    ],
)
def test_other_sentences_leave_an_order_as_it_was_given(later: str):
    assert "Don't squash my commits." in told_by("Don't squash my commits.", later).rules


def test_the_newest_orders_take_a_quarter_of_the_ledger():
    found = Ledger(rules={f"Never rename column {n}.": n for n in range(5)})
    cost = len("standing order") + len("t0 Never rename column 0.") + 3
    for number in range(1, 6):
        orders = [("standing order", f"t{n} Never rename column {n}.") for n in range(5)]
        assert found.lines(4 * number * cost) == orders[-number:]
        assert found.lines(4 * number * cost - 1) == orders[5 - number + 1 :]


def changed(path: str, new: str, old: str = "y = 1") -> list[Message]:
    return call("edit", "edited: 1 replacement", path=path, old=old, new=new)


def test_of_a_change_the_first_new_lines_stand_that_say_something():
    lines = ["import os", "", "a = 1234", "b = 123", "# why it is so", "stays = old", "rows = read(path)"]
    found = after(changed("a.py", "\n".join([*lines, "size = count(rows)", "none = left"]), old="stays = old"))
    assert found.changes == {"a.py": NewLines(1, 0, ("a = 1234", "rows = read(path)", "size = count(rows)"))}
    for length, kept in ((120, True), (121, False)):
        assert bool(after(changed("a.py", "x = ".ljust(length, "9"))).changes) is kept
    anew = "import os\n\nLIMIT = 22\n\ndef load(path):\n    return read(path)\n\n\nclass Importer:\n    pass\n"
    assert after(call("write", "created", path="a.py", content=anew)).changes["a.py"].lines == (
        "def load(path):", "class Importer:"
    )  # fmt: skip
    again = after(changed("src/a.py", "limit = 22"), changed("./src/a.py", "# no more"))
    assert again.changes == {}, "the newest change says nothing"
    other = after(changed("src/a.py", "limit = 22"), changed("src/ba.py", "# no more"))
    assert list(other.changes) == ["src/a.py"]
    many = after(*(changed(f"src/{n}.py", f"limit = {n + 1000}") for n in range(61)))
    assert list(many.changes) == [f"src/{n}.py" for n in range(1, 61)]
    assert after(changed("a.py", "limit = 22"), ran("git checkout -- a.py")).changes == {}


def test_changes_are_told_newest_first_and_their_files_are_not_listed_again():
    changes = {"a.py": NewLines(1, 0, ("alpha = 1",)), "b.py": NewLines(2, 7, ("beta = 1", "gamma = 2"))}
    found = Ledger(changed={"a.py": 1, "b.py": 2, "c.py": 3}, changes=changes)
    newest, oldest = ("change", "b.py (t2.7): beta = 1 ⏎ gamma = 2"), ("change", "a.py (t1): alpha = 1")
    assert found.lines(1_000) == [newest, oldest, ("changed", "c.py (t3)")]
    assert found.lines(1_000, {"gamma = 2"}) == [oldest, ("changed", "c.py (t3), b.py (t2)")]
    assert Ledger(changes=changes).lines(1_000) == [], "they are not changed any more"
    back = earlier("change: b.py (t2.7): beta = 1 ⏎ gamma = 2", "change: a.py (t1): alpha = 1")
    assert back.changes == changes and back.changed == {"a.py": 1, "b.py": 2}
    steps = Ledger(
        changed={"a.py": 2, "b.py": 2},
        changes={p: NewLines(2, s, ("x = 1000",)) for p, s in (("a.py", 3), ("b.py", 9))},
    )
    assert [text[:4] for _, text in steps.lines(1_000)] == ["b.py", "a.py"]


def test_the_newest_four_settled_errors_are_told_once_each_before_the_anchors():
    settled = [f"t{n} boom; settled by make (t{n + 1})" for n in range(6)]
    found = earlier(*(f"settled error: {text}" for text in [*settled, settled[0]]), "anchor: t1 decision: x")
    assert found.settled == settled
    assert found.lines(1_000) == [*(("settled error", settled[n]) for n in (5, 4, 3, 2)), ("anchor", "t1 decision: x")]


def test_an_error_that_another_tool_begins_its_answer_with_is_one_unless_it_searches():
    told = "Error: no such row"
    assert [(error.line, error.origins) for error in after(call("apply", told, path="a")).errors] == [
        (told, ("apply a",))
    ]
    for name in ("grep_files", "WebFetch", "list_rows"):
        assert after(call(name, told, path="a")).errors == []
    assert after(call("apply", "row\n" * 100 + told, path="a")).errors == [], "that is something it shows"
    assert after(call("apply", "row\n" * 60 + told, path="a")).errors != []


def test_the_last_line_in_which_a_runner_says_how_it_went_is_told_up_to_its_bound():
    assert outcome_line("2 failed\nwarned\n  3 passed in 1s  \nbye") == "3 passed in 1s"
    assert outcome_line("3 passed " + "x" * 300) == ("3 passed " + "x" * 300)[:160]
    assert outcome_line("nothing to tell") == outcome_line("3 passed\n" + "x" * 4_000) == ""


def test_a_commit_changes_no_file_that_a_run_before_it_was_about():
    passed = ran("pytest -q", f"3 passed\n{DONE}")
    commit = ran("git commit -qam 'Mended'", f"[main 1a2b3c4] Mended\n{DONE}")
    assert after([*wrote("a.py"), *passed, *commit]).status["pytest -q"] == "tests passed (t1): pytest -q"
    changed = ran("touch b.py", DONE)
    told = after([*passed, *changed, *commit]).status["pytest -q"]
    assert told == "tests passed (t1, files changed since): pytest -q"


def test_what_an_editor_is_told_to_do_is_no_line_of_the_file():
    call_of = {"command": "str_replace", "path": "a.py", "old_str": "x = 10_000", "new_str": "x = 20_000"}
    found = after(call("str_replace_editor", "The file a.py has been edited.", **call_of))
    assert found.changes["a.py"].lines == ("x = 20_000",)
    more = {"instruction": "Raise the limit of x", "explanation": "It is too low", "expected_replacements": 100_000_000}
    of_other = {"file_path": "a.py", "old_string": "x = 10_000", "new_string": "x = 20_000"}
    for change in (of_other | more, more | of_other):
        assert after(call("replace", "Modified a.py", **change)).changes["a.py"].lines == ("x = 20_000",)


def test_a_list_of_files_says_that_it_does_not_name_all_of_them_in_later_summaries_too():
    ledger = after(*[wrote(f"src/part_{n}/rows.py") for n in range(20)], looked("src/seen.py"))
    told = dict(ledger.lines(600))["changed"]
    assert told.startswith("src/part_19/rows.py (t20), ") and told.endswith("rows.py (t7), …")
    assert dict(ledger.lines(100_000))["changed"].count("rows.py") == 20
    assert dict(ledger.lines(100_000))["changed"].endswith("src/part_0/rows.py (t1)")
    later = after(wrote("src/last.py"), ledger=earlier(f"changed: {told}", "read: src/seen.py (t21)"))
    files = dict(later.lines(100_000))
    assert files["changed"].endswith("), …") and files["changed"].count("rows.py") == told.count("rows.py")
    assert files["read"] == "src/seen.py (t21)"


def test_a_file_that_a_patch_moves_is_where_it_was_moved_to():
    patch = "*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@\n-one = 10_000\n+two = 20_000\n*** End Patch"
    found = after(looked("a.py", "one = 10_000"), call("apply_patch", "Done!", input=patch))
    assert found.changed == {"b.py": 2} and found.deleted == {"a.py": 2} and found.read == {}


@pytest.mark.parametrize(("code", "status"), [(1, ["tests failed (t1): pytest -q"]), (4, []), (5, [])])
def test_a_run_that_could_not_begin_has_no_status(code: int, status: list[str]):
    assert list(after(ran("pytest -q", f"stopped\n[exit code {code}]")).status.values()) == status


def test_what_was_stashed_is_changed_again_once_it_is_taken_back():
    edit = call("edit", "edited", path="a.py", old="limit = 10_000", new="limit = 20_000")
    stashed = after(edit, wrote("b.py"), ran("git stash"))
    assert stashed.changed == {} and stashed.changes == {}
    back = after(edit, wrote("b.py"), ran("git stash"), wrote("b.py"), ran("git stash pop"))
    assert back.changed == {"a.py": 1, "b.py": 4} and back.changes["a.py"].lines == ("limit = 20_000",)
    again = after(edit, ran("git stash"), ran("git stash pop"), ran("git checkout -- ."), ran("git stash pop"))
    assert again.changed == {}
    assert after(edit, ran("git commit -am x"), ran("git stash"), ran("git stash pop")).changed == {"a.py": 1}
    dropped = after(edit, ran("git stash"), ran("git stash drop"))
    assert dropped.changed == {}


def test_a_run_that_is_told_beside_what_is_kept_says_what_changed_there():
    passed = ran("pytest -q", f"3 passed\n{DONE}")
    listed = [user("go"), *wrote("a.py"), *passed, says("ok"), user("on"), *wrote("b.py"), says("ok")]
    readings = parse_messages(normalise(listed).messages)
    older = [(index, reading) for index, reading in enumerate(readings) if reading.turn == 1]
    told = Ledger()
    told.take_in(older, History(readings), [])
    assert list(told.status.values()) == ["tests passed (t1, files changed since): pytest -q"]
    assert told.changed == {"a.py": 1}


def test_the_file_that_a_block_of_an_edit_names_is_no_new_line_of_another():
    block = "<<<<<<< SEARCH\ncount = 1\n=======\ncount = 20_000\n>>>>>>> REPLACE\n"
    found = after(call("replace_in_file", "ok", path="src/a.py", diff=f"src/a.py\n{block}\nsrc/b_module.py\n{block}"))
    assert found.changes["src/a.py"].lines == ("count = 20_000",)


def test_an_error_of_which_nobody_knows_where_it_came_from_stays_open():
    told = "t1 E   ValueError: the cart is empty"
    ledger = after(ran("pytest -q", f"3 passed\n{DONE}"), ran("make"), ledger=earlier(f"open error: {told}"))
    assert [error.text for error in ledger.errors] == [told] and ledger.settled == []


@pytest.mark.parametrize(("before", "changed"), [(500, {}), (700, {"a.py": 1})])
def test_a_refusal_far_behind_in_what_a_write_answers_is_none(before: int, changed: dict[str, int]):
    answer = "x" * before + " could not be written"
    assert after(wrote("a.py", answer)).changed == changed


def test_an_open_error_says_that_its_file_changed_since_and_says_it_anew_each_time():
    fault = "src/csv.ts(31,9): error TS2339: no such property"
    failed = ran("npx tsc --noEmit", f"{fault}\n[exit code 1]")
    seen = f"t1 {fault} [npx tsc --noEmit]"
    assert told(after(failed, wrote("src/other.ts")), 2_000)["open error"] == [seen]
    later = after(failed, wrote("web/src/csv.ts"))
    assert told(later, 2_000)["open error"] == [f"{seen}; csv.ts changed in t2"]
    carried = earlier(*(f"{key}: {text}" for key, text in later.lines(2_000)))
    assert told(after([says("Hm.")], [says("Hm.")], wrote("web/src/csv.ts"), ledger=carried), 2_000)["open error"] == [
        f"{seen}; csv.ts changed in t3"
    ]
    gone = after(failed, ran("rm src/csv.ts"), ran("npx tsc --noEmit", "[exit code 1]"))
    assert told(gone, 2_000)["open error"] == [f"{seen}; csv.ts was deleted in t2"]
    assert "open error" not in told(after(failed, wrote("src/csv.ts"), ran("npx tsc --noEmit")), 2_000)
