"""Reminders: tagged text that codelet adds for the model, one per type."""
