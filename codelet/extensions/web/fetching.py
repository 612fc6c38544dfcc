"""The tool `fetch` as an extension; `fetcher` does the work, so that another one can take its place."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from codelet import prompt
from codelet.extensions.base import Extension
from codelet.extensions.web.fetcher import Fetcher, host_of
from codelet.safety.verdict import Touch
from codelet.tools.tool import Arguments, Preview, ToolContext, ToolOutput, tool

_LONGEST_IN_LIST = 20_000
"""Characters of a page that enter the list; `recall` shows the rest."""


class Fetching(Extension):
    """Offers `fetch`."""

    def __init__(self, fetcher: Fetcher | None = None) -> None:
        self._fetcher = fetcher or Fetcher()

        async def fetch(*, url: str) -> ToolOutput:
            return ToolOutput(await self._fetcher.text_of(url), most=_LONGEST_IN_LIST)

        fetch.__doc__ = prompt.FETCH_TOOL
        self.tools = (tool(fetch, touches=_touches, title=lambda arguments: str(arguments["url"]), preview=_preview),)


def _touches(arguments: Arguments) -> Sequence[Touch]:
    return (Touch("fetch", host_of(urlsplit(arguments["url"]))),)


def _preview(context: ToolContext, arguments: Arguments) -> Preview:
    return Preview(arguments["url"], asks="fetch this page")
