"""Extensions: a feature is a module here. Nothing outside imports one but the list in `builtin`; `base` is for all."""
