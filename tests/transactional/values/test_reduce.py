"""Committers of `ReduceInto`, called without an engine."""

import operator
from heapq import nlargest
from typing import Any

import pytest

from engine.api import BoltBase, Fields, Tuple
from engine.errors import TopologyError, UsageError
from engine.transactional import MemoryOpaqueSpout, MemoryTransactionalSpout, Resource, TransactionalTopologyBuilder, TransactionAttempt
from engine.transactional.values import MemoryValues, OpaqueValue, ReduceInto, ReducingCommitter, ValueMap
from engine.transactional.values.reduce import ALL
from tests.transactional.values.conftest import NewMap
from tests.transactional.values.tasks import context, read_values


class HeldResources:
    """The resources of one task."""

    def __init__(self, **place: Any) -> None:
        self.context = context(**place)
        self.open: dict[Any, Any] = {}

    async def opened(self, resource: Resource[Any]) -> Any:
        if resource not in self.open:
            self.open[resource] = await resource.open(self.context)
        return self.open[resource]

    async def close(self) -> None:
        for each in self.open.values():
            await each.close()


class Emitted:
    """A collector that keeps its rows."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def emit_many(self, rows: Any, stream: str = "default") -> None:
        self.rows += rows


async def batch(
    made: ReducingCommitter[Any, Any, Any], resources: HeldResources, attempt: tuple[int, int], rows: list[dict[str, Any]]
) -> list[Any]:
    """Process one batch with one instance; return its emits."""
    emitted = Emitted()
    made.attempt, made.collector, made.resources = TransactionAttempt(*attempt), emitted, resources  # type: ignore[assignment]
    made.prepare()
    for row in rows:
        made.execute(row)  # type: ignore[arg-type]
    await made.finish_batch()
    return emitted.rows


def words(text: str) -> list[dict[str, Any]]:
    return [{"word": word, "length": len(word)} for word in text.split()]


@pytest.mark.guarantee("TX-10")
async def test_words_are_counted(new_map: NewMap) -> None:
    values, resources = new_map("words"), HeldResources()
    count = ReduceInto(values, key="word")
    assert await batch(count.create(), resources, (1, 1), words("a b a")) == []
    await batch(count.create(), resources, (2, 2), words("a c"))
    await batch(count.create(), resources, (2, 3), words("a c"))
    await batch(count.create(), resources, (3, 4), [])
    await resources.close()
    assert await read_values(values) == {"a": 3, "b": 1, "c": 1}


@pytest.mark.guarantee("TX-10")
async def test_a_global_count_is_emitted(new_map: NewMap) -> None:
    values, resources = new_map("total"), HeldResources()
    count = ReduceInto(values, output_fields=("key", "count"))
    assert await batch(count.create(), resources, (1, 1), words("a b a")) == [(ALL, 3)]
    assert await batch(count.create(), resources, (2, 2), words("a")) == [(ALL, 4)]
    assert await batch(count.create(), resources, (2, 3), words("a")) == [(ALL, 4)]
    assert await batch(count.create(), resources, (3, 4), []) == []
    await resources.close()


async def test_a_field_is_reduced_with_an_initial_value(new_map: NewMap) -> None:
    values, resources = new_map("longest"), HeldResources()
    longest = ReduceInto(values, key=("word",), reduce=max, value="length", initial=2)
    await batch(longest.create(), resources, (1, 1), words("a bbb bbb"))
    total, of_total = ReduceInto(new_map("total"), reduce=operator.add, value="length"), HeldResources()
    await batch(total.create(), of_total, (1, 1), words("a bbb bbb"))
    await batch(total.create(), of_total, (2, 2), words("cc"))
    await of_total.close()
    await resources.close()
    assert await read_values(values) == {"a": 2, "bbb": 3}
    assert await read_values(new_map("total")) == {ALL: 9}


@pytest.mark.guarantee("TX-10")
async def test_top_n_can_be_written_in_a_few_lines(new_map: NewMap) -> None:
    class Top(ReducingCommitter[str, dict[str, int], dict[str, int]]):
        values = new_map("top")
        output_fields = Fields("word", "count")

        def fold(self, partial: dict[str, int] | None, tup: Tuple) -> dict[str, int]:
            return {**(partial or {}), tup["word"]: tup["count"]}

        def combine(self, stored: dict[str, int] | None, partial: dict[str, int]) -> dict[str, int]:
            return dict(nlargest(2, {**(stored or {}), **partial}.items(), key=lambda item: item[1]))

        def rows(self, new: dict[str, dict[str, int]]) -> list[Any]:
            return list(new[ALL].items()) if new else []

    resources = HeldResources()
    assert await batch(Top(), resources, (1, 1), [{"word": w, "count": n} for w, n in zip("abc", (3, 9, 5), strict=True)]) == [
        ("b", 9),
        ("c", 5),
    ]
    assert await batch(Top(), resources, (2, 2), [{"word": "a", "count": 7}]) == [("b", 9), ("a", 7)]
    await resources.close()


@pytest.mark.guarantee("TX-8")
async def test_behind_an_opaque_spout_values_are_opaque(new_map: NewMap) -> None:
    values, resources = new_map("words"), HeldResources()

    def made() -> ReducingCommitter[Any, Any, Any]:
        count = ReduceInto(values, key="word").create()
        count.replays_differ = True
        return count

    await batch(made(), resources, (1, 1), words("a b a"))
    await batch(made(), resources, (2, 2), words("a b"))
    await batch(made(), resources, (2, 3), words("a a a"))
    await resources.close()
    assert await read_values(values) == {"a": 5, "b": 1}


def test_build_refuses_transactional_values_behind_an_opaque_spout() -> None:
    class Sum(ReducingCommitter[Any, Any, Any]):
        values = MemoryValues()
        kind = "transactional"

        def combine(self, stored: Any, partial: Any) -> Any:
            return partial

    for made in (Sum, ReduceInto(MemoryValues(), kind="transactional")):
        builder = TransactionalTopologyBuilder("words", "spout", MemoryOpaqueSpout({"a": [("word",)]}, "word", take=1))
        builder.set_committer("sum", made).global_grouping("spout")
        with pytest.raises(TopologyError, match="the spout is opaque"):
            builder.build()


async def test_several_databases_can_take_part_in_one_transaction(new_map: NewMap) -> None:
    """A committer that the user writes completely."""
    first, second = new_map("words"), MemoryValues("lengths")
    resources = HeldResources()
    for attempt in (TransactionAttempt(1, 1), TransactionAttempt(1, 2)):
        counts, lengths = await resources.opened(first), await resources.opened(second)
        await counts.update(attempt, {"a": 1}, lambda old, new: (old or 0) + new)
        await lengths.update(attempt, {1: 1}, lambda old, new: (old or 0) + new)
    await resources.close()
    assert (await read_values(first), await read_values(second)) == ({"a": 1}, {1: 1})


def test_a_committer_declares_its_key_and_its_kind_of_values() -> None:
    made = ReduceInto(MemoryValues(), key=("word", "lang")).create()
    assert isinstance(made, BoltBase)
    assert (made.is_committer, made.keyed_by, made.kind) == (True, ("word", "lang"), "auto")
    assert ReduceInto(MemoryValues()).create().keyed_by is None
    assert made.key({"word": "a", "lang": "en"}) == ("a", "en")  # type: ignore[arg-type]


def test_a_reduce_without_a_field_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to reduce"):
        ReduceInto(MemoryValues(), key="word", reduce=max).create()


@pytest.mark.parametrize("reduce", [7, lambda value: value, lambda: 0])
def test_a_reduce_without_two_parameters_is_refused(reduce: Any) -> None:
    with pytest.raises(UsageError, match="cannot be called with two values"):
        ReduceInto(MemoryValues(), key="word", value="count", reduce=reduce).create()


def test_a_committer_without_fold_gets_an_error_that_names_it() -> None:
    class Sum(ReducingCommitter[str, int, int]):
        def combine(self, stored: int | None, partial: int) -> int:
            return (stored or 0) + partial

    committer = Sum()
    committer.prepare()
    with pytest.raises(UsageError, match=r"Sum has no fold\(\)"):
        committer.execute({})  # type: ignore[arg-type]


def test_build_refuses_a_committer_without_combine() -> None:
    class Sum(ReducingCommitter[str, int, int]):
        values = MemoryValues()

    builder = TransactionalTopologyBuilder("words", "spout", MemoryTransactionalSpout({"a": [("word",)]}, "word", take=1))
    builder.set_committer("sum", Sum).global_grouping("spout")
    with pytest.raises(TopologyError, match=r"Sum has no combine\(\)"):
        builder.build()


def test_equal_descriptions_compare_equal(new_map: NewMap) -> None:
    one, other = new_map("words"), new_map("words")
    assert one == other
    assert len({one, other, new_map("lines")}) == 2
    assert isinstance(one, ValueMap)
    assert OpaqueValue() == OpaqueValue()


def test_a_stored_zero_is_not_replaced_by_the_initial_value() -> None:
    made = ReduceInto(MemoryValues(), "word", value="length", initial=10).create()
    assert (made.combine(None, 5), made.combine(0, 5)) == (15, 5)
