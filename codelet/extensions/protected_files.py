"""Files that a confined command made and that programs outside the sandbox obey: found after it, and reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from codelet.extensions.base import Extension, Guard, GuardedCall
from codelet.safety.sandbox import Sandbox
from codelet.tools.tool import ToolOutput

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

_MADE_BY_IT = "it"
_MADE_BY_SOME = "it, or a command in the background,"
_PROTECTED = "[{by} made {names}, which programs outside the sandbox obey: tell the user, or ask with unconfined]"
_MOVED_ASIDE = "{name} (moved aside to {aside})"
_MADE_READ_ONLY = "[{by} made {names}, which commands can read but not write from now on]"


class ProtectedFiles(Extension, Guard):
    """A word on files that a confined command made and programs outside would obey.

    What is absent cannot be made read-only, so such files are looked for after each confined command, and moved aside.
    """

    beside = False

    def __init__(self, sandbox: Sandbox) -> None:
        self.guards = (self,)
        self._sandbox = sandbox

    @classmethod
    def from_session(cls, session: SessionView) -> Self:
        """Look after the session's sandbox, which is there."""
        assert session.safeguards.sandbox is not None
        return cls(session.safeguards.sandbox)

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        """The output, failed where the command made such files."""
        by = _MADE_BY_SOME if self._sandbox.held else _MADE_BY_IT
        made = self._sandbox.newly_protected() if call.ran else ()
        if not made:
            return output
        obeyed = [
            _MOVED_ASIDE.format(name=one.name, aside=one.aside) if one.aside else one.name
            for one in made
            if not one.stays
        ]
        stays = [one.name for one in made if one.stays]
        told = [_MADE_READ_ONLY.format(by=by, names=", ".join(stays))] if stays else []
        told += [_PROTECTED.format(by=by, names=", ".join(obeyed))] if obeyed else []
        return output.replace(text="\n".join((output.text, *told)), failed=output.failed or bool(obeyed))
