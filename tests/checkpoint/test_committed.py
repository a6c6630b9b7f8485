"""`committed(position)` of a spout: news of each commit (EO-1)."""

import asyncio
from functools import partial
from typing import Any

import pytest

from engine import SpoutExhausted, Tuple
from tests.checkpoint.scenarios.kit import Numbers, PassOn, counted, once


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


@pytest.mark.guarantee("EO-1")
def test_a_spout_that_returns_the_dict_it_changes_is_told_what_is_committed() -> None:
    """Told of rows that are not committed, it might let its source forget them."""
    told: list[tuple[int, int]] = []

    class Live(Numbers):
        partitioned = True

        def seek(self, position: dict[str, int] | None) -> None:
            self.offsets = position or {"only": 0}

        def position(self) -> dict[str, int]:  # type: ignore[override]
            return self.offsets

        @property
        def next(self) -> int:  # type: ignore[override]
            return self.offsets["only"]

        @next.setter
        def next(self, number: int) -> None:
            self.offsets["only"] = number

        def committed(self, position: dict[str, int]) -> None:
            told.append((position["only"], self.next))

    class Waits(PassOn):
        async def execute(self, tup: Tuple) -> tuple[Any, ...]:  # type: ignore[override]
            await asyncio.sleep(0.3)
            return super().execute(tup)

    assert counted(partial(Live, 40, pace_secs=0.1), Waits) == once(40)
    assert told[-1] == (40, 40)
    assert all(committed < emitted for committed, emitted in told[:-1])
