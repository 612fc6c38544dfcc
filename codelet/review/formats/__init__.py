"""The formats of a report, a module each: text in, nothing read, nothing written.

Each says in its own way where a review is not whole: none of them can be taken for a clean one. Short because
`codelet.review.report_formats` lists them and imports the one that is asked for.
"""
