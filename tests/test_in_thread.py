"""A busy loop waits for a call in a thread now and then; an idle loop does not."""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from engine import in_thread as module
from engine.in_thread import POLL_SECS, in_thread
from tests.patience import PATIENCE_SECS


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        yield made


class Granted(threading.Event):
    """Is set once the loop has waited for the thread. Counts how often it has."""

    times = 0


@pytest.fixture
def granted(monkeypatch: pytest.MonkeyPatch) -> Granted:
    waited = Granted()

    class Finished(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.set()
            waited.times += 1
            return super().wait(timeout)

    monkeypatch.setattr(module, "threading", SimpleNamespace(Event=Finished))
    return waited


async def test_the_result_or_exception_of_the_call_is_passed_on(pool: ThreadPoolExecutor) -> None:
    assert await in_thread(pool, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await in_thread(pool, lambda: 1 // 0)


@pytest.mark.parametrize("turn_secs", [0.0002, 0.004])
async def test_a_busy_loop_waits_for_the_thread(pool: ThreadPoolExecutor, granted: Granted, turn_secs: float) -> None:
    """Run a call that ends only after the loop has waited for it. In a loop of short turns, timers are on time."""
    turning = True

    async def be_busy() -> None:
        while turning:
            until = time.monotonic() + turn_secs
            while time.monotonic() < until:
                pass
            await asyncio.sleep(0)

    busy = asyncio.ensure_future(be_busy())
    assert await in_thread(pool, lambda: granted.wait(PATIENCE_SECS))
    turning = False
    await busy


async def test_a_loop_at_rest_hardly_waits(pool: ThreadPoolExecutor, granted: Granted) -> None:
    """A garbage collection may make one look of a millisecond a busy one."""
    may_end = threading.Event()
    asyncio.get_running_loop().call_later(0.2, may_end.set)
    assert await in_thread(pool, lambda: may_end.wait(PATIENCE_SECS))
    assert granted.times < 0.2 / POLL_SECS / 10


async def test_a_call_that_is_cancelled_before_it_begins_is_not_made(pool: ThreadPoolExecutor) -> None:
    may_end, calls = threading.Event(), []
    first = asyncio.ensure_future(in_thread(pool, may_end.wait))
    second = asyncio.ensure_future(in_thread(pool, lambda: calls.append(2)))
    await asyncio.sleep(0.01)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    may_end.set()
    assert await first
    assert await in_thread(pool, lambda: calls) == []


async def test_a_call_that_is_cancelled_while_it_runs_continues_and_its_error_is_dropped(pool: ThreadPoolExecutor) -> None:
    began, may_end, seen = threading.Event(), threading.Event(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))

    def fails() -> None:
        began.set()
        may_end.wait(PATIENCE_SECS)
        raise OSError("late")

    call = asyncio.ensure_future(in_thread(pool, fails))
    await asyncio.to_thread(began.wait, PATIENCE_SECS)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    may_end.set()
    assert await in_thread(pool, lambda: "next") == "next"
    assert seen == []
