"""codelet: an ephemeral coding REPL, and the Python API of its sessions.

Everything in `__all__` is imported on first use: `import codelet` alone loads nothing else.
"""

__version__ = "0.2.0"

__all__ = [
    "Answer",
    "CallRecord",
    "CodeletError",
    "Command",
    "CommandEnd",
    "ExportPart",
    "Extension",
    "FileFact",
    "Guard",
    "GuardedCall",
    "PromptRefused",
    "Question",
    "Result",
    "Session",
    "SessionView",
    "SharedLimits",
    "Source",
    "Tool",
    "ToolError",
    "ToolOutput",
    "Touch",
    "UsageError",
    "Verdict",
    "__version__",
    "compact",
    "events",
    "open_session",
    "run",
    "sessions",
    "tool",
]

TYPE_CHECKING = False  # type checkers take it for True
if TYPE_CHECKING:
    from codelet import events, sessions
    from codelet.api import Result, open_session, run
    from codelet.call_record import CallRecord, CommandEnd, FileFact
    from codelet.context.compaction.engine import compact
    from codelet.context.reminders import Source
    from codelet.errors import CodeletError, PromptRefused, ToolError, UsageError
    from codelet.extensions.base import Command, ExportPart, Extension, Guard, GuardedCall
    from codelet.extensions.session_view import SessionView
    from codelet.loop.meter import SharedLimits
    from codelet.loop.session import Session
    from codelet.safety.verdict import Answer, Question, Touch, Verdict
    from codelet.tools.tool import Tool, ToolOutput, tool

_MODULES = {
    "api": "Result open_session run",
    "call_record": "CallRecord CommandEnd FileFact",
    "context.compaction.engine": "compact",
    "errors": "CodeletError PromptRefused ToolError UsageError",
    "context.reminders": "Source",
    "extensions.base": "Command ExportPart Extension Guard GuardedCall",
    "extensions.session_view": "SessionView",
    "safety.verdict": "Answer Question Touch Verdict",
    "loop.meter": "SharedLimits",
    "loop.session": "Session",
    "tools.tool": "Tool ToolOutput tool",
}


def __getattr__(name: str) -> object:
    if name in __all__:
        from importlib import import_module

        for module, names in _MODULES.items():
            if name in names.split():
                return getattr(import_module(f"codelet.{module}"), name)
        return import_module(f"codelet.{name}")
    raise AttributeError(f"module 'codelet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
