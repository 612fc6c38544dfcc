"""The policy: what decides on an action of the model. The one place where a tool call is judged."""
