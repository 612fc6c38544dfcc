"""The candidate lines of old messages: which there are, where they count, and what their names weigh."""

from __future__ import annotations

import pytest

from codelet.context.compaction.candidates import FACTS_OF_ONE, LONGEST_LINE, SHORTEST_LINE, LineCollector, pieces
from codelet.context.compaction.collect import Collected, factors
from codelet.context.compaction.coverage import Candidates, Selection
from codelet.context.compaction.score import Score


def collector(length: int = 10) -> LineCollector:
    return LineCollector(length)


def weight_of(found: LineCollector, word: str) -> int:
    return found.weights()[found.lexicon.words.index(word)]


def test_each_message_counts_a_little_more_than_the_one_before_it_up_to_the_newest():
    for length in (1, 7, 100):
        recency = [collector(length).recency(place) for place in range(length)]
        assert recency[-1] == 1_000 and recency == sorted(set(recency)) and recency[0] > 100
    assert [collector(100).recency(place) for place in range(100)] == [109 + 9 * place for place in range(100)]


def test_a_line_is_a_candidate_once_where_it_stood_last():
    found = collector()
    first = found.source((0, 0), 1, "read a.py")
    found.add(first, "alpha_one = 1\n\nbeta_two = 2\nab", "result", 700)
    second = found.source((4, 0), 2, "read a.py")
    found.add(second, "gamma = 3\n  alpha_one = 1  ", "result", 900)
    found.read()
    lines = found.candidates
    assert lines.text == ["alpha_one = 1", "beta_two = 2", "gamma = 3"]
    assert lines.source == [second, first, second] and lines.factor == [900, 700, 900]
    assert lines.position[1] < lines.position[2] < lines.position[0]
    assert len(set(lines.position)) == 3
    third = found.source((5, 0), 3, "read b.py")
    found.add(third, "delta = 4", "result")
    assert lines.position[3] > lines.position[0], "positions go on from source to source"


def test_a_heading_that_is_a_line_stands_before_its_lines():
    found = collector()
    source = found.source((0, 1), 1, "read src/a.py", as_line=True, step=3)
    found.add(source, "alpha_one = 1", "result")
    found.read()
    assert found.candidates.text[0] == "[t1.3 read src/a.py]" and found.sources[source].head == 0
    assert found.candidates.position[0] < found.candidates.position[1]
    assert found.candidates.factor[0] == found.candidates.factor[1]
    assert found.files == {"src/a.py": 0} and found.headers == [0]
    plain = found.source((1, 1), 1, "bash ls src/x", as_line=False)
    assert found.headers[plain] == len("[t1 bash ls src/x]") + 1 and found.sources[plain].head == -1
    found.source((2, 1), 1, "bash ls src/x", as_line=True)
    found.source((3, 1), 1, "grep needle", as_line=True)
    assert found.files == {"src/a.py": 0}, "a command is no file, a word without a folder may be anything"


def test_a_name_weighs_more_by_who_said_it_how_recently_and_how_often():
    def weight(speaker: str = "result", place: int = 0, times: int = 1) -> int:
        found = collector()
        found.add(found.source((place, 0), 1, "x"), "\n".join(["alpha_one = beta"] * times), speaker)
        found.read()
        return weight_of(found, "alpha_one")

    assert weight("assistant") > weight("user") == weight("segment") > weight("result") == weight("other") > 0
    assert weight(place=9) > weight(place=0)
    assert weight(times=40) > weight(times=9) > weight()
    again = collector()
    for place in range(2):
        again.add(again.source((place, 0), 1, "x"), "alpha_one = beta", "assistant")
    again.read()
    assert weight_of(again, "alpha_one") > weight("assistant", 1), "said in two messages"


def test_names_in_a_heading_count_only_where_it_is_a_line():
    found = collector()
    head = found.source((0, 1), 1, "read alpha_one", as_line=True)
    none = found.source((0, 2), 1, "read beta_two")
    found.read()
    assert weight_of(found, "alpha_one") == 0
    for source in (head, none):
        found.add_head(source, "assistant")
    assert weight_of(found, "alpha_one") > 0
    found.add_head(head, "assistant")
    assert weight_of(found, "alpha_one") > 0 and "beta_two" not in found.lexicon.words


@pytest.mark.parametrize("blanks", [True, False])
def test_a_long_line_becomes_pieces_that_hold_all_of_it(blanks: bool):
    line = "".join(f"word_{n:03}{' ' if blanks else '_'}" for n in range(120)).strip()
    found = collector()
    found.add(found.source((0, 0), 1, "x"), f"short line\n{line}\n{'y' * LONGEST_LINE}", "result")
    short, *parts = found.candidates.text[:-1]
    assert short == "short line" and found.candidates.text[-1] == "y" * LONGEST_LINE
    assert (" " if blanks else "").join(parts) == line and len(parts) > 3
    assert all(120 < len(part) <= 240 for part in parts[:-1])
    assert all(part.startswith("word_") for part in parts) == blanks
    assert list(pieces("")) == [] and list(pieces("a" * 240)) == ["a" * 240]


def test_lines_that_say_nothing_have_no_names():
    silent = ["```python", "~~~~", "| --- | --- |", "12345678-1234-1234-1234-123456789abc", "</bash_metadata>", "<li>"]
    found = collector()
    found.add(found.source((0, 0), 1, "x"), "\n".join([*silent, "alpha_one says it"]), "result")
    found.read()
    found.mark()
    assert [bool(names) for names in found.candidates.names] == [False] * len(silent) + [True]


def marked(label: str, text: str, *, tells: bool = False) -> LineCollector:
    found = collector()
    found.add(found.source((0, 0), 1, label, tells=tells), text, "result")
    found.read()
    found.mark()
    return found


def test_errors_weigh_more_than_rules_and_rules_more_than_other_lines():
    lines = ("ValueError: it is closed", "never close it twice", "it is open")
    error, rule, plain = marked("bash x", "\n".join(lines)).candidates.factor
    assert error > rule > plain == 1_000 and error < 2_000


def test_measures_in_prose_and_errors_that_a_command_printed_are_facts():
    measured = "It takes 300 ms to do it."
    assert marked("", f"{measured}\nno number here").facts == [0]
    assert marked("bash x", measured).facts == []
    errors = "\n".join(f"error: part {letter} is gone" for letter in "abcdefghijklmnop")
    told = marked("bash x", errors, tells=True)
    assert len(told.facts) == FACTS_OF_ONE and marked("read x", errors).facts == []
    alike = "\n".join(f"error: part {n} is gone" for n in range(4))
    assert list(marked("bash x", alike, tells=True).errors.values()) == [3], "the newest of its kind"
    assert marked("bash x", "the error word in it, no report", tells=True).facts == []


def test_a_turns_score_raises_its_lines_and_one_below_the_least_gives_none():
    def factors_of(room: int, minimum: int = 0) -> list[int]:
        found = collector()
        for turn in (1, 2, 3):
            found.add(found.source((turn, 0), turn, "x"), f"alpha_{turn} of it\n" + "x" * 90, "result")
        found.read()

        scores = {1: Score(1, recency=20), 2: Score(2, recency=2)}
        factors(Collected(found), scores, minimum, room)
        return [found.candidates.factor[index] for index in (0, 2, 3)]

    high, low, none = factors_of(10_000)
    assert high > low > none == 1_000
    tight = factors_of(10)
    assert tight[0] - tight[1] > high - low, "the less there is room for, the more it counts"
    assert factors_of(0) == factors_of(1) and max(factors_of(0)) <= 1_000 * (1 + 60 * 20 / 1_000)
    assert factors_of(10_000, minimum=2) == [high, low, 0]
    assert factors_of(10_000, minimum=3) == [high, 0, 0]


def test_a_selection_takes_no_more_than_its_budget_and_says_what_it_spent():
    texts = [f"line_{n} " + "x" * (n * 7 % 50) for n in range(40)]
    lines = Candidates(texts, [(n,) for n in range(40)], [1_000] * 40, [n // 5 for n in range(40)], list(range(40)))
    for budget in (0, 30, 100, 400, 900, 5_000):
        choice = Selection(lines, [20] * 8, [-1] * 8)
        chosen = choice.take(range(40), [100] * 40, budget)
        opened = {index // 5 for index in chosen}
        cost = sum(len(texts[index]) + 1 for index in chosen) + 20 * len(opened)
        assert choice.spent == cost <= budget and choice.chosen == chosen
        more = choice.put(range(40), 100)
        assert choice.spent - cost <= 100 and choice.chosen == chosen + more
        assert len(set(choice.chosen)) == len(choice.chosen)
    assert len(chosen) == 40, "all of it fits"
    silent = Candidates(["a"], [(0,)], [0], [0], [0])
    assert Selection(silent, [0], [-1]).put([0], 100) == []


def test_of_a_long_line_the_last_piece_counts_from_the_shortest_length_of_a_line():
    for length, count in ((SHORTEST_LINE - 1, 2), (SHORTEST_LINE, 3)):
        found = collector()
        found.add(found.source((0, 0), 1, "read a.py"), "x" * 240 + "y" * 240 + "z" * length, "result")
        assert len(found.candidates.text) == count


def test_a_line_that_stands_several_times_in_one_text_counts_as_often():
    found = collector()
    source = found.source((0, 0), 1, "bash make")
    found.add(
        source, "once_said here\ntwice_said here\nthrice_said x\ntwice_said here\n" + "thrice_said x\n" * 2, "result"
    )
    found.read()
    used = dict(zip(found.lexicon.words, found.used, strict=False))
    assert (used["twice_said"], used["thrice_said"]) == (2 * used["once_said"], 3 * used["once_said"])
    again = found.source((9, 0), 2, "bash make")
    found.add(again, "once_said here", "assistant")
    found.read()
    assert found.used[found.lexicon.words.index("once_said")] > 15 * used["once_said"]
