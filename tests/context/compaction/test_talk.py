"""Talk in a tight place: what the user laid down outlives chatter, round after round."""

from __future__ import annotations

import random

import pytest

from codelet.context.compaction import compact
from tests.context.compaction.lists import Message, says, size, user

LAID_DOWN = (
    ("Please never push straight to the release branch, whatever happens.", ("never", "push", "release")),
    ("The nightly job has to finish before 04:30 or billing breaks.", ("nightly", "04:30")),
    ("Our customer in Lyon pays in Swiss francs, remember that.", ("Lyon", "Swiss francs")),
    ("I would like short answers in bullet form from here on.", ("short", "bullet")),
    ("Retry at most four times when the queue refuses a job.", ("four", "queue")),
    ("The goal is an importer that reads both the old and the new ledger.", ("importer", "ledger")),
    ("Do not log the patient's name anywhere.", ("not", "log", "patient")),
    ("The staging host is called heron, production is called osprey.", ("heron", "osprey")),
    ("All money is kept in integer cents.", ("integer", "cents")),
    ("Keep the memory of the worker below 512 MB.", ("worker", "512")),
    ("Ask me before you delete any table.", ("before", "delete", "table")),
    ("We decided to drop support for Windows 8.", ("Windows 8",)),
)
CHATTER = (
    "Okay, that looks fine to me so far.",
    "Hm, interesting, go on please.",
    "Could you explain the last step once more?",
    "I was away for lunch, now I am back.",
    "Right, I had not thought of this myself.",
    "I think we are making good progress now.",
)
SMALL_TALK = (
    "Ha, funny name for a variable.|My coffee got cold again.|Yes please.|No idea, honestly.|"
    "Which file was it?|You tell me.|Can you show the whole function?|It feels slow on my laptop.|"
    "Where were we yesterday?|Good morning!|Run it again for me.|That is not what I meant, look again.|"
    "Great, it works on my side too.|Sounds like a plan.|I trust you on this one.|Did the build finish?|"
    "Maybe tomorrow then.|Oh, I see the typo.|Skip this for the moment.|Try the other branch.|"
    "Beautiful output, really.|How long did that take?|Back to the list.|Go ahead."
).split("|")


def conversation(seed: int) -> list[Message]:
    """What is laid down, in any order, with one to three remarks after each, no two remarks quite the same."""
    chance = random.Random(seed)
    messages: list[Message] = [{"role": "system", "content": "You help a small team."}]
    for statement, _ in chance.sample(LAID_DOWN, len(LAID_DOWN)):
        remarks = [f"{chance.choice(CHATTER)[:-1]} ({chance.randint(1, 99):x})." for _ in range(chance.randint(1, 3))]
        for text in (statement, *remarks):
            messages += [user(text), says("Understood, I will go on with it.")]
    return messages


@pytest.mark.parametrize("characters", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_what_was_laid_down_outlives_chatter(seed, characters):
    def measure(message):
        return len(str(message["content"])) + 1

    messages = conversation(seed)
    whole = sum(map(measure, messages)) if characters else size(messages)
    for _ in range(3):
        messages = compact(messages, whole * 3 // 10, estimate=measure if characters else None).messages
        messages = [*messages, user("And what now?"), says("I go on.")]
    text = "\n".join(str(message["content"]) for message in messages)
    assert [statement for statement, words in LAID_DOWN if not all(word in text for word in words)] == []


@pytest.mark.parametrize("seed", range(4))
def test_what_was_laid_down_goes_before_small_talk(seed):
    """No two remarks are alike here, so that nothing but what they say tells them from what was laid down."""
    chance = random.Random(seed)
    remarks = chance.sample(SMALL_TALK, len(SMALL_TALK))
    messages: list[Message] = []
    for statement, _ in chance.sample(LAID_DOWN, len(LAID_DOWN)):
        for text in (statement, remarks.pop(), remarks.pop()):
            messages += [user(text), says("Understood, I will go on with it.")]
    text = "\n".join(message["content"] for message in compact(messages, size(messages) // 5).messages)
    assert [statement for statement, words in LAID_DOWN if not all(word in text for word in words)] == []


def test_a_prompt_that_was_answered_competes_with_the_others():
    messages = [*conversation(1), user("And a last remark that needs no place of its own here."), says("Fine.")]
    answered = compact(messages, size(messages) // 10)
    assert "needs no place" not in str(answered.messages[-1]["content"])
    asked = compact(messages[:-1], size(messages) // 10)
    assert asked.messages[-1] == messages[-2]


@pytest.mark.parametrize("length", [60, 120])
def test_hundreds_of_short_requests_each_leave_a_line(length):
    """A row of requests replaces nothing, however much one is like the next."""
    messages: list[Message] = []
    for number in range(350):
        text = f"Please look at item {number} and tell me whether module_{number % 37} handles case {number * 7} well. "
        messages += [user((text * 2)[:length]), says(f"It does: handler_{number} returns value_{number * 3}. " * 4)]
    made = compact(messages, 4_000)
    lines = "\n".join(str(message["content"]) for message in made.messages).split("\n")
    words = [set(line.split()) for line in lines]
    assert made.report.user_mode == "stubs"
    for number in range(350):
        assert any({str(number), f"module_{number % 37}"} <= line for line in words), number


@pytest.mark.parametrize(("target", "mode"), [(5_000, "stubs"), (15_000, "stubs"), (40_000, "head")])
def test_a_list_of_little_else_than_requests_gives_them_all_the_room(target, mode):
    messages: list[Message] = []
    for number in range(1_500):
        text = f"Please make the colour of button {number} match theme_{number % 9} and keep margin {number * 3}px."
        messages += [user(text), says(f"Done: button {number} now uses theme_{number % 9}.")]
    made = compact(messages, target)
    assert 0.95 * target <= size(made.messages) <= target
    assert made.report.user_mode == mode
    assert not made.report.warnings
    shown = set(" ".join(str(message["content"]) for message in made.messages).replace(".", " ").split())
    assert all({str(number), f"{number * 3}px"} & shown for number in range(1_500))
