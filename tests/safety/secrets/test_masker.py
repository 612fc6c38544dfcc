"""Keys are masked in whatever form they are printed, and gone from children's environments."""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
import time
from urllib.parse import quote

import pytest

from codelet.safety.secrets import Masker, MaskStream, SecretPrefilter
from codelet.system.process import child_environment

KEY = "sk-ant-api03-Zk4/x9Qw+eR7tY2u-IoP5aS8dF1gH3jK6lXcVbNm"
ENVIRONMENT = {
    "ANTHROPIC_API_KEY": KEY,
    "DATABASE_URL": "postgres://me:hunter2secret@localhost/db",
    "COPY_OF_IT": f"x {KEY} y",
    "HOME": "/home/me",
    "PATH": os.environ["PATH"],
}


def forms() -> dict[str, str]:
    data = KEY.encode()
    return {
        "plain": f"key={KEY};",
        "in quotes": f'"{KEY}"',
        "all but the first 7": KEY[7:],
        "all but the last 7": KEY[:-7],
        "the middle": KEY[16:30],
        "reversed": KEY[::-1],
        "base64": base64.b64encode(data).decode(),
        "base64, shifted by 1": base64.b64encode(b"k" + data).decode(),
        "base64, shifted by 2": base64.b64encode(b"k=" + data).decode(),
        "base64 for URLs": base64.urlsafe_b64encode(b"KEY=" + data + b"\n").decode(),
        "hexadecimal": data.hex(),
        "in a URL": "https://x/?k=" + quote(KEY, safe=""),
    }


def holds_a_piece(text: str, length: int = 12) -> bool:
    spellings = [KEY[13:], KEY[13:][::-1], KEY.encode().hex()[26:], quote(KEY, safe="")[13:]]
    spellings += [base64.b64encode(b"\0" * shift + KEY.encode()).decode()[24:-4] for shift in range(3)]
    return any(spelling[at : at + length] in text for spelling in spellings for at in range(len(spelling) - length + 1))


@pytest.mark.parametrize("name", forms())
def test_every_form_is_masked(name: str) -> None:
    text = f"before {forms()[name]} after"
    assert holds_a_piece(text)
    masked = Masker(ENVIRONMENT).mask(text)
    assert "[masked ANTHROPIC_API_KEY]" in masked
    assert not holds_a_piece(masked)
    assert masked.startswith("before ")
    assert masked.endswith(" after")


@pytest.mark.parametrize("size", [1, 7, 64])
def test_a_cut_between_chunks_hides_nothing(size: int) -> None:
    text = f"line one\nkey: {KEY}\nlast {KEY[10:]}"
    stream = MaskStream(Masker(ENVIRONMENT))
    masked = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.flush()
    assert masked == Masker(ENVIRONMENT).mask(text)
    long = MaskStream(Masker(ENVIRONMENT))
    run = "x" * 40_000 + KEY + "y" * 40_000
    assert KEY not in "".join(long.feed(run[at : at + 4_000]) for at in range(0, len(run), 4_000)) + long.flush()


@pytest.mark.parametrize("size", [1, 3, 7, 64])
@pytest.mark.parametrize("secret", ["correct horse battery staple", "one of\nmore lines\tand a tab"])
def test_a_secret_with_blanks_is_masked_whole_however_it_is_cut(secret: str, size: int) -> None:
    masker = Masker({"THE_PASSPHRASE": secret})
    text = f"it is {secret}, a {secret[:5]} one; {secret} {secret[:8]}"
    stream = MaskStream(masker)
    shown = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join(shown) + stream.flush() == masker.mask(text)
    assert masker.mask(text).count("[masked THE_PASSPHRASE]") == 2


@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_secret_is_masked_in_json_and_in_json_that_stands_in_json(ascii_only: bool) -> None:
    secret = '4"a\\s/ö\n"z\'7"q\\p"k\n9'
    once = json.dumps({"password": secret}, ensure_ascii=ascii_only)
    twice = json.dumps({"arguments": once}, ensure_ascii=ascii_only)
    masker = Masker({"DB_PASSWORD": secret})
    assert masker.mask(once) == '{"password": "[masked DB_PASSWORD]"}'
    assert json.loads(masker.mask(twice)) == {"arguments": '{"password": "[masked DB_PASSWORD]"}'}
    data = twice.encode()
    assert SecretPrefilter(masker.pieces())(data) and SecretPrefilter(masker.pieces())(once.encode())


def test_pieces_are_masked_from_twelve_characters_on() -> None:
    secret = "Zk4x9QweR7tY2uIoP5aS8dF1gH3j"
    masker = Masker({"SOME_KEY": secret})
    for start in range(len(secret) - 11):
        for length in (11, 12, 13, 20):
            piece = secret[start : start + length]
            expected = f"({piece})" if len(piece) < 12 else "([masked SOME_KEY])"
            assert masker.mask(f"({piece})") == expected, piece
    assert masker.mask(f"{secret}{secret[:12]} {secret[5:25]}, {secret[:12]}") == (
        "[masked SOME_KEY] [masked SOME_KEY], [masked SOME_KEY]"
    )
    assert masker.mask(secret[:12] + secret[10:24]) == "[masked SOME_KEY]", "they touch"
    assert masker.mask(secret[:6] + "-" + secret[6:12]) == secret[:6] + "-" + secret[6:12]


def test_what_a_key_begins_with_by_its_kind_is_no_secret() -> None:
    masker = Masker({"SOME_KEY": "abc-defgh-Zk4x9QweR7tY2u"})
    assert masker.mask("abc-defgh-Zk4x9") == "abc-defgh-Zk4x9"
    assert masker.mask("gh-Zk4x9QweR7") == "[masked SOME_KEY]"
    assert masker.mask("abc-defgh-Zk4x9QweR7tY2u") == "[masked SOME_KEY]"
    short = Masker({"SOME_KEY": "abc-defgh-Zk4x9"})
    assert short.mask("abc-defgh-Zk4x9") == "[masked SOME_KEY]", "too little would be left of it"


def test_short_values_are_no_secrets_and_given_ones_are() -> None:
    assert not Masker({"SOME_KEY": "short12"}).has_secrets
    assert Masker({"SOME_KEY": "short123"}).mask("it is short123.") == "it is [masked SOME_KEY]."
    given = Masker({}, [("--key", "given by hand"), ("--other", "x")])
    assert given.has_secrets
    assert given.mask("given by hand, x") == "[masked --key], x"


def test_a_stream_holds_back_only_what_may_become_a_secret() -> None:
    stream = MaskStream(Masker({"SOME_KEY": "correct horse"}))
    shown = [stream.feed(piece) for piece in ("one tw…", "a corr", "uption, a correct hor", "n…")]
    assert shown == ["one tw…", "a ", "corruption, a ", "correct horn…"]
    assert (stream.feed("!rect horse"), stream.flush(), stream.flush()) == ("!", "rect horse", "")


@pytest.mark.parametrize("size", [1, 2, 5])
def test_secrets_that_share_letters_are_masked_whole_however_they_are_cut(size: int) -> None:
    masker = Masker({"ONE": "abcabcabcabc-end-of-one", "TWO": "of-one-abcabcabcabc"})
    text = "abcabcabcabc-end-of-one-abcabcabcabcabc, of-one-abcabcabcabc-end-of-one-abc"
    stream = MaskStream(masker)
    assert "".join(
        stream.feed(text[at : at + size]) for at in range(0, len(text), size)
    ) + stream.flush() == masker.mask(text)


def test_ordinary_text_stays() -> None:
    masker = Masker(ENVIRONMENT)
    text = "the prefix sk-ant-api03- is public; postgres://localhost/db; HOME=/home/me hunter2"
    assert masker.mask(text) == text
    assert masker.mask("password is hunter2secret") == "password is [masked DATABASE_URL]"
    code = "def token(password: str) -> str:\n    return hash(password)  # sk-learn, ghp, eyJ, AKIA\n"
    assert masker.mask(code, patterns=True) == code


@pytest.mark.parametrize(
    "token",
    [
        "sk-proj-" + "a1B2" * 8,
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2" * 10,
        "glpat-" + "a1B2c3D4e5F6g7H8i9J0",
        "xoxb-123456789012-abcdef",
        "AKIA" + "ABCD1234EFGH5678",
        "AIza" + "a" * 35,
        "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_known_tokens_are_masked_where_asked(token: str) -> None:
    masker = Masker({})
    assert masker.mask(f"x {token} y") == f"x {token} y"
    masked = masker.mask(f"x {token} y", patterns=True)
    assert token not in masked
    assert masked.startswith("x [masked ")
    assert masked.endswith("] y")


def test_logins_in_addresses_are_masked() -> None:
    masked = Masker({}).mask("git clone https://me:pw12345@host/x; Authorization: Bearer abcdefgh12", patterns=True)
    assert masked == "git clone https://me:[masked token]@host/x; Authorization: Bearer [masked token]"


def test_a_child_gets_no_secret() -> None:
    scrubbed = child_environment(ENVIRONMENT)
    assert not {"ANTHROPIC_API_KEY", "DATABASE_URL", "COPY_OF_IT"} & scrubbed.keys()
    done = subprocess.run(["env"], env=scrubbed, capture_output=True, text=True, check=True)
    assert KEY not in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        "echo {}",
        "printf %s {} | base64",
        "printf %s {} | base64 -w0 | fold -w 76",
        "printf %s {} | xxd -p -c 100",
        "echo {} | rev",
        "printf %s {} | od -An -tx1 | tr -d ' \\n'",
        "echo '{{\"k\": \"'{}'\"}}'",
        "printf 'KEY=%s\\n' {} | base64 -w0",
        "echo {} | cut -c 8-",
        "echo {} | head -c 40",
    ],
)
def test_ten_ways_to_echo_it(command: str) -> None:
    run = command.format(shlex.quote(KEY))
    output = subprocess.run(["bash", "-c", run], capture_output=True, text=True, check=True).stdout
    assert not holds_a_piece(Masker(ENVIRONMENT).mask(output).replace("\n", ""), 16)


def test_masking_is_quick() -> None:
    masker = Masker({f"SECRET_{number}_KEY": KEY + str(number) * 5 for number in range(8)})
    text = ("some ordinary output line with words and numbers 12345\n" * 600)[:30_000]
    start = time.process_time()
    masker.mask(text)
    assert time.process_time() - start < 0.1


KNOWN_TOKENS = {
    "Slack app": "xapp-1-A0123456789-1234567890123-0f0f0f0f0f0f0f0f",
    "Slack workspace": "xoxe-1-My0xLTEyMzQ1Njc4OTAtMTIzNDU2Nzg5MC0",
    "Stripe publishable": "pk_live_51Hh4Zk9Qw7eR7tY2uIoP5aS8",
    "AWS role": "ABIA0123456789ABCDEF",
    "SendGrid": "SG.Zk4x9QweR7tY2uIoP5aS8d.F1gH3jK6lXcVbNmQa7Zt3Zk4x9QweR7tY2uIoP5a",
    "age": "AGE-SECRET-KEY-1QYPQXPQ9QCRSSZG2PVXQ6RS0ZQG3YYC5Z5TPWXQERGD3C8G7RUQQZQ9QC",
    "Tavily": "tvly-0123456789abcdefABCDEF0123456789",
    "GitHub": "ghs_0123456789abcdefABCDEF0123456789",
}


@pytest.mark.parametrize("service", KNOWN_TOKENS)
def test_a_shape_is_known_to_the_environment_the_masker_and_the_prefilter(service: str) -> None:
    token = KNOWN_TOKENS[service]
    assert "HARMLESS" not in child_environment({"HARMLESS": token})
    assert Masker({}).mask(f"it is {token}.", patterns=True) == "it is [masked token]."
    assert SecretPrefilter()(json.dumps({"content": f"it is {token}."}).encode())
    assert SecretPrefilter()(token.encode()), "at the very start, too"
    assert f"it is {token}." not in Masker({"HARMLESS": token}).mask(f"it is {token}.")


def test_the_prefilter_looks_for_the_whole_piece_of_a_key_where_its_seldom_letters_stand() -> None:
    key = "XaQeZtJsB-Kn7Qa4Zt1JsXo9"
    prefilter = SecretPrefilter([[key]])
    seldom = "".join(letter for letter in key if letter not in "aetsno")
    assert prefilter(json.dumps(f"it is {key}").encode())
    assert not prefilter(json.dumps(f"it is {seldom}").encode())
    assert not prefilter(json.dumps(" ".join(seldom)).encode())


def test_the_prefilter_finds_a_password_in_an_address() -> None:
    prefilter = SecretPrefilter()
    assert prefilter(b'"see @me, then postgres://me:hunter2@host/x"')
    assert not prefilter(b'"postgres://me@host/x, https://host/a:b@c"')


def test_what_only_begins_like_a_token_stays_in_the_environment() -> None:
    variables = {"REGION": "ACCARA", "TITLE": "SG.", "TOOL": "npm", "NOTE": "tvly is a service", "HOST": "r8.example"}
    assert variables.items() <= child_environment(variables).items()
