"""What a spout has given up stays undone when its instance is replaced (RUN-4)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engine import Bolt, FailTuple, Run, Tuple, spout
from engine.errors import Failure
from engine.undone import Undone
from tests.runtime.stage import chain, play, running

pytestmark = pytest.mark.guarantee("RUN-4")


class FailsOdd(Bolt):
    def execute(self, tup: Tuple) -> None:
        if tup["n"] % 2:
            raise FailTuple("odd")
        self.collector.ack(tup)


def numbers(**options: Any) -> Any:
    """Return a `@spout` of 0 to 3, one per second. A fresh instance goes on where the last one was, as a queue does."""
    left = list(range(4))

    @spout("n", max_retries=0, **options)
    async def source() -> Any:
        while left:
            yield (left.pop(0),)
            await asyncio.sleep(1)

    return source


def undone_after(end: Callable[[Run], None], **options: Any) -> Undone:
    """Run the numbers, end the first instance after two of them, and return what the run left undone."""

    async def main() -> Undone:
        async with running(chain(numbers(**options), FailsOdd)) as run:
            await asyncio.sleep(1.5)
            end(run)
            await run.completed()
            found = run.snapshot().undone
            assert found is not None
            return found

    return play(main)


@pytest.mark.parametrize("end", [lambda run: run.restart_task(1), lambda run: run.kill_task(1)], ids=["restart", "death"])
def test_rows_that_an_earlier_instance_gave_up_are_counted(end: Callable[[Run], None]) -> None:
    assert undone_after(end) == Undone(failed=2)


def test_rows_that_on_give_up_took_are_not() -> None:
    rows: list[Any] = []

    def give_up(row: Any, failure: Failure) -> None:
        rows.append(row)

    assert undone_after(lambda run: run.restart_task(1), on_give_up=give_up) == Undone()
    assert rows == [(1,), (3,)]
