"""Cancellations of asyncio tasks that run user code: the engine's are told from the code's own, and waits for the end are limited."""

import asyncio

import pytest

from engine.cancellation import (
    CLOSE_TIMEOUT_SECS,
    absorb_last_cancel_request,
    await_or_cancel,
    cancel_and_wait,
    cancel_requests,
    take_back_cancel_requests,
    was_cancelled,
)
from engine.testing.virtual_loop import run_virtual


async def resist(secs: float) -> None:
    """Swallow cancellations for `secs`."""
    end = asyncio.get_running_loop().time() + secs
    while (left := end - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue


def test_a_cancelled_error_of_user_code_is_no_cancellation() -> None:
    async def main() -> bool:
        try:
            raise asyncio.CancelledError
        except asyncio.CancelledError as error:
            return was_cancelled(error)

    assert run_virtual(main) is False


def test_a_request_from_outside_is_a_cancellation() -> None:
    async def work() -> bool:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError as error:
            return was_cancelled(error) and not was_cancelled(ValueError())
        return False

    async def main() -> bool:
        aio_task = asyncio.create_task(work())
        await asyncio.sleep(1)
        aio_task.cancel()
        return await aio_task

    assert run_virtual(main) is True


def test_cancel_requests_are_withdrawn() -> None:
    async def work() -> list[int]:
        counts = []
        aio_task = asyncio.current_task()
        assert aio_task is not None
        aio_task.cancel()
        counts.append(cancel_requests())
        await absorb_last_cancel_request()
        counts.append(cancel_requests())
        aio_task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(1)
        take_back_cancel_requests()
        counts.append(cancel_requests())
        return counts

    assert run_virtual(work) == [1, 0, 0]


def test_cancelled_tasks_are_awaited_and_their_errors_returned() -> None:
    async def fails_when_cancelled() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            raise ValueError("at the end") from None

    async def main() -> tuple[list[str], int, float]:
        aio_tasks = [asyncio.create_task(work) for work in (asyncio.sleep(1000), fails_when_cancelled(), resist(100))]
        await asyncio.sleep(0)
        errors, still_running = await cancel_and_wait(aio_tasks)
        seconds = asyncio.get_running_loop().time()
        await aio_tasks[2]
        return [str(error) for error in errors], still_running, seconds

    assert run_virtual(main) == (["at the end"], 1, pytest.approx(CLOSE_TIMEOUT_SECS))


def test_a_coroutine_that_takes_too_long_is_cancelled() -> None:
    async def raises() -> None:
        raise ValueError("early")

    async def main() -> None:
        assert await await_or_cancel(asyncio.sleep(1), 5)
        with pytest.raises(ValueError, match="early"):
            await await_or_cancel(raises(), 5)
        with pytest.raises(TimeoutError) as caught:
            await await_or_cancel(asyncio.sleep(10), 5)
        assert not caught.value.args
        assert not await await_or_cancel(resist(20), 5)
        await asyncio.sleep(20)

    run_virtual(main)
