"""Sessions that work beside the conversation: of a review, and subagents. What they use counts in the session's."""
