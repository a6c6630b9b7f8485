"""`committed(position)` of a spout: news of each commit (EO-1)."""

import asyncio
from functools import partial
from typing import Any

import pytest

from engine import SpoutExhausted
from tests.checkpoint.scenarios.kit import Numbers, counted, once


@pytest.mark.guarantee("EO-1")
def test_a_committed_that_hangs_is_cancelled_and_the_spout_goes_on() -> None:
    class Hangs(Numbers):
        async def committed(self, position: Any) -> None:
            await asyncio.Event().wait()

    assert counted(partial(Hangs, 40)) == once(40)


@pytest.mark.guarantee("EO-1")
def test_a_position_that_moves_without_an_emit_is_committed() -> None:
    """Given a spout that passes rows which it does not emit, then another start does not read them again."""
    told: list[int] = []

    class Skips(Numbers):
        def next_tuple(self) -> None:
            if self.next >= 20:
                self.next = min(self.next + 1, 400)
                if self.next == 400:
                    raise SpoutExhausted
                return
            super().next_tuple()

        def committed(self, position: int) -> None:
            told.append(position)

    counted(partial(Skips, 500))
    assert told[-1] == 400
