"""What a line says about itself: an error, a rule, a decision, a measurement; and words that tell nothing.

Patterns are anchored and linear: they run over every line of a session.
"""

from __future__ import annotations

import json
import re


class Caseless:
    """A pattern, written in small letters, that ignores case.

    Most text is ASCII, and in small letters that is searched up to four times as fast as with `re.IGNORECASE`; what is
    found has the same place in the text as it was given.
    """

    def __init__(self, pattern: str) -> None:
        self._any = re.compile(pattern, re.IGNORECASE)
        self._ascii = re.compile(pattern, re.ASCII)

    def search(self, text: str) -> re.Match[str] | None:
        """The first match anywhere in a text; in one that is ASCII its groups are in small letters."""
        return self._ascii.search(text.lower()) if text.isascii() else self._any.search(text)

    def match(self, text: str) -> re.Match[str] | None:
        """The match at the start of a text; in one that is ASCII its groups are in small letters."""
        return self._ascii.match(text.lower()) if text.isascii() else self._any.match(text)


_ERROR_LINE = re.compile(
    r"\b(?:[A-Z]\w*(?:Error|Exception)\b|(?:fatal|panic|error|Error|ERROR|FAIL(?:ED)?)\b\s*[:\[(](?! \(none\))|"
    r"ERROR\] +[^\s\->]|"
    r"error TS\d+|"
    r"Traceback \(most recent|E[A-Z]{4,}\b:|command not found|No such file|Permission denied|"
    r"exit(?:ed with)? code [1-9])"
)
# Each line that reports an error has one of these; almost no other line has, and to look for them is far cheaper.
_ERROR_HINTS = tuple("rror|xception|fatal|panic|ERROR|FAIL|Traceback|not found|No such|denied|code ".split("|"))
_ERROR_CODE = re.compile(r"E[A-Z]{4,}:")
_ERROR_REPORT = re.compile(
    r"\s*(?:[\w.]*(?:Error|Exception|Panic)\b[\w.]*(?:\(\d+\))?: \S"
    r"|(?:\S{1,120}[:(]\d+[,:)]\S*\s*)?(?:- )?(?:error|fatal|Error|ERROR|FATAL)\b(?:\[\w+\]| TS\d+)?: "
    r"|FAILED |FAIL |E   \S|npm ERR!|thread .{1,40} panicked"
    r"|.{0,120}(?:command not found|No such file or directory|Permission denied)\s*\Z)"
)
# The line in which a tool reports the exit status of a command.
EXIT_MARK = re.compile(
    r"\[exit code (-?\d+)\]|Command exited with code (\d+)|Process exited with code (\d+)|[Ee]xit [Cc]ode:? (\d+)|"
    r"<returncode>(-?\d+)</returncode>|"
    r"\[(?:The command|Command|Process) (?:completed|finished|exited) with exit code (-?\d+)\.?\]"
)
_MEASURE = re.compile(
    r"(?<![\w.])\d[\d.,]*\s?(?:%|(?:ms|s|sec|secs|seconds?|min|minutes?|hours?|days?|[kKMG]i?B|bytes|px|tokens?|"
    r"requests?|"
    r"rows?|entries|items|times|retries|attempts|percent|rps|qps|Hz|MHz|GHz|USD|EUR|dollars|euros)\b)"
)
_RULE = Caseless(
    r"\b(?:must|never|always|don'?t|do not|only|no longer|instead of|make sure|ensure|avoid|prefer|require[sd]?|"
    r"forbidden|deadline|at most|at least|no more than|limit(?:ed)? to|budget|cap(?:ped)?|remember)\b",
)
# What is to hold from then on: an order to do or leave something, not a remark about what somebody does.
_ORDER = Caseless(
    r"(?:\A\W*|[,;:(]\s+|\b(?:and|but|please|so|also|then|just)\s+)"
    r"(?:do(?:n.?t| not) (?!think|like|know|see|worry)|"
    r"never (?!mind)|(?:always|only(?! (?:here|there|then))|avoid|prefer|remember to) |no (?!,|more than))\w|"
    r"\b(?:must|make sure|be sure|ensure|never(?! mind)|always|should (?:never|always|only|not)|shouldn'?t|"
    r"at most|at least|no more than|from now on|not allowed|forbidden|required|mandatory|under no circumstances)\b",
)
# Each text that sets a rule, or gives an order, has one of these. To look for them is far cheaper than to search.
_RULE_HINTS = tuple(
    "must|never|always|don|do not|only|no longer|instead|sure|avoid|prefer|requir|forbidden|deadline|at most|at least|"
    "no more than|limit|budget|cap|remember".split("|")
)
_ORDER_HINTS = tuple(
    "don|do not|never|always|only|avoid|prefer|remember to|no |must|sure|should|at most|at least|from now on|"
    "not allowed|forbidden|required|mandatory|under no ".split("|")
)
_CHAT = Caseless(
    r"\s*(?:(?:ok(?:ay)?|yes|yeah|yep|no|nope|hm+|ha(?:ha)?|oh|ah|aha|right|great|nice|good|cool|fine|sure|well|wow|"
    r"thanks?|thank you|sorry|sounds|hi|hey|hello|go (?:ahead|on)|looks)\b|[^\n]*\?\s*\Z)",
)
_DECISION = Caseless(
    r"(?:\A|[.!?,;:\n]\s*)(?:no|nope|actually|wait)\b[^?]{0,30}?\b(?:let'?s|we|i|that|do(?:n'|n’| no)t|want|"
    r"skip|leave)\b|"
    r"\b(?:(?:you |we )?must(?: not)?\b|never (?!mind)|always\b|(?:i )?(?:do(?:n't|nt| not)) (?:want|like)|"
    r"use\s+\S+\s+instead|"
    r"let'?s (?:go with|use|keep|skip|stick)|we(?:'ll| will) (?:use|go with|keep)|decided\b|i (?:actually |"
    r"only |would only )want|"
    r"(?:is|are|looks?) (?:horrible|wrong|shit)|go with|instead of\b)",
)
_CHECKPOINT = Caseless(
    r"^\s*(?:ok(?:ay)?|k|great|good|nice|perfect|alright|cool|mm+k|now|next|done|wow)?[,.!\s]*(?:(?:now|next|lastly|"
    r"done|let'?s (?:move on|continue|tackle|look|talk)|moving on|(?:that|it|everything|both|round|"
    r"all)\b.{0,30}\bwork(?:s|ed)|works|"
    r"another|wow|jesus|looks? (?:good|great|amazing)|this looks (?:good|great|amazing))\b)|\bit'?s (?:good|"
    r"fine)\. continue|"
    r"\b(?:works|worked) (?:fine|great|well|now)\b",
)
_DONE = Caseless(
    r"(?:\W{0,4}(?:all )?(?:done|complete[d]?|finished|shipped|all (?:green|clean|set))\b|.{0,60}\b(?:is|"
    r"are) (?:now )?(?:done|"
    r"complete|implemented|finished)\b|\W{0,4}(?:created|updated|added|removed|renamed|moved|implemented|"
    r"replaced|wrote)\b|"
    r".{0,80}\b(?:is implemented|worked .{1,30} through|progress!|complete and green|done and green|"
    r"build succeeded|all committed))",
)
_FIXED = Caseless(
    r"\W{0,4}(?:fixed|resolved|mended)\b|.{0,200}\b(?:the fix:|(?:bug|issue|error|problem|fault) (?:has been|is|"
    r"was) (?:now )?(?:fixed|resolved))",
)
_CAUSE_FOUND = Caseless(
    r".{0,160}\b(?:root cause|found it|the (?:problem|bug|cause|culprit) (?:is|was)|turns out|"
    r"reproduced the (?:bug|issue|error|fault)|"
    r"i(?:'ve| have) diagnosed|verdict:|here's exactly what happened)",
)


def claim_of(text: str, *, changed: bool) -> str | None:
    """The kind of anchor that an agent's last words in a turn claim; work is done only where something `changed`."""
    if changed and _FIXED.match(text):
        return "error fixed"
    if _CAUSE_FOUND.match(text):
        return "cause found"
    return "task done" if changed and _DONE.match(text) else None


# What came of something, said by the agent: a cause, a decision, a verdict, something given up. One mark each.
_OUTCOME_MARKS = (
    Caseless(
        r"\b(?:because|root cause|cause[ds]?(?: by)?|the (?:real |actual )?(?:problem|issue|bug|cause|reason|culprit|"
        r"fix|catch)(?: here)? (?:is|was)|turns? out|found (?:it|the)|that's why|which (?:means|is why)|"
        r"this means|due to|"
        r"so that|diagnos\w+|confirm(?:ed|s)|therefore)\b",
    ),
    Caseless(
        r"\b(?:decided|decision|instead(?: of)?|rather than|must(?: not)?|should(?:n't)?|no longer|never|"
        r"we(?:'ll| will)|"
        r"going with|the right (?:way|fix|call|place)|needs? to (?:be|have|use)|settle[sd]?|locked|keep(?:s|ing)?|"
        r"agreed)\b",
    ),
    Caseless(
        r"\b(?:fixed|resolved|done|complete[ds]?|works?(?: (?:now|fine|again))?|pass(?:es|ed)?|all green|verified|"
        r"created|added|removed|replaced|renamed|moved|implemented|updated|deleted|landed|shipped|proven?|"
        r"committed)\b",
    ),
    Caseless(
        r"\b(?:does(?:n't| not)|did(?:n't| not)|can(?:'t|not)|won't|fail(?:s|ed|ing)?|broke(?:n)?|wrong|missing|"
        r"gave up|given up|abandon\w*|revert(?:ed)?|rolled back|not (?:work|possible|enough)|mistake|oversight)\b",
    ),
)


# What is to be done next; nothing has come of it yet.
_ANNOUNCED = Caseless(
    r"\W*(?:(?:ok(?:ay)?|good|great|perfect|now|next|first|then|and|so|alright|right)\b[,.!:]*\s+)*"
    r"(?:let me|let's|let us)\b(?!.*\b(?:because|instead|rather than|since)\b)",
)


def outcome_strength(line: str) -> int:
    """How much a line of the agent's says of what came of something, from 0 to 4."""
    if _ANNOUNCED.match(line):
        return 0
    return sum(mark.search(line) is not None for mark in _OUTCOME_MARKS)


def decides(line: str) -> bool:
    """Whether a line of the agent's tells a cause or a decision."""
    return any(mark.search(line) is not None for mark in _OUTCOME_MARKS[:2])


# A read that read nothing has no longer answer.
_SHORT_ANSWER = 400
_UNREADABLE = re.compile(
    r"does not exist|no such file|not found|\berror: |<tool_use_error>|refused|is a folder|interrupted", re.IGNORECASE
)
_WORKED = re.compile(
    r"\s*(?:success|the file .{1,400} (?:has been|was) (?:updated|created|edited|written)|"
    r"the (?:\w+ ){1,3}(?:has been|have been|was|were) "
    r"(?:successfully )?(?:updated|created|edited|written|saved|applied)|"
    r"file (?:created|updated|written)|"
    r"(?:(?:the )?(?:edit|changes?|patch)(?: (?:was|were|has been|have been))? (?:successfully )?applied|"
    r"this file has errors, please fix)\b|"
    r"(?:updated|replaced|edited|created|modified|wrote|written|applied|done|ok|text replaced)\b|"
    r"(?:diff --git |--- |\+\+\+ |@@ |Index: )\S)",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"\berror|\bfail|could not|couldn't|can(?:no|')t\b|not found|no (?:exact )?match|did not match|"
    r"does not (?:exist|match|occur)|"
    r"no replacement|did not appear|multiple occurrences|"
    r"denied|refused|rejected|not permitted|invalid|interrupted|no changes|is a folder|must be read|has not been read|"
    r"occurs \d+ times|not unique|syntax error|before it started|doesn't|is not ",
    re.IGNORECASE,
)


def write_failed(text: str) -> bool:
    """Whether the result of a write says that nothing was written."""
    if (begins := text[:_SHORT_ANSWER].find("\nOutput:\n")) >= 0:  # what stands before tells of the run
        text = text[begins + len("\nOutput:\n") :]
    if text.startswith("{") and (said := _success_in(text)) is not None:
        return not said
    return _WORKED.match(text) is None and _REFUSED.search(text[:600]) is not None


def _success_in(text: str) -> bool | None:
    """Whether a JSON object says that a call went well, by a field for that or one for its errors; None for neither."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    told = [fields[key] for key in ("success", "ok") if isinstance(fields.get(key), bool)]
    faults = [fields[key] for key in ("error", "errors") if key in fields]
    return all(told) and not any(faults) if told or faults else None


def read_failed(text: str) -> bool:
    """Whether the result of a read says that nothing was read."""
    return len(text) <= _SHORT_ANSWER and _UNREADABLE.search(text) is not None


def is_error_line(line: str) -> bool:
    """Whether a line, or any line of a text, reports an error."""
    hinted = any(map(line.__contains__, _ERROR_HINTS)) or (":" in line and _ERROR_CODE.search(line))
    if not hinted:
        return False
    return _ERROR_LINE.search(line) is not None


def reports_error(line: str) -> bool:
    """Whether a line is an error message as programs print it, rather than text that speaks of errors."""
    return _ERROR_REPORT.match(line) is not None


def has_measure(line: str) -> bool:
    """Whether a line gives a number with its unit."""
    return _MEASURE.search(line) is not None


def _hinted(text: str, hints: tuple[str, ...]) -> bool:
    """Whether a text may match a pattern that ignores case, and each match of which has one of the hints in it."""
    if not text.isascii() and ("\u0131" in text or "\u0130" in text):
        return True  # the pattern takes them for an i, casefold() does not
    return any(map(text.casefold().__contains__, hints))


def states_rule(text: str) -> bool:
    """Whether a user's text sets a rule: must, never, at most and the like."""
    return _hinted(text, _RULE_HINTS) and _RULE.search(text) is not None


def may_order(text: str) -> bool:
    """Whether a sentence in a text may give an order; False is sure, and far cheaper than to look at each sentence."""
    return _hinted(text, _ORDER_HINTS)


def gives_order(text: str) -> bool:
    """Whether a sentence of the user's orders something that is to hold from then on."""
    return may_order(text) and _ORDER.search(text) is not None


def is_small_talk(text: str) -> bool:
    """Whether a user's text is small talk or no more than a question."""
    return _CHAT.match(text) is not None


def states_decision(text: str) -> bool:
    """Whether a user's text decides something."""
    return _DECISION.search(text) is not None


def is_listing(text: str) -> bool:
    """Whether a text is little else than a list that a program printed: 40 lines of one word each, or more."""
    lines = [line.strip() for line in text.split("\n")]
    single = [line for line in lines if line and " " not in line and "\t" not in line]
    return len(single) >= 40 and 10 * sum(map(len, single)) >= 8 * sum(map(len, lines))


def moves_on(text: str) -> bool:
    """Whether a user's text closes what was before it ("ok, now …", "next")."""
    return _CHECKPOINT.search(text[:200]) is not None


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# A line with one of these may report an error; looked up once per distinct word, not searched for in each line.
ERROR_WORDS = _set(
    """
    error errors Error ERROR Errors exception Exception traceback Traceback fatal Fatal FATAL panic panicked
    failed Failed FAILED failure Failure FAILURE FAIL denied refused ENOENT EACCES ECONNREFUSED undefined
    such segfault abort aborted cannot unresolved AssertionError TypeError ValueError KeyError SyntaxError
    ImportError
    """
)

# A line with one of these may set a rule.
RULE_WORDS = _set(
    """
    must never Never always Always NEVER ALWAYS MUST only don't Don't avoid require requires required forbidden
    prohibited mandatory deadline limit limits maximum minimum budget prefer prefers instead remember important
    decided decision agreed constraint rule policy without
    """
)

# Words that carry no fact of their own. Negations, bounds and orders (not, never, must, only, until …) are not among
# them: without those a sentence says something else.
STOP_WORDS = _set(
    """
    a an the this that these those there here it its itself is are was were be been being am isn't aren't do
    does did doing done has have had having will would shall should could can may might let lets let's i i'm
    i'd i'll i've me my mine myself we we're we'll we've us our ours you you're you'll your yours he him his
    she her hers they them their theirs who whom whose which what when where why how of to in on at for from
    with as by into onto upon about again further also too so such then than thus hence and or nor but if
    though although while since very really quite rather just simply actually basically currently please kindly
    ok okay yes yeah well hey hi hello thanks thank like want wants wanted needed get gets got getting go goes
    going gone make makes made making sure note noted notice fyi btw reminder remember important importantly
    know known knows given regarding concerning via across throughout among along around either some many much
    several few other others another itself still already yet now kind sort bit lot thing things way one's
    there's that's what's here's it's
    """
)
