"""The one table of what a secret looks like: the names of variables that hold one, and the tokens of services.

Three parts use it: `process.start` keeps secrets from children, `safety.secrets` masks them in text,
and `safety.secrets` tells which text is worth masking. What is stated here is known to all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from codelet.record import Record

SHORTEST_SECRET = 8
"""Characters below which a value is too common a word to be looked for."""

_NAME_WORDS = frozenset(
    ["APIKEY", "AUTH", "AUTHORIZATION", "BEARER", "COOKIE", "COOKIES", "CREDENTIAL", "CREDENTIALS", "CREDS", "DSN",
     "JWT", "KEY", "KEYS", "MNEMONIC", "OTP", "PASS", "PASSCODE", "PASSPHRASE", "PASSWD", "PASSWORD", "PASSWORDS",
     "PAT", "SALT", "SECRET", "SECRETS", "SIGNATURE", "TOKEN", "TOKENS"]
)  # fmt: skip
"""Words, between underscores, that make a name one of a secret."""
_NAME_ENDINGS = (
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIALS",
    "CONNECTION_STRING",
    "PASSCODE",
    "MNEMONIC",
    "PW",
)
"""The same for names that run their words together, such as PGPASSWORD."""
_PERHAPS = re.compile(
    r"(?P<address>(?:^|_)WEBHOOKS?(?:_|$))|(?P<text>(?:^|_)PWD(?:_|$)|PEM(?:_|$))"
    r"|(?P<long>SEED(?:_?(?:PHRASE|WORDS?|HEX|BASE64))?$)"
)
"""Names of a secret if the value can be one: an address, a text, or a long one. `_PLAIN` values never are."""
_PLAIN = re.compile(r"[~.]?/\S*|[-\d.,:]*|\S*\.\w{1,5}|(?i:true|false|yes|no|on|off)")
_LONG = 16
"""Characters that a seed has at least: one of random numbers is short."""
_SECRET_NAMES = frozenset(["MYSQL_PWD", "SSHPASS", "VSCODE_GIT_IPC_HANDLE"])
_HARMLESS_NAMES = frozenset(["SSH_AUTH_SOCK"])


class TokenShape(Record):
    """The form of a service's tokens: one of `starts`, `between`, `count` of `letters`, then `tail`.

    All but `starts` are parts of a regular expression; `count` is the text in its braces. `has_digit`: one of the
    letters is a digit. A variable's value that begins with one of `telling` is a secret, whatever follows.
    """

    starts: tuple[str, ...]
    letters: str
    count: str
    between: str = ""
    tail: str = ""
    has_digit: bool = False
    telling: tuple[str, ...] | None = None

    @property
    def start(self) -> str:
        """A regular expression for the starts."""
        return f"(?:{'|'.join(map(re.escape, self.starts))})"

    @property
    def regex(self) -> str:
        """A regular expression for a whole token."""
        digit = r"(?=\w*\d)" if self.has_digit else ""
        return f"{self.start}{self.between}{digit}{self.letters}{{{self.count}}}{self.tail}"

    @property
    def shortest(self) -> int:
        """The length of the shortest token that has no tail."""
        return min(map(len, self.starts)) + int(self.count.partition(",")[0])


SLACK = TokenShape(("xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-"), r"[\w-]", "10,")
AWS = TokenShape(("AKIA", "ASIA", "ABIA", "ACCA"), "[A-Z0-9]", "16", telling=("AKIA", "ASIA"))
JSON_WEB_TOKEN = TokenShape(("eyJ",), r"[\w-]", "8,", tail=r"\.eyJ[\w-]{8,}\.[\w-]{8,}")
SENDGRID = TokenShape(("SG.",), r"[\w-]", "16,", tail=r"\.[\w-]{16,}", telling=())

TOKENS = (
    TokenShape(("sk-",), r"[\w-]", "20,"),
    TokenShape(("sk_live_", "sk_test_", "rk_live_", "rk_test_", "pk_live_", "pk_test_"), r"\w", "16,"),
    TokenShape(("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), r"\w", "30,"),
    TokenShape(("glpat-",), r"[\w-]", "18,"),
    SLACK,
    TokenShape(("xapp-",), r"[\w-]", "18,"),
    AWS,
    TokenShape(("AIza",), r"[\w-]", "35"),
    TokenShape(
        ("hf", "gsk", "npm", "r8", "dop_v1", "tvly", "pplx"), "[A-Za-z0-9]", "30,", between="_?-?", has_digit=True,
        telling=("hf_", "gsk_", "npm_", "dop_v1_"),
    ),
    TokenShape(("xai-",), r"\w", "40,"),
    TokenShape(("pypi-AgEI",), r"[\w-]", "50,", telling=("pypi-",)),
    JSON_WEB_TOKEN,
    SENDGRID,
    TokenShape(("age-secret-key-1", "AGE-SECRET-KEY-1"), r"\w", "50,"),
)  # fmt: skip

PRIVATE_KEY_START = "-----BEGIN "
_KEY_MARK = r"[A-Z ]*PRIVATE KEY(?: BLOCK)?-----"
_PRIVATE_KEY = rf"{PRIVATE_KEY_START}{_KEY_MARK}.*?(?:-----END {_KEY_MARK}|\Z)"
ADDRESS_USER, ADDRESS_PASSWORD = r"://[^\s/:@]*:", r"[^\s/@]+"
"""The user's name and the password in an address such as `postgres://user:password@host/`; an `@` follows."""
_HEADER = r"(?i:authorization\s*:\s*(?:bearer|basic|token)\s+)"

_TELLING = (
    PRIVATE_KEY_START,
    *(start for shape in TOKENS for start in (shape.starts if shape.telling is None else shape.telling)),
)
_STARTS = tuple(start for shape in TOKENS for start in shape.starts)


@cache
def secret_pattern() -> re.Pattern[str]:
    """Return a pattern for text that is masked by its form: the group `key` is a private key, `token` a service's
    token, `password` follows `address`, `value` follows `header`.
    """
    return re.compile(
        rf"(?P<key>{_PRIVATE_KEY})|(?<![\w-])(?P<token>{'|'.join(shape.regex for shape in TOKENS)})"
        rf"|(?P<address>(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*{ADDRESS_USER})(?P<password>{ADDRESS_PASSWORD})(?=@)"
        rf"|(?P<header>{_HEADER})(?P<value>[\w.~+/=-]{{8,}})",
        re.DOTALL,
    )


def live_secrets(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The names of the variables that hold a credential, and the credential itself.

    Of an address with a password only the password is secret; the host may be named anywhere.
    """
    for name, value in variables.items():
        if is_secret(name, value):
            yield name, _password(value) or value.strip()


def without_login(address: str) -> str:
    """Return an address that is safe to show: without the part before its last `@`, which may hold a password, and
    without its query, which may hold a key.
    """
    scheme, separator, rest = address.partition("?")[0].partition("://")
    if not separator:
        scheme, separator, rest = "", "", address
    return scheme + separator + rest.rpartition("@")[2]


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable holds a credential, by its name or by the look of its value."""
    if name in _HARMLESS_NAMES or name.startswith("GIT_CONFIG_KEY_"):
        return False
    upper = name.upper()
    words = upper.replace("-", "_").replace(".", "_").split("_")
    if upper in _SECRET_NAMES or upper.endswith(_NAME_ENDINGS) or not _NAME_WORDS.isdisjoint(words):
        return True
    if (perhaps := _PERHAPS.search("_".join(words))) is not None and _can_be_secret(perhaps.lastgroup, value.strip()):
        return True
    if value.lower().startswith("authorization:"):  # how git is given a header by variables
        return True
    if value.startswith(_TELLING) or _password(value):
        return True
    return value.startswith(_STARTS) and secret_pattern().match(value) is not None


def _can_be_secret(kind: str | None, value: str) -> bool:
    """Return whether a value can be a secret of the kind that its name suggests."""
    if kind == "address":
        return "://" in value
    return not _PLAIN.fullmatch(value) and (kind == "text" or len(value) >= _LONG)


def _password(value: str) -> str:
    """The password of an address such as `postgres://user:password@host/`, else nothing."""
    scheme, separator, rest = value.partition("://")
    if not separator or not scheme.replace("+", "").isalnum():
        return ""
    login, at, _ = rest.partition("/")[0].rpartition("@")
    return login.partition(":")[2] if at else ""
