"""Wrong uses in bolts: emits of a replaced instance, wrong results of execute, reading a tick."""

from collections.abc import Callable
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Fields, TopologyBuilder, Tuple, UsageError
from engine.testing import Feeder, Finished, run_topology


def test_a_replaced_instance_cannot_emit_and_its_settles_are_ignored() -> None:
    instances: list[Any] = []
    told: list[str] = []

    class Dies(Bolt):
        on_error = "restart"
        output_fields = {"late": Fields("word"), "direct": Fields("word", direct=True)}

        def prepare(self) -> None:
            instances.append(self)
            self.kept: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            self.kept.append(tup)
            if tup["word"] == "die":
                raise ValueError("dies")
            if len(instances) == 2:
                old = instances[0]
                uses: list[Callable[[], None]] = [
                    lambda: old.collector.emit(("x",), None, "late"),
                    lambda: old.collector.emit_direct(3, ("x",), None, "direct"),
                ]
                for use in uses:
                    with pytest.raises(UsageError) as caught:
                        use()
                    told.append(caught.value.message)
                old.collector.ack(tup)
                old.collector.fail(tup)
                old.collector.reset_timeout(tup)
                self.collector.ack(old.kept[0])
                self.collector.ack(tup)

    feeder, builder = Feeder("word"), TopologyBuilder("replaced")
    feeder.feed_all([("keep",), ("die",), ("go on",)])
    feeder.close()
    builder.set_spout("feed", feeder)
    builder.set_bolt("dies", Dies).shuffle_grouping("feed")
    finished = run_topology(builder.build())
    assert told == ["bolt 'dies': an instance that was replaced after an error, or whose run has ended, used its collector"] * 2
    assert feeder.acked == [3]
    assert {message_id: failure.reason for message_id, failure in feeder.failed} == {1: "task_died", 2: "error"}
    assert finished.snapshot.components["dies"].settled_twice == 0


def run_one(bolt: Any) -> Finished:
    feeder, builder = Feeder("word"), TopologyBuilder("one")
    feeder.feed(("storm",))
    feeder.close()
    builder.set_spout("feed", feeder)
    builder.set_bolt("one", bolt, on_error="fail").shuffle_grouping("feed")
    return run_topology(builder.build())


def test_a_basic_bolt_that_emits_outside_execute_gets_an_error() -> None:
    class Eager(BasicBolt):
        output_fields = Fields("word")

        def prepare(self) -> None:
            with pytest.raises(UsageError, match=r"bolt 'one' emitted outside execute\(\)"):
                self.collector.emit(("x",))

        def execute(self, tup: Tuple) -> None:
            return None

    assert run_one(Eager).errors == ()


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("storm", "execute() returned 'storm' (str)"),
        (5, "execute() returned 5 (int)"),
        (("a", "b"), "emitted to stream 'default' ('a', 'b'): 2 values, but the stream has 1 field (word)"),
        (["storm"], "emitted 'storm' (str), which is not a tuple of values"),
        (iter([("a", "b")]), "emitted to stream 'default' ('a', 'b'): 2 values, but the stream has 1 field (word)"),
    ],
)
def test_a_wrong_result_of_a_basic_bolt_is_an_error(returned: object, told: str) -> None:
    class Returns(BasicBolt):
        output_fields = Fields("word")

        def execute(self, tup: Tuple) -> Any:
            return returned

    [report] = run_one(Returns).errors
    assert report.text.startswith("UsageError: bolt 'one'")
    assert told in report.text
    assert report.tuple_text == "<Tuple ('storm',) from feed[1] on default>"


def test_a_bolt_that_returns_a_value_is_an_error() -> None:
    class Returns(Bolt):
        def execute(self, tup: Tuple) -> Any:
            self.collector.ack(tup)
            return (1,)

    [report] = run_one(Returns).errors
    assert report.text.startswith("UsageError: bolt 'one': execute() returned (1,) (tuple). A Bolt emits by self.collector.emit(...)")


def test_the_error_for_a_field_of_a_tick_says_that_ticks_have_none() -> None:
    told: list[str] = []

    class Ticked(Bolt):
        tick_tuple_freq_secs = 1

        def execute(self, tup: Tuple) -> None:
            if not tup.is_tick:
                self.collector.ack(tup)
                return
            with pytest.raises(UsageError) as caught:
                tup["word"]
            told.append(caught.value.message)

    feeder, builder = Feeder("word"), TopologyBuilder("ticks")
    builder.set_spout("feed", feeder)
    builder.set_bolt("one", Ticked).shuffle_grouping("feed")
    run_topology(builder.build(), until=1.5)
    assert told == ["Fields() has no field 'word'"]


@pytest.mark.parametrize("method", ["ack", "fail", "reset_timeout"])
def test_only_tuples_can_be_settled(method: str) -> None:
    class Settles(Bolt):
        def execute(self, tup: Tuple) -> None:
            getattr(self.collector, method)(5)

    [report] = run_one(Settles).errors
    assert report.text.startswith(f"UsageError: bolt 'one' called {method}(5), which is not one of its input tuples. Pass the tuple itself")
