"""A shell command line and its effects: read into parts, each part judged, the whole prepared to run.

It holds nothing, so that whoever needs one module does not import the others.
"""
