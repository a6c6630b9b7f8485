"""Codecs read values back equal and with the same types, and refuse foreign bytes."""

import sys
from collections import Counter
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from typing import Any
from uuid import UUID

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import StateError
from engine.state import codec_named
from engine.state.codec import DELETED, Codec, Encoded, MessagePack, Pickle, Unencodable

offsets = st.integers(-23 * 3600, 23 * 3600).map(lambda secs: timezone(timedelta(seconds=secs)))
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**200), 2**200),
    st.floats(allow_nan=False),
    st.text(st.characters()),  # with lone surrogates
    st.binary(),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.datetimes(timezones=st.none() | offsets),
    st.datetimes(timezones=st.none() | offsets).map(lambda moment: moment.replace(fold=1)),
    st.dates(),
    st.times(timezones=st.none() | offsets),
    st.timedeltas(),
    st.just(DELETED),
)
hashables = st.recursive(atoms, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=5)
values = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.sets(hashables, max_size=3),
        st.frozensets(hashables, max_size=3),
        st.dictionaries(hashables, inner, max_size=3),
    ),
    max_leaves=12,
)


def typed(value: Any) -> Any:
    """Return a value with the types of all its parts, so that `1` and `True` differ."""
    if isinstance(value, list | tuple):
        return type(value), [typed(item) for item in value]
    if isinstance(value, dict):
        return dict, {key: (typed(key), typed(item)) for key, item in value.items()}
    if isinstance(value, datetime | time):
        return type(value), value, value.fold, value.utcoffset()
    if isinstance(value, set | frozenset):
        return type(value), value, {item: typed(item) for item in value}
    return type(value), repr(value) if isinstance(value, float | Decimal) else value


@pytest.fixture(params=["msgpack", "pickle"])
def codec(request: pytest.FixtureRequest) -> Codec:
    return codec_named(request.param)


@pytest.mark.guarantee("CP-8")
@given(value=values)
def test_message_pack_reads_back_equal_values(value: Any) -> None:
    codec = MessagePack()
    assert typed(codec.decode(codec.encode(value))) == typed(value)


@given(value=values)
def test_pickle_reads_back_equal_values(value: Any) -> None:
    codec = Pickle()
    assert typed(codec.decode(codec.encode(value))) == typed(value)


def test_not_a_number_is_read_back_as_nan(codec: Codec) -> None:
    assert str(codec.decode(codec.encode([float("nan"), Decimal("NaN"), Decimal("sNaN")]))) == "[nan, Decimal('NaN'), Decimal('sNaN')]"


def test_an_encoded_value_stays_encoded_inside_another(codec: Codec) -> None:
    [found, deleted] = codec.decode(codec.encode([Encoded(codec.encode([1, 2])), DELETED]))
    assert type(found) is Encoded
    assert codec.decode(found) == [1, 2]
    assert deleted is DELETED


def test_each_decoded_value_is_a_new_object(codec: Codec) -> None:
    encoded = codec.encode({"a": [1]})
    codec.decode(encoded)["a"].append(2)
    assert codec.decode(encoded) == {"a": [1]}


class Colour(IntEnum):
    RED = 1


NOT_WRITTEN = [object(), Colour.RED, Counter("ab"), [1, {2: object()}], (Colour.RED,), {1: {Colour.RED}}, 1j]


@pytest.mark.parametrize("value", NOT_WRITTEN, ids=range(len(NOT_WRITTEN)))
def test_the_error_names_the_value_that_message_pack_cannot_write(value: object) -> None:
    codec = MessagePack()
    with pytest.raises(Unencodable, match=r"of type \w+ cannot be written as MessagePack. Store its parts"):
        codec.encode(value)
    assert codec.decode(codec.encode(["after", ("an", "error")])) == ["after", ("an", "error")]


def nested(kind: type, depth: int) -> Any:
    value: Any = kind()
    for _ in range(depth):
        value = kind([value])
    return value


@pytest.mark.parametrize(("kind", "depth"), [(tuple, 63), (frozenset, 63), (list, 500)])
def test_deep_values_that_can_be_written_can_be_read(kind: type, depth: int) -> None:
    codec = MessagePack()
    assert codec.decode(codec.encode(nested(kind, depth))) == nested(kind, depth)


@pytest.mark.parametrize(("kind", "depth"), [(tuple, 65), (tuple, 5000), (list, 5000), (list, 100_000)])
def test_a_value_that_is_too_deep_is_refused(kind: type, depth: int) -> None:
    codec = MessagePack()
    with pytest.raises(Unencodable):
        codec.encode(nested(kind, depth))
    assert codec.decode(codec.encode(nested(kind, 5))) == nested(kind, 5)


class Exits:
    """A value that ends the program when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return sys.exit, (5,)


def test_a_value_that_ends_the_program_when_it_is_loaded_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"a value of sys.exit cannot be unpickled: SystemExit: 5"):
        Pickle().decode(Pickle().encode(Exits()))


def test_the_error_names_the_value_that_pickle_cannot_write() -> None:
    with pytest.raises(Unencodable, match="of type function cannot be pickled"):
        Pickle().encode(lambda: None)


@given(encoded=st.binary(max_size=60))
def test_random_bytes_are_refused_or_read(encoded: bytes) -> None:
    with suppress(ValueError):
        MessagePack().decode(encoded)


@given(value=values, data=st.data())
def test_damaged_bytes_are_refused_or_read(value: Any, data: st.DataObject) -> None:
    encoded = bytearray(MessagePack().encode(value))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ValueError):
        MessagePack().decode(bytes(encoded))


def test_truncated_bytes_are_refused(codec: Codec) -> None:
    encoded = codec.encode(["words", 12345, {"a": ("b", Decimal(1))}])
    for size in range(len(encoded)):
        with pytest.raises(ValueError):
            codec.decode(encoded[:size])


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(StateError, match="no codec 'json'"):
        codec_named("json")  # type: ignore[arg-type]


def test_the_stored_form_does_not_change() -> None:
    value = [
        None,
        True,
        -1,
        2**70,
        0.5,
        "a",
        b"b",
        (1,),
        {2},
        frozenset({3}),
        {"k": 4},
        Decimal("1.50"),
        UUID(int=5),
        DELETED,
        Encoded(b"\x06"),
    ]
    moments = [datetime(2020, 1, 2, 3, 4, 5, 6, UTC), datetime(2020, 1, 2, fold=1), date(2020, 1, 2), time(1, 2, 3), timedelta(1, 2, 3)]
    assert MessagePack().encode(value).hex() == (
        "9fc0c3ffc70904000000000000000040cb3fe0000000000000a161c40162d5019101d5029102d503910381a16b04"
        "d605312e3530d80600000000000000000000000000000005c7000cd40b06"
    )
    assert MessagePack().encode(moments).hex() == (
        "95c72007323032302d30312d30325430333a30343a30352e3030303030362b30303a3030c71407323032302d30312d30325430303a30303a303066"
        "c70a08323032302d30312d3032d70930313a30323a3033c7050a312c322c33"
    )


def test_a_stored_value_that_is_too_deep_is_refused() -> None:
    """The refusal must not overflow the stack, of which each level needs a part."""
    stored = MessagePack().encode(1)
    for _ in range(1000):
        stored = msgpack.packb(msgpack.ExtType(1, msgpack.packb([msgpack.ExtType(1, stored)])))
    with pytest.raises(ValueError, match=r"^these bytes are not a MessagePack of the engine: tuples or sets are nested more than 64 deep$"):
        MessagePack().decode(stored)
    assert MessagePack().decode(MessagePack().encode((1,))) == (1,)
