"""The errors, each with its exit status. Every message is one line that names what to do."""

from __future__ import annotations

import signal

EXIT_DONE = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_PROVIDER = 3
EXIT_LIMIT = 4
EXIT_INCOMPLETE = 5
EXIT_REFUSED = 6
EXIT_BUG = 70
EXIT_HANGUP = 129
EXIT_INTERRUPT = 130
EXIT_TERMINATE = 143
SIGNALS = {
    signal.SIGINT: (EXIT_INTERRUPT, "interrupted"),
    signal.SIGTERM: (EXIT_TERMINATE, "terminated"),
    signal.SIGHUP: (EXIT_HANGUP, "hung up"),
}
"""The exit status and the word of each signal that ends codelet."""


class CodeletError(Exception):
    """An expected failure: shown as one line on stderr, never as a traceback."""

    exit_status = EXIT_BUG


class UsageError(CodeletError):
    """Arguments, settings or an input file are wrong."""

    exit_status = EXIT_USAGE


class ExportError(UsageError):
    """An export cannot be read, written or taken over."""


class SessionHeld(ExportError):
    """The session `shown` is locked; `holder` names the process."""

    def __init__(self, shown: str, holder: str) -> None:
        super().__init__(f"{shown} is in use by {holder}; end that session, wait with --wait, or choose another name")
        self.shown, self.holder = shown, holder


class SaveConflict(ExportError):
    """The stored session is not the one that this session stored last: someone else wrote it."""


class StoreUnreachable(ExportError):
    """The store could not be reached or could not write; the same save may succeed later."""


class ProviderError(CodeletError):
    """The provider failed for good: authentication, network, a broken stream, retries used up.

    `status` is the HTTP status if there was one. `retryable` says whether the same request can be sent again,
    `retry_after` the seconds that the server asked for, `patience` for how many seconds from the first such failure to
    try, attempts included, if less than usual. `overflow` marks "the prompt is too long"; `window` and `prompt_size`
    are what the server then said of both, in tokens.
    """

    exit_status = EXIT_PROVIDER

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        patience: float | None = None,
        overflow: bool = False,
        window: int | None = None,
        prompt_size: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.window = window
        self.prompt_size = prompt_size
        self.retryable = retryable
        self.retry_after = retry_after
        self.patience = patience
        self.overflow = overflow


class NoAnswer(ProviderError):
    """The provider answered, but with nothing, or with a refusal: no result, and not a success."""

    exit_status = EXIT_INCOMPLETE


class LimitReached(CodeletError):
    """A limit that the user set (turns, tokens, time, cost) ended the run; what there is, is partial."""

    exit_status = EXIT_LIMIT


class SpendingLimit(LimitReached):
    """The next request would pass a limit on tokens or cost: it was not sent."""


class PromptRefused(CodeletError):
    """An extension refused the prompt: the model was not asked."""

    exit_status = EXIT_REFUSED


class ToolError(Exception):
    """An expected failure of a tool: its text goes back to the model as the tool's result."""
