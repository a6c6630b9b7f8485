"""A coroutine whose steps are timed behaves as if it were awaited itself."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from engine.kernel import StepTimer


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = 0.0
        self.noted: list[float] = []
        self.timer = StepTimer(lambda: self.at, 0.5, self.noted.append)


async def returns(time: Time) -> str:
    return "result"


async def waits(time: Time) -> str:
    await asyncio.sleep(0)
    return await asyncio.sleep(0.001, "result")


async def waits_for_a_future(time: Time) -> Any:
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, [1, 2])
    return await future


async def raises(time: Time) -> None:
    await asyncio.sleep(0)
    raise ValueError("own")


async def survives_an_error_of_what_it_awaits(time: Time) -> str:
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_exception, OSError("awaited"))
    with suppress(OSError):
        await future
    return "survived"


async def outcome(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except Exception as error:
        return repr(error)


@pytest.mark.parametrize("work", [returns, waits, waits_for_a_future, raises, survives_an_error_of_what_it_awaits])
def test_a_timed_coroutine_ends_like_the_coroutine_itself(work: Callable[[Time], Any]) -> None:
    async def main() -> None:
        time = Time()
        assert await outcome(time.timer(work(time))) == await outcome(work(time))
        assert time.noted == []

    asyncio.run(main())


def test_each_long_step_is_recorded() -> None:
    async def slow(time: Time) -> str:
        time.at += 0.4
        await asyncio.sleep(0)
        time.at += 0.6
        with suppress(OSError):
            future = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(future.set_exception, OSError())
            await future
        time.at += 0.7
        await asyncio.sleep(0)
        time.at += 0.8
        return "result"

    async def main() -> None:
        time = Time()
        assert await time.timer(slow(time)) == "result"
        assert time.noted == pytest.approx([0.6, 0.7, 0.8])
        assert time.timer.total_secs == pytest.approx(2.5)

    asyncio.run(main())


def test_the_time_of_waits_is_not_counted() -> None:
    async def main() -> None:
        time = Time()

        async def waits() -> None:
            await asyncio.sleep(0)

        task = asyncio.ensure_future(outcome(time.timer(waits())))
        await asyncio.sleep(0)
        time.at += 100
        await task
        assert (time.noted, time.timer.total_secs) == ([], 0)

    asyncio.run(main())


def test_a_step_that_raises_is_recorded_too() -> None:
    async def slow(time: Time) -> None:
        time.at += 1
        raise ValueError

    async def main() -> None:
        time = Time()
        with pytest.raises(ValueError):
            await time.timer(slow(time))
        assert time.noted == [1.0]

    asyncio.run(main())


def test_a_cancellation_goes_through_and_may_be_caught() -> None:
    async def main() -> None:
        time = Time()
        seen: list[str] = []

        async def catches() -> str:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                seen.append("cancelled")
                await asyncio.sleep(0)
            return "result"

        async def whole() -> str:
            result: str = await time.timer(catches())
            return result

        task = asyncio.ensure_future(whole())
        await asyncio.sleep(0)
        task.cancel()
        assert await task == "result"
        assert seen == ["cancelled"]

    asyncio.run(main())


def test_a_dropped_coroutine_is_closed() -> None:
    seen: list[str] = []

    async def main() -> None:
        async def waits() -> None:
            try:
                await asyncio.sleep(10)
            finally:
                seen.append("closed")

        async def whole() -> None:
            await Time().timer(waits())

        coroutine = whole()
        coroutine.send(None)
        coroutine.close()

    asyncio.run(main())
    assert seen == ["closed"]


def test_none_is_refused() -> None:
    with pytest.raises(TypeError):
        Time().timer(None)  # type: ignore[arg-type]


def test_the_last_resumption_of_a_suspended_coroutine_is_recorded() -> None:
    time = Time()

    async def twice() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    steps = time.timer(twice())
    time.at = 1.0
    steps.send(None)
    assert time.timer.resumed_at == 0.0, "the first step belongs to the caller"
    time.at = 2.0
    steps.send(None)
    assert time.timer.resumed_at == 2.0
    time.at = 3.0
    with pytest.raises(ZeroDivisionError):
        steps.throw(ZeroDivisionError())
    assert time.timer.resumed_at == 3.0
