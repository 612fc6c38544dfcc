"""The export: a session as one JSON document, kept in a file or in Redis because the user asked for it."""
