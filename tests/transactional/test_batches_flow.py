"""Flow of a batch: the attempt in front, counts of tuples, and the end of a batch (TX-1, TX-4, TX-5)."""

import asyncio
import gc
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from engine import BasicBolt, Fields, Tuple
from engine.transactional import BatchBolt, Committer, TransactionalTopologyBuilder, TransactionAttempt
from tests.transactional.batch_topologies import Batches, Store, Stores, Sums, run_batches, summing


@pytest.mark.guarantee("TX-1")
def test_txids_count_up_from_one_and_attempt_ids_grow() -> None:
    store = Store()
    spout = Batches([[1, 2], [3], [4, 5, 6]])
    run_batches(summing(spout, store, emitters=2), config={"max_spout_pending": 2})
    assert [(attempt.txid, value) for attempt, value in store.commits] == [(1, 3), (2, 3), (3, 15)]
    assert [attempt.txid for attempt in spout.emitted] == [1, 2, 3]
    assert [(attempt.epoch, attempt.number) for attempt in spout.emitted] == [(1, 1), (1, 2), (1, 3)]


@pytest.mark.guarantee("TX-1", "TX-4")
def test_every_tuple_has_its_attempt_in_front_and_needs_no_anchors() -> None:
    seen: list[Tuple] = []

    class Looks(BasicBolt):
        output_fields = ("word", "length")

        def execute(self, tup: Tuple) -> Iterator[tuple[str, int]]:
            seen.append(tup)
            yield ("x" * tup["number"], tup["number"])

    class Sees(BatchBolt):
        def execute(self, tup: Tuple) -> None:
            seen.append(tup)
            assert tup["attempt"] == tup[0] == self.attempt

        def finish_batch(self) -> None: ...

    builder = TransactionalTopologyBuilder("attempts", "numbers", Batches([[1, 2], [3]]))
    builder.set_bolt("looks", Looks).shuffle_grouping("numbers")
    builder.set_bolt("sees", Sees, 2).fields_grouping("looks", "word")
    run_batches(builder.build())
    assert [(tup.fields.names, tup.values[1:]) for tup in seen if tup.source_component == "numbers"] == [
        (("attempt", "number"), (number,)) for number in (1, 2, 3)
    ]
    from_looks = [tup for tup in seen if tup.source_component == "looks"]
    assert {tup.fields.names for tup in from_looks} == {("attempt", "word", "length")}
    assert all(isinstance(tup[0], TransactionAttempt) for tup in seen)


@pytest.mark.guarantee("TX-5")
@pytest.mark.parametrize("grouping", ["shuffle", "all", "direct", "custom", "global", "fields", "partial_key", "load_aware"])
def test_a_batch_finishes_once_after_all_its_tuples_with_any_grouping(grouping: str) -> None:
    ended: dict[tuple[int, int], list[int]] = defaultdict(list)

    class Direct(BasicBolt):
        output_fields = Fields("number", direct=grouping == "direct")

        def execute(self, tup: Tuple) -> None:
            if grouping != "direct":
                self.collector.emit((tup["number"],))
            elif tup["number"] % 5:  # the others go to nobody
                targets = self.context.targets()
                self.collector.emit_direct(targets[tup["number"] % 2], (tup["number"],))

    class Ends(BatchBolt):
        def prepare(self) -> None:
            self.came: list[int] = []

        def execute(self, tup: Tuple) -> None:
            self.came.append(tup["number"])

        def finish_batch(self) -> None:
            key = (self.attempt.txid, self.context.task_index)
            assert key not in ended
            ended[key] = self.came

    class ToSecond:
        def prepare(self, context: Any, stream: Any, targets: Any) -> None:
            self.targets = targets

        def choose_tasks(self, source_task: int, values: Any) -> list[int]:
            return [self.targets[1]] if values[1] % 2 else []

    batches = [list(range(first, first + 40)) for first in (0, 40, 80)] + [[]]
    builder = TransactionalTopologyBuilder("groupings", "numbers", Batches(batches), 2)
    builder.set_bolt("direct", Direct, 3).shuffle_grouping("numbers")
    ends = builder.set_bolt("ends", Ends, 3)
    if grouping == "custom":
        ends.custom_grouping("direct", ToSecond)
    elif grouping in ("fields", "partial_key"):
        getattr(ends, f"{grouping}_grouping")("direct", "number")
    else:
        getattr(ends, f"{grouping}_grouping")("direct")
    run_batches(builder.build(), config={"max_spout_pending": 3})
    assert set(ended) == {(txid, task) for txid in (1, 2, 3, 4) for task in range(3)}
    for txid, batch in enumerate(batches, 1):
        came = Counter(number for (of, _), numbers in ended.items() if of == txid for number in numbers)
        wanted = {"all": lambda n: 3, "direct": lambda n: n % 5 > 0, "custom": lambda n: n % 2}.get(grouping, lambda n: 1)
        assert came == Counter({number: int(wanted(number)) for number in batch if wanted(number)})


@pytest.mark.guarantee("TX-5")
def test_a_bolt_without_emits_and_a_bolt_with_several_sources_finish_their_batches() -> None:
    finished: list[tuple[str, int, int]] = []

    class Silent(BatchBolt):
        output_fields = "never"

        def execute(self, tup: Tuple) -> None: ...

        def finish_batch(self) -> None:
            finished.append(("silent", self.attempt.txid, 0))

    class Fed(BatchBolt):
        def prepare(self) -> None:
            self.count = 0

        def execute(self, tup: Tuple) -> None:
            self.count += 1

        def finish_batch(self) -> None:
            finished.append(("fed", self.attempt.txid, self.count))

    builder = TransactionalTopologyBuilder("several", "numbers", Batches([[1, 2, 3], [], [4]]), 2)
    builder.set_bolt("silent", Silent, 2).shuffle_grouping("numbers")
    builder.set_bolt("sums", Sums, 2).shuffle_grouping("numbers")
    builder.set_bolt("fed", Fed).global_grouping("silent").global_grouping("sums").global_grouping("numbers")
    run_batches(builder.build(), config={"max_spout_pending": 2})
    assert sorted(finished) == sorted([("silent", txid, 0) for txid in (1, 1, 2, 2, 3, 3)] + [("fed", 1, 5), ("fed", 2, 2), ("fed", 3, 3)])


@pytest.mark.guarantee("TX-5")
def test_a_committer_and_the_bolts_behind_it_finish_in_the_commit_phase() -> None:
    """The example of the specification. A feeds B and C, B feeds C, and C feeds D. B and D are committers."""
    log: list[str] = []

    class Logs(BatchBolt):
        output_fields = "number"

        def __init__(self, name: str) -> None:
            self.name = name

        def execute(self, tup: Tuple) -> None:
            log.append(f"{self.name}<{tup.source_component}")
            self.collector.emit((tup["number"],))

        def finish_batch(self) -> None:
            log.append(f"{self.name}.")

    builder = TransactionalTopologyBuilder("seed", "numbers", Batches([[1]]))
    builder.set_bolt("A", lambda: Logs("A")).shuffle_grouping("numbers")
    builder.set_committer("B", lambda: Logs("B")).shuffle_grouping("A")
    builder.set_bolt("C", lambda: Logs("C")).shuffle_grouping("A").shuffle_grouping("B")
    builder.set_committer("D", lambda: Logs("D")).shuffle_grouping("C")
    run_batches(builder.build())
    assert log.index("B.") > log.index("A.")
    assert log.index("C.") > log.index("B.")
    assert log.index("D.") > log.index("C.")
    assert sorted(log) == sorted(["A<numbers", "A.", "B<A", "B.", "C<A", "C<B", "C.", "D<C", "D<C", "D."])


@pytest.mark.guarantee("TX-5")
def test_async_methods_overlap_between_batches_but_not_within_one() -> None:
    running: Counter[int] = Counter()
    most: dict[str, int] = {"in one": 0, "in all": 0}

    class Waits(Sums):
        async def prepare(self) -> None:
            super().prepare()
            await self.wait()

        async def execute(self, tup: Tuple) -> None:
            await self.wait()
            super().execute(tup)

        async def finish_batch(self) -> None:
            await self.wait()
            super().finish_batch()

        async def wait(self) -> None:
            running[self.attempt.txid] += 1
            most["in one"] = max(most["in one"], running[self.attempt.txid])
            most["in all"] = max(most["in all"], sum(running.values()))
            await asyncio.sleep(0.01)
            running[self.attempt.txid] -= 1

    store = Store()
    finished = run_batches(
        summing(Batches([[number, number + 1, number + 2] for number in range(8)]), store, sums=Waits, tasks=1),
        config={"max_spout_pending": 4},
    )
    assert store.by_txid == {txid: 3 * txid for txid in range(1, 9)}
    assert most == {"in one": 1, "in all": 4}
    assert finished.secs == pytest.approx(2 * 5 * 0.01, rel=0.2)


@pytest.mark.guarantee("TX-5")
def test_basic_bolts_of_every_kind_process_batches() -> None:
    class Coroutine(BasicBolt):
        output_fields = "number"
        concurrency = 4

        async def execute(self, tup: Tuple) -> tuple[int]:
            await asyncio.sleep(0.001 * (tup["number"] % 3))
            return (tup["number"],)

    class AsyncGenerator(BasicBolt):
        output_fields = "number"

        async def execute(self, tup: Tuple) -> AsyncIterator[tuple[int]]:
            yield (tup["number"],)

    class Collected(BasicBolt):
        output_fields = {"default": "number", "late": "number"}
        concurrency = 2

        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(0.001)
            self.collector.emit((tup["number"],), "late")

    class Listed(BasicBolt):
        output_fields = "number"

        def execute(self, tup: Tuple) -> Any:
            return [(tup["number"],)]

    store = Store()
    builder = TransactionalTopologyBuilder("basics", "numbers", Batches([[1, 2, 3, 4, 5], [6, 7, 8, 9]]))
    previous, stream = "numbers", "default"
    for number, bolt in enumerate((Coroutine, AsyncGenerator, Collected, Listed)):
        builder.set_bolt(f"bolt{number}", bolt, 2).shuffle_grouping(previous, stream=stream)
        previous, stream = f"bolt{number}", "late" if bolt is Collected else "default"
    builder.set_committer("store", lambda: Stores(store)).global_grouping(previous)
    run_batches(builder.build(), config={"max_spout_pending": 2})
    assert store.by_txid == {1: 15, 2: 30}


def test_blocking_basic_bolts_run_in_threads() -> None:
    import threading

    threads: set[str] = set()

    class Blocks(BasicBolt):
        output_fields = "number"
        threads = 2

        def execute(self, tup: Tuple) -> Iterator[tuple[int]]:
            threads.add(threading.current_thread().name)
            yield (tup["number"],)

    store = Store()
    builder = TransactionalTopologyBuilder("threads", "numbers", Batches([list(range(20))]))
    builder.set_bolt("blocks", Blocks).shuffle_grouping("numbers")
    builder.set_committer("store", lambda: Stores(store)).global_grouping("blocks")
    run_batches(builder.build())
    assert store.by_txid == {1: 190}
    assert threads
    assert threading.current_thread().name not in threads


def test_a_resource_of_a_task_is_opened_once_and_closed_at_the_end_of_the_task() -> None:
    class Connection:
        def __init__(self) -> None:
            log.append("open")

        async def close(self) -> None:
            log.append("close")

    class Address:
        async def open(self, context: Any) -> Connection:
            await asyncio.sleep(0.01)
            return Connection()

    class Uses(Committer):
        async def prepare(self) -> None:
            connections.append(await self.resources.opened(address))

        def execute(self, tup: Tuple) -> None: ...

        def finish_batch(self) -> None: ...

    log: list[str] = []
    connections: list[Any] = []
    address: Any = Address()
    builder = TransactionalTopologyBuilder("resources", "numbers", Batches([[1], [2], [3]]))
    builder.set_bolt("uses", Uses).global_grouping("numbers")
    run_batches(builder.build(), config={"max_spout_pending": 3})
    assert log == ["open", "close"]
    assert len(connections) == 3
    assert len(set(connections)) == 1


def test_the_garbage_collector_tracks_only_tuples_that_may_be_in_a_cycle() -> None:
    walked: list[bool] = []

    class Looks(BasicBolt):
        output_fields = "value"

        def execute(self, tup: Tuple) -> tuple[Any]:
            return ([tup["number"]] if tup["number"] > 1 else "one",)

    class Sees(BatchBolt):
        def execute(self, tup: Tuple) -> None:
            walked.append(gc.is_tracked(tup.values))

        def finish_batch(self) -> None: ...

    builder = TransactionalTopologyBuilder("walked", "numbers", Batches([[1, 2]]))
    builder.set_bolt("looks", Looks).shuffle_grouping("numbers")
    builder.set_bolt("sees", Sees).shuffle_grouping("looks")
    run_batches(builder.build())
    assert walked == [False, True]


@pytest.mark.parametrize("until", [None, 1.0], ids=["complete", "stopped"])
def test_instances_are_cleaned_up_before_the_resources_of_the_task_are_closed(until: float | None) -> None:
    log: list[Any] = []

    class Connection:
        async def close(self) -> None:
            log.append("close")

    class Address:
        async def open(self, context: Any) -> Connection:
            return Connection()

    class Uses(Sums):
        async def prepare(self) -> None:
            super().prepare()
            await self.resources.opened(address)

        async def finish_batch(self) -> None:
            await asyncio.sleep(0.01 if until is None or self.attempt.txid == 1 else 1000)
            super().finish_batch()

        async def cleanup(self) -> None:
            await asyncio.sleep(0.05)
            log.append(self.attempt.txid)

    address: Any = Address()
    run_batches(summing(Batches([[1], [2]]), Store(), sums=Uses, tasks=1), until=until)
    assert log == [1, 2, "close"]


@pytest.mark.guarantee("TX-7")
def test_the_digest_of_a_partition_covers_only_its_own_tuples() -> None:
    taken: list[tuple[int, int | None]] = []

    class Twice(Batches):
        def emitter(self) -> Any:
            emitter = super().emitter()

            def emit_batch(attempt: TransactionAttempt, metadata: int, collector: Any) -> None:
                for _ in range(2):
                    collector.emit_many([(1,), (2,)])
                    taken.append(collector.take_digest())

            emitter.emit_batch = emit_batch  # type: ignore[method-assign]
            return emitter

    run_batches(summing(Twice([[1]]), Store()))
    assert taken[0] == taken[1]
    assert taken[0][0] == 2
