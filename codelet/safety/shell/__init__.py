"""From a shell command line to its effects: it is parsed, each part is judged, and it is rewritten before it runs.

Empty, so that importing one module does not import the others.
"""
