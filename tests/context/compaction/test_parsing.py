"""How a list of messages is read: which result answers which call, what counts as said, steps, errors."""

from __future__ import annotations

import pytest

from codelet.context.compaction import compact
from codelet.context.compaction.identifiers import Lexicon
from codelet.context.compaction.parsing import NO_RESULT, normalise, parse_messages
from codelet.context.compaction.reduction import old_results, shortened
from codelet.context.compaction.signals import is_listing
from codelet.context.compaction.user_text import WeighedWords
from codelet.context.tokens import estimate_message
from tests.context.compaction.lists import Message, calling, coding_session, result, says, user

CALL = calling(("a", "bash", {"command": "make"}))


@pytest.mark.parametrize("role", ["user", "assistant", "robot"])
def test_only_a_message_of_a_tool_answers_a_call(role: str):
    other: Message = {"role": role, "tool_call_id": "a", "content": "I built it."}
    assert [m["content"] for m in normalise([user("go"), CALL, other]).messages][2] == NO_RESULT
    assert normalise([user("go"), CALL, other, result("a", "built")]).messages[2]["content"] == "built"


def test_of_several_results_the_last_that_says_something_counts():
    messages = [user("go"), CALL, result("a", "first"), result("a", "second"), result("a", ""), result("b", "nobody's")]
    made = normalise(messages)
    assert made.messages == [user("go"), CALL, result("a", "second")] and made.origin == [0, 1, 3]
    assert normalise([result("a", "too early"), user("go"), CALL]).messages[-1]["content"] == NO_RESULT


def test_what_a_call_says_stands_even_where_its_answer_is_an_error_unless_it_is_a_write():
    note = "The invoice of the customer Aldermann must carry the reference ZX_4417_B.\nAnd no other."
    for name, told in (("send_note", True), ("write", False)):
        call = calling(("n", name, {**({"path": "notes/a.md"} if name == "write" else {"to": "team"}), "text": note}))
        messages = [
            user("Tell them."),
            call,
            result("n", "Error: refused"),
            says("It was refused."),
            *coding_session(6)[1:],
        ]
        shown = "\n".join(str(message["content"]) for message in compact(messages, 2_600).messages)
        assert ("ZX_4417_B" in shown) is told


def test_a_turn_of_more_than_twenty_steps_counts_them_and_a_shorter_one_does_not():
    def turn(steps: int) -> list[Message]:
        found = [user("go")]
        for number in range(steps):
            found += [calling((f"c{number}", "bash", {"command": "ls"})), result(f"c{number}", "a.py")]
        return found

    assert {reading.step for reading in parse_messages(turn(20))} == {0}
    assert [reading.step for reading in parse_messages(turn(21))][-4:] == [20, 20, 21, 21]


@pytest.mark.parametrize(("words", "blanks", "listed"), [(39, 0, False), (40, 0, True), (39, 8, False), (40, 30, True)])
def test_a_listing_has_forty_lines_of_one_word_and_empty_ones_do_not_count(words: int, blanks: int, listed: bool):
    text = "\n".join([*(f"src/part_{n}.py" for n in range(words)), *[""] * blanks, "please"][: words + blanks])
    assert is_listing(text) is listed


def test_two_thirds_of_the_words_make_a_repetition():
    common = {"limit": 3, "rows": 3, "new": 1}
    assert WeighedWords.of("limit rows parser", common).repeats(common)
    assert not WeighedWords.of("limit new parser", common).repeats(common)
    assert not WeighedWords.of("limit rows new parser", common).repeats(common)


@pytest.mark.parametrize("tokens", [40, 100, 333, 900])
@pytest.mark.parametrize("between", ["\n", " "])
def test_a_message_that_is_shortened_uses_nearly_what_it_may_take(tokens: int, between: str):
    message = result("call_1", between.join(f"line {n} tells of part_{n % 9}" for n in range(400)))
    size = estimate_message(shortened(message, tokens, estimate_message))
    assert tokens * 8 // 10 <= size <= tokens


def test_a_message_that_gets_no_smaller_is_left_alone():
    messages = [user("go"), CALL, result("a", "row\n" * 900), says("done")]
    left = old_results(messages, lambda message: 10, keep_last=0, least=0)
    assert left.changed == () and left.messages == messages
    assert old_results(messages, estimate_message, keep_last=0, least=0).changed == (2,)


def test_of_several_calls_at_once_the_long_ones_are_told_by_their_size():
    made = calling(("w", "write", {"path": "a.py", "content": "x = 1\n" * 300}), ("l", "bash", {"command": "ls"}))
    messages = [user("go"), made, result("w", "Wrote a.py."), result("l", "a.py"), says("done")]
    reduced = old_results(messages, estimate_message, keep_last=0, least=10)
    assert reduced.changed == (1,) and reduced.how == ("arguments",)
    shown = str(reduced.messages[1])
    assert "1800 characters" in shown and "a.py" in shown and '"ls"' in shown.replace("\\", "")


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("see src/inner_part/deep_name.py", {"src/inner_part/deep_name.py", "inner_part", "deep_name"}),
        ("see " + "x" * 300 + "/inner_part/deep_name.py", set()),
    ],
)
def test_a_path_stands_for_the_names_in_it_and_noise_for_none(line: str, made: set[str]):
    lexicon = Lexicon()
    found = {lexicon.words[number] for number in lexicon.read(line)}
    (inside,) = lexicon.lines([line])
    assert {word for word in found if "_" in word} == {word for word in made if "_" in word}
    assert {lexicon.words[number] for number in inside if "_" in lexicon.words[number]} == made
