"""Failures in batches stay small: cancellations by user code, BaseExceptions in cleanups, and expected refusals."""

import asyncio
import logging
from typing import Any

import pytest

from engine import BasicBolt, ComponentError, FailTuple, Tuple
from engine.transactional import BatchCollector, FailedBatch, TransactionAttempt
from tests.transactional.batch_topologies import Batches, BatchesEmitter, Store, Sums, run_batches, summing

THREE = [[1], [2], [3]]


class Once:
    """True the first time."""

    def __init__(self) -> None:
        self.is_due = True

    def __call__(self) -> bool:
        is_due, self.is_due = self.is_due, False
        return is_due


def cancel_own(*, late: bool) -> None:
    """Cancel the running asyncio task, now or soon."""
    aio_task = asyncio.current_task()
    assert aio_task is not None
    if late:
        asyncio.get_running_loop().call_later(0.01, aio_task.cancel)
    else:
        aio_task.cancel()


@pytest.mark.guarantee("TX-6", "SV-3")
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("method", ["prepare", "execute", "finish_batch"])
def test_a_batch_bolt_that_cancels_its_own_task_fails_its_batch_at_once(method: str, late: bool) -> None:
    due = Once()

    async def maybe_cancel(where: str) -> None:
        if where == method and due():
            cancel_own(late=late)
        await asyncio.sleep(0.1)

    class Cancels(Sums):
        async def prepare(self) -> None:  # type: ignore[override]
            super().prepare()
            await maybe_cancel("prepare")

        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await maybe_cancel("execute")
            super().execute(tup)

        async def finish_batch(self) -> None:  # type: ignore[override]
            await maybe_cancel("finish_batch")
            super().finish_batch()

    store = Store()
    finished = run_batches(summing(Batches(THREE), store, sums=Cancels, tasks=1))
    assert store.by_txid == {1: 1, 2: 2, 3: 3}
    assert finished.secs < 10
    [report] = finished.errors
    assert "cancelled the asyncio task that runs it" in report.text
    assert "tried again" in report.next_step
    assert finished.snapshot.components["sums"].tasks[0].restarts == 0


@pytest.mark.guarantee("TX-6")
def test_a_stop_during_waiting_calls_is_not_a_cancellation_by_user_code() -> None:
    class Waits(Sums):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await asyncio.sleep(100)

    assert run_batches(summing(Batches(THREE), Store(), sums=Waits, tasks=1), until=1.0).errors == ()


@pytest.mark.guarantee("ACK-12")
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, type("Odd", (BaseException,), {})])
def test_a_base_exception_in_a_cleanup_is_reported(is_async: bool, error: type[BaseException]) -> None:
    due = Once()

    def clean_up() -> None:
        if due():
            raise error("on purpose")

    async def clean_up_later() -> None:
        await asyncio.sleep(0)
        clean_up()

    cleaning: Any = clean_up_later if is_async else clean_up
    cleans = type("Cleans", (Sums,), {"cleanup": lambda _: cleaning()})
    store = Store()
    finished = run_batches(summing(Batches(THREE), store, sums=cleans, tasks=1))
    assert (finished.state, store.by_txid) == ("complete", {1: 1, 2: 2, 3: 3})
    [report] = finished.errors
    assert report.text == f"{error.__name__}: on purpose"


class RefusesInBatch(Sums):
    def execute(self, tup: Tuple) -> None:
        if self.attempt.txid == 2 and self.attempt.number == 2:
            raise FailTuple("not today", report=self.reports)
        super().execute(tup)

    reports = False


class RefusesAlone(BasicBolt):
    output_fields = "number"
    reports = False

    def __init__(self) -> None:
        self.is_due = Once()

    def check(self, tup: Tuple) -> tuple[int]:
        if tup[-1] == 2 and self.is_due():
            raise FailTuple("not today", report=self.reports)
        return (tup[-1],)

    def execute(self, tup: Tuple) -> Any:
        return self.check(tup)


class RefusesAsync(RefusesAlone):
    concurrency = 2

    async def execute(self, tup: Tuple) -> Any:
        return self.check(tup)


class Unreadable(FailedBatch):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.guarantee("TX-6")
def test_a_refusal_whose_text_raises_does_not_end_the_instance() -> None:
    due = Once()

    class Refuses(Sums):
        def execute(self, tup: Tuple) -> None:
            if due():
                raise Unreadable
            super().execute(tup)

    finished = run_batches(summing(Batches(THREE), Store(), sums=Refuses, tasks=1))
    assert (finished.state, finished.errors) == ("complete", ())


@pytest.mark.guarantee("SV-5", "ACK-11")
def test_a_fail_tuple_of_an_emitter_fails_its_batch_quietly(caplog: pytest.LogCaptureFixture) -> None:
    due = Once()

    class Emits(BatchesEmitter):
        def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: BatchCollector) -> None:
            if due():
                raise FailTuple("not today")
            super().emit_batch(attempt, metadata, collector)

    store = Store()
    finished = run_batches(summing(Batches(THREE, emitter=Emits), store))
    assert (store.by_txid, finished.errors) == ({1: 1, 2: 2, 3: 3}, ())
    assert "not today" in caplog.text


@pytest.mark.guarantee("ACK-12")
def test_a_resource_that_raises_system_exit_ends_only_the_run() -> None:
    class Exits:
        async def open(self, context: Any) -> Any:
            raise SystemExit("on purpose")

    class Uses(Sums):
        async def prepare(self) -> None:  # type: ignore[override]
            super().prepare()
            await self.resources.opened(Exits())

    with pytest.raises(ComponentError, match="raised SystemExit"):
        run_batches(summing(Batches(THREE), Store(), sums=Uses))


@pytest.mark.guarantee("SV-5", "ACK-11")
@pytest.mark.parametrize("reports", [False, True])
@pytest.mark.parametrize("refuses", [RefusesInBatch, RefusesAlone, RefusesAsync])
def test_a_fail_tuple_fails_its_batch_quietly(
    refuses: Any, reports: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(refuses, "reports", reports)
    store = Store()
    with caplog.at_level(logging.WARNING):
        finished = run_batches(summing(Batches(THREE), store, sums=refuses, tasks=1))
    assert store.by_txid == {1: 1, 2: 2, 3: 3}
    assert len(finished.errors) == reports
    [told] = [record.getMessage() for record in caplog.records if record.name == "engine.transactional"]
    assert "'sums' (task 3) failed it: not today. It is tried again" in told
