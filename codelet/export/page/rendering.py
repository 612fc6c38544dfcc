"""A page of one file that needs nothing else, runs nothing and can be printed: a template and its style made into HTML.

It has no script at all. A strict policy in its head keeps even a browser's own mistakes from loading anything. Whatever
the template prints is cleaned and escaped; only what it makes itself is markup.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from codelet.system.text import clean

Cleaning = Callable[[str], str]

_PACKAGE = "codelet.export.page"
_FRAME = "frame.html"
"""The base template."""
COMMON_STYLE = (_PACKAGE, "page.css")
"""The package and the name of the style that codelet's pages share."""


def rendered(
    template: tuple[str, str], styles: tuple[tuple[str, str], ...], *, cleaning: Cleaning = clean, **values: object
) -> str:
    """The page; files are named by package and name. The template is given `policy` and `style` beside the values.

    `cleaning` takes out of each printed text what a reader could not see, or shows it.
    """
    style = "\n" + "".join(_own(package, name) for package, name in styles)
    assert "</" not in style, "it would end the element that holds it"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return _template(*template, cleaning).render(policy=policy, style=Markup(style), **values)


@cache
def _template(package: str, name: str, cleaning: Cleaning) -> Template:
    """The template without its line breaks and spaces at the ends of lines."""

    def cleaned(value: object) -> object:
        return value if isinstance(value, Markup) else cleaning(str(value))

    def source(page: str) -> str:
        lines = _own(_PACKAGE if page == _FRAME else package, page).splitlines()
        return "".join(map(str.strip, lines))

    environment = Environment(
        autoescape=True, finalize=cleaned, undefined=StrictUndefined, loader=FunctionLoader(source)
    )
    return environment.get_template(name)


def _own(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")
