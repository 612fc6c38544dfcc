"""Subsessions: those of a review, and subagents. Their usage counts as the session's."""
