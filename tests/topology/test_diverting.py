"""The settings `retries` and `on_error="divert"` in builders (SV-13, SV-14, GRP-5)."""

from collections.abc import Callable
from typing import Any

import pytest

from engine import (
    BasicBolt,
    Fields,
    Topology,
    TopologyBuilder,
    TopologyError,
    TransactionalTopologyBuilder,
    Tuple,
    bolt,
    spout,
    stateful_bolt,
)
from engine.topology.graph import mermaid
from engine.transactional import MemoryTransactionalSpout

pytestmark = pytest.mark.guarantee("SV-14", "GRP-5")


@spout("line")
def lines() -> Any:
    yield ("",)


class Parse(BasicBolt):
    output_fields = "word"
    retries = 2
    on_error = "divert"

    def execute(self, tup: Tuple) -> None:
        pass


class Sink(BasicBolt):
    def execute(self, tup: Tuple) -> None:
        pass


def topology(parse: Callable[[], Any], *, subscribed: bool = True, **settings: Any) -> Topology:
    builder = TopologyBuilder("diverting")
    builder.set_spout("lines", lines)
    builder.set_bolt("parse", parse, **settings).shuffle_grouping("lines")
    if subscribed:
        builder.set_bolt("sink", Sink).shuffle_grouping("parse", stream="failed")
    return builder.build()


def faults_of(parse: Callable[[], Any], **how: Any) -> list[str]:
    with pytest.raises(TopologyError) as raised:
        topology(parse, **how)
    return list(raised.value.faults)


def test_the_bolt_has_the_stream_failed() -> None:
    spec = topology(Parse).components["parse"]
    assert tuple(spec.streams["failed"]) == ("component", "task", "error", "attempts", "values")
    assert (spec.settings.retries, spec.settings.diverts, spec.settings.on_error) == (2, True, "fail")


def test_without_fields_of_its_own_too() -> None:
    assert list(topology(Sink, on_error="divert").components["parse"].streams) == ["failed"]


def test_a_drawing_shows_it_as_a_stream() -> None:
    assert "failed" in mermaid(topology(Parse))


@pytest.mark.guarantee("SV-13")
def test_decorators_and_keywords() -> None:
    @bolt(retries=3, on_error="divert")
    def plain(tup: Tuple) -> None:
        pass

    @bolt(burst=True, retries=4)
    def burst(tup: Any) -> None:
        pass

    @stateful_bolt(retries=5)
    def counts(tup: Tuple, state: Any) -> None:
        pass

    for number, each in enumerate((plain, burst, counts), 3):
        assert topology(each, on_error="divert").components["parse"].settings.retries == number
    assert topology(plain, retries=0).components["parse"].settings.retries == 0


def test_all_faults_at_once() -> None:
    class Failed(Parse):
        output_fields = {"failed": Fields("word")}

    assert faults_of(Failed, subscribed=False, retries=-1) == [
        "bolt 'parse': retries must be an integer from 0 to 65,535, not -1. Fix set_bolt(..., retries=...).",
        "bolt 'parse': on_error='divert' emits failed inputs on the stream 'failed', which Failed.output_fields declares for another use. "
        "Rename that stream, or choose another on_error.",
        "bolt 'parse': on_error='divert' sends failed inputs to the stream 'failed', but no bolt subscribes to it, so they would be lost. "
        "Subscribe one: .shuffle_grouping('parse', stream='failed'), or choose another on_error.",
    ]


def test_a_user_may_call_a_stream_failed_in_any_other_bolt() -> None:
    class Failed(Sink):
        output_fields = {"failed": Fields("word")}

    assert tuple(topology(Failed).components["parse"].streams["failed"]) == ("word",)


@pytest.mark.parametrize("retries", [True, 1.5, "3", 70_000])
def test_wrong_numbers_of_retries(retries: Any) -> None:
    assert "retries must be an integer from 0 to 65,535" in faults_of(Sink, retries=retries)[0]


def test_a_spout_cannot_divert() -> None:
    builder = TopologyBuilder("spout")
    builder.set_spout("lines", lines, on_error="divert")  # type: ignore[typeddict-item]
    with pytest.raises(TopologyError, match="on_error must be 'fail', 'restart' or 'stop', not 'divert'"):
        builder.build()


@pytest.mark.guarantee("SV-13")
def test_a_transactional_topology_refuses_both() -> None:
    builder = TransactionalTopologyBuilder("batches", "lines", MemoryTransactionalSpout([[("a",)]], "line", 1))
    builder.set_bolt("parse", Parse).shuffle_grouping("lines")
    with pytest.raises(TopologyError) as raised:
        builder.build()
    fix = "has no effect in a transactional topology, where a failed batch is replayed as a whole. Remove it."
    assert list(raised.value.faults) == [f"bolt 'parse': retries= {fix}", f"bolt 'parse': on_error='divert' {fix}"]
