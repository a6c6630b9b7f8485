"""Inlets: sends of a service, and the end of each send."""

import asyncio

import pytest

from engine.api import Fields, Inlet, InletClosed, InletHandle, RunEnded
from engine.errors import Failure, TupleFailed, UsageError
from tests.api.fakes import Driver

TIMED_OUT = Failure("timeout", "count", 7)


def start(inlet: Inlet | None = None, *, task_id: int = 1) -> tuple[Driver, InletHandle]:
    driver = Driver(inlet or Inlet("line"), task_id)
    return driver, driver.spout.handle


async def begin_send(handle: InletHandle, *values: object) -> asyncio.Task[None]:
    """Start a send, and run it until it waits."""
    sending = asyncio.create_task(handle.send(values))
    await asyncio.sleep(0)
    return sending


async def test_send_returns_when_its_tree_is_done() -> None:
    driver, handle = start()
    sending = await begin_send(handle, "to be")
    driver.poll()
    ((values, message_id),) = driver.collector.emitted
    assert values == ("to be",)
    await asyncio.sleep(0)
    assert not sending.done()
    assert handle.waiting == 1
    driver.spout.ack(message_id)
    await sending
    assert handle.waiting == 0


async def test_send_raises_the_failure_of_its_tree() -> None:
    driver, handle = start()
    sending = await begin_send(handle, "to be")
    driver.poll()
    driver.fail(driver.collector.emitted[0][1], TIMED_OUT)
    with pytest.raises(TupleFailed) as raised:
        await sending
    assert raised.value.failure == TIMED_OUT


async def test_a_send_wakes_the_spout() -> None:
    driver, handle = start()
    driver.poll()
    sending = await begin_send(handle, "to be")
    await driver.context.woken()
    sending.cancel()


async def test_sends_are_emitted_in_order() -> None:
    driver, handle = start()
    sends = [await begin_send(handle, number) for number in range(5)]
    for _ in sends:
        driver.poll()
    assert driver.collector.values == [(number,) for number in range(5)]
    for _, message_id in driver.collector.emitted:
        driver.spout.ack(message_id)
    await asyncio.gather(*sends)


async def test_close_exhausts_the_spout_after_earlier_sends() -> None:
    driver, handle = start()
    sending = await begin_send(handle, "to be")
    handle.close()
    assert driver.poll()
    assert not driver.poll()
    driver.spout.ack(driver.collector.emitted[0][1])
    await sending
    with pytest.raises(InletClosed):
        await handle.send(("more",))


async def test_a_cancelled_send_is_withdrawn_unless_it_was_emitted() -> None:
    driver, handle = start()
    emitted = await begin_send(handle, "emitted")
    driver.poll()
    queued = await begin_send(handle, "queued")
    for sending in (emitted, queued):
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
    driver.poll()
    assert driver.collector.values == [("emitted",)]
    driver.spout.ack(driver.collector.emitted[0][1])
    assert handle.waiting == 0


async def test_at_most_max_waiting_sends_are_accepted() -> None:
    driver, handle = start(Inlet("line", max_waiting=2))
    sends = [await begin_send(handle, number) for number in range(3)]
    assert handle.waiting == 2
    driver.poll()
    driver.spout.ack(driver.collector.emitted[0][1])
    await sends[0]
    await asyncio.sleep(0)
    assert handle.waiting == 2
    for sending in sends[1:]:
        sending.cancel()


@pytest.mark.guarantee("SV-4")
async def test_the_end_of_a_run_raises_run_ended_in_waiting_and_later_sends() -> None:
    driver, handle = start(Inlet("line", max_waiting=2))
    emitted = await begin_send(handle, "emitted")
    driver.poll()
    queued, outside = await begin_send(handle, "queued"), await begin_send(handle, "outside")
    ended = Failure("task_died", "in", 1, "The run was stopped.")
    handle.abandon(ended)
    for sending in (emitted, queued, outside, handle.send(["later"])):
        with pytest.raises(RunEnded, match="The run was stopped") as raised:
            await sending
        assert raised.value.failure == ended
        assert isinstance(raised.value, InletClosed)
    assert handle.waiting == 0


@pytest.mark.guarantee("ACK-13")
async def test_a_new_instance_continues_with_the_queue_and_fails_open_sends_of_the_dead_one() -> None:
    dead, handle = start()
    in_flight = await begin_send(handle, "in flight")
    dead.poll()
    queued = await begin_send(handle, "queued")
    replacement = Inlet("line")
    replacement.use_handle(handle)
    alive, _ = start(replacement)
    with pytest.raises(TupleFailed) as raised:
        await in_flight
    assert raised.value.failure.reason == "task_died"
    alive.poll()
    assert alive.collector.values == [("queued",)]
    alive.spout.ack(alive.collector.emitted[0][1])
    await queued


async def test_all_tasks_share_one_queue() -> None:
    first, handle = start()
    other = Inlet("line")
    other.use_handle(handle)
    second, _ = start(other, task_id=2)
    sends = [await begin_send(handle, number) for number in range(2)]
    first.poll()
    second.poll()
    assert (first.collector.values, second.collector.values) == ([(0,)], [(1,)])
    for driver in (first, second):
        driver.spout.ack(driver.collector.emitted[0][1])
    await asyncio.gather(*sends)


async def test_a_value_that_cannot_be_emitted_raises_only_at_its_sender() -> None:
    driver, handle = start()
    sending = await begin_send(handle, "to be")
    driver.collector.refuses = UsageError("unhashable key")
    assert driver.poll()
    with pytest.raises(UsageError, match="unhashable key"):
        await sending
    assert handle.waiting == 0


@pytest.mark.parametrize("values", ["line", ("a", "b"), ()])
async def test_wrong_values_are_refused_before_they_are_queued(values) -> None:
    _, handle = start()
    with pytest.raises(UsageError, match=r"Inlet\.send\(\) was given"):
        await handle.send(values)
    assert handle.waiting == 0


async def test_the_error_for_a_send_from_another_thread_names_the_right_way() -> None:
    _, handle = start()
    with pytest.raises(UsageError, match="run_coroutine_threadsafe"):
        await asyncio.to_thread(lambda: asyncio.run(handle.send(("to be",))))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Inlet(), "an Inlet needs fields that are not direct"),
        (lambda: Inlet(Fields("a", direct=True)), "an Inlet needs fields that are not direct"),
        (lambda: Inlet("a", max_waiting=0), "Inlet: max_waiting must be an integer of at least 1, not 0"),
    ],
)
def test_wrong_inlets_are_refused(make, text) -> None:
    with pytest.raises(UsageError) as raised:
        make()
    assert raised.value.message == text
