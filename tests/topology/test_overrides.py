"""`build()` finds functions and methods that the engine could not call (GRP-5)."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Fields, FlowControlBolt, Spout, StatefulBolt, TopologyBuilder, TopologyError, UsageError, bolt, spout
from engine.transactional import BatchBolt, TransactionalTopologyBuilder
from tests.transactional.batch_topologies import Batches

pytestmark = pytest.mark.guarantee("GRP-5")


@spout("word")
def words() -> Any:
    yield ("to",)


def faults_of(bolt_class: Any = None, spout_class: Any = words) -> tuple[str, ...]:
    builder = TopologyBuilder("test")
    builder.set_spout("words", spout_class)
    if bolt_class is not None:
        builder.set_bolt("count", bolt_class).fields_grouping("words", "word")
    try:
        builder.build()
    except TopologyError as error:
        return error.faults
    return ()


class NoInput(Bolt):
    def execute(self) -> None: ...  # type: ignore[override]


class TwoInputs(BasicBolt):
    def execute(self, tup: Any, more: Any) -> None: ...  # type: ignore[override]


class NamedInput(Bolt):
    def execute(self, *, tup: Any) -> None: ...  # type: ignore[override]


class NoState(StatefulBolt):
    def init_state(self) -> None: ...  # type: ignore[override]

    def execute(self, tup: Any) -> None: ...

    def pre_commit(self) -> None: ...  # type: ignore[override]


class NoRecord(FlowControlBolt):
    def process(self) -> None: ...  # type: ignore[override]


class Static(Bolt):
    @staticmethod
    def execute() -> None: ...  # type: ignore[override]


class OfClass(Bolt):
    @classmethod
    def execute(cls) -> None: ...  # type: ignore[override]


class Missing(Bolt):
    execute = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("bolt_class", "fault"),
    [
        (Static, "Static.execute() is called with (tup). Write def execute(self, tup)."),
        (OfClass, "OfClass.execute(cls) is called with (tup). Write def execute(self, tup)."),
        (Missing, "Missing.execute is None, and is called with (tup). Write def execute(self, tup)."),
        (NoInput, "NoInput.execute(self) is called with (tup). Write def execute(self, tup)."),
        (TwoInputs, "TwoInputs.execute(self, tup, more) is called with (tup). Write def execute(self, tup)."),
        (NamedInput, "NamedInput.execute(self, tup) is called with (tup). Write def execute(self, tup)."),
        (NoState, "NoState.init_state(self) is called with (state). Write def init_state(self, state)."),
        (NoState, "NoState.pre_commit(self) is called with (txid). Write def pre_commit(self, txid)."),
        (NoRecord, "NoRecord.process(self) is called with (record). Write def process(self, record)."),
    ],
)
def test_a_method_with_a_wrong_signature_is_a_fault(bolt_class: Any, fault: str) -> None:
    assert f"bolt 'count': {fault}" in faults_of(bolt_class)


def test_wrong_signatures_of_spouts_are_faults() -> None:
    class Words(Spout):
        output_fields = Fields("word")

        def next_tuple(self, collector: Any) -> None: ...  # type: ignore[override]

        def ack(self) -> None: ...  # type: ignore[override]

    assert faults_of(spout_class=Words) == (
        "spout 'words': Words.next_tuple(self, collector) is called with (). Write def next_tuple(self).",
        "spout 'words': Words.ack(self) is called with (message_id). Write def ack(self, message_id).",
    )


@pytest.mark.guarantee("ET-3")
def test_what_a_spout_knows_is_not_awaited() -> None:
    class Words(Spout):
        output_fields = Fields("word")

        def next_tuple(self) -> None: ...

        async def partitions(self) -> Any: ...  # type: ignore[override]

        async def caught_up(self, partition: Any = None) -> bool: ...  # type: ignore[override]

    assert faults_of(spout_class=Words) == (
        "spout 'words': Words.partitions is async, but the engine does not await it. Write def partitions(self).",
        "spout 'words': Words.caught_up is async, but the engine does not await it. Write def caught_up(self).",
    )


def test_wrong_signatures_in_a_transactional_topology_are_faults() -> None:
    class Finishes(BatchBolt):
        def execute(self, tup: Any) -> None: ...

        def finish_batch(self, attempt: Any) -> None: ...  # type: ignore[override]

    class Source(Batches):
        def emitter(self, task: int) -> Any: ...  # type: ignore[override]

    builder = TransactionalTopologyBuilder("test", "numbers", Source([]))
    builder.set_bolt("sums", Finishes).shuffle_grouping("numbers")
    with pytest.raises(TopologyError) as caught:
        builder.build()
    assert "spout 'numbers': Source.emitter(self, task) is called with (). Write def emitter(self)." in caught.value.faults
    assert "bolt 'sums': Finishes.finish_batch(self, attempt) is called with (). Write def finish_batch(self)." in caught.value.faults


class Free(Bolt):
    def execute(self, *args: Any, **more: Any) -> None: ...

    @staticmethod
    def helper(a: int, b: int) -> int:
        return a + b

    def prepare(self, deep: bool = True) -> None: ...

    def own(self, a: int, b: int) -> None: ...


class Assigned(Bolt):
    execute = len  # type: ignore[assignment]


class Inherits(Free):
    def execute(self, tup: Any, more: int = 1) -> None: ...


def unpacked(function: Any) -> Any:
    """A user's decorator: calls a function with the values of its input."""

    @functools.wraps(function)
    def called(*arguments: Any) -> Any:
        *rest, tup = arguments
        return function(*rest, *tup.values)

    return called


class Unpacks(BasicBolt):
    @unpacked
    def execute(self, word: str, count: int) -> None: ...


class StaticInput(Bolt):
    @staticmethod
    def execute(tup: Any) -> None: ...  # type: ignore[override]


@pytest.mark.parametrize("bolt_class", [Free, Assigned, Inherits, Unpacks, StaticInput, bolt()(unpacked(lambda word, count: None))])
def test_any_callable_signature_is_accepted(bolt_class: Any) -> None:
    assert faults_of(bolt_class) == ()


@pytest.mark.parametrize("make", [lambda: bolt()(lambda: None), lambda: bolt()(lambda tup, more: None)])
def test_a_bolt_function_needs_exactly_one_parameter(make: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match=r"the function cannot be called with \(tup\)") as caught:
        make()
    assert caught.value.hint == "Write def f(tup): ..."


def test_the_fault_names_the_function() -> None:
    with pytest.raises(UsageError, match=r"@bolt above quiet\(\): the function cannot be called with \(tup\)"):

        @bolt()
        def quiet() -> None: ...


def test_the_arguments_of_a_spout_function_must_fit() -> None:
    @spout("number")
    def numbers(limit: int) -> Any:
        yield from ((number,) for number in range(limit))

    numbers(3)
    with pytest.raises(
        UsageError, match=r"spout function numbers\(\) cannot be called with these arguments: too many positional arguments"
    ):
        numbers(3, 4)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="on_give_up must be a plain function"):
        spout("number", on_give_up=lambda values: None)  # type: ignore[arg-type,misc]
