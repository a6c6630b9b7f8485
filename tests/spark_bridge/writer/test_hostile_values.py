"""Values with code of their own, and numbers that mislead pyarrow, are stored exactly or do not fit (SP-7)."""

from decimal import Decimal
from typing import Any, NoReturn

import pytest
from pyspark.sql import Row

from spark_bridge.handover import schema_of
from spark_bridge.writer.columns import Columns

pytestmark = pytest.mark.guarantee("SP-7")


def converted(ddl: str, *values: Any) -> tuple[list[Any], list[str]]:
    """Return the stored values of one column, and the errors of the others."""
    columns = Columns(schema_of(f"x {ddl}"), [0])
    batches, bad = columns.convert([(value,) for value in values])
    for batch in batches:
        batch.validate(full=True)
    return [value for batch in batches for value in batch.column(0).to_pylist()], [each.error for each in bad]


@pytest.mark.parametrize("digits", ["1", "-99", "1234567890123456789012345678901234567"])
@pytest.mark.parametrize("exponent", [-41, -238, -718_917, -2_147_483_648, -999_999_999_999_999_999, 39, 999_999_999_999_999_900])
def test_a_decimal_with_any_exponent_is_not_cut(digits: str, exponent: int) -> None:
    stored, errors = converted("decimal(5,2)", Decimal(f"{digits}E{exponent}"))
    assert not stored
    assert errors == ["decimal(5,2) takes a Decimal or an int with at most 3 digits before the point and 2 behind it"]


@pytest.mark.parametrize("exponent", [-3, -40, -999_999_999, -999_999_999_999_999_999, 2, 40, 999_999_999])
def test_a_zero_with_any_exponent_is_a_zero(exponent: int) -> None:
    assert converted("decimal(5,2)", Decimal(f"0E{exponent}"), None, Decimal("1.5"), 3) == (
        [Decimal("0.00"), None, Decimal("1.50"), Decimal("3.00")],
        [],
    )


@pytest.mark.parametrize("ddl", ["decimal(1,0)", "decimal(38,0)", "decimal(38,38)", "decimal(38,19)"])
def test_a_decimal_column_holds_its_smallest_and_largest_number(ddl: str) -> None:
    kind = schema_of(f"x {ddl}").field("x").type
    least, most = Decimal(1).scaleb(-kind.scale), Decimal("9" * kind.precision + f"E-{kind.scale}")
    negative = most.copy_negate()
    assert converted(ddl, least, most, negative) == ([least, most, negative], [])
    stored, errors = converted(ddl, Decimal(f"1E-{kind.scale + 1}"), Decimal(f"1E{kind.precision - kind.scale}"), Decimal("NaN"))
    assert (stored, len(errors)) == ([], 3)


class Each(str):
    """A text that only equals itself."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class Both:
    """Raises when it is compared."""

    def __hash__(self) -> int:
        return hash("a")

    def __eq__(self, other: object) -> NoReturn:
        raise KeyError("not comparable")


class Mute(list[Any]):
    def __iter__(self) -> NoReturn:
        raise RuntimeError("not iterable")

    def __len__(self) -> NoReturn:
        raise RuntimeError("no length")


@pytest.mark.parametrize(
    ("ddl", "pairs"),
    [
        ("map<double,int>", [(0.0, 1), (-0.0, 2)]),
        ("map<float,int>", [(-0.0, 1), (0, 2)]),
        ("map<array<double>,int>", [([0.0], 1), ([-0.0], 2)]),
        ("map<struct<a: array<float>>,int>", [({"a": [0.0]}, 1), ({"a": [-0.0]}, 2)]),
        ("map<string,int>", [(Each("a"), 1), (Each("a"), 2)]),
        ("map<string,int>", {Each("a"): 1, Each("a"): 2}),
    ],
)
def test_keys_that_spark_takes_for_one_do_not_fit(ddl: str, pairs: Any) -> None:
    stored, errors = converted(ddl, pairs)
    assert not stored
    assert "a map has each key once" in errors[0]


def test_a_key_of_another_class_is_stored_as_its_base() -> None:
    assert converted("map<string,int>", {Each("a"): 1, Each("b"): 2}) == ([[("a", 1), ("b", 2)]], [])


def test_a_name_that_raises_when_it_is_compared_does_not_fit() -> None:
    stored, errors = converted("struct<a: int>", {"a": 1}, {Both(): 1})
    assert stored == [{"a": 1}]
    assert "not comparable" in errors[0]


def test_a_row_with_a_name_twice_does_not_fit() -> None:
    """Joins make such rows. Only one of their values would be stored."""
    stored, errors = converted("struct<a: int, b: int>", Row("a", "a")(1, 2), Row("b", "a")(1, 2))
    assert stored == [{"a": 2, "b": 1}]
    assert "a name twice" in errors[0]


def test_a_list_of_pairs_is_read_without_its_own_code() -> None:
    assert converted("map<string,int>", Mute([("a", 1), ["b", 2]])) == ([[("a", 1), ("b", 2)]], [])
