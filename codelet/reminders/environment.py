"""environment: where the model works. No clock, only the date: it stands in the cached prefix."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def environment(workspace: Path) -> str:
    """Folder, platform, shell and date."""
    system = os.uname() if hasattr(os, "uname") else None
    platform = f"{system.sysname} {system.release} {system.machine}" if system else sys.platform
    lines = [
        f"Working directory: {workspace}",
        f"Platform: {platform}",
        f"Shell: {os.environ.get('SHELL', 'sh')}",
        f"Date: {time.strftime('%Y-%m-%d')}",
    ]
    return "\n".join(lines)
