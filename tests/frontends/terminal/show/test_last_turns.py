"""A resumed conversation shows its last turns: earlier ones in two rows, the last with its prompt and answer."""

from __future__ import annotations

from io import StringIO

from codelet import messages
from codelet.frontends.terminal.show.console import OutputConsole
from codelet.frontends.terminal.show.renderer import Renderer, show_last_turns


def shown(turns: int, answer_lines: int) -> str:
    output = StringIO()
    renderer = Renderer(OutputConsole(file=output, width=80, force_terminal=False))
    told: list[messages.Message] = []
    for number in range(turns):
        told.append(messages.user(f"prompt {number}\nsecond line {number}"))
        body = "\n\n".join(f"answer {number}, part {part}" for part in range(answer_lines))
        told.append(messages.assistant(body.replace("answer", "secret" if number == 1 else "answer")))
    show_last_turns(renderer, told, lambda text: text.replace("secret", "***"))
    return output.getvalue()


def test_the_last_turn_is_whole_and_those_before_it_are_folded() -> None:
    text = shown(3, 2)
    assert text.index("prompt 0") < text.index("prompt 1") < text.index("prompt 2")
    assert "answer 2, part 0" in text and "answer 2, part 1" in text and "\n  second line 2" in text
    assert "\n  second line 0" not in text and "secret" not in text and "***" in text
    assert text.count("part 1") == 3 and len([row for row in text.split("\n") if "answer 0" in row]) == 1


def test_long_ones_are_cut_and_say_so() -> None:
    text = shown(9, 30)
    assert "5 earlier turns" in text and "prompt 4" not in text and "prompt 5" in text
    assert "answer 8, part 29" in text and "answer 8, part 3\n" not in text
    assert "lines above" in text


def test_an_empty_one_shows_nothing() -> None:
    assert shown(0, 0) == ""
