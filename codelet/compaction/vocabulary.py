"""Words that say something about the line they stand in, and words that say nothing."""

from __future__ import annotations


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# A line with one of these may report an error; looked up once per distinct word, not searched for in each line.
ERROR_WORDS = _set(
    """
    error errors Error ERROR Errors exception Exception traceback Traceback fatal Fatal FATAL panic panicked
    failed Failed FAILED failure Failure FAILURE FAIL denied refused ENOENT EACCES ECONNREFUSED undefined
    segfault abort aborted cannot unresolved AssertionError TypeError ValueError KeyError SyntaxError
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
