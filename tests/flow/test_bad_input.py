"""Faults of a producer, its positions, settings and topology: each gives one clear error, and nothing is lost."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine import (
    BasicBolt,
    ComponentError,
    Config,
    ConfigError,
    FlowControlBolt,
    FlowControlSpout,
    FlowProducer,
    FlowSettings,
    Spout,
    TopologyBuilder,
    TopologyError,
    Tuple,
    UsageError,
)
from engine.testing import run_topology
from tests.flow.flow_topologies import AsyncNumbers, Numbers, Work, records, run_flow


class Yields(FlowProducer):
    """Yields the given items."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def records(self, after: Any) -> Iterator[Any]:
        yield from self.items


class Nothing(FlowControlBolt):
    """Does nothing."""

    def process(self, record: Any) -> None:
        return None


# The producer


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([5], "Yields.records() yielded 5"),
        ([(1, 2, 3)], "Yields.records() yielded (1, 2, 3)"),
        (["ab"], "Yields.records() yielded 'ab'"),
        ([(None, "line")], "yielded a record without a position: 'line'"),
    ],
)
def test_a_yield_without_a_position_is_refused(items: list[Any], text: str) -> None:
    with pytest.raises(ComponentError) as raised:
        run_flow(lambda: Yields((1, 1), *items), Nothing, config=Config(on_error="restart"))
    assert text in str(raised.value.error)


def test_records_that_is_a_coroutine_function_is_refused() -> None:
    class Wrong(FlowProducer):
        async def records(self, after: Any) -> Any:  # type: ignore[override]
            return None

    with pytest.raises(ComponentError, match="yields nothing"):
        run_flow(Wrong, Nothing)


def test_a_producer_that_two_tasks_share_is_refused() -> None:
    shared = Numbers(10)
    builder = TopologyBuilder("shared")
    builder.set_spout("numbers", lambda: FlowControlSpout(shared), parallelism=2)
    builder.set_bolt("work", Nothing).direct_grouping("numbers")
    with pytest.raises(ComponentError, match="spout 'numbers': tasks 1 and 2 share one Numbers object") as raised:
        run_topology(builder.build())
    assert "in the factory: lambda: FlowControlSpout(Numbers(...))" in str(raised.value.hint)


@pytest.mark.parametrize("pending", [1, 3])
def test_a_bound_of_the_spout_counts_the_packs_of_all_tasks(pending: int) -> None:
    class Notes(Work):
        async def process(self, record: int) -> None:
            at_once.append(record)
            most.append(len(at_once))
            await super().process(record)
            at_once.remove(record)

    at_once: list[int] = []
    most: list[int] = []
    run_flow(
        lambda: Numbers(100), lambda: Notes([]), tasks=5, config=Config(max_spout_pending=pending), settings=FlowSettings(pack_records=1)
    )
    assert max(most) == pending


def test_a_position_that_cannot_be_stored_ends_the_run_with_a_hint() -> None:
    with pytest.raises(ComponentError) as raised:
        run_flow(lambda: Yields((object(), 1)), Nothing)
    assert "its position <object" in str(raised.value)
    assert "bool, int, float, str" in str(raised.value.hint)
    assert "pickle" not in str(raised.value), "a ledger cannot pickle"


@pytest.mark.parametrize("kind", [Numbers, AsyncNumbers])
@pytest.mark.parametrize("on_error", ["restart", "fail"])
def test_a_producer_that_raises_continues_after_the_yielded_records(kind: type[Numbers], on_error: str) -> None:
    class Breaks(kind):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__(1000, begun)

        def records(self, after: Any) -> Any:
            found = super().records(after)
            return self.broken_async(found) if kind is AsyncNumbers else self.broken(found)

        def broken(self, found: Any) -> Iterator[Any]:
            for item in found:
                if item[0] % 300 == 0 and item[0] not in broken_at:
                    broken_at.add(item[0])
                    raise OSError("the disk is gone")
                yield item

        async def broken_async(self, found: Any) -> Any:
            async for item in found:
                if item and item[0] % 300 == 0 and item[0] not in broken_at:
                    broken_at.add(item[0])
                    raise OSError("the disk is gone")
                yield item

    if kind is AsyncNumbers:
        Breaks.records = _async_records(Breaks)  # type: ignore[method-assign]
    begun: list[Any] = []
    broken_at: set[int] = set()
    done: list[tuple[int, int]] = []
    finished = run_flow(Breaks, lambda: Work(done), config=Config.from_mapping({"on_error": on_error}))
    assert finished.state == "complete"
    assert broken_at == {300, 600, 900}
    assert set(records(done)) == set(range(1, 1001))
    assert finished.snapshot.components["numbers"].errors == 3
    assert "the disk is gone" in finished.errors[0].text
    if on_error == "fail":
        assert begun == [None, 299, 599, 899]
        assert len(done) == 1000, "the instance continues, and records in flight are done"


def _async_records(breaks: Any) -> Callable[..., Any]:
    async def records(self: Any, after: Any) -> Any:
        async for item in self.broken_async(AsyncNumbers.records(self, after)):
            yield item

    return records


def test_a_producer_that_always_raises_ends_the_run_with_its_error() -> None:
    def missing(number: int) -> Any:
        raise OSError("no such folder")

    class Raises(FlowProducer):
        def records(self, after: Any) -> Iterator[Any]:
            return map(missing, [1])

    with pytest.raises(ComponentError, match="no such folder"):
        run_flow(Raises, Nothing, config=Config(on_error="restart"))


def test_a_source_without_records_completes_at_once() -> None:
    finished = run_flow(Yields, Nothing)
    assert finished.state == "complete"
    assert finished.snapshot.flow[0].position is None


@pytest.mark.parametrize("is_async", [False, True])
def test_an_idle_producer_does_not_delay_the_run(is_async: bool) -> None:
    class Late(FlowProducer):
        def records(self, after: Any) -> Iterator[Any]:
            yield 1, 1
            while asyncio.get_running_loop().time() < 500:
                yield None
            yield 2, 2

    class AsyncLate(FlowProducer):
        async def records(self, after: Any) -> Any:
            yield 1, 1
            await asyncio.sleep(500)
            yield 2, 2

    done: list[tuple[int, int]] = []
    finished = run_flow(AsyncLate if is_async else Late, lambda: Work(done))
    assert records(done) == [1, 2]
    assert finished.state == "complete"
    assert finished.errors == ()
    assert 500 <= finished.secs < 501


@pytest.mark.guarantee("FC-6")
def test_positions_that_go_back_are_reported_once_and_used_in_their_order() -> None:
    done: list[tuple[int, int]] = []
    finished = run_flow(lambda: Yields((5, 1), (3, 2), (9, 3), (1, 4)), lambda: Work(done))
    assert records(done) == [1, 2, 3, 4]
    assert finished.snapshot.flow[0].position == "1", "the last yielded position counts"
    [report] = finished.errors
    assert "yielded a position that is less than the one before it" in report.text


def test_positions_that_cannot_be_compared_are_used_in_their_order() -> None:
    done: list[tuple[int, int]] = []
    finished = run_flow(lambda: Yields((5, 1), ("a", 2), ((1, "b"), 3), ({"x": 1}, 4)), lambda: Work(done))
    assert finished.errors == ()
    assert finished.snapshot.flow[0].position == "{'x': 1}"


# Arguments


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"threshold_ms": 0}, "threshold_ms must be"),
        ({"threshold_ms": float("nan")}, "threshold_ms must be"),
        ({"initial_window": 0}, "initial_window must be"),
        ({"initial_window": 10, "max_window": 3}, "initial_window=10 is above max_window=3"),
        ({"pack_records": 10, "max_pending_records": 5}, "pack_records=10 is above max_pending_records=5"),
        ({"choice": "fastest"}, "choice must be"),
        ({"window": 3}, "'window' is not a setting"),
        ({"checkpoint_interval_ms": -1}, "checkpoint_interval_ms must be"),
        ({"pack_bytes": "1 MB"}, "pack_bytes must be"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        FlowSettings(**settings)
    assert text in str(raised.value)


@pytest.mark.parametrize("producer", [Numbers, "logs", None, [1, 2]])
def test_an_object_that_is_not_a_producer_is_refused(producer: Any) -> None:
    with pytest.raises(UsageError, match="is not a FlowProducer"):
        FlowControlSpout(producer)
    with pytest.raises(UsageError, match="as settings"):
        FlowControlSpout(Numbers(1), {"max_window": 3})  # type: ignore[arg-type]


@pytest.mark.guarantee("GRP-5")
def test_a_producer_with_wrong_signatures_is_refused() -> None:
    class NoPosition(Numbers):
        def records(self) -> Any:  # type: ignore[override]
            yield 1, 1

    with pytest.raises(UsageError, match=r"NoPosition.records\(self\) is called with \(after\). Write def records\(self, after\)."):
        FlowControlSpout(NoPosition(1))


def _faults(declare: Callable[[TopologyBuilder], object], config: Config | None = None) -> str:
    builder = TopologyBuilder("wrong", config)
    builder.set_spout("numbers", lambda: FlowControlSpout(Numbers(1)))
    declare(builder)
    with pytest.raises(TopologyError) as raised:
        builder.build()
    return str(raised.value)


@pytest.mark.guarantee("FC-1")
def test_a_topology_that_does_not_fit_is_refused_by_build() -> None:
    def two(builder: TopologyBuilder) -> None:
        builder.set_bolt("a", Nothing).direct_grouping("numbers")
        builder.set_bolt("b", Nothing).direct_grouping("numbers")

    assert "'a' and 'b' subscribe to it. Subscribe one bolt by direct_grouping()" in _faults(two)
    assert "nobody subscribes to it" in _faults(lambda builder: None)
    assert "is direct. Use direct_grouping(): the spout chooses the task." in _faults(
        lambda builder: builder.set_bolt("a", Nothing).shuffle_grouping("numbers")
    )
    without = Config(acker_executors=0)
    assert "needs tracked tuples" in _faults(lambda builder: builder.set_bolt("a", Nothing).direct_grouping("numbers"), without)


class Plain(Spout):
    output_fields = "number"

    def next_tuple(self) -> None:
        return None


class Source(BasicBolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[int]:
        return (1,)


def _behind_another_bolt(work: type[FlowControlBolt]) -> TopologyBuilder:
    builder = TopologyBuilder("wrong")
    builder.set_spout("numbers", lambda: FlowControlSpout(Numbers(1)))
    builder.set_bolt("other", Source).direct_grouping("numbers")
    builder.set_bolt("work", work).shuffle_grouping("other")
    return builder


@pytest.mark.guarantee("FC-1")
def test_a_flow_control_bolt_accepts_only_a_flow_control_spout() -> None:
    with pytest.raises(TopologyError, match=r"(?s)bolt 'work'.*takes only packs of a FlowControlSpout, but subscribes to bolt 'other'"):
        _behind_another_bolt(Nothing).build()
    assert "direct_grouping() got ['x'] (list) as the name of a component" in _faults(
        lambda builder: builder.set_bolt("a", Nothing).direct_grouping("numbers").direct_grouping(["x"])  # type: ignore[arg-type]
    )
    assert "subscribes to spout 'other'" in _faults(
        lambda builder: (
            builder.set_spout("other", Plain),
            builder.set_bolt("a", Nothing).direct_grouping("numbers").shuffle_grouping("other"),
        )
    )
    builder = TopologyBuilder("ticks")
    builder.set_spout("numbers", lambda: FlowControlSpout(Numbers(1)))
    builder.set_bolt("work", Nothing, tick_tuple_freq_secs=1.0).direct_grouping("numbers")
    with pytest.raises(TopologyError, match=r"bolt 'work'.*a FlowControlBolt gets no ticks, but tick_tuple_freq_secs is set"):
        builder.build()


def test_a_tuple_without_a_pack_is_an_error_that_names_it() -> None:
    class Loose(Nothing):
        takes_packs = False

    class Ticks(Work):
        takes_packs = False
        tick_tuple_freq_secs = 0.1

    finished = run_topology(_behind_another_bolt(Loose).build(), Config(on_error="fail"), until=1.0)
    assert "got a tuple of 'other', not a pack of records" in finished.errors[0].text
    finished = run_flow(lambda: Numbers(10_000), lambda: Ticks([]), config=Config(on_error="fail"), until=1.0)
    assert "got a tick" in finished.errors[0].text


def test_a_flow_control_bolt_that_overrides_execute_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Own is a FlowControlBolt, but defines execute\(\)"):

        class Own(Nothing):
            def execute(self, tup: Tuple) -> None:
                return None


def test_a_wrong_result_of_process_is_a_clear_error() -> None:
    class Returns(FlowControlBolt):
        output_fields = "number"

        def process(self, record: int) -> Any:
            return record

    finished = run_flow(lambda: Numbers(1), Returns, config=Config(on_error="fail"), until=1.0)
    assert ".process() must yield or return tuples of values, not 1 (int)" in finished.errors[0].text


def test_give_up_that_is_not_overridden_reports_the_record() -> None:
    class Poisoned(FlowControlBolt):
        def process(self, record: int) -> None:
            raise ValueError("bad record")

    finished = run_flow(lambda: Yields(("line 7", 1)), Poisoned, settings=FlowSettings(max_retries=1), config=Config(on_error="fail"))
    assert finished.state == "complete"
    assert any("the record at 'line 7' was given up" in report.text for report in finished.errors)
