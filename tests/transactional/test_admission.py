"""New batches are held back where a component says so, and nothing else is (SP-6)."""

import asyncio
import itertools
import logging
from pathlib import Path
from typing import Any

import pytest

from engine import Config, Topology
from engine.api import TaskContext
from engine.errors import FatalError, StateUnavailable
from engine.runtime.run import Run
from engine.testing import Finished, run_topology
from engine.transactional import Admitted, MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.transactional.play import Batches, Partitions, Store, Stores, Sums, run_batches

pytestmark = pytest.mark.guarantee("SP-6")

BATCHES = [[1], [2], [3], [4], [5], [6]]


class Lets:
    """An admission that a test moves."""

    def __init__(self, txid: int | None, step: int = 0) -> None:
        self.txid, self.step = txid, step
        self.asked: list[tuple[float, int]] = []
        self.opened = self.closed = 0
        self.context: TaskContext | None = None

    async def open(self, context: TaskContext, component_id: str) -> "Lets":
        assert component_id.startswith("store")
        self.opened += 1
        self.context = context
        return self

    async def admitted(self, txid: int) -> Admitted:
        assert self.context is not None
        self.asked.append((self.context.clock.now(), txid))
        if self.txid is not None and self.txid < txid:
            self.txid += self.step
        return Admitted(self.txid, f"the reader is {txid - 1} batches behind")

    async def close(self) -> None:
        self.closed += 1


def bringing(store: Store, admission: Any) -> Any:
    """Return a factory of committers that bring an admission."""
    kind = type("Brings", (Stores,), {"admission": admission})
    return lambda: kind(store)


def topology(spout: Any, store: Store, *admissions: Any, pending: int = 1) -> Topology:
    builder = TransactionalTopologyBuilder("held", "numbers", spout, max_spout_pending=pending)
    builder.set_bolt("sums", Sums, 2).shuffle_grouping("numbers")
    for number, admission in enumerate(admissions):
        builder.set_committer(f"store{number}", bringing(store if number == 0 else Store(), admission)).global_grouping("sums")
    return builder.build()


def held(lets: Any, store: Store, *, seconds: float, spout: Any = None, **how: Any) -> Finished:
    """Run for so long in virtual time."""
    return run_topology(topology(spout or Batches(list(BATCHES)), store, lets, pending=how.pop("pending", 1)), until=seconds, **how)


@pytest.mark.parametrize("pending", [1, 4])
@pytest.mark.parametrize("highest", [0, 1, 3])
def test_no_batch_beyond_the_highest_begins(highest: int, pending: int) -> None:
    store, lets = Store(), Lets(highest)
    held(lets, store, seconds=2, pending=pending)
    assert store.txids == list(range(1, highest + 1))
    assert lets.opened == lets.closed == 1


def test_it_is_asked_only_where_its_answer_is_used_up_and_then_now_and_then() -> None:
    store, lets = Store(), Lets(3)
    held(lets, store, seconds=2, config=Config(batch_interval_ms=100))
    assert [txid for _, txid in lets.asked] == [1, *[4] * (len(lets.asked) - 1)]
    times = [time for time, _ in lets.asked[1:]]
    assert all(0.1 <= later - earlier < 0.17 for earlier, later in itertools.pairwise(times)), times


def test_it_is_asked_no_oftener_than_every_50_ms() -> None:
    lets = Lets(0)
    held(lets, Store(), seconds=2, config=Config(batch_interval_ms=1))
    assert 25 <= len(lets.asked) <= 41


def test_any_number_of_batches_is_one_answer() -> None:
    store, lets = Store(), Lets(None)
    run_batches(topology(Batches(list(BATCHES)), store, lets))
    assert store.txids == [1, 2, 3, 4, 5, 6]
    assert len(lets.asked) == 1


def test_batches_go_on_where_they_may_and_both_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    store, lets = Store(), Lets(2)

    async def during(run: Run) -> None:
        await asyncio.sleep(5)
        assert store.txids == [1, 2]
        assert "transactions_held_back" in run.metrics_text()
        lets.txid = 4
        await asyncio.sleep(5)
        lets.txid = None

    with caplog.at_level(logging.WARNING, "engine.transactional"):
        run_batches(topology(Batches(list(BATCHES)), store, lets), during=during)
    assert store.txids == [1, 2, 3, 4, 5, 6]
    texts = [record.getMessage() for record in caplog.records]
    assert texts == [
        "'held' begins no batch after 2 for now: the reader is 2 batches behind.",
        "'held' goes on with batch 3.",
        "'held' begins no batch after 4 for now: the reader is 4 batches behind.",
        "'held' goes on with batch 5.",
    ]


def test_of_several_admissions_each_lets_a_batch_begin(caplog: pytest.LogCaptureFixture) -> None:
    store, first, second = Store(), Lets(2), Lets(4)

    async def during(_: Run) -> None:
        await asyncio.sleep(2)
        assert store.txids == [1, 2]
        first.txid = 5
        await asyncio.sleep(2)
        assert store.txids == [1, 2, 3, 4]
        second.txid = 9
        await asyncio.sleep(2)
        assert store.txids == [1, 2, 3, 4, 5]
        first.txid = 6

    run_batches(topology(Batches(list(BATCHES)), store, first, second), during=during)
    assert store.txids == [1, 2, 3, 4, 5, 6]
    assert {txid for _, txid in second.asked} <= {1, 5}


@pytest.mark.guarantee("RUN-3")
@pytest.mark.parametrize("end", ["drain", "stop"])
def test_a_run_that_is_held_back_ends_when_it_is_told_to(end: str) -> None:
    store, lets = Store(), Lets(2)

    async def during(run: Run) -> None:
        await asyncio.sleep(1)
        await getattr(run, end)()

    finished = run_topology(topology(Batches(list(BATCHES)), store, lets), during=during, limit_secs=30)
    assert store.txids == [1, 2]
    assert finished.secs < 2
    assert lets.closed == 1


@pytest.mark.guarantee("RUN-2")
def test_a_run_that_is_held_back_can_be_paused() -> None:
    store, lets = Store(), Lets(2)

    async def during(run: Run) -> None:
        await asyncio.sleep(1)
        await run.deactivate()
        await asyncio.sleep(1)
        asked = len(lets.asked)
        lets.txid = None
        await asyncio.sleep(5)
        assert len(lets.asked) == asked
        assert store.txids == [1, 2]
        await run.activate()

    run_batches(topology(Batches(list(BATCHES)), store, lets), during=during)
    assert store.txids == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("spout", [lambda: Batches([[1], [2]]), lambda: Partitions({"a": [1, 2]}, 1),
                                   lambda: MemoryTransactionalSpout([(1,), (2,)], "number", 1)])  # fmt: skip
def test_a_run_whose_source_has_no_more_is_complete_though_no_more_may_begin(spout: Any) -> None:
    store, lets = Store(), Lets(2)
    finished = run_batches(topology(spout(), store, lets), limit_secs=30)
    assert store.txids == [1, 2]
    assert finished.secs < 2


@pytest.mark.guarantee("TX-3")
def test_replays_are_never_held_back() -> None:
    store, lets = Store(), Lets(3)
    failures = iter([True, True, True, False])

    class Fails(Stores):
        admission = lets

        def finish_batch(self) -> None:
            if self.attempt.txid == 2 and next(failures, False):
                raise ValueError("not now")
            super().finish_batch()

    builder = TransactionalTopologyBuilder("held", "numbers", Batches(list(BATCHES)), max_spout_pending=3)
    builder.set_bolt("sums", Sums, 2).shuffle_grouping("numbers")
    builder.set_committer("store", lambda: Fails(store)).global_grouping("sums")
    run_topology(builder.build(), until=5)
    assert store.txids == [1, 2, 3]


@pytest.mark.guarantee("TX-9")
def test_what_was_begun_before_a_restart_is_not_held_back(tmp_path: Path) -> None:
    config = Config(state_provider=f"sqlite:///{tmp_path / 'state.db'}")

    class Dies(Stores):
        def finish_batch(self) -> None:
            if self.attempt.txid == 3:
                raise FatalError("the process dies")
            super().finish_batch()

    builder = TransactionalTopologyBuilder("held", "numbers", Batches(list(BATCHES)))
    builder.set_bolt("sums", Sums, 2).shuffle_grouping("numbers")
    builder.set_committer("store0", lambda: Dies(Store())).global_grouping("sums")
    with pytest.raises(Exception, match="the process dies"):
        run_topology(builder.build(), config)
    store, lets = Store(), Lets(0)
    held(lets, store, seconds=2, config=config)
    assert store.txids == [3], "its commit phase had begun"


def test_an_admission_that_cannot_be_asked_holds_back_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()

    class Away(Lets):
        async def admitted(self, txid: int) -> Admitted:
            await super().admitted(txid)
            if txid == 3 and len(self.asked) < 10:
                raise StateUnavailable("the storage does not answer")
            return Admitted(txid)

    run_batches(topology(Batches(list(BATCHES)), store, Away(None)))
    assert store.txids == [1, 2, 3, 4, 5, 6]
    assert caplog.records[0].getMessage() == (
        "'held' begins no batch after 2 for now: 'store0' cannot say whether it may: the storage does not answer."
    )


def test_an_admission_that_raises_ends_the_run_where_nothing_would_do_better() -> None:
    class Wrong(Lets):
        async def admitted(self, txid: int) -> Admitted:
            raise FatalError("the folder is another's")

    with pytest.raises(Exception, match="the folder is another's"):
        run_batches(topology(Batches(list(BATCHES)), Store(), Wrong(None)))


def test_an_answer_takes_its_time_beside_the_loop() -> None:
    class Slow(Lets):
        async def admitted(self, txid: int) -> Admitted:
            await asyncio.sleep(0.5)
            return Admitted(txid)

    store, slow = Store(), Slow(None)
    finished = run_batches(topology(Batches(list(BATCHES)), store, slow, pending=3))
    assert store.txids == [1, 2, 3, 4, 5, 6]
    assert 3 <= finished.secs < 4
    assert slow.closed == 1
