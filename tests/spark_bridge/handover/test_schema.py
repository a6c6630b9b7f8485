"""A schema declared by pyarrow equals the same schema declared in Spark's DDL (SP-2)."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bridge.handover import HandoverError, ddl_of, schema_of

pytestmark = pytest.mark.guarantee("SP-2")

UTC = pa.timestamp("us", tz="UTC")
SIMPLE = st.sampled_from([
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32(), UTC,
    pa.timestamp("us"), pa.decimal128(38, 38), pa.decimal128(10, 0), pa.decimal128(1, 1),
])  # fmt: skip
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


def structs(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.lists(st.tuples(NAMES, kinds, st.booleans()), min_size=1, max_size=3, unique_by=lambda field: field[0])
    return fields.map(lambda found: pa.struct([pa.field(name, kind, nullable=nullable) for name, kind, nullable in found]))


TYPES = st.recursive(
    SIMPLE, lambda kinds: kinds.map(pa.list_) | st.tuples(SIMPLE, kinds).map(lambda pair: pa.map_(*pair)) | structs(kinds), max_leaves=5
)
SCHEMAS = st.lists(st.tuples(NAMES, TYPES, st.booleans()), min_size=1, max_size=4, unique_by=lambda field: field[0].lower()).filter(
    lambda fields: not {"txid", "batch_time"} & {name.lower() for name, _, _ in fields}
)


@given(SCHEMAS)
def test_a_schema_survives_ddl_and_serialization(fields: list[Any]) -> None:
    schema = pa.schema([pa.field(name, kind, nullable=nullable) for name, kind, nullable in fields])
    assert schema_of(schema).equals(schema)
    assert schema_of(ddl_of(schema)).equals(schema)


def test_parses_ddl_as_spark_writes_it() -> None:
    text = """host string not null, at TIMESTAMP, status: INT, tags array<string>, price decimal(10,2) comment 'it''s', `odd ``name` long,
        who struct<name: string NOT NULL COMMENT "x", ages map<string, array<short>>>, n decimal"""
    expected = pa.schema([
        pa.field("host", pa.string(), nullable=False), ("at", UTC), ("status", pa.int32()), ("tags", pa.list_(pa.string())),
        ("price", pa.decimal128(10, 2)), ("odd `name", pa.int64()),
        ("who", pa.struct([pa.field("name", pa.string(), nullable=False), ("ages", pa.map_(pa.string(), pa.list_(pa.int16())))])),
        ("n", pa.decimal128(10, 0)),
    ])  # fmt: skip
    assert schema_of(text.replace("'it''s'", "'it\\'s'")).equals(expected)


def test_similar_types_become_types_of_spark() -> None:
    given = pa.schema({
        "a": pa.large_string(), "b": pa.timestamp("ns", tz="Europe/Berlin"), "c": pa.timestamp("s"), "d": pa.date64(), "e": pa.binary(16),
        "f": pa.large_list(pa.large_binary()), "g": pa.decimal256(20, 3),
    }, metadata={"x": "y"})  # fmt: skip
    expected = [pa.string(), UTC, pa.timestamp("us"), pa.date32(), pa.binary(), pa.list_(pa.binary()), pa.decimal128(20, 3)]
    assert schema_of(given).types == expected
    assert schema_of(given).metadata is None


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint64(), pa.float16(), pa.time64("us"), pa.duration("s"), pa.null(),
                                  pa.dictionary(pa.int8(), pa.string()), pa.decimal256(50, 2), pa.struct([])])  # fmt: skip
def test_a_type_unknown_to_spark_is_refused_at_any_depth(kind: Any) -> None:
    with pytest.raises(HandoverError, match=r"column 'a' is of type .*, and Spark has no such type"):
        schema_of(pa.schema({"a": kind}))
    with pytest.raises(HandoverError, match=r"column 'a\.b\[\]' is of type"):
        schema_of(pa.schema({"a": pa.struct({"b": pa.list_(kind)})}))


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("a int, TxId long", "has a column 'TxId', and the source adds one of that name"),
        ("batch_time timestamp", "has a column 'batch_time'"),
        ("a int, A string", "has 2 columns 'a': Spark does not distinguish"),
        ("`` int", "has a column without a name"),
        (pa.schema([]), "has no column"),
        (["a"], "the schema of a hand-over is"),
        (None, "the schema of a hand-over is None"),
    ],
)
def test_an_invalid_schema_is_refused(declared: Any, text: str) -> None:
    with pytest.raises(HandoverError, match=text):
        schema_of(declared)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "''"),
        ("a", "''"),
        ("a int b", "'b'"),
        ("a int,", "''"),
        ("a uint8", "'uint8'"),
        ("a array<int", "''"),
        ("a map<int>", "'>'"),
        ("a decimal(40)", r"'\)'"),
        ("a decimal(4,5)", r"'\)'"),
        ("a int not", "''"),
        ("a-b int", "'-b int'"),
        ("a int comment b", "'b'"),
        ("a struct<>", "'>'"),
        ("7, b", "', b'"),
    ],
)
def test_the_error_of_wrong_ddl_names_the_position(text: str, place: str) -> None:
    with pytest.raises(HandoverError, match=f"cannot be read at {place}"):
        schema_of(text)
