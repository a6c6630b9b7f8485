"""Batches that fail in either phase: their replays, the order, and the effects of old attempts (TX-2, TX-3, TX-6)."""

import asyncio
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from engine import BasicBolt, FatalError, Run, Tuple
from engine.errors import ComponentError, UsageError
from engine.testing import DropTuple, KillTask, RaiseError
from engine.transactional import FailedBatch, TransactionAttempt
from engine.transactional.coordinator import BACKOFF
from engine.transactional.feature import coordinator_id
from tests.transactional.batch_topologies import Batches, Store, Stores, Sums, run_batches, summing

FIVE = [[1], [2], [3], [4], [5]]


def fails_at(attempts: set[tuple[int, int]], where: str, error: Any = FailedBatch) -> Any:
    """Return a `Sums` that raises in a method, for (txid, n-th attempt of it in this class)."""
    seen: dict[int, list[TransactionAttempt]] = {}

    class Fails(Sums):
        def prepare(self) -> None:
            super().prepare()
            tries = seen.setdefault(self.attempt.txid, [])
            if self.attempt not in tries:
                tries.append(self.attempt)
            self.fails = (self.attempt.txid, len(tries)) in attempts
            self.raise_in("prepare")

        def execute(self, tup: Tuple) -> None:
            self.raise_in("execute")
            super().execute(tup)

        def finish_batch(self) -> None:
            self.raise_in("finish_batch")
            super().finish_batch()

        def raise_in(self, method: str) -> None:
            if self.fails and method == where:
                raise error("on purpose")

    return Fails


@pytest.mark.guarantee("TX-3", "TX-6")
@pytest.mark.parametrize("where", ["prepare", "execute", "finish_batch"])
@pytest.mark.parametrize("error", [FailedBatch, ValueError])
def test_a_failed_batch_and_all_later_ones_are_replayed_in_order(where: str, error: Any) -> None:
    store, spout = Store(), Batches(FIVE)
    finished = run_batches(summing(spout, store, sums=fails_at({(2, 1)}, where, error), tasks=1), config={"max_spout_pending": 3})
    assert store.by_txid == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}
    assert store.txids == [1, 2, 3, 4, 5]
    tries = [attempt.txid for attempt in spout.emitted]
    assert tries[:3] == [1, 2, 3]
    assert tries.count(2) == tries.count(3) == 2
    assert tries.count(1) == tries.count(5) == 1
    assert [attempt.attempt_id for attempt in spout.emitted] == sorted({attempt.attempt_id for attempt in spout.emitted})
    assert len(finished.errors) == (error is ValueError)
    assert spout.initialized == [1, 2, 3, 4, 5]


@pytest.mark.guarantee("TX-3")
def test_a_batch_that_fails_in_the_commit_phase_is_processed_and_committed_again() -> None:
    store = Store()
    commits: list[TransactionAttempt] = []

    class Fails(Stores):
        def finish_batch(self) -> None:
            super().finish_batch()
            commits.append(self.attempt)
            if self.attempt.txid == 2 and len(commits) < 4:
                raise FailedBatch

    run_batches(summing(Batches(FIVE), store, stores=lambda: Fails(store)), config={"max_spout_pending": 4})
    assert [attempt.txid for attempt in commits] == [1, 2, 2, 2, 3, 4, 5]
    assert len(set(commits)) == 7
    assert store.by_txid == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}


@pytest.mark.guarantee("TX-2")
def test_commits_run_in_order_and_one_at_a_time_however_long_processing_takes() -> None:
    store = Store()
    committing: list[int] = []

    class Slow(Sums):
        async def finish_batch(self) -> None:
            await asyncio.sleep(0.1 / self.attempt.txid)
            super().finish_batch()

    class Commits(Stores):
        async def finish_batch(self) -> None:
            committing.append(self.attempt.txid)
            assert len(committing) == 1
            await asyncio.sleep(0.02)
            committing.pop()
            super().finish_batch()

    run_batches(summing(Batches(FIVE), store, sums=Slow, stores=lambda: Commits(store)), config={"max_spout_pending": 5})
    assert store.txids == [1, 2, 3, 4, 5]


@pytest.mark.guarantee("TX-2", "TX-3")
def test_a_committer_begins_finish_batch_only_after_that_of_the_old_attempt_ended() -> None:
    store = Store()
    log: list[str] = []

    class Stubborn(Stores):
        async def finish_batch(self) -> None:
            log.append(f"begin {self.attempt.epoch}")
            try:
                await asyncio.sleep(1000 if self.attempt.epoch == 1 else 0)
            finally:
                if self.attempt.epoch == 1:
                    await asyncio.sleep(0.5)
                log.append(f"end {self.attempt.epoch}")
            super().finish_batch()

    async def kill_coordinator(run: Run) -> None:
        await asyncio.sleep(0.1)
        run.kill_task(run.task_ids(coordinator_id("numbers"))[0])

    run_batches(summing(Batches([[7]]), store, stores=lambda: Stubborn(store)), during=kill_coordinator)
    assert log == ["begin 1", "end 1", "begin 2", "end 2"]
    assert [attempt.epoch for attempt, _ in store.commits] == [2]


@pytest.mark.guarantee("TX-6")
def test_a_failed_batch_does_not_end_its_task_or_the_other_batches() -> None:
    made: list[Any] = []
    Fails = fails_at({(3, 1)}, "execute", ValueError)

    class Counts(Fails):  # type: ignore[misc,valid-type]
        def prepare(self) -> None:
            made.append(self.context.task_id)
            super().prepare()

    store = Store()
    finished = run_batches(summing(Batches(FIVE), store, sums=Counts, tasks=1), config={"max_spout_pending": 4})
    assert finished.snapshot.components["sums"].tasks[0].restarts == 0
    assert store.by_txid == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}


@pytest.mark.guarantee("TX-3", "TX-5")
@pytest.mark.parametrize("component", ["numbers", "sums", "store", coordinator_id("numbers")])
@pytest.mark.parametrize("at_secs", [0.0, 0.005, 0.011, 0.017])
def test_any_task_may_die_at_any_time_without_loss(component: str, at_secs: float) -> None:
    class Slow(Sums):
        async def finish_batch(self) -> None:
            await asyncio.sleep(0.004)
            super().finish_batch()

    class Commits(Stores):
        async def finish_batch(self) -> None:
            await asyncio.sleep(0.003)
            super().finish_batch()

    async def kill(run: Run) -> None:
        await asyncio.sleep(at_secs)
        for task in run.task_ids(component):
            run.kill_task(task)

    store = Store()
    topology = summing(Batches(FIVE), store, emitters=2, sums=Slow, stores=lambda: Commits(store))
    run_batches(topology, during=kill, config={"max_spout_pending": 3})
    assert store.by_txid == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}
    assert sorted(store.txids) == store.txids


@pytest.mark.guarantee("TX-5")
def test_a_lost_tuple_fails_its_batch_at_once() -> None:
    store = Store()
    finished = run_batches(
        summing(Batches([[1, 2, 3, 4]]), store, tasks=1),
        faults=[DropTuple("numbers", "sums", 2)],
    )
    assert len(finished.strikes) == 1
    assert store.by_txid == {1: 10}
    assert finished.secs < 0.2


@pytest.mark.guarantee("TX-6")
def test_a_basic_bolt_that_raises_fails_the_batch_and_is_not_replaced() -> None:
    calls: Counter[int] = Counter()

    class Raises(BasicBolt):
        output_fields = "number"

        def execute(self, tup: Tuple) -> tuple[int]:
            calls[tup["number"]] += 1
            if tup["number"] == 3 and calls[3] == 1:
                raise ValueError("three")
            return (tup["number"],)

    store = Store()
    finished = run_batches(summing(Batches(FIVE), store, sums=Raises, tasks=1), config={"max_spout_pending": 2})
    assert store.by_txid == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}
    [report] = finished.errors
    assert report.text == "ValueError: three"
    assert report.tuple_text is not None
    assert "tried again" in report.next_step
    assert finished.snapshot.components["sums"].tasks[0].restarts == 0


@pytest.mark.guarantee("TX-6")
def test_an_instance_that_raised_gets_no_more_tuples() -> None:
    calls: Counter[TransactionAttempt] = Counter()

    class Raises(Sums):
        def execute(self, tup: Tuple) -> None:
            calls[self.attempt] += 1
            if self.attempt.number == 1:
                raise FailedBatch
            super().execute(tup)

    store = Store()
    run_batches(summing(Batches([[1, 2, 3]]), store, sums=Raises, tasks=1))
    assert store.by_txid == {1: 6}
    assert [calls[attempt] for attempt in sorted(calls)] == [1, 3]


@pytest.mark.guarantee("TX-3")
def test_a_commit_resets_the_pause_before_a_replay() -> None:
    began: dict[int, list[float]] = {}
    Fails = fails_at({(1, 1), (3, 1)}, "finish_batch")

    class Timed(Fails):  # type: ignore[misc,valid-type]
        def prepare(self) -> None:
            began.setdefault(self.attempt.txid, []).append(asyncio.get_running_loop().time())
            super().prepare()

    run_batches(summing(Batches(FIVE), Store(), sums=Timed, tasks=1))
    assert [second - first < BACKOFF.first_secs for first, second in (began[1], began[3])] == [True, True]


@pytest.mark.guarantee("TX-3")
def test_the_pause_before_a_replay_doubles_up_to_five_seconds() -> None:
    began: list[float] = []
    Fails = fails_at({(1, number) for number in range(1, 10)}, "finish_batch")

    class Timed(Fails):  # type: ignore[misc,valid-type]
        def prepare(self) -> None:
            began.append(asyncio.get_running_loop().time())
            super().prepare()

    run_batches(summing(Batches([[1]]), Store(), sums=Timed, tasks=1))
    pauses = [after - before for before, after in pairwise(began)]
    assert pauses == pytest.approx([0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0], abs=0.01)


@pytest.mark.guarantee("TX-7")
def test_cleanup_before_tells_emitters_the_committed_txid() -> None:
    heard: list[int] = []

    class Cleans(Batches):
        def emitter(self) -> Any:
            emitter = super().emitter()
            emitter.cleanup_before = heard.append  # type: ignore[method-assign]
            return emitter

    run_batches(summing(Cleans(FIVE), Store()))
    assert heard == [2, 3, 4, 5]


def test_the_log_says_why_a_batch_failed_without_the_hint(caplog: pytest.LogCaptureFixture) -> None:
    Fails = fails_at({(2, 1)}, "execute", lambda text: UsageError(text, hint="Mend it."))
    finished = run_batches(summing(Batches(FIVE), Store(), sums=Fails, tasks=1))
    assert "raised: UsageError: on purpose. It is tried again." in caplog.text
    assert "Mend it." in finished.errors[0].text


def test_a_fatal_error_ends_the_run() -> None:
    Fails = fails_at({(2, 1)}, "execute", lambda text: FatalError(text, hint="stop"))
    with pytest.raises(ComponentError, match="on purpose"):
        run_batches(summing(Batches(FIVE), Store(), sums=Fails))


def test_a_batch_that_always_fails_is_replayed_after_growing_pauses() -> None:
    store = Store()
    Fails = fails_at({(2, attempt) for attempt in range(1, 7)}, "finish_batch")
    finished = run_batches(summing(Batches(FIVE), store, sums=Fails, tasks=1), config={"max_spout_pending": 2})
    assert store.by_txid == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}
    assert 0.1 + 0.2 + 0.4 < finished.secs < 10


def test_an_emitter_that_raises_fails_the_batch() -> None:
    store = Store()
    topology = summing(Batches(FIVE), store, emitters=2)
    run_batches(topology, faults=[RaiseError("sums", at_call=3), KillTask("store", at_secs=0.001)], config={"max_spout_pending": 3})
    assert store.by_txid == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}
