"""The tool `ask_user`: a question of the model's, with answers to choose from. Front ends that can ask add it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codelet import prompt
from codelet.errors import ToolError
from codelet.extensions.base import Extension
from codelet.tools.tool import ToolOutput, tool

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

_MOST_OPTIONS = 6
_LONGEST_QUESTION, _LONGEST_OPTION = 2_000, 200
_NO_ANSWER = "the user gave no answer: decide by yourself and say what you assumed, or end your turn"


class Asking(Extension):
    """Asks the user what the model wants to know."""

    def __init__(self) -> None:
        self._session: SessionView

        async def ask_user(question: str, options: list[str] | None = None) -> ToolOutput:
            return await self._asked(question.strip(), [each.strip() for each in options or ()])

        ask_user.__doc__ = prompt.ASK_TOOL
        self.tools = (tool(ask_user, title=lambda arguments: str(arguments["question"])),)

    def attach(self, session: SessionView) -> None:
        self._session = session

    async def _asked(self, question: str, options: list[str]) -> ToolOutput:
        if not question or len(question) > _LONGEST_QUESTION:
            raise ToolError(f"ask_user: the question must have 1 to {_LONGEST_QUESTION:,} characters")
        if len(options) > _MOST_OPTIONS or not all(0 < len(each) <= _LONGEST_OPTION for each in options):
            limits = f"at most {_MOST_OPTIONS} options of at most {_LONGEST_OPTION} characters"
            raise ToolError(f"ask_user: give {limits}, none of them empty")
        answer = await self._session.toolbox.approvals.inquire("ask_user", question, tuple(dict.fromkeys(options)))
        if answer is None or not answer.reason.strip():
            raise ToolError(_NO_ANSWER)
        return ToolOutput(answer.reason.strip())
