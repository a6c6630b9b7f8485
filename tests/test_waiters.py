"""`Waiters` wakes the coroutines that wait, once each, in order. `Places` limits the coroutines in a block."""

import asyncio
import random

import pytest

from engine.waiters import Places, Waiters


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


async def enter(places: Places, number: int, inside: list[int], leave: asyncio.Event) -> None:
    async with places:
        inside.append(number)
        await leave.wait()


async def test_places_are_given_in_the_order_of_arrival() -> None:
    places, inside, leave = Places(2), list[int](), [asyncio.Event() for _ in range(5)]
    tasks = [asyncio.create_task(enter(places, number, inside, leave[number])) for number in range(5)]
    await asyncio.sleep(0)
    assert inside == [0, 1]
    leave[1].set()
    await tasks[1]
    await asyncio.sleep(0)
    assert inside == [0, 1, 2]
    for event in leave:
        event.set()
    await asyncio.gather(*tasks)
    assert inside == [0, 1, 2, 3, 4]


async def test_a_place_that_is_given_to_a_cancelled_coroutine_goes_to_the_next() -> None:
    places, inside, leave = Places(1), list[int](), [asyncio.Event() for _ in range(3)]
    tasks = [asyncio.create_task(enter(places, number, inside, leave[number])) for number in range(3)]
    await asyncio.sleep(0)
    leave[0].set()
    await asyncio.sleep(0)  # the first one gives its place to the second one, which has not run since
    tasks[1].cancel()
    await asyncio.wait([tasks[1]])
    await asyncio.sleep(0)
    assert inside == [0, 2]
    leave[2].set()
    await tasks[2]
    async with asyncio.timeout(0), places:
        inside.append(3)
    assert inside == [0, 2, 3]


async def test_a_coroutine_that_is_closed_while_it_waits_gets_no_place() -> None:
    places = Places(1)
    waiting = enter(places, 1, [], asyncio.Event())
    async with places:
        waiting.send(None)
        waiting.close()
    async with asyncio.timeout(0), places:
        ...


@pytest.mark.parametrize("seed", range(20))
async def test_no_place_is_lost_or_given_twice(seed: int) -> None:
    random_of, places, inside, most = random.Random(seed), Places(3), 0, 0

    async def work() -> None:
        nonlocal inside, most
        async with places:
            inside += 1
            most = max(most, inside)
            try:
                await asyncio.sleep(0)
            finally:
                inside -= 1

    tasks = list[asyncio.Task[None]]()
    for _ in range(200):
        tasks.append(asyncio.create_task(work()))
        if random_of.random() < 0.5:
            random_of.choice(tasks).cancel()
        if random_of.random() < 0.3:
            await asyncio.sleep(0)
    await asyncio.wait(tasks)
    assert (inside, most) == (0, 3)
    for _ in range(3):
        async with asyncio.timeout(0):
            await places.__aenter__()
