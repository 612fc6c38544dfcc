"""HTML that cannot be broken out of: plain text is cleaned and escaped, only `tag` makes markup."""

from __future__ import annotations

from html import escape

from codelet.text import clean


class Markup(str):
    """Text that is HTML already. Only this module makes it."""

    __slots__ = ()


def text(content: str) -> Markup:
    """Plain text as HTML, without anything that a reader could not see."""
    return Markup(escape(clean(content), quote=True))


def tag(name: str, /, *children: str, **attributes: str | int | float | None) -> Markup:
    """One element; children that are not Markup are escaped, attributes always.

    `class_` is the attribute class, an underscore within a name a hyphen. "" gives an attribute without a value,
    None leaves it out.
    """
    opened = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    if name in _VOID:
        return Markup(f"<{name}{opened}>")
    return Markup(f"<{name}{opened}>{join(*children)}</{name}>")


def join(*children: str) -> Markup:
    """Several pieces one after another, each escaped unless it is Markup."""
    return Markup("".join(child if isinstance(child, Markup) else text(child) for child in children))


def raw_text(name: str, content: str) -> Markup:
    """An element whose content is our own text and not parsed as HTML: `style`."""
    if "</" in content:
        raise ValueError(f"the content of <{name}> would end it")
    return Markup(f"<{name}>{content}</{name}>")


_VOID = frozenset({"meta", "br", "hr", "col"})


def _attribute(key: str, value: str | int | float) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value == "" else f' {name}="{escape(clean(str(value)), quote=True)}"'
