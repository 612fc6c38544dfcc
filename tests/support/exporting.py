"""A session's export as the front ends begin it, from what a test wants to differ."""

from __future__ import annotations

from codelet.export.live import LiveExport, Resumed, reserve
from codelet.loop.session import Session
from codelet.settings import Settings


async def open_export(
    target: str,
    session: Session,
    *,
    resumed: Resumed | None = None,
    every: int = 1,
    force: bool = False,
    archive: bool = False,
) -> LiveExport:
    """Begin to save a session, which was resumed from `resumed`, at `target`."""
    reserved = (await reserve(target, None)).replace(resumed=resumed)
    settings = Settings(export_every=every, force=force, export_archive=archive)
    return await LiveExport.begin(session, settings, reserved)
