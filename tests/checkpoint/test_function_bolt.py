"""`@stateful_bolt` makes stateful bolts of functions."""

import functools
import sys
from collections import Counter
from typing import Any

import pytest

from engine import Config, StatefulBasicBolt, TopologyBuilder, TopologyError, UsageError, bolt, spout, stateful_bolt
from engine.api import Fields, call_kind
from engine.testing import Capture, Feeder, RaiseError, run_topology

WORDS = [("a",), ("b",), ("a",), ("c",), ("a",)]
COUNTS = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1)]


def counted(tup, state) -> int:
    number = state.get(tup["word"], 0) + 1
    state.put(tup["word"], number)
    return number


@stateful_bolt("word", "count", tick_tuple_freq_secs=2.5)
def count(tup, state):
    """Count words."""
    yield tup["word"], counted(tup, state)


def plain(tup, state):
    return tup["word"], counted(tup, state)


async def coroutine(tup, state):
    return tup["word"], counted(tup, state)


async def async_generator(tup, state):
    yield tup["word"], counted(tup, state)


def with_default(tup, state, step=1):
    assert step == 1
    return plain(tup, state)


def with_keyword(tup, state, *, step=1):
    assert step == 1
    return plain(tup, state)


@functools.wraps(plain)
def wrapped(*args, **kwargs):
    return plain(*args, **kwargs)


def stepping(step, tup, state):
    return plain(tup, state)


class Callable:
    async def __call__(self, tup, state):
        return plain(tup, state)


FUNCTIONS: list[Any] = [
    count.function,
    plain,
    coroutine,
    async_generator,
    with_default,
    with_keyword,
    wrapped,
    functools.partial(stepping, 1),
    functools.partial(async_generator),
    Callable(),
]


def run_words(given: Any, *, words: Any = WORDS, fields: str = "word", tasks: int = 2, faults: Any = (), **settings: Any) -> Any:
    """Run feed → given → capture. Return the captured values and the finished run."""
    capture, builder = Capture(), TopologyBuilder("words")
    builder.set_spout("feed", spout(*fields.split())(lambda: (yield from words)))
    builder.set_bolt("count", given, parallelism=tasks).fields_grouping("feed", "word")
    builder.set_bolt("sink", capture).global_grouping("count")
    finished = run_topology(builder.build(), Config(**settings), faults=faults)
    return capture.values, finished


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: getattr(function, "__name__", type(function).__name__))
def test_every_kind_of_function_counts(function: Any) -> None:
    values, finished = run_words(stateful_bolt("word", "count")(function))
    assert sorted(values) == COUNTS
    assert finished.state == "complete"
    assert not finished.errors


def test_the_decorated_function_is_a_factory_of_stateful_bolts() -> None:
    one, other = count.create(), count()
    assert isinstance(one, StatefulBasicBolt)
    assert one is not other
    assert type(one).__name__ == "count"
    assert one.output_fields == Fields("word", "count")
    assert (one.concurrency, one.threads, one.on_error, one.tick_tuple_freq_secs) == (1, 0, None, 2.5)


def test_the_function_and_its_docstring_are_available() -> None:
    assert list(count.function({"word": "be"}, Dict())) == [("be", 1)]
    assert count.__doc__ == "Count words."
    assert repr(count) == "<@stateful_bolt count: word, count>"
    assert count.function.__defaults__ is None


class Dict(dict):
    """State for a unit test."""

    put = dict.__setitem__


def test_the_engine_calls_the_function_without_a_frame_between() -> None:
    callers = []

    def look(tup, *_):
        callers.append(sys._getframe(2).f_code)  # 1 is the function itself

    run_words(bolt("word")(lambda tup: look(tup)))
    run_words(stateful_bolt("word")(lambda tup, state: look(tup)))
    assert len(set(callers)) == 1


@pytest.mark.parametrize("function", FUNCTIONS[:4], ids=lambda function: function.__name__)
def test_the_bolt_is_called_like_its_function(function: Any) -> None:
    assert call_kind(stateful_bolt()(function).create().execute) is call_kind(function)


def test_each_task_has_its_own_state() -> None:
    one, other = count.create(), count.create()
    one.init_state(Dict(be=5))
    other.init_state(Dict())
    assert list(one.execute({"word": "be"})) == [("be", 6)]
    assert list(other.execute({"word": "be"})) == [("be", 1)]


@pytest.mark.guarantee("CP-9")
def test_key_of_gives_the_value_that_keys_are_grouped_by() -> None:
    def by_pair(tup, state):
        pair = (tup["word"], tup["next"])
        state.put(pair, state.get(pair, 0) + 1)
        yield tup["word"], state.get(pair)

    pairs = [(f"w{number % 20}", number % 3) for number in range(120)]
    values, finished = run_words(
        stateful_bolt("word", "count", key_of=lambda pair: pair[0])(by_pair), words=pairs, fields="word next", tasks=4
    )
    assert not finished.errors
    assert Counter(word for word, count in values if count == 2) == Counter(f"w{number}" for number in range(20) for _ in range(3))


@pytest.mark.guarantee("CP-4", "CP-5")
def test_with_restart_an_exception_rolls_back_uncommitted_changes() -> None:
    values, finished = run_words(count, faults=[RaiseError("count", at_call=4)], on_error="restart")
    assert [report.component_id for report in finished.errors] == ["count"]
    assert Counter(dict(sorted(values))) == {"a": 3, "b": 1, "c": 1}
    assert finished.snapshot.checkpoint.recoveries > 0


@pytest.mark.guarantee("SV-1", "SV-2")
def test_by_default_the_instance_goes_on_without_the_changes_of_the_call_that_raised() -> None:
    once = [True]

    @stateful_bolt("word", "count")
    def raises_after_put(tup, state):
        number = counted(tup, state)
        if tup["word"] == "b" and once:
            once.clear()
            raise ValueError("after the put")
        return tup["word"], number

    values, finished = run_words(raises_after_put)
    [report] = finished.errors
    assert report.traceback.splitlines()[0].endswith("in raises_after_put")
    assert finished.snapshot.checkpoint.recoveries == 0
    assert finished.snapshot.components["count"].restarts == 0
    assert sorted(values) == COUNTS, "the failed word is replayed, and counts as the first one again"


def test_an_error_of_the_state_is_shown_at_the_line_of_the_function() -> None:
    @stateful_bolt(on_error="fail")
    def puts_no_key(tup, state):
        state.put([tup["word"]], 1)

    feeder, builder = Feeder("word"), TopologyBuilder("words")
    feeder.feed(("a",))
    feeder.close()
    builder.set_spout("feed", feeder)
    builder.set_bolt("count", puts_no_key).fields_grouping("feed", "word")
    report = run_topology(builder.build(), until=lambda run: bool(feeder.failed)).errors[0]
    assert report.text.startswith("StateError")
    assert report.traceback.count("File ") == 1
    assert report.traceback.splitlines()[1].strip() == 'state.put([tup["word"]], 1)'


def test_calling_the_bolt_like_a_function_raises_an_error_that_shows_how_to_test_it() -> None:
    with pytest.raises(UsageError) as raised:
        count({"word": "be"}, {})
    assert str(raised.value) == "count is a bolt, not a function\nFix: To test the function, call count.function(tup, state)."


async def async_key_of(key):
    return key


@pytest.mark.parametrize(
    ("decorate", "text", "hint"),
    [
        (
            lambda: stateful_bolt(plain),
            "@stateful_bolt above plain() names no fields",
            'Write @stateful_bolt("word") above def plain, or @stateful_bolt() if it emits nothing.',
        ),
        (
            lambda: stateful_bolt("a")(3),
            "@stateful_bolt needs a function, not 3",
            "Derive a class from StatefulBasicBolt, and pass it to set_bolt().",
        ),
        (
            lambda: stateful_bolt("a")(lambda tup: None),
            "@stateful_bolt above <lambda>(): the function cannot be called with (tup, state)",
            "Write def f(tup, state): ...",
        ),
        (lambda: stateful_bolt("a", ""), "@stateful_bolt: a field name is empty", None),
        (
            lambda: stateful_bolt("a", key_of="word"),
            "@stateful_bolt: key_of must be a plain function of a key, not 'word'",
            "Write key_of=lambda key: key[0].",
        ),
        (lambda: stateful_bolt("a", key_of=lambda: 1), None, "Write key_of=lambda key: key[0]."),
        (lambda: stateful_bolt("a", key_of=async_key_of), None, "Write key_of=lambda key: key[0]."),
    ],
)
def test_wrong_uses_of_the_decorator_are_refused(decorate: Any, text: str | None, hint: str | None) -> None:
    with pytest.raises(UsageError) as raised:
        decorate()
    assert text is None or raised.value.message == text
    assert raised.value.hint
    assert hint is None or raised.value.hint == hint


@pytest.mark.guarantee("ACK-10", "GRP-5")
@pytest.mark.parametrize("setting", ["concurrency", "threads"])
def test_it_takes_one_input_at_a_time(setting: str) -> None:
    with pytest.raises(TypeError):
        stateful_bolt("word", **{setting: 2})
    builder = TopologyBuilder("words")
    builder.set_spout("feed", Feeder("word"))
    function = coroutine if setting == "concurrency" else plain
    builder.set_bolt("count", stateful_bolt("word", "count")(function), **{setting: 2}).fields_grouping("feed", "word")
    with pytest.raises(TopologyError) as raised:
        builder.build()
    assert raised.value.faults == ("bolt 'count': a stateful bolt takes one input at a time. Remove concurrency= or threads=.",)
