"""`codelet mcp check`: starts the MCP servers that are set up, lists their tools, and ends them.

Short because the servers themselves say what there is to say.
"""

from __future__ import annotations

import json

from codelet.errors import EXIT_DONE, EXIT_USAGE
from codelet.extensions.services import mcp_servers
from codelet.safety.secrets import mask
from codelet.settings import Settings, current_folder
from codelet.system.process import end_supervisor
from codelet.system.text import clean


async def run_mcp_check(settings: Settings, *, as_json: bool) -> int:
    """Print a block for each server, or one JSON object; the exit status is 2 if one cannot be used.

    Raises UsageError for a server that is not set up in order.
    """
    servers = mcp_servers(settings, current_folder())
    servers.start(current_folder(), lambda name, text: None)
    try:
        text = await servers.text(*servers.servers)
        print(mask(json.dumps(servers.reported() or {"mcp": []})) if as_json else clean(mask(text)))
    finally:
        await servers.close()
        end_supervisor()
    return EXIT_DONE if all(each.state == "ready" for each in servers.servers.values()) else EXIT_USAGE
