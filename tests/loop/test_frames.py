"""The way from the command line to the wire stays short enough to be followed."""

from __future__ import annotations

from tests.support.frames import ways


def test_the_way_to_the_provider_and_back_is_short():
    way = ways()
    assert way.above[0] == "main" and way.below, "the whole way was seen"
    assert len(way.above) <= 7, " > ".join(way.above)
    assert len(way.above) + len(way.below) <= 12, " > ".join(way.below)
    assert way.generators[-1:] and len(way.generators) <= 5, " ".join(way.generators)
