"""`codelet profiles`: the profiles, one a line, each with what it takes away and its file.

Short because the list itself is made by the extension that finds profiles.
"""

from __future__ import annotations

from codelet.errors import EXIT_DONE, EXIT_USAGE
from codelet.extensions.services import profile_places
from codelet.frontends.streams import say
from codelet.settings import Settings, current_folder
from codelet.system.text import one_line

_WIDTH = 1_000


def run_profiles(settings: Settings) -> int:
    """Print them; return the exit status, 2 if one is invalid: its file, line and reason go to stderr."""
    folder = current_folder()
    places = profile_places(settings, folder)
    status = EXIT_DONE
    for found in places.listed():
        if found.profile is not None:
            print(found.line)
        else:
            say(f"codelet: {one_line(found.problem, _WIDTH)}")
            status = EXIT_USAGE
    if not settings.trusted and any(place.is_dir() for place in places.in_project):
        say("codelet: this project has profiles too, which codelet profiles --trust reads")
    return status
