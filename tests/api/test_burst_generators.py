"""`@spout(burst=True)`: generators that yield lists of rows (BU-4)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engine.api import GeneratorBroken, SpoutExhausted, spout
from engine.api.async_generator_spout import BUFFER_TUPLES
from engine.errors import Failure, UsageError
from tests.api.fakes import Driver

pytestmark = pytest.mark.guarantee("BU-4")

FAILED = Failure("failed", "count", 7)


def open_lists(*items: Any, is_async: bool = False, **options: Any) -> Driver:
    """Open a spout whose generator yields these items. An item that is an exception is raised."""

    def plain():
        for item in items:
            if isinstance(item, BaseException):
                raise item
            yield item

    async def asynchronous():
        for item in plain():
            yield item

    return Driver(spout("number", burst=True, **options)(asynchronous if is_async else plain).create())


def rows(*numbers: int) -> list[Any]:
    return [(number,) for number in numbers]


def poll(driver: Driver, limit: int) -> int:
    """Call `next_tuples`. Return the number of emitted tuples, -1 at the end."""
    before = len(driver.collector.emitted)
    try:
        driver.spout.next_tuples(limit)  # type: ignore[attr-defined]
    except SpoutExhausted:
        return -1
    return len(driver.collector.emitted) - before


def test_a_long_list_goes_out_in_parts_and_a_call_pulls_one_list() -> None:
    driver = open_lists(rows(*range(7)), rows(7, 8), rows(9))
    assert [poll(driver, 3) for _ in range(7)] == [3, 3, 1, 2, 1, -1, -1]
    assert driver.collector.values == rows(*range(10))
    assert len({message_id for _, message_id in driver.collector.emitted}) == 10


def test_none_and_an_empty_list_emit_nothing() -> None:
    driver = open_lists(None, rows(1), [], rows(2))
    assert [poll(driver, 10) for _ in range(5)] == [0, 1, 0, 1, -1]


def test_rows_may_be_lists_and_named_tuples() -> None:
    driver = open_lists([[1], (2,)])
    assert poll(driver, 10) == 2
    assert driver.collector.values == rows(1, 2)


def test_failed_rows_come_again_before_new_ones_and_within_the_limit() -> None:
    driver = open_lists(rows(*range(6)))
    poll(driver, 4)
    for _, message_id in driver.collector.emitted[:3]:
        driver.fail(message_id, FAILED)
    assert [poll(driver, 2) for _ in range(4)] == [2, 1, 2, -1]
    assert driver.collector.values == rows(0, 1, 2, 3, 0, 1, 2, 4, 5)


def test_acked_rows_are_forgotten_and_others_given_up() -> None:
    given_up: list[Any] = []
    driver = open_lists(rows(1, 2), max_retries=0, on_give_up=lambda row, failure: given_up.append((row, failure)))
    poll(driver, 10)
    ids = [message_id for _, message_id in driver.collector.emitted]
    driver.spout.ack_many(ids[:1])  # type: ignore[attr-defined]
    for message_id in ids:
        driver.fail(message_id, FAILED)
    assert given_up == [((2,), FAILED)]
    assert poll(driver, 10) == -1


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("item", "text"),
    [
        (("a",), "spout function {}() yielded ('a',) (tuple), which is not a list of rows"),
        ("abc", "spout function {}() yielded 'abc' (str), which is not a list of rows"),
        (["a"], "spout function {}() yielded ['a'] (list), which is not a list of rows"),
        ({"a"}, "spout function {}() yielded {{'a'}} (set), which is not a list of rows"),
    ],
)
async def test_an_item_that_is_no_list_of_rows_breaks_the_generator_and_says_what_to_do(item: Any, text: str, is_async: bool) -> None:
    driver = open_lists(rows(1), item, rows(2), is_async=is_async)
    with pytest.raises(GeneratorBroken) as raised:
        await driver.poll_and_wait()
    cause = raised.value.__cause__
    assert isinstance(cause, UsageError)
    assert cause.message == text.format("asynchronous" if is_async else "plain")
    assert cause.hint == "Yield a list of rows, such as [(value,), (value,)]. To yield single rows, remove burst=True."
    assert driver.collector.values == rows(1)
    assert poll(driver, 10) == -1
    await driver.close()


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_rows_before_an_invalid_one_are_emitted(is_async: bool) -> None:
    driver = open_lists([(1,), (2,), (3, 4), (5,)], is_async=is_async)
    with pytest.raises(GeneratorBroken) as raised:
        await driver.poll_and_wait()
    assert "yielded a list whose row " in raised.value.message
    assert "(3, 4): 2 values, but the stream has 1 field (number)" in raised.value.message
    assert driver.collector.values == rows(1, 2)
    await driver.close()


def test_a_row_whose_own_methods_raise_breaks_the_generator() -> None:
    class Odd(tuple[int]):
        def __len__(self) -> int:
            raise OSError("odd")

    driver = open_lists([(1,), Odd((2,))])
    assert poll(driver, 10) == 1
    with pytest.raises(GeneratorBroken, match="OSError: odd"):
        poll(driver, 10)


@pytest.mark.guarantee("ACK-13")
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_generator_that_raises_emits_its_lists_first(is_async: bool) -> None:
    driver = open_lists(rows(1, 2, 3), OSError("gone"), is_async=is_async)
    with pytest.raises(GeneratorBroken, match="gone"):
        await driver.poll_and_wait()
    assert driver.collector.values == rows(1, 2, 3)
    driver.fail(driver.collector.emitted[0][1], FAILED)
    assert [poll(driver, 10), poll(driver, 10)] == [1, -1]
    await driver.close()


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_restartable_generator_starts_again(is_async: bool) -> None:
    driver = open_lists(rows(1, 2), OSError("gone"), is_async=is_async, restartable=True)
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            await driver.poll_and_wait()
    assert driver.collector.values == rows(1, 2, 1, 2)
    await driver.close()


def test_a_generator_may_raise_spout_exhausted() -> None:
    driver = open_lists(rows(1), SpoutExhausted())
    assert [poll(driver, 10), poll(driver, 10), poll(driver, 10)] == [1, -1, -1]


def refuse(driver: Driver, wrong: Callable[[Any], BaseException | None]) -> None:
    """Let the collector raise for some values."""
    emit = driver.collector.emit

    def refusing(values: Any, message_id: object = None, stream: str = "default") -> None:
        error = wrong(values[0])
        if error is not None:
            raise error
        emit(values, message_id, stream)

    driver.collector.emit = refusing  # type: ignore[method-assign]


@pytest.mark.parametrize("bad", [{0}, {2}, {5}, {1, 2, 4}, set(range(6))])
def test_a_refused_row_is_skipped_alone(bad: set[int]) -> None:
    given_up: list[Any] = []
    driver = open_lists(rows(*range(6)), on_give_up=lambda row, failure: given_up.append(row[0]))
    refuse(driver, lambda number: UsageError("unhashable key") if number in bad else None)
    while poll(driver, 4) >= 0:
        assert len(given_up) <= len(bad)
    assert driver.collector.values == rows(*(number for number in range(6) if number not in bad))
    assert given_up == sorted(bad)
    assert len(driver.collector.errors) == len(bad)


def test_an_exception_that_is_no_exception_skips_one_row_too() -> None:
    driver = open_lists(rows(*range(6)))
    refuse(driver, lambda number: asyncio.CancelledError() if number == 2 else None)
    with pytest.raises(asyncio.CancelledError):
        poll(driver, 4)
    assert [poll(driver, 4), poll(driver, 4), poll(driver, 4)] == [1, 2, -1]
    assert driver.collector.values == rows(0, 1, 3, 4, 5)


def test_a_list_may_change_after_its_yield() -> None:
    def reuses():
        batch: list[Any] = []
        for number in range(5):
            batch.append([number])
            if len(batch) == 2:
                yield batch
                for row in batch:
                    row[0] = "changed"
                batch.clear()
        yield batch

    driver = Driver(spout("number", burst=True)(reuses).create())
    assert driver.poll_to_end() == rows(*range(5))


async def test_a_list_of_an_async_generator_may_change_after_its_yield() -> None:
    async def reuses():
        batch: list[Any] = []
        for number in range(5):
            batch.append([number])
            if len(batch) == 2:
                yield batch
                for row in batch:
                    row[0] = "changed"
                batch.clear()

    driver = Driver(spout("number", burst=True)(reuses).create())
    assert await driver.poll_and_wait() == rows(*range(4))
    await driver.close()


async def test_an_async_generator_is_read_ahead_until_enough_rows_wait() -> None:
    pulled = 0

    async def endless():
        nonlocal pulled
        while True:
            pulled += 100
            yield rows(*range(pulled - 100, pulled))

    driver = Driver(spout("number", burst=True)(endless).create())
    await driver.context.woken()
    assert pulled == 300
    while len(driver.collector.values) < 2000:
        poll(driver, 7)
        await asyncio.sleep(0)
        assert pulled - len(driver.collector.values) < BUFFER_TUPLES + 100
    assert driver.collector.values == rows(*range(len(driver.collector.values)))
    await driver.close()


async def test_an_async_generator_that_yields_empty_lists_does_not_block_the_loop() -> None:
    async def idle():
        while True:
            yield []

    driver = Driver(spout("number", burst=True)(idle).create())
    async with asyncio.timeout(60):
        for _ in range(10):
            await asyncio.sleep(0)
            assert poll(driver, 10) == 0
    await driver.close()


async def test_close_ends_the_with_blocks_of_both_kinds() -> None:
    closed: list[str] = []

    def plain():
        try:
            yield rows(1, 2)
        finally:
            closed.append("plain")

    async def asynchronous():
        try:
            yield rows(1, 2)
            await asyncio.Event().wait()
        finally:
            closed.append("async")

    for function in (plain, asynchronous):
        driver = Driver(spout("number", burst=True)(function).create())
        await asyncio.sleep(0)
        poll(driver, 1)
        await driver.close()
    assert closed == ["plain", "async"]


# Without burst


def test_a_plain_generator_is_pulled_for_all_tuples_of_a_call() -> None:
    pulled: list[int] = []

    @spout("number")
    def numbers():
        for number in range(100):
            pulled.append(number)
            yield (number,)

    driver = Driver(numbers.create())
    assert poll(driver, 70) == 70
    assert len(pulled) == 70
    assert [poll(driver, 70), poll(driver, 70)] == [30, -1]
    assert driver.collector.values == rows(*range(100))


@pytest.mark.guarantee("BP-4")
def test_a_call_ends_when_the_pulls_take_5_ms() -> None:
    now = 0.0

    @spout("number")
    def numbers():
        nonlocal now
        for number in range(100):
            now += 0.002
            yield (number,)

    driver = Driver(numbers.create())
    driver.context.clock.now = lambda: now
    assert poll(driver, 70) == 3


@pytest.mark.guarantee("ACK-13")
@pytest.mark.parametrize("wrong", [(1, 2), "abc", OSError("gone")])
def test_the_items_before_a_wrong_one_are_emitted(wrong: Any) -> None:
    @spout("number")
    def numbers():
        yield (1,)
        yield [2]
        if isinstance(wrong, OSError):
            raise wrong
        yield wrong
        yield (3,)

    driver = Driver(numbers.create())
    assert poll(driver, 70) == 2
    with pytest.raises(GeneratorBroken):
        poll(driver, 70)
    assert poll(driver, 70) == -1
    assert driver.collector.values == rows(1, 2)


def test_an_interrupt_keeps_the_items_before_it() -> None:
    @spout("number")
    def numbers():
        yield (1,)
        yield (2,)
        raise KeyboardInterrupt

    driver = Driver(numbers.create())
    with pytest.raises(KeyboardInterrupt):
        poll(driver, 70)
    assert [poll(driver, 70), poll(driver, 70)] == [2, -1]
