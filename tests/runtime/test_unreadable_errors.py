"""Errors whose text raises: no run hangs, and no source ends early (SV-1, ACK-13)."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from engine import ComponentError, CustomGrouping, Failure, Inlet, TopologyBuilder, TupleFailed, spout
from tests.patience import PATIENCE_SECS
from tests.runtime.stage import Sink, play, running


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Refuses(CustomGrouping):
    """Raises for 1."""

    def prepare(self, context: Any, stream: str, targets: Sequence[int]) -> None:
        self.targets = targets

    def choose_tasks(self, source_task: int, values: Any) -> Sequence[int]:
        if values[0] == 1:
            raise Unreadable
        return self.targets


def grouped(source: Any) -> Any:
    builder = TopologyBuilder("grouped")
    builder.set_spout("source", source)
    builder.set_bolt("sink", Sink).custom_grouping("source", Refuses())
    return builder.build()


@pytest.mark.guarantee("ACK-16")
def test_a_send_that_cannot_be_emitted_fails_at_once() -> None:
    async def main() -> None:
        async with running(grouped(lambda: Inlet("number"))) as run:
            with pytest.raises(TupleFailed, match="Unreadable: its text cannot be shown, RuntimeError"):
                await asyncio.wait_for(run.inlet("source").send((1,)), PATIENCE_SECS)
            await run.inlet("source").send((2,))

    play(main)


@pytest.mark.guarantee("ACK-13")
def test_a_row_that_cannot_be_emitted_is_given_up() -> None:
    given_up: list[tuple[Any, Failure]] = []

    @spout("number", on_give_up=lambda row, failure: given_up.append((row, failure)))
    def numbers() -> Iterator[Any]:
        yield (1,)
        yield (2,)

    async def main() -> None:
        async with running(grouped(numbers)) as run:
            await run.completed()

    play(main)
    [(row, failure)] = given_up
    assert (row, failure.error) == ((1,), "Unreadable: its text cannot be shown, RuntimeError")


@pytest.mark.guarantee("ACK-13")
@pytest.mark.parametrize("is_async", [False, True])
def test_a_generator_that_raises_an_unreadable_error_ends_the_run_with_an_error(is_async: bool) -> None:
    @spout("number")
    def plain() -> Iterator[Any]:
        yield (2,)
        raise Unreadable

    @spout("number")
    async def later() -> AsyncIterator[Any]:
        yield (2,)
        raise Unreadable

    async def main() -> None:
        async with running(grouped(later if is_async else plain)) as run:
            await run.completed()

    with pytest.raises(ComponentError, match="cannot go on: Unreadable: its text cannot be shown"):
        play(main)
