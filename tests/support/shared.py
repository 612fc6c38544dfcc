"""Where the cases and transcripts lie that are too large for the repository."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.program import ROOT

SHARED = Path(os.environ.get("CODELET_SHARED") or ROOT.parent / "shared")
"""The folder, which may not be there: CODELET_SHARED, else `shared` beside the checkout."""

ABSENT = f"needs the folder {SHARED} (CODELET_SHARED names another)"
"""Why a test skips without it."""
