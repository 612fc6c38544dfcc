"""The /commands. `table` lists and finds them; the other modules hold their handlers, by what they act on."""
