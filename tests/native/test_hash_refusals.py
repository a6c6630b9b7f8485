"""Values without a stable hash, and the hint to define `__stable_hash__` (GRP-2)."""

from collections.abc import Callable
from datetime import date, timedelta

import pytest

from _native.hash import stable_hash
from tests.model.stable_hash_model import model_hash


class Customer:
    def __init__(self, number: int) -> None:
        self.number = number

    def __stable_hash__(self) -> int:
        return stable_hash(("customer", self.number))


@pytest.mark.guarantee("GRP-2")
@pytest.mark.parametrize(
    "value", [{}, set(), pytest.param(object(), id="object()"), 1j, bytearray(b"a"), date(2024, 1, 1), timedelta(1), int, len], ids=repr
)
@pytest.mark.parametrize("wrapped", [lambda value: value, lambda value: ("a", [value])], ids=["bare", "inside"])
def test_other_types_raise_an_error_with_the_type_and_a_hint(value: object, wrapped: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match=rf"{type(value).__name__} has no stable hash: use None.*__stable_hash__\(self\) -> int"):
        stable_hash(wrapped(value))


@pytest.mark.guarantee("GRP-2")
def test_a_type_that_defines_its_hash_is_routable() -> None:
    assert stable_hash(Customer(7)) == stable_hash(("customer", 7))
    assert stable_hash((Customer(7), 1)) == stable_hash((("customer", 7), 1))


@pytest.mark.parametrize("hashed", [0, -1, 2**64 - 1, 2**200 + 5, True])
def test_a_custom_hash_is_reduced_to_64_bits(hashed: int) -> None:
    own = type("Own", (), {"__stable_hash__": lambda self: hashed})
    assert stable_hash(own()) == hashed % 2**64


def test_a_custom_hash_overrides_that_of_the_base() -> None:
    own = type("Own", (str,), {"__stable_hash__": lambda self: stable_hash(self.casefold())})
    assert stable_hash(own("ABC")) == stable_hash("abc")


def test_a_custom_hash_must_be_an_int() -> None:
    own = type("Own", (), {"__stable_hash__": lambda self: 1.5, "__module__": "shop"})
    with pytest.raises(TypeError, match=r"shop\.Own\.__stable_hash__\(\) must return an int, not float"):
        stable_hash(own())


def test_an_exception_of_a_custom_hash_is_raised() -> None:
    own = type("Own", (), {"__stable_hash__": lambda self: 1 // 0})
    with pytest.raises(ZeroDivisionError):
        stable_hash((1, own()))


def test_a_subclass_that_does_not_equal_its_base_is_refused() -> None:
    odd = type("Odd", (str,), {"__eq__": lambda self, other: self is other, "__hash__": str.__hash__, "__module__": "shop"})
    with pytest.raises(TypeError, match=r"shop\.Odd value 'a' does not equal its str: use None"):
        stable_hash(odd("a"))


def test_an_object_that_only_claims_its_class_is_refused() -> None:
    impostor = type("Impostor", (), {"__class__": property(lambda self: str)})
    with pytest.raises(TypeError, match="Impostor has no stable hash"):
        stable_hash(impostor())


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value, 0]
    return value


def test_nesting_is_bounded() -> None:
    assert stable_hash(nested(64)) == model_hash(nested(64))
    with pytest.raises(TypeError, match="nested more than 64 deep"):
        stable_hash(nested(65))


def test_a_list_inside_itself_is_refused() -> None:
    inside: list[object] = []
    inside.append(inside)
    with pytest.raises(TypeError, match="nested more than 64 deep"):
        stable_hash(inside)
