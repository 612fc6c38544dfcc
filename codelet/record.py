"""Record: a frozen dataclass that costs nothing to define; and Newest, a list with a bound.

`@dataclass` writes and compiles the methods of each class when its module is imported: half a millisecond a class,
a third of the time to the first request for the classes on that path. A record's methods are written once, here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

Item = TypeVar("Item")

_set = object.__setattr__
_MOST_SHARED_KEYS = 30
"""The largest number of names that the dicts of a class share. A larger record leaves its defaults in the class."""


@dataclass_transform(frozen_default=True)
class Record:
    """Base of immutable values: annotated names are the fields, in order; class attributes are the defaults.

    Compared and hashed by value, matched by field name, never changed after creation. With `kw_only` the values are
    given by name: for records with two neighbouring fields of one type.
    """

    fields: ClassVar[tuple[str, ...]] = ()
    by_name: ClassVar[bool] = False

    def __init_subclass__(cls, *, kw_only: bool = False) -> None:
        cls.by_name = kw_only
        own = (name for name, annotation in cls.__annotations__.items() if not str(annotation).startswith("ClassVar"))
        cls.fields = (*cls.fields, *own)

    def __init__(self, *values: Any, **named: Any) -> None:
        if values and self.by_name:
            raise TypeError(f"{type(self).__name__}: the values are given by name")
        # One by one: a dict filled in one step shares no keys with those of its class, and takes twice the memory.
        if not named and len(values) == len(self.fields):  # as most are made, one for each piece of an answer
            for name, value in zip(self.fields, values, strict=True):
                _set(self, name, value)
            return
        given = dict(zip(self.fields, values, strict=False)) | named
        if len(given) != len(values) + len(named):
            raise TypeError(f"{type(self).__name__}: too many values, or one given twice")
        for name in self.fields:
            if name in given:
                _set(self, name, given.pop(name))
            elif not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__}: the field {name!r} is missing")
            elif len(self.fields) <= _MOST_SHARED_KEYS:
                _set(self, name, getattr(type(self), name))
        if given:
            raise TypeError(f"{type(self).__name__} has no field {next(iter(given))!r}")

    def replace(self, **changes: Any) -> Self:
        """The same record with some fields changed."""
        return type(self)(**(self.__dict__ | changes))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} cannot be deleted")

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.fields)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == cast("Self", other)._values()

    def __hash__(self) -> int:
        return hash((type(self), *self._values()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields)
        return f"{type(self).__name__}({inside})"


class Newest(list[Item]):
    """The newest `most` items. An empty deque takes 700 bytes, and every session has several of them."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def append(self, item: Item) -> None:
        super().append(item)
        del self[: -self._most]

    def extend(self, items: Iterable[Item]) -> None:
        super().extend(items)
        del self[: -self._most]
