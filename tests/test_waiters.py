"""`Waiters` wakes the coroutines that wait, once each, in order."""

import asyncio

from engine.waiters import Waiters


async def test_all_that_wait_are_woken_in_order_and_a_cancelled_one_is_skipped() -> None:
    waiters, woken = Waiters(), list[int]()

    async def wait(number: int) -> None:
        await waiters.wait()
        woken.append(number)

    tasks = [asyncio.create_task(wait(number)) for number in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    waiters.wake_all()
    await asyncio.wait(tasks)
    assert woken == [0, 2]


async def test_who_waits_later_waits_for_the_next_change() -> None:
    waiters = Waiters()
    waiters.wake_all()
    later = asyncio.create_task(waiters.wait())
    await asyncio.sleep(0)
    assert not later.done()
    waiters.wake_all()
    await later
