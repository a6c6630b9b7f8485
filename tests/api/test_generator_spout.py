"""`@spout`: generators as sources."""

import asyncio

import pytest

from engine.api import Fields, GeneratorBroken, SpoutExhausted, spout
from engine.api.async_generator_spout import BUFFER_TUPLES
from engine.errors import EngineError, Failure, UsageError
from tests.api.fakes import Driver

TIMED_OUT = Failure("timeout", "count", 7)


@spout("number")
def numbers(limit: int, start: int = 0):
    for number in range(start, limit):
        yield (number,)


@spout("number")
def three():
    yield from ((number,) for number in range(3))


@spout("number")
async def async_numbers(limit: int):
    for number in range(limit):
        await asyncio.sleep(0)
        yield (number,)


def open_spout(source) -> Driver:
    return Driver(source.create())


def test_a_generator_is_pulled_once_per_poll_until_it_ends() -> None:
    driver = open_spout(numbers(3))
    assert driver.poll()
    assert driver.collector.values == [(0,)]
    assert driver.poll_to_end() == [(0,), (1,), (2,)]
    assert not driver.poll()


def test_every_tuple_has_its_own_message_id() -> None:
    driver = open_spout(numbers(3))
    driver.poll_to_end()
    ids = [message_id for _, message_id in driver.collector.emitted]
    assert None not in ids
    assert len(set(ids)) == 3


def test_arguments_are_bound_by_a_call_and_each_task_calls_the_function_itself() -> None:
    bound = numbers(4, start=2)
    first, second = open_spout(bound), open_spout(bound)
    assert first.poll_to_end() == [(2,), (3,)]
    assert second.poll_to_end() == [(2,), (3,)]


def test_a_function_without_parameters_is_a_factory_with_and_without_a_call() -> None:
    assert open_spout(three).poll_to_end() == open_spout(three()).poll_to_end() == [(0,), (1,), (2,)]


def test_the_error_for_missing_arguments_names_them() -> None:
    with pytest.raises(UsageError) as raised:
        numbers.create()
    assert str(raised.value) == (
        "spout function numbers() needs arguments: limit\nFix: Call it in set_spout(), with values: set_spout(..., numbers(limit))."
    )


def test_arguments_cannot_be_bound_twice() -> None:
    with pytest.raises(UsageError, match="has its arguments already"):
        numbers(3)(4)


def test_the_function_itself_is_available() -> None:
    assert list(numbers.function(2)) == [(0,), (1,)]
    assert numbers.output_fields == Fields("number")


def test_a_failed_tuple_is_emitted_again_before_new_ones() -> None:
    driver = open_spout(numbers(3))
    driver.poll()
    driver.poll()
    first_id = driver.collector.emitted[0][1]
    driver.fail(first_id, TIMED_OUT)
    driver.poll()
    assert driver.collector.values == [(0,), (1,), (0,)]
    assert driver.collector.emitted[2][1] == first_id


def test_a_fail_after_the_end_is_emitted_again() -> None:
    driver = open_spout(numbers(1))
    driver.poll_to_end()
    driver.fail(driver.collector.emitted[0][1], TIMED_OUT)
    assert driver.poll_to_end() == [(0,), (0,)]


def test_a_tuple_that_fails_too_often_is_given_up_with_its_last_failure() -> None:
    given_up = []

    @spout("number", max_retries=2, on_give_up=lambda values, failure: given_up.append((values, failure)))
    def one():
        yield (1,)

    driver = open_spout(one)
    for _ in range(3):
        driver.poll_to_end()
        driver.fail(driver.collector.emitted[-1][1], TIMED_OUT)
    assert driver.poll_to_end() == [(1,)] * 3
    assert given_up == [((1,), TIMED_OUT)]
    assert driver.collector.errors == []


def test_a_given_up_tuple_is_reported_by_default() -> None:
    @spout("number", max_retries=0)
    def one():
        yield (1,)

    driver = open_spout(one)
    driver.poll_to_end()
    driver.fail(driver.collector.emitted[0][1], TIMED_OUT)
    (error,) = driver.collector.errors
    assert isinstance(error, EngineError)
    assert error.message == "spout function one() gave up (1,) after 1 emit: timed out; 'count' (task 7) still owes an ack"
    assert driver.poll_to_end() == [(1,)]


def test_retries_can_be_unlimited() -> None:
    @spout("number", max_retries=None)
    def one():
        yield (1,)

    driver = open_spout(one)
    for _ in range(50):
        driver.poll_to_end()
        driver.fail(driver.collector.emitted[-1][1], TIMED_OUT)
    assert len(driver.poll_to_end()) == 51


def test_an_acked_tuple_is_forgotten() -> None:
    driver = open_spout(numbers(1))
    driver.poll_to_end()
    message_id = driver.collector.emitted[0][1]
    driver.spout.ack(message_id)
    driver.fail(message_id, TIMED_OUT)
    assert driver.poll_to_end() == [(0,)]


def test_an_on_give_up_that_raises_is_reported_and_the_source_continues() -> None:
    def broken(values, failure):
        raise OSError("no dead letters today")

    @spout("number", max_retries=0, on_give_up=broken)
    def two():
        yield (1,)
        yield (2,)

    driver = open_spout(two)
    driver.poll()
    driver.fail(driver.collector.emitted[0][1], TIMED_OUT)
    assert isinstance(driver.collector.errors[0], OSError)
    assert driver.poll_to_end() == [(1,), (2,)]


@pytest.mark.guarantee("ACK-13")
def test_a_broken_generator_is_reported_once_and_still_replays_failed_tuples() -> None:
    @spout("number")
    def breaking():
        yield (1,)
        raise OSError("file vanished")

    driver = open_spout(breaking)
    driver.poll()
    with pytest.raises(GeneratorBroken) as raised:
        driver.poll()
    assert raised.value.message == "spout function breaking() cannot go on: OSError: file vanished"
    assert isinstance(raised.value.__cause__, OSError)
    driver.fail(driver.collector.emitted[0][1], TIMED_OUT)
    assert driver.poll_to_end() == [(1,), (1,)]


@pytest.mark.guarantee("ACK-13")
def test_a_restartable_generator_raises_its_own_error_and_starts_again() -> None:
    @spout("number", restartable=True)
    def breaking():
        yield (1,)
        raise OSError("file vanished")

    driver = open_spout(breaking)
    driver.poll()
    with pytest.raises(OSError, match="file vanished"):
        driver.poll()
    driver.poll()
    assert driver.collector.values == [(1,), (1,)]


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (
            "abc",
            "spout function wrong() yielded 'abc' (str), which is not a tuple of values\n"
            "Fix: Write ('abc',). A single value needs a tuple too.",
        ),
        (
            (1, 2),
            "spout function wrong() yielded (1, 2): 2 values, but the stream has 1 field (number)\n"
            "Fix: Emit one value for each field, or change output_fields.",
        ),
    ],
)
def test_a_wrong_item_breaks_the_source_and_names_the_function(item, text) -> None:
    @spout("number")
    def wrong():
        yield item

    driver = open_spout(wrong)
    with pytest.raises(GeneratorBroken) as raised:
        driver.poll()
    assert isinstance(raised.value.__cause__, UsageError)
    assert str(raised.value.__cause__) == text
    assert not driver.poll()


def test_a_list_is_accepted_as_values() -> None:
    @spout("a", "b")
    def listed():
        yield [1, 2]

    assert open_spout(listed).poll_to_end() == [(1, 2)]


def test_a_refused_emit_fails_only_its_row() -> None:
    given_up = []

    @spout("number", on_give_up=lambda values, failure: given_up.append((values, failure.reason, failure.error)))
    def counting():
        yield from ((number,) for number in range(3))

    driver = open_spout(counting)
    refused = driver.collector.refuses = UsageError("unhashable key")
    driver.poll()
    driver.collector.refuses = None

    assert given_up == [((0,), "error", "UsageError: unhashable key")]
    assert driver.collector.errors == [refused]
    assert driver.poll_to_end() == [(1,), (2,)]


def test_a_generator_may_raise_spout_exhausted() -> None:
    @spout("number")
    def ending():
        yield (1,)
        raise SpoutExhausted

    assert open_spout(ending).poll_to_end() == [(1,)]


async def test_an_async_generator_may_raise_spout_exhausted() -> None:
    @spout("number")
    async def ending():
        yield (1,)
        raise SpoutExhausted

    driver = open_spout(ending)
    assert await driver.poll_and_wait() == [(1,)]
    await driver.close()


async def test_close_ends_the_with_blocks_of_a_generator() -> None:
    closed = []

    @spout("number")
    def guarded():
        try:
            yield (1,)
            yield (2,)
        finally:
            closed.append(True)

    driver = open_spout(guarded)
    driver.poll()
    await driver.close()
    assert closed == [True]


async def test_an_async_generator_is_pulled_in_the_background() -> None:
    driver = open_spout(async_numbers(5))
    assert driver.poll(), "nothing has come yet, and it does not wait"
    assert driver.collector.values == []
    assert await driver.poll_and_wait() == [(number,) for number in range(5)]
    await driver.close()


async def test_an_async_generator_is_pulled_only_as_far_as_the_buffer_reaches() -> None:
    pulled = []

    @spout("number")
    async def endless():
        number = 0
        while True:
            pulled.append(number)
            yield (number,)
            number += 1

    driver = open_spout(endless)
    await driver.context.woken()
    assert len(pulled) == BUFFER_TUPLES
    while driver.poll() and len(driver.collector.values) < 4 * BUFFER_TUPLES:
        await asyncio.sleep(0)
        assert len(pulled) - len(driver.collector.values) <= BUFFER_TUPLES
    assert driver.collector.values == [(number,) for number in range(4 * BUFFER_TUPLES)]
    await driver.close()


@pytest.mark.guarantee("ACK-13")
async def test_an_async_generator_that_raises_emits_its_yields_and_then_breaks() -> None:
    @spout("number")
    async def breaking():
        yield (1,)
        yield (2,)
        raise OSError("connection lost")

    driver = open_spout(breaking)
    with pytest.raises(GeneratorBroken, match="connection lost"):
        await driver.poll_and_wait()
    assert driver.collector.values == [(1,), (2,)]
    assert not driver.poll()
    await driver.close()


async def test_a_restartable_async_generator_starts_again() -> None:
    runs = []

    @spout("number", restartable=True)
    async def flaky():
        runs.append(len(runs))
        yield (len(runs),)
        if len(runs) == 1:
            raise OSError("connection lost")

    driver = open_spout(flaky)
    with pytest.raises(OSError, match="connection lost"):
        await driver.poll_and_wait()
    assert await driver.poll_and_wait() == [(1,), (2,)]
    await driver.close()


async def test_close_ends_the_with_blocks_of_an_async_generator() -> None:
    closed = []

    @spout("number")
    async def guarded():
        try:
            yield (1,)
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    driver = open_spout(guarded)
    await driver.context.woken()
    await driver.close()
    assert closed == [True]


@pytest.mark.parametrize(
    ("decorate", "text"),
    [
        (lambda: spout(), "@spout() names no fields"),
        (lambda: spout(three.function), "@spout above three() names no fields"),
        (lambda: spout("a", "a"), "@spout: field 'a' occurs twice in Fields('a', 'a')"),
        (lambda: spout("a", max_retries=-1), "@spout: max_retries must be an integer of at least 0, or None, not -1"),
        (lambda: spout("a", on_give_up=3), "@spout: on_give_up must be a plain function of two arguments"),
        (lambda: spout("a")(len), "@spout needs a generator function, but len is not one"),
    ],
)
def test_wrong_uses_of_the_decorator_are_refused(decorate, text) -> None:
    with pytest.raises(UsageError) as raised:
        decorate()
    assert raised.value.message == text
    assert raised.value.hint
