"""New batches are run_held back if an admission says so; replays are not (SP-6)."""

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
from tests.transactional.batch_topologies import Batches, Partitions, Store, Stores, Sums, run_batches

pytestmark = pytest.mark.guarantee("SP-6")

BATCHES = [[1], [2], [3], [4], [5], [6]]


class ManualAdmission:
    """An admission whose highest txid the test sets."""

    def __init__(self, txid: int | None, step: int = 0) -> None:
        self.txid, self.step = txid, step
        self.asked: list[tuple[float, int]] = []
        self.opened = self.closed = 0
        self.context: TaskContext | None = None

    async def open(self, context: TaskContext, component_id: str) -> "ManualAdmission":
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


def committer_with(store: Store, admission: Any) -> Any:
    """Return a factory of committers with this admission."""
    kind = type("Brings", (Stores,), {"admission": admission})
    return lambda: kind(store)


def topology(spout: Any, store: Store, *admissions: Any, pending: int = 1) -> Topology:
    builder = TransactionalTopologyBuilder("run_held", "numbers", spout, max_spout_pending=pending)
    builder.set_bolt("sums", Sums, 2).shuffle_grouping("numbers")
    for number, admission in enumerate(admissions):
        builder.set_committer(f"store{number}", committer_with(store if number == 0 else Store(), admission)).global_grouping("sums")
    return builder.build()


def run_held(lets: Any, store: Store, *, seconds: float, spout: Any = None, **how: Any) -> Finished:
    """Run for this number of virtual seconds."""
    return run_topology(topology(spout or Batches(list(BATCHES)), store, lets, pending=how.pop("pending", 1)), until=seconds, **how)


@pytest.mark.parametrize("pending", [1, 4])
@pytest.mark.parametrize("highest", [0, 1, 3])
def test_no_batch_beyond_the_highest_admitted_txid_begins(highest: int, pending: int) -> None:
    store, lets = Store(), ManualAdmission(highest)
    run_held(lets, store, seconds=2, pending=pending)
    assert store.txids == list(range(1, highest + 1))
    assert lets.opened == lets.closed == 1


def test_the_admission_is_asked_only_after_its_answer_is_used_up_and_then_periodically() -> None:
    store, lets = Store(), ManualAdmission(3)
    run_held(lets, store, seconds=2, config=Config(batch_interval_ms=100))
    assert [txid for _, txid in lets.asked] == [1, *[4] * (len(lets.asked) - 1)]
    times = [time for time, _ in lets.asked[1:]]
    assert all(0.1 <= later - earlier < 0.17 for earlier, later in itertools.pairwise(times)), times


def test_the_admission_is_asked_at_most_every_50_ms() -> None:
    lets = ManualAdmission(0)
    run_held(lets, Store(), seconds=2, config=Config(batch_interval_ms=1))
    assert 25 <= len(lets.asked) <= 41


def test_one_answer_may_admit_any_number_of_batches() -> None:
    store, lets = Store(), ManualAdmission(None)
    run_batches(topology(Batches(list(BATCHES)), store, lets))
    assert store.txids == [1, 2, 3, 4, 5, 6]
    assert len(lets.asked) == 1


def test_batches_continue_when_admitted_and_the_pause_and_its_end_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    store, lets = Store(), ManualAdmission(2)

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
        "'run_held' begins no batch after 2 for now: the reader is 2 batches behind.",
        "'run_held' continues with batch 3.",
        "'run_held' begins no batch after 4 for now: the reader is 4 batches behind.",
        "'run_held' continues with batch 5.",
    ]


def test_a_batch_begins_only_when_all_admissions_allow_it(caplog: pytest.LogCaptureFixture) -> None:
    store, first, second = Store(), ManualAdmission(2), ManualAdmission(4)

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
def test_a_run_that_is_held_back_can_be_stopped_or_drained(end: str) -> None:
    store, lets = Store(), ManualAdmission(2)

    async def during(run: Run) -> None:
        await asyncio.sleep(1)
        await getattr(run, end)()

    finished = run_topology(topology(Batches(list(BATCHES)), store, lets), during=during, limit_secs=30)
    assert store.txids == [1, 2]
    assert finished.secs < 2
    assert lets.closed == 1


@pytest.mark.guarantee("RUN-2")
def test_a_run_that_is_held_back_can_be_paused() -> None:
    store, lets = Store(), ManualAdmission(2)

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
def test_a_run_whose_source_is_at_its_end_completes_even_if_no_batch_may_begin(spout: Any) -> None:
    store, lets = Store(), ManualAdmission(2)
    finished = run_batches(topology(spout(), store, lets), limit_secs=30)
    assert store.txids == [1, 2]
    assert finished.secs < 2


@pytest.mark.guarantee("TX-3")
def test_replays_are_not_held_back() -> None:
    store, lets = Store(), ManualAdmission(3)
    failures = iter([True, True, True, False])

    class Fails(Stores):
        admission = lets

        def finish_batch(self) -> None:
            if self.attempt.txid == 2 and next(failures, False):
                raise ValueError("not now")
            super().finish_batch()

    builder = TransactionalTopologyBuilder("run_held", "numbers", Batches(list(BATCHES)), max_spout_pending=3)
    builder.set_bolt("sums", Sums, 2).shuffle_grouping("numbers")
    builder.set_committer("store", lambda: Fails(store)).global_grouping("sums")
    run_topology(builder.build(), until=5)
    assert store.txids == [1, 2, 3]


@pytest.mark.guarantee("TX-9")
def test_a_batch_that_was_in_doubt_at_a_restart_is_not_held_back(tmp_path: Path) -> None:
    config = Config(state_provider=f"sqlite:///{tmp_path / 'state.db'}")

    class Dies(Stores):
        def finish_batch(self) -> None:
            if self.attempt.txid == 3:
                raise FatalError("the process dies")
            super().finish_batch()

    builder = TransactionalTopologyBuilder("run_held", "numbers", Batches(list(BATCHES)))
    builder.set_bolt("sums", Sums, 2).shuffle_grouping("numbers")
    builder.set_committer("store0", lambda: Dies(Store())).global_grouping("sums")
    with pytest.raises(Exception, match="the process dies"):
        run_topology(builder.build(), config)
    store, lets = Store(), ManualAdmission(0)
    run_held(lets, store, seconds=2, config=config)
    assert store.txids == [3], "its commit phase had begun before the restart"


def test_an_unavailable_admission_holds_batches_back_and_logs_why(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()

    class Away(ManualAdmission):
        async def admitted(self, txid: int) -> Admitted:
            await super().admitted(txid)
            if txid == 3 and len(self.asked) < 10:
                raise StateUnavailable("the storage does not answer")
            return Admitted(txid)

    run_batches(topology(Batches(list(BATCHES)), store, Away(None)))
    assert store.txids == [1, 2, 3, 4, 5, 6]
    assert caplog.records[0].getMessage() == (
        "'run_held' begins no batch after 2 for now: 'store0' cannot tell whether the batch may begin: the storage does not answer."
    )


def test_a_fatal_error_of_an_admission_ends_the_run() -> None:
    class Wrong(ManualAdmission):
        async def admitted(self, txid: int) -> Admitted:
            raise FatalError("the folder is another's")

    with pytest.raises(Exception, match="the folder is another's"):
        run_batches(topology(Batches(list(BATCHES)), Store(), Wrong(None)))


def test_batches_wait_for_a_slow_answer_of_the_admission() -> None:
    class Slow(ManualAdmission):
        async def admitted(self, txid: int) -> Admitted:
            await asyncio.sleep(0.5)
            return Admitted(txid)

    store, slow = Store(), Slow(None)
    finished = run_batches(topology(Batches(list(BATCHES)), store, slow, pending=3))
    assert store.txids == [1, 2, 3, 4, 5, 6]
    assert 3 <= finished.secs < 4
    assert slow.closed == 1
