"""Records: frozen values with the manners of a dataclass."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from codelet.record import Record


class Point(Record):
    """Two fields, one with a default."""

    kind: ClassVar[str] = "point"
    x: int
    y: int = 0


class Named(Point):
    """One more field than its base."""

    name: str = "?"


class Large(Record):
    """More fields than dicts of one class share the names of."""

    __annotations__ = {f"field{number}": "int" for number in range(40)}


for _name in Large.fields:
    setattr(Large, _name, 0)


class Span(Record, kw_only=True):
    """Two fields of one type: which is which has to be said."""

    first: int
    last: int = 0


def test_where_fields_could_be_mistaken_for_each_other_they_are_named():
    assert Span(first=1, last=2).replace(last=3) == Span(last=3, first=1)
    with pytest.raises(TypeError, match=r"Span: .* by name"):
        Span(1, 2)


def test_fields_come_in_order_with_those_of_the_base_first():
    assert Point.fields == ("x", "y")
    assert Named.fields == ("x", "y", "name")
    point = Named(1, name="a")
    assert (point.x, point.y, point.name) == (1, 0, "a")
    assert repr(point) == "Named(x=1, y=0, name='a')"


@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ((), {}, "'x' is missing"),
        ((1, 2, 3), {}, "too many"),
        ((1,), {"x": 1}, "given twice"),
        ((1,), {"z": 1}, "no field 'z'"),
        ((1,), {"kind": "other"}, "no field 'kind'"),
    ],
)
def test_wrong_values_are_named(values: tuple[Any, ...], named: dict[str, Any], message: str):
    with pytest.raises(TypeError, match=message):
        Point(*values, **named)


def test_a_record_is_frozen():
    point = Point(1)
    with pytest.raises(AttributeError, match="'x' cannot be set"):
        point.x = 2
    with pytest.raises(AttributeError, match="'x' cannot be deleted"):
        del point.x
    with pytest.raises(AttributeError):
        point.other = 2
    assert (point.x, vars(point)) == (1, {"x": 1, "y": 0})


def test_a_large_record_stores_only_what_differs_from_its_defaults():
    large = Large(field3=5)
    assert (large.field3, large.field4, vars(large)) == (5, 0, {"field3": 5})
    assert large == Large(field3=5, field4=0)
    assert hash(large) == hash(Large(field3=5, field4=0))
    assert large.replace(field4=2) != large
    assert "field39=0" in repr(large)


def test_records_are_compared_and_hashed_by_value_and_class():
    assert Point(1, 2) == Point(y=2, x=1)
    assert Point(1, 2) != Point(1, 3)
    assert Point(1, 2) != Named(1, 2)
    assert Point(1, 2) != (1, 2)
    assert len({Point(1), Point(1, 0), Point(2)}) == 2
    with pytest.raises(TypeError):
        hash(Point([]))


def test_replace_makes_another_record():
    point = Point(1, 2)
    assert point.replace(y=5) == Point(1, 5)
    assert point == Point(1, 2)
    with pytest.raises(TypeError):
        point.replace(z=1)


def test_a_record_is_matched_by_its_fields():
    match Named(1, 2, "here"):
        case Named(x=1, name=name):
            assert name == "here"
        case _:
            pytest.fail("not matched")
