"""Fields, and the streams that `output_fields` declares."""

import copy
import pickle

import pytest

from engine.api import Fields, declare_streams
from engine.errors import UsageError


def test_fields_are_a_sequence_of_names() -> None:
    fields = Fields("word", "count")
    assert fields.names == ("word", "count")
    assert list(fields) == ["word", "count"]
    assert len(fields) == 2
    assert "word" in fields
    assert "late" not in fields
    assert fields[1] == "count"
    assert fields.index("count") == 1
    assert not fields.direct


def test_equal_fields_compare_equal_and_have_the_same_hash() -> None:
    assert Fields("a", "b") == Fields("a", "b")
    assert hash(Fields("a", "b")) == hash(Fields("a", "b"))
    assert Fields("a", "b") != Fields("b", "a")
    assert Fields("a") != Fields("a", direct=True)
    assert Fields("a") != ("a",)


def test_repr_is_the_call_of_the_constructor() -> None:
    assert repr(Fields("a", direct=True)) == "Fields('a', direct=True)"
    assert eval(repr(Fields("a", "b"))) == Fields("a", "b")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda fields: pickle.loads(pickle.dumps(fields))])
def test_copies_are_equal(copied) -> None:
    assert copied(Fields("a", direct=True)) == Fields("a", direct=True)


def test_fields_are_immutable() -> None:
    fields = Fields("a")
    with pytest.raises(AttributeError, match="immutable"):
        fields.names = ("b",)
    with pytest.raises(AttributeError, match="immutable"):
        del fields.direct
    with pytest.raises(AttributeError):
        fields.other = 1


def test_the_error_for_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(UsageError) as raised:
        Fields("word", "count").index("wrod")
    assert str(raised.value) == "Fields('word', 'count') has no field 'wrod'\nFix: Did you mean 'word'?"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("a", "a"), "field 'a' occurs twice in Fields('a', 'a')"),
        (("",), "a field name is empty"),
        ((1,), "a field name must be a str, not 1 (int)"),
        ((["a", "b"],), "a field name must be a str, not ['a', 'b']"),
    ],
)
def test_wrong_names_are_refused(names, text) -> None:
    with pytest.raises(UsageError) as raised:
        Fields(*names)
    assert raised.value.message == text
    assert raised.value.hint


@pytest.mark.parametrize(
    ("declared", "streams"),
    [
        (None, {}),
        ("word", {"default": Fields("word")}),
        (Fields("a", "b"), {"default": Fields("a", "b")}),
        (("a", "b"), {"default": Fields("a", "b")}),
        ({"default": Fields("a"), "late": "b"}, {"default": Fields("a"), "late": Fields("b")}),
        ({}, {}),
    ],
)
@pytest.mark.guarantee("GRP-3")
def test_output_fields_become_streams(declared, streams) -> None:
    assert dict(declare_streams(declared)) == streams


def test_streams_keep_their_order_and_are_immutable() -> None:
    streams = declare_streams({"late": Fields("a"), "default": Fields("a")})
    assert list(streams) == ["late", "default"]
    with pytest.raises(TypeError):
        streams["more"] = Fields("b")


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (3, "output_fields of stream 'default' must be Fields, not 3 (int)"),
        ({"late": None}, "output_fields of stream 'late' must be Fields, not None (NoneType)"),
        ({"": Fields("a")}, "a stream name must be a non-empty str, not ''"),
        ({"$checkpoint": Fields("a")}, "stream name '$checkpoint' is reserved for the engine"),
    ],
)
def test_wrong_output_fields_are_refused(declared, text) -> None:
    with pytest.raises(UsageError) as raised:
        declare_streams(declared)
    assert raised.value.message == text
