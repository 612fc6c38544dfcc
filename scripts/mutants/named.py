"""Faults that once went unnoticed, found by hand in reviews: each is looked for by what its code says."""

from __future__ import annotations

from pathlib import Path

from scripts.mutants.operators import Mutant

NAMED: tuple[tuple[str, str, str], ...] = (
    (
        "a rule with a body allows its tool for everything",
        "rule.body is None and rule.covers(tool))",
        "rule.covers(tool))",
    ),
    ("a wide rule lifts the ask for a secret", "exact=found.sensitive", "exact=False"),
    (
        "a bare rule covers no words",
        "return self.body is None or list(words) == self.body.split()",
        "return list(words) == (self.body or '').split()",
    ),
    ("a command that timed out has an exit code", "None if done.timed_out else done.exit_code", "done.exit_code"),
    ("no lower bound for a command's time", "min(max(timeout, 0.1), _LONGEST)", "min(timeout, _LONGEST)"),
    (
        "what could not be saved is not told at the end",
        "        if self.problem is not None:\n            raise ExportError(self.problem)",
        "        pass",
    ),
    ("a cured problem is told for ever", "                self.problem = None\n", "                pass\n"),
    (
        "a first save replaces what another made",
        "                temporary.link()\n            else:",
        "                temporary.rename()\n            else:",
    ),
    (
        "our own last save counts as another's",
        "not in (expected, self._placed.get(name, expected))",
        "not in (expected,)",
    ),
    ("waits are not added up", "self._own += wait", "pass"),
    ("waits that were asked for are not added up", "self._asked += asked", "pass"),
    ("a password goes out in the Host header", 'self._url.netloc.rpartition("@")[2]', "self._url.netloc"),
    ("one CRLF turns a whole file", '2 * text.count("\\r\\n") > text.count("\\n")', '"\\r\\n" in text'),
    (
        "CRLF becomes CR CR LF",
        'text.replace("\\r\\n", "\\n").replace("\\n", "\\r\\n")',
        'text.replace("\\n", "\\r\\n")',
    ),
    (
        "a pipe in a file's place is waited for",
        "os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)",
        "os.O_RDONLY | os.O_NOCTTY)",
    ),
    (
        "an overflow is tried again for ever",
        "if turn.attempts.too_long:\n        raise error",
        "if False:\n        raise error",
    ),
    ("a forced compaction is forced again", 'shorter=came_to == "shorter"', "shorter=True"),
    ("reading calls run one by one", "if batch and (not following.may_run_beside or", "if batch and (True or"),
    ("calls that write run at once", "if not following.may_run_beside:", "if False:"),
    ("the ids of a list taken over are not known", 'self.call_ids.update(call["id"]', 'set().update(call["id"]'),
    ("what the prompt asks about has no weight", '"relevance": _POINTS_EACH * len(named),', '"relevance": 0,'),
    ("the cache's loss is never told", "if not worked or expected < _LEAST_PREFIX or", "if True or"),
    ("an error that no repetition cures is repeated", "if shown or not error.retryable or", "if shown or"),
    ("somebody else's change is overwritten", "foreign=_foreign(own, now) if not", 'foreign="" if not'),
    ("what was shown is repeated", "if shown or not error.retryable or", "if not error.retryable or"),
    (
        "an always for a name with a star covers other names",
        'f"{tool}({escaped(name)})" if found',
        'f"{tool}({name})" if found',
    ),
    (
        "a result larger than its target is taken",
        "made.report.after > made.report.target or unpaired(new)",
        "unpaired(new)",
    ),
    (
        "a result that is no valid list is taken",
        "made.report.after > made.report.target or unpaired(new)",
        "made.report.after > made.report.target",
    ),
    ("a call without its result is no fault", "    return wrong + open_ids", "    return wrong"),
    ("an overflow that is told with 422 is none", "(400, 413, 422, 500)", "(400, 413, 500)"),
    (
        "a refused connection is not tried again",
        "retryable=True, patience=_PATIENCE_REFUSED",
        "retryable=False, patience=_PATIENCE_REFUSED",
    ),
    ("half an answer stays after an overflow", "turn.steps -= 1\n            turn.reply = None", "turn.steps -= 1"),
    ("an answer of blanks stands in the list", "if calls or not is_blank(reply.text):", "if True:"),
    ("half a surrogate pair of a prompt goes out", "_as_input(valid_unicode(text))", "_as_input(text)"),
    ("matches overlap", "re.finditer(re.escape(old), plain)", "re.finditer(f'(?={re.escape(old)})', plain)"),
    ("a program that runs cannot be replaced", "if error.errno != errno.ETXTBSY:", "if True:"),
    (
        "what was gone back from can be taken up",
        "        self.interruption = None\n        self.head, self.tail = parts.head",
        "        self.head, self.tail = parts.head",
    ),
    (
        "reading waits for a pipe in a file's place",
        "fd = open_file(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)",
        "fd = open_file(path, os.O_RDONLY | os.O_NOCTTY)",
    ),
    (
        "what a server refused goes out again",
        "                return False\n            self._encode_anew()\n",
        "                return False\n",
    ),
    ("pinned messages are not kept", "        for at in pinned:", "        for at in ():"),
    ("a score has no effect", "return 1 + (self.total - self.feedback) / 1_000 + self.feedback / 10", "return 1.0"),
    ("names keep their weight once they stand", "            self._value[name] *= self._covered", "            pass"),
    ("removed lines are shown", "            if text not in self._gone", "            if True"),
    (
        "an earlier failure is not told",
        '    return f"t{last.turn} ran',
        '    before = ""\n    return f"t{last.turn} ran',
    ),
)


def named(root: Path) -> tuple[list[Mutant], list[str]]:
    """The named faults that fit the code of a checkout, and the names of those that do not fit it any more."""
    found, lost = [], []
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((root / "codelet").rglob("*.py"))}
    for what, before, after in NAMED:
        places = [(path, text.index(before)) for path, text in texts.items() if before in text]
        if not places:
            lost.append(what)
        for path, start in places[:1]:
            line = texts[path].count("\n", 0, start) + 1
            found.append(Mutant(path, line, what, start, start + len(before), after))
    return found, lost
