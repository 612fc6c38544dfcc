"""One shot: a prompt answered without a terminal, as text, as one JSON object, or as one event a line."""
