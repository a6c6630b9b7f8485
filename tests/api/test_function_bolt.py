"""`@bolt` makes bolts of functions, and `call_kind` tells the kind of a function."""

import functools

import pytest

from engine.api import BasicBolt, CallKind, FailTuple, Fields, bolt, call_kind
from engine.errors import UsageError


@bolt("word", "length", concurrency=1, tick_tuple_freq_secs=2.5)
def split(tup):
    """Split a line."""
    for word in tup["line"].split():
        yield (word, len(word))


@bolt()
async def sink(tup) -> None:
    pass


def test_the_decorated_function_is_a_factory_of_basic_bolts() -> None:
    one, other = split.create(), split()
    assert isinstance(one, BasicBolt)
    assert one is not other
    assert type(one).__name__ == "split"
    assert one.output_fields == Fields("word", "length")
    assert (one.concurrency, one.threads, one.on_error, one.tick_tuple_freq_secs) == (1, 0, None, 2.5)


def test_execute_is_the_function_itself() -> None:
    assert split.create().execute is split.function
    assert list(split.create().execute({"line": "to be"})) == [("to", 2), ("be", 2)]


def test_the_function_and_its_docstring_are_available() -> None:
    assert list(split.function({"line": "be"})) == [("be", 2)]
    assert split.__name__ == "split"
    assert split.__doc__ == "Split a line."
    assert repr(split) == "<@bolt split: word, length>"


def test_a_bolt_without_fields_is_a_sink() -> None:
    assert sink.create().output_fields is None
    assert call_kind(sink.create().execute) is CallKind.COROUTINE


def test_calling_the_bolt_like_a_function_raises_an_error_that_shows_how_to_test_it() -> None:
    with pytest.raises(UsageError) as raised:
        split({"line": "to be"})
    assert str(raised.value) == "split is a bolt, not a function\nFix: To test the function, call split.function(tup)."


@pytest.mark.parametrize(
    ("decorate", "text"),
    [
        (lambda: bolt(split.function), "@bolt above split() names no fields"),
        (lambda: bolt("a")(3), "@bolt needs a function, not 3"),
        (lambda: bolt("a", ""), "@bolt: a field name is empty"),
    ],
)
def test_wrong_uses_of_the_decorator_are_refused(decorate, text) -> None:
    with pytest.raises(UsageError) as raised:
        decorate()
    assert raised.value.message == text
    assert raised.value.hint


class Kinds:
    def plain(self):
        return None

    def generator(self):
        yield

    async def coroutine(self):
        return None

    async def async_generator(self):
        yield

    async def __call__(self):
        return None


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (Kinds().plain, CallKind.PLAIN),
        (Kinds().generator, CallKind.GENERATOR),
        (Kinds().coroutine, CallKind.COROUTINE),
        (Kinds().async_generator, CallKind.ASYNC_GENERATOR),
        (Kinds.coroutine, CallKind.COROUTINE),
        (Kinds(), CallKind.COROUTINE),
        (functools.partial(functools.partial(Kinds().generator)), CallKind.GENERATOR),
        (functools.partial(Kinds()), CallKind.COROUTINE),
        (len, CallKind.PLAIN),
        (lambda: None, CallKind.PLAIN),
    ],
)
def test_call_kind_knows_all_kinds_of_functions(function, kind) -> None:
    assert call_kind(function) is kind
    assert kind.is_async == (kind in (CallKind.COROUTINE, CallKind.ASYNC_GENERATOR))


@pytest.mark.guarantee("ACK-11")
def test_fail_tuple_is_not_reported_by_default() -> None:
    assert not FailTuple("no such user").report
    assert FailTuple("no such user", report=True).report
    assert str(FailTuple("no such user")) == "no such user"
