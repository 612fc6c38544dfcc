"""Warns of files that a confined command made and programs outside would obey.

By itself because only a session whose commands are confined loads it.
"""

from __future__ import annotations

from codelet import prompt
from codelet.extensions.base import Extension, Guard, GuardedCall
from codelet.safety.sandbox import Sandbox
from codelet.tools.tool import ToolOutput


class ProtectedFiles(Extension, Guard):
    """What is absent cannot be made read-only, so such files are looked for after each confined command."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.guards = (self,)
        self._sandbox = sandbox

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        """The output, failed where the command made such files."""
        made = self._sandbox.newly_protected() if call.ran else []
        if not made:
            return output
        return output.replace(text=f"{output.text}\n{prompt.PROTECTED.format(names=', '.join(made))}", failed=True)
