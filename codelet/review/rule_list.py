"""The closed list of rules: what kinds of bugs a review names, with the CWE where one fits.

A baseline, an ignore comment and a code scanning service know a finding by its name. A model picks one of these.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class BugKind(NamedTuple):
    """One kind of bug: its category, the number of its CWE or None, and what it is."""

    category: str
    cwe: int | None
    text: str


RULES: dict[str, BugKind] = {
    "sql-injection": BugKind("security", 89, "Input becomes part of a database query."),
    "command-injection": BugKind("security", 78, "Input becomes part of a command line."),
    "code-injection": BugKind("security", 94, "Input is run as code or as a template."),
    "cross-site-scripting": BugKind("security", 79, "Input becomes markup or script of a page."),
    "path-traversal": BugKind("security", 22, "Input names a file outside of the intended folder."),
    "request-forgery": BugKind("security", 918, "Input decides where a request goes, or any page may send one."),
    "unsafe-deserialization": BugKind("security", 502, "Input is turned into objects that can run code."),
    "missing-authorization": BugKind("security", 862, "An action or data is open to users who have no right to it."),
    "broken-authentication": BugKind("security", 287, "An identity, a signature or a session is not verified."),
    "secret-exposure": BugKind("security", 200, "A password, key or private data is logged, returned or stored."),
    "weak-cryptography": BugKind("security", 327, "An algorithm, mode, key or random number is too weak."),
    "certificate-validation": BugKind("security", 295, "A certificate or a host name is not verified."),
    "reviewer-manipulation": BugKind("security", None, "Text in the change asks the reviewer for a verdict."),
    "supply-chain": BugKind("security", 829, "Code or a dependency from an untrusted or unpinned source is run."),
    "resource-exhaustion": BugKind("security", 400, "Input decides how much memory, time or space is used."),
    "memory-safety": BugKind("correctness", 119, "Memory is used out of bounds, after release or before it is set."),
    "integer-overflow": BugKind("correctness", 190, "A number overflows, wraps or loses digits."),
    "null-dereference": BugKind("correctness", 476, "A value that can be missing is used as if it were there."),
    "off-by-one": BugKind("correctness", 193, "A boundary, index or loop is one too far or too short."),
    "wrong-condition": BugKind("correctness", 670, "A condition is inverted, incomplete or always the same."),
    "wrong-result": BugKind("correctness", 682, "A computation or a returned value is wrong."),
    "wrong-argument": BugKind("correctness", 628, "A call has wrong, missing or swapped arguments."),
    "wrong-type": BugKind("correctness", 704, "A value has another type than the code that uses it expects."),
    "missing-case": BugKind("correctness", 478, "An input, a state or a branch is not handled."),
    "undefined-name": BugKind("correctness", None, "A name, import, file or key does not exist when it is used."),
    "broken-caller": BugKind("compatibility", None, "Code that uses a changed or removed interface no longer works."),
    "incompatible-change": BugKind("compatibility", None, "A format, protocol or interface changes for others."),
    "removed-safeguard": BugKind("correctness", None, "A check, lock, update or call that was needed is removed."),
    "swallowed-error": BugKind("correctness", 390, "An error is lost, hidden or reported as success."),
    "wrong-exception": BugKind("correctness", 755, "An error is raised or caught as another kind than is handled."),
    "input-validation": BugKind("correctness", 20, "Input is parsed, encoded or checked wrongly."),
    "race-condition": BugKind("concurrency", 362, "The result depends on the order of threads, tasks or processes."),
    "deadlock": BugKind("concurrency", 833, "Threads, tasks or locks can wait forever."),
    "locking-error": BugKind("concurrency", 667, "A lock or counter is not taken, or taken or released twice."),
    "missing-await": BugKind("concurrency", None, "An asynchronous result or its error is not waited for."),
    "resource-leak": BugKind("resources", 772, "A file, connection, memory or task is not given back."),
    "data-loss": BugKind("data", None, "Data is overwritten, dropped or not stored."),
    "data-corruption": BugKind("data", None, "Stored or shared data becomes inconsistent."),
    "slow-code": BugKind("performance", 407, "The work grows much faster than the input."),
    "ineffective-test": BugKind("tests", None, "A test cannot fail, or does not test what it says."),
    "wrong-configuration": BugKind("correctness", 16, "A setting, build file or pipeline does not do what it should."),
    "other": BugKind("correctness", None, "A bug of another kind."),
}
CATEGORIES = tuple(dict.fromkeys(rule.category for rule in RULES.values()))


def rule_name(text: str) -> str:
    """A name in lower case with hyphens; `unnamed` if nothing is left."""
    return re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")[:60].strip("-") or "unnamed"
