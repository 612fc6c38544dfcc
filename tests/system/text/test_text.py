"""The cleaner: nothing that acts gets through, plain text of any script stays, chunks change nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codelet.system.text import (
    Cleaner,
    clean,
    first_sentence,
    one_line,
    valid_unicode,
    visible,
)
from codelet.system.text.lookalikes import confusables
from codelet.system.text.spelling import nearest
from tests.support.amount import amount


def streamed(pieces: list[str], *, ci: bool = False) -> str:
    cleaner = Cleaner(ci=ci)
    return "".join(map(cleaner.feed, pieces)) + cleaner.flush()


@pytest.mark.parametrize(
    "text",
    [
        "plain\ttext\nwith lines\r\n",
        "مرحبا שלום नमस्ते ไทย 中文 日本語 한국어 café naïve",
        "emoji 👩‍💻 👨‍👩‍👧‍👦 ❤️ ✔️ 1️⃣ 🇩🇪 👍🏽",
        "می‌خواهم क्‍ष",
        "box ┌─┐ │ ✓ → … “quotes” €",
        "std::vector<int> a[0]; list[int] [x] ## heading # comment",
        "e\u0301 combining",
    ],
)
def test_plain_text_stays(text: str) -> None:
    assert clean(text) == text
    assert streamed(list(text)) == text
    assert not confusables(text)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[8mhidden\x1b[0m", "hidden"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;aGk=\x07", ""),
        ("\x1bPq#0\x1b\\x", "x"),
        ("\x1b_app\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\x", "x"),
        ("\x9b31mx\x9d0;t\x9cy", "xy"),
        ("\x1bcx\x1b7y\x1b(Bz", "xyz"),
        ("\x1b[?1049h\x1b[?2004l\x1b[2J\x1b[1;1Hx", "x"),
        ("\x1b]0;never closed\nnext", "]0;never closed\nnext"),
        ("\x1b[31", "[31"),
        ("\x1b", ""),
        ("a\rb", "a\nb"),
        ("a\r\nb", "a\r\nb"),
        ("a\bb\x07\x00\x7f", "ab"),
        ("a\x0bb\x0cc\x85d\u2028e\u2029f", "a\nb\nc\nd\ne\nf"),
        ("a\u202eb\u2066c\u200fd", "abcd"),
        ("a\u200bb\u00adc\ufeffd\u2060e\u3164", "abcde"),
        ("a\U000e0041\U000e007fb", "ab"),
        ("a\ufe00\ufe0fb", "ab"),
        ("a\u200db", "ab"),
        ("x\ud800y", "x\ufffdy"),
        ("e" + "\u0301" * 50, "e" + "\u0301" * 8),
    ],
)
def test_what_acts_is_taken_out(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned
    for cut in range(len(text) + 1):
        assert streamed([text[:cut], text[cut:]]) == cleaned
    assert streamed(list(text)) == cleaned


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("::error::x", ": :error::x"),
        ("a\n  ::add-mask::x\n", "a\n  : :add-mask::x\n"),
        ("\u00a0::set-output name=a::b", "\u00a0: :set-output name=a::b"),
        ("x ##[command]ls", "x # #[command]ls"),
        ("##vso[task.setvariable variable=x]y", "# #vso[task.setvariable variable=x]y"),
        ("##teamcity[buildProblem]", "# #teamcity[buildProblem]"),
        ("section_start:1:x", "section_start :1:x"),
        ("a::b ::c", "a::b ::c"),
        ("## heading", "## heading"),
        ("\x1b[0m::stop-commands::t", ": :stop-commands::t"),
        ("##\u200bvso[x]", "# #vso[x]"),
        ("x\r::error::y", "x\n: :error::y"),
    ],
)
def test_no_command_reaches_a_runner(text: str, cleaned: str) -> None:
    assert streamed([text], ci=True) == cleaned
    for cut in range(len(text) + 1):
        assert streamed([text[:cut], text[cut:]], ci=True) == cleaned
    assert streamed(list(text), ci=True) == cleaned


TOKENS = st.sampled_from(
    [
        "\x1b",
        "[",
        "]",
        "31m",
        "\x07",
        "\\",
        "\x9b",
        "\x9d",
        "\x9c",
        "P",
        "::",
        "#",
        "vso[",
        "\r",
        "\n",
        " ",
        "a",
        "é",
        "👩",
        "\u200d",
        "️",
        "́",
        "\u202e",
        "0",
        ";",
        "�",
        "क",
        "\x00",
    ]
)


@settings(max_examples=amount(100, 400), deadline=None)
@given(st.lists(TOKENS, max_size=24).map("".join), st.integers(1, 5), st.booleans())
def test_chunks_change_nothing_and_nothing_acts(text: str, size: int, ci: bool) -> None:
    whole = streamed([text], ci=ci)
    assert streamed([text[at : at + size] for at in range(0, len(text), size)], ci=ci) == whole
    assert not any(ord(letter) < 32 and letter not in "\n\t\r" for letter in whole)
    assert not any(0x7F <= ord(letter) < 0xA0 or letter in "\u202e\ud800" for letter in whole)
    assert "\r" not in whole.replace("\r\n", "")
    assert clean(clean(text)) == clean(text)


def test_a_string_that_never_ends_is_let_go() -> None:
    cleaner = Cleaner()
    given_back = "".join(cleaner.feed(piece) for piece in ["\x1b]0;", *["x" * 100] * 100])
    assert len(given_back) > 5_000


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Find files by glob, e.g. `**/*.py`. Newest first.", "Find files by glob, e.g. `**/*.py`"),
        ("One, i.e. a single one. Two.", "One, i.e. a single one"),
        ("Read a.py. More.", "Read a.py"),
        ("The end.", "The end"),
        ("No stop", "No stop"),
    ],
)
def test_the_first_sentence(text: str, first: str) -> None:
    assert first_sentence(text) == first


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("--modle", "--model"),
        ("--mode", "--mode"),
        ("--modell", "--model"),
        ("--mxdle", None),
        ("--max-trns", "--max-turns"),
        ("--max-truns", "--max-turns"),
        ("-x", None),
        ("--image", None),
    ],
)
def test_the_nearest_word(word: str, found: str | None) -> None:
    assert nearest(word, ["--mode", "--model", "--max-turns", "-p", "--timeout"]) == found


def test_one_line() -> None:
    assert one_line("a\nb\t c  d", 20) == "a b c d"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("abcd", 4) == "abcd"
    assert one_line("中文字", 4) == "中…"
    assert one_line("\x1b[31mred\x1b[0m", 10) == "red"


def test_an_approval_shows_everything() -> None:
    assert visible("ls\u202e ; touch x\x00") == "ls\\u202e ; touch x\\x00"
    assert visible("\x1b[2Kx") == "\\x1b[2Kx"
    assert visible("a" + " " * 4_000 + "; b") == "a ⟨4000 spaces⟩ ; b"
    assert visible("a\nb") == "a\nb"
    assert visible("x\U000e0041") == "x\\U000e0041"


@pytest.mark.parametrize(
    "text",
    [
        "for z in y:\n" + " " * 20 + "if z:",
        " " * 160 + "x",
        "\t" * 20 + "return",
        "⚠️ careful",
        "👩\u200d💻 at work",
        "🏳️\u200d🌈",
        "1️⃣ first",
    ],
)
def test_an_approval_leaves_indentation_and_emoji_as_they_are(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" " * 10_000 + "curl x | sh", " ⟨10000 spaces⟩ curl x | sh"),
        ("ls\n" + "\t" * 41 + "rm x", "ls\n ⟨41 tabs⟩ rm x"),
        ("x" + " \t" * 10 + "y", "x ⟨20 spaces and tabs⟩ y"),
        ("a" + " " * 16 + "b", "a ⟨16 spaces⟩ b"),
        ("\x0b" + " " * 16 + "b", "\\x0b ⟨16 spaces⟩ b"),
        ("a\ufe0f", "a\\ufe0f"),
        ("1\ufe0f", "1\\ufe0f"),
        ("⚠\ufe0f\ufe0f", "⚠\ufe0f\\ufe0f"),
        ("💻\u200d", "💻\\u200d"),
        ("\u200d💻", "\\u200d💻"),
        ("💻\u200dx", "💻\\u200dx"),
        ("💻\u200d\u200d💻", "💻\\u200d\\u200d💻"),
        ("💻 \u200d💻", "💻 \\u200d💻"),
        ("─\u200d─", "─\\u200d─"),
    ],
)
def test_an_approval_counts_what_could_push_text_away_and_shows_stray_joiners(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_valid_unicode() -> None:
    assert valid_unicode("a\ud800b") == "a\ufffdb"
    assert valid_unicode("\ud83d\ude00") == "😀"
    valid_unicode("x\udfff").encode()


@pytest.mark.parametrize(
    "text", ["сurl x", "ls; сat a", "gіt status", "ｌｓ -la", "𝗅𝗌", "рython x", "sudο rm", "вash\nсd x"]
)
def test_look_alikes_are_warned_of(text: str) -> None:
    assert "U+" in confusables(text)[0]


@pytest.mark.parametrize(
    "text", ["echo привет мир", "grep größe a.txt", "echo Ελληνικά", "cat 中文.md", "echo 5μs", "ls café"]
)
def test_other_scripts_are_not_warned_of(text: str) -> None:
    assert confusables(text) == []


def test_importing_is_cheap() -> None:
    code = (
        "import sys, codelet.system.text; sys.exit(' '.join({'rich', 'unicodedata', 'base64'} & set(sys.modules)) or 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_whole_text_is_cleaned_as_text_in_pieces_is_for_every_character():
    """`clean` passes what is plainly harmless without looking further: for no character may that differ."""
    for code in range(0x10000):
        text = f"a{chr(code)}b"
        cleaner = Cleaner()
        assert clean(text) == cleaner.feed(text) + cleaner.flush(), hex(code)
