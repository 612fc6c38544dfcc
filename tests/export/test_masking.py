"""Secrets leave an export whatever their form; the quick look that spares plain text never loses one of them."""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codelet.export.document import Document
from codelet.export.encode import Encoder, to_json
from codelet.export.live import default_mask
from codelet.export.redaction import Mask, redacted
from codelet.messages import Message, assistant, tool_call, tool_result, user
from codelet.safety.secrets import Masker, SecretPrefilter, mask, spellings
from codelet.system.text.secret_shapes import live_secrets, secret_pattern
from tests.export import material
from tests.support.amount import amount

SECRETS = {
    "ANTHROPIC_API_KEY": "sk-ant-api03-Zk4x9Qw-eR7tY2uIoP5a_S8dF1gH3jK6lXcVbNmQa7Zt3",
    "OPENAI_API_KEY": "sk-proj-+/Zk4x9Qw=eR7tY2uIoP5a",
    "DATABASE_URL": "postgres://me:hunter2-and-a-long-tail@localhost/db",
    "SHORT_PASSWORD": "password",
    "ODD_PASSWORD": 'correct "horse" bättery \\ staple\tpin',
    "PIN_TOKEN": "1234567890",
}
MASKER = Masker(SECRETS)
LIVE = dict(live_secrets(SECRETS))


def cover(text: str) -> str:
    """The exact search, whatever the text."""
    return MASKER.mask(text, patterns=True)


EXACT = Mask(cover)
QUICK = Mask(cover, SecretPrefilter(MASKER.pieces()))

WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"


def of(alphabet: str, least: int, most: int | None = None) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=least, max_size=most or least + 3)


def shaped(*parts: str | st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*(st.just(part) if isinstance(part, str) else part for part in parts)).map("".join)


CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
PLAIN = WORD.removesuffix("_")
KINDS = {
    "sk": shaped("sk-", st.sampled_from(["", "ant-", "proj-", "or-v1-", "svcacct-"]), of(WORD + "-ñ", 20)),
    "live": shaped(st.sampled_from(["sk", "rk", "pk"]), "_", st.sampled_from(["live", "test"]), "_", of(WORD, 16)),
    "github": shaped("gh", st.sampled_from("pousr"), "_", of(WORD, 30)),
    "github pat": shaped("github_pat_", of(WORD, 30)),
    "gitlab": shaped("glpat-", of(WORD + "-", 18)),
    "slack app": shaped("xapp-", of(WORD + "-", 18)),
    "slack": shaped("xox", st.sampled_from("abeprs"), "-", of(WORD + "-", 10)),
    "aws": shaped(st.sampled_from(["AKIA", "ASIA", "ABIA", "ACCA"]), of(CAPITALS, 16, 16)),
    "google": shaped("AIza", of(WORD + "-", 35, 35)),
    "others": shaped(
        st.sampled_from(["hf", "gsk", "npm", "r8", "dop_v1", "tvly", "pplx"]),
        st.sampled_from(["", "_", "-", "_-"]), of(PLAIN, 29, 33), "7",
    ),
    "xai": shaped("xai-", of(WORD, 40)),
    "pypi": shaped("pypi-AgEI", of(WORD + "-", 50)),
    "web token": shaped("eyJ", of(WORD + "-", 8), ".eyJ", of(WORD + "-", 8), ".", of(WORD + "-", 8)),
    "sendgrid": shaped("SG.", of(WORD + "-", 16), ".", of(WORD + "-", 16)),
    "age": shaped(st.sampled_from(["age-secret-key-1", "AGE-SECRET-KEY-1"]), of(WORD, 50)),
    "private key": shaped(
        "-----BEGIN ", st.sampled_from(["", "RSA ", "EC "]), "PRIVATE KEY-----\n", of(WORD + "+/\n", 40),
        st.sampled_from(["", "\n-----END PRIVATE KEY-----"]),
    ),
    "login": shaped(st.sampled_from(["https", "postgres", "git+ssh"]), "://", of(PLAIN, 0), ":", of('ab1"\\é', 1), "@"),
    "header": shaped(
        st.sampled_from(["Authorization", "authorization", "AUTHORIZATION", "Authorızatİon"]),
        st.sampled_from([":", " : ", ":\t"]), st.sampled_from(["Bearer ", "basic  ", "TOKEN\n"]),
        of(WORD + ".~+/=-", 8),
    ),
}  # fmt: skip


@st.composite
def live_ones(draw: st.DrawFn) -> str:
    """A secret of the environment, or a piece of it, in one of its spellings."""
    value = LIVE[draw(st.sampled_from(sorted(LIVE)))]
    data = value.encode()
    spelling = draw(
        st.sampled_from(
            [value, value[::-1], data.hex(), data.hex().upper(), quote(value, safe="")]
            + [base64.b64encode(b"\0" * shift + data).decode() for shift in range(3)]
            + [base64.urlsafe_b64encode(b"\0" * shift + data).decode() for shift in range(3)]
        )
    )
    start = draw(st.integers(0, max(len(spelling) - 8, 0)))
    return spelling[start : start + draw(st.integers(6, len(spelling)))]


FILLERS = st.sampled_from(
    ["a line of text\n", "value=1, ", "self.assertEqual(sk, x)  # task-force\n", "naïve „Ж“ ", "1234 5678 ",
     "\t\x1b[0m", "https://example.org/a:b ", "toolu_01AbCdEfGhIjKlMnOpQrStUv ", "user@host ",
     "-----BEGIN CERTIFICATE-----", "\\n"]
).flatmap(lambda text: st.integers(0, 40).map(lambda times: text * times))  # fmt: skip
SECRET = st.one_of(*KINDS.values(), live_ones())
GLUE = st.sampled_from(["", " ", "\n", "\t", "\x1b", '"', "=", "x", "-", "\\", "é", ": "])
TEXTS = st.lists(st.tuples(FILLERS, GLUE, SECRET | st.just(""), GLUE), min_size=1, max_size=3).map(
    lambda parts: "".join(map("".join, parts))
)


@st.composite
def lists_of_messages(draw: st.DrawFn) -> tuple[Message, ...]:
    arguments = draw(st.one_of(TEXTS, TEXTS.map(lambda text: json.dumps({"command": text, "n": [text]}))))
    called = assistant(draw(st.none() | TEXTS), [tool_call("c", "bash", arguments)])
    called["thinking_blocks"] = [{"type": "thinking", "thinking": draw(TEXTS), "signature": draw(SECRET)}]
    return user(draw(TEXTS)), called, tool_result("c", draw(TEXTS)), assistant(draw(TEXTS))


@given(lists_of_messages(), TEXTS)
@settings(max_examples=amount(30, 120), deadline=None)
def test_the_quick_look_changes_nothing_that_the_exact_search_gives(messages: tuple[Message, ...], text: str) -> None:
    snapshot = Document(timestamp=1.0, token_count=1, messages=messages, summary=text, facts=(text,), session_id="x")
    assert to_json(snapshot, mask=QUICK) == to_json(snapshot, mask=EXACT)


UNSUSPECTED = st.sampled_from(
    ["", "a line of text\n" * 9, "self.assertEqual(sk, x)  # task-force ", "„Ж“ 1234 é", "\\n",
     "size Zip authoriz @ x/a:b@c ://d GIS SGX MSG. Json keyJ .eyJ xx-y AKIA12 -----END sk-a ghp_ hf_0 "]
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_token_is_suspected_wherever_it_stands(kind: str) -> None:
    @given(KINDS[kind], UNSUSPECTED, GLUE, GLUE, UNSUSPECTED)
    @settings(max_examples=amount(15, 60), deadline=None)
    def check(token: str, before: str, left: str, right: str, after: str) -> None:
        assert mask(token, patterns=True) != token
        assert not SecretPrefilter()(msgspec.json.encode(before + left + right + after))
        text = before + left + token + right + after
        assert SecretPrefilter()(msgspec.json.encode(text)) or mask(text, patterns=True) == text

    check()


@given(st.from_regex(secret_pattern()))
@settings(max_examples=amount(20, 80), deadline=None)
def test_whatever_the_exact_search_finds_is_suspected(token: str) -> None:
    assert SecretPrefilter()(msgspec.json.encode(token))


@pytest.mark.parametrize("name", LIVE)
def test_every_piece_of_a_live_secret_that_is_masked_is_suspected(name: str) -> None:
    value = LIVE[name]
    masker = Masker({}, [(name, value)])
    suspects = SecretPrefilter(masker.pieces())
    chance = random.Random(name)
    for spelling in spellings(value):
        for start in range(len(spelling) - 7):
            for length in (8, 9, 11, 12, 13, 20, 40):
                text = "some words " + spelling[start : start + length] + chance.choice(['"', ". And", "\n", "é", "Z"])
                if masker.mask(text) != text:
                    assert suspects(msgspec.json.encode({"content": text})), (name, text)


_ALPHABETS = st.sampled_from(
    [WORD + "-", "0123456789abcdef", "0123456789",
     "abcdefghilmnoprstu", "abcdefghilmnoprstujz", CAPITALS + "-", "ab1-_",
     "jqxyz-", WORD + "éß /:@\"\\\t"]
)  # fmt: skip


@given(_ALPHABETS.flatmap(lambda letters: of(letters, 8, 48)), st.data())
@settings(max_examples=amount(75, 300), deadline=None)
def test_a_piece_of_any_key_is_suspected_at_any_place(key: str, data: st.DataObject) -> None:
    masker = Masker({}, [("A_KEY", key), ("ANOTHER_KEY", SECRETS["OPENAI_API_KEY"])])
    suspects = SecretPrefilter(masker.pieces())
    spelling = data.draw(st.sampled_from(sorted(spellings(key))))
    start = data.draw(st.integers(0, len(spelling) - 8))
    piece = spelling[start : start + data.draw(st.integers(8, 16))]
    before = data.draw(st.sampled_from(["", "X", "x1", "Zip", "-J-Q", "plain ", '"', spelling[:7], "\n"]))
    text = before + piece + data.draw(st.sampled_from(["", " 12", "é", "\\", spelling[-7:]]))
    assert masker.mask(text) == text or suspects(msgspec.json.encode({"content": text}))
    assert masker.mask(text) == text or suspects(
        b",\n".join(map(msgspec.json.encode, ["Other text, 1", text, "7 more"]))
    )


def test_a_secret_that_is_no_text_is_searched_for_in_everything() -> None:
    assert SecretPrefilter([["abc\udc80defghij"]])(b"nothing")


@pytest.mark.parametrize(
    "text",
    [
        "npm install", "see https://example.org/a:b", "half", "print(r8)", "user@host", "Authorize", "xx-large box",
        "but the size of it", "a_name_that_is_longer_than_most", "src/codelet/export/suspects.py:12",
        "2026-11-22T01:22:57.123456+00:00", "authorization: none", "MSG.", "SG.short", "eyJhbGciOiJIUzI1NiJ9",
        "https://example.org/a:b c@d", "@@@", "sk-learn and task-a-very-long-name-with-dashes", "zzz ZZZ",
        "0123456701234567012345670123456701234567", "test_that_the_glpat_prefix_is_known",
    ],
)  # fmt: skip
def test_plain_text_is_spared(text: str) -> None:
    assert not QUICK.suspects(msgspec.json.encode(text))


def test_a_long_text_is_masked_piece_by_piece_and_nothing_slips_through() -> None:
    mask = default_mask(raw=False)
    assert mask is not None
    key = "-----BEGIN PRIVATE KEY-----\n" + ("MIIE" * 16 + "\n") * 900 + "-----END PRIVATE KEY-----\n"
    for secret in ("glpat-" + "Zz9" * 8, "Authorization: Bearer abcdefgh12", "Authorization :\n  token abcdefgh12"):
        for filler in ("a line of text\n", "word "):
            for place in range(16_340, 16_400, 5):
                text = (filler * 40_000)[:place] + " " + secret + " " + (filler * 4_000)
                assert secret.split()[-1] not in redacted(text, mask.cover)
    text = "line\n" * 3_000 + key + "line\n" * 9_000
    covered = redacted(text, mask.cover)
    assert "MIIE" not in covered
    assert covered.count("line\n") == 12_000
    plain = "nothing to hide\n" * 10_000
    assert redacted(plain, mask.cover) is plain


_LONG_TEXT = st.tuples(st.text(max_size=20), st.integers(1, 300)).map(lambda parts: parts[0] * parts[1])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | _LONG_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=10,
)


def saved(value: Any) -> Any:
    """What a session's export holds of a value that has no form of its own."""
    document = Document(timestamp=1.0, token_count=1, messages=(), unknown={"key": value})
    return json.loads(to_json(document, mask=None)).get("key", "left out")


@given(_VALUES)
@settings(max_examples=amount(30, 120), deadline=None)
@example({"a": "x" * 300, "b": "\x1b" * 300, "c": '"\\\n\t\r\x7f\u2028' * 90, "d": {"e": "é😀" * 200}})
def test_it_is_the_json_that_the_standard_library_writes(value: Any) -> None:
    document = Document(timestamp=1.0, token_count=1, messages=(), unknown={"key": value})
    assert json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() in to_json(document, mask=None)


@given(st.floats(-(2.0**63), 2.0**63) | st.integers(-(2**63), 2**63))
def test_every_number_is_written_so_that_it_comes_back(number: float) -> None:
    again = saved(number)
    assert (again, type(again)) == (number, type(number))


@pytest.mark.parametrize("text", ["a\ud800b", "x" * 300 + "\ud800", "\ud83d\ude00" * 200])
def test_half_a_pair_is_replaced_and_a_whole_one_is_its_character(text: str) -> None:
    assert saved({"content": text})["content"] == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_what_json_has_not_is_left_out() -> None:
    loop: dict[str, Any] = {"content": "x" * 300}
    loop["inner"] = loop
    for value in (loop, [loop], {None: 1}, {"a": object()}):
        assert saved(value) == "left out"


def test_a_mask_that_fails_once_leaves_nothing_unmasked_for_the_next_save() -> None:
    fails = [True]

    def cover(text: str) -> str:
        if fails and "hunter2" in text:
            fails.clear()
            raise MemoryError
        return text.replace("hunter2", "[masked]")

    encoder = Encoder(Mask(cover))
    snapshot = Document(
        timestamp=1.0, token_count=1, messages=(user("hunter2"),), facts=("hunter2",), summary="hunter2"
    )
    with pytest.raises(MemoryError):
        encoder.parts(snapshot)
    data = b"".join(encoder.parts(snapshot))
    assert b"hunter2" not in data
    assert data.count(b"[masked]") == 3


def names(count: int, characters: int) -> Document:
    """A session that is dense with long names, numbers and addresses, as those of a coding tool are."""
    chance = random.Random(7)
    words = ["self.assertEqual", "test_compaction_keeps", "src/codelet/export/suspects.py:", "MAX_OUTPUT_TOKENS"]
    words += ["the", "result", "return", "readFileSync", "@param", "size", "import", "{", "    ", "\n", "is not found"]
    texts: list[str] = []
    while len(texts) < count:
        chosen = chance.choices(words, k=characters // 10)
        texts.append(
            " ".join(word + chance.choice(["", "_", ",", ":", f" {chance.randrange(999)}"]) for word in chosen)
        )
    return Document(timestamp=1.0, token_count=count, messages=tuple(map(user, texts)), session_id="names")


@pytest.mark.parametrize(
    ("snapshot", "most"), [(material.long(40, 3_500), 14), (names(100, 3_500), 18)], ids=["prose", "names"]
)
def test_masking_costs_little_beside_encoding(snapshot: Document, most: int) -> None:
    """In processor time, the least of many runs; scripts/bench/save.py measures whole saves."""
    document = json.loads(to_json(snapshot, mask=None))
    masker = Masker({"ANTHROPIC_API_KEY": "sk-ant-api03-" + "Zk4x9Qw-eR7tY2uIoP5a_S8dF1gH3jK6" * 3})
    mask = Mask(lambda text: masker.mask(text, patterns=True), SecretPrefilter(masker.pieces()))

    def least(work: Callable[[], object]) -> float:
        times: list[float] = []
        for _ in range(60):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
        return min(times)

    assert least(lambda: to_json(snapshot, mask=mask)) <= most * least(lambda: json.dumps(document))
