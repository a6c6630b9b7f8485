"""Results of `build()`, and calls of factories."""

import dataclasses
from collections.abc import Callable

import pytest

from engine.api import Bolt, Fields, Inlet, Spout, bolt, spout
from engine.api.grouping import FieldsGrouping, Shuffle
from engine.errors import UsageError
from engine.topology import ComponentSettings, Subscription, Topology, TopologyBuilder
from tests.topology import typed_sample


class Lines(Spout):
    output_fields = Fields("line")
    max_spout_pending = 10
    made = 0

    def __init__(self, path: str = "book.txt") -> None:
        type(self).made += 1
        self.path = path

    def next_tuple(self) -> None:
        pass


class Count(Bolt):
    output_fields = Fields("word", "count")
    concurrency = 8

    async def execute(self, tup) -> None:
        pass


@spout("line")
def read_lines(path: str):
    with open(path) as file:
        for line in file:
            yield (line,)


@bolt("word")
def split(tup):
    for word in tup["line"].split():
        yield (word,)


@pytest.fixture
def made() -> Callable[[], int]:
    Lines.made = 0
    return lambda: Lines.made


def source_topology(factory, **settings) -> Topology:
    builder = TopologyBuilder("test")
    builder.set_spout("lines", factory, **settings)
    return builder.build()


def word_count() -> Topology:
    builder = TopologyBuilder("word-count")
    builder.set_spout("lines", lambda: Lines("book.txt"))
    builder.set_bolt("split", split, parallelism=2).shuffle_grouping("lines")
    builder.set_bolt("count", Count, parallelism=4, on_error="fail").fields_grouping("split", "word")
    return builder.build()


def test_the_topology_has_all_declarations() -> None:
    topology = word_count()
    assert topology.name == "word-count"
    assert list(topology.components) == ["lines", "split", "count"]
    assert [spec.component_id for spec in topology.spouts] == ["lines"]
    assert [spec.component_id for spec in topology.bolts] == ["split", "count"]
    count = topology.components["count"]
    assert (count.kind, count.parallelism, dict(count.streams)) == ("bolt", 4, {"default": Fields("word", "count")})
    assert count.subscriptions == (Subscription("split", "default", FieldsGrouping(("word",))),)
    assert count.settings == ComponentSettings(concurrency=8, on_error="fail")
    assert topology.components["split"].settings == ComponentSettings()
    assert topology.components["lines"].settings == ComponentSettings(max_spout_pending=10)
    assert topology.subscribers("lines", "default") == ((topology.components["split"], Subscription("lines", "default", Shuffle())),)
    assert topology.subscribers("lines", "late") == ()


def test_a_keyword_overrides_the_class_attribute_unless_it_is_none() -> None:
    assert source_topology(Lines, max_spout_pending=3).components["lines"].settings.max_spout_pending == 3
    assert source_topology(Lines, max_spout_pending=None).components["lines"].settings.max_spout_pending == 10


def test_a_topology_is_immutable() -> None:
    builder = TopologyBuilder("test")
    builder.set_spout("lines", Lines)
    sink = builder.set_bolt("split", split).shuffle_grouping("lines")
    topology = builder.build()
    sink.all_grouping("lines", "late")
    builder.set_bolt("more", split)
    assert list(topology.components) == ["lines", "split"]
    assert len(topology.components["split"].subscriptions) == 1
    with pytest.raises(TypeError):
        topology.components["more"] = topology.components["split"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        topology.name = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        topology.components["split"].parallelism = 9
    with pytest.raises(TypeError):
        topology.components["lines"].streams["late"] = Fields("a")


def test_build_does_not_call_a_class_with_output_fields(made) -> None:
    topology = source_topology(Lines)
    assert made() == 0
    assert isinstance(topology.components["lines"].factory.create(), Lines)
    assert made() == 1


def test_build_calls_any_other_factory_once_and_uses_the_instance_for_a_task(made) -> None:
    factory = source_topology(lambda: Lines("book.txt"), parallelism=3).components["lines"].factory
    assert made() == 1
    instances = [factory.create() for _ in range(3)]
    assert made() == 3
    assert len(set(map(id, instances))) == 3


def test_the_instance_that_build_made_is_used_only_once(made) -> None:
    builder = TopologyBuilder("test")
    builder.set_spout("lines", lambda: Lines("book.txt"))
    first, second = builder.build(), builder.build()
    assert made() == 1
    assert first.components["lines"].factory.create() is not second.components["lines"].factory.create()
    assert made() == 2


def test_attributes_set_by_init_are_read_from_an_instance() -> None:
    class Renamed(Spout):
        def __init__(self) -> None:
            self.output_fields = Fields("renamed")

        def next_tuple(self) -> None:
            pass

    assert dict(source_topology(Renamed).components["lines"].streams) == {"default": Fields("renamed")}


def test_output_fields_may_be_a_property() -> None:
    class Computed(Spout):
        @property
        def output_fields(self):
            return Fields("computed")

        def next_tuple(self) -> None:
            pass

    assert dict(source_topology(Computed).components["lines"].streams) == {"default": Fields("computed")}


@pytest.mark.parametrize("factory", [read_lines("book.txt"), lambda: read_lines("book.txt"), read_lines("book.txt").create])
def test_a_decorated_generator_is_accepted_with_and_without_a_call(factory) -> None:
    spec = source_topology(factory).components["lines"]
    assert dict(spec.streams) == {"default": Fields("line")}
    assert spec.fields_declared_at == "the @spout(...) of read_lines()"
    assert spec.factory.create() is not spec.factory.create()


@pytest.mark.parametrize("factory", [split, lambda: split, split.create, lambda: split()])
def test_a_decorated_function_is_accepted_with_and_without_a_call(factory) -> None:
    builder = TopologyBuilder("test")
    builder.set_spout("lines", Lines)
    builder.set_bolt("split", factory).shuffle_grouping("lines")
    assert dict(builder.build().components["split"].streams) == {"default": Fields("word")}


def test_an_inlet_is_a_spout() -> None:
    spec = source_topology(lambda: Inlet("line")).components["lines"]
    assert dict(spec.streams) == {"default": Fields("line")}
    assert spec.fields_declared_at == "the fields of its Inlet(...)"


def test_a_factory_that_returns_one_instance_to_all_tasks_is_refused() -> None:
    shared = Lines()
    factory = source_topology(lambda: shared, parallelism=2).components["lines"].factory
    assert factory.create() is shared
    with pytest.raises(UsageError, match="spout 'lines': its factory returned the same Lines twice"):
        factory.create()


def test_a_factory_that_returns_something_else_later_is_refused() -> None:
    instances = [Lines(), None]
    factory = source_topology(lambda: instances.pop(0)).components["lines"].factory
    factory.create()
    with pytest.raises(UsageError, match="spout 'lines': its factory returned None, not a spout"):
        factory.create()


def test_an_exception_of_a_factory_during_a_run_is_raised() -> None:
    class Failing(Spout):
        output_fields = Fields("a")

        def __init__(self) -> None:
            raise OSError("disk full")

        def next_tuple(self) -> None:
            pass

    factory = source_topology(Failing).components["lines"].factory
    with pytest.raises(OSError, match="disk full"):
        factory.create()


def test_a_spout_declarer_has_no_other_attributes() -> None:
    declarer = TopologyBuilder("test").set_spout("lines", Lines)
    with pytest.raises(AttributeError):
        declarer.parallelism


def test_the_typed_sample_builds() -> None:
    topology = typed_sample.build()
    assert len(topology.spouts) == 5
    assert topology.components["look"].settings == ComponentSettings(concurrency=32, on_error="fail")
    assert topology.components["upper"].settings.threads == 2
    assert topology.layers()["sink"] == 6
