"""Extensions: a feature is a module here. Only the list in `builtin` imports one; `base` is for everybody."""
