"""The way from the command line to the wire stays short enough to be followed."""

from __future__ import annotations

from scripts.frames import frames


def test_at_most_nine_frames_lead_from_the_command_line_to_the_provider():
    above, deeper, _ = frames()
    assert above[0] == "main" and deeper, "the whole way was seen"
    assert len(above) <= 9, " > ".join(above)
