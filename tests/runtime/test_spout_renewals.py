"""A spout whose every call raises is renewed (SV-1)."""

import asyncio
from typing import Any

import pytest

from engine import Fields, Spout
from engine.api import SpoutExhausted
from tests.runtime.stage import Numbers, Sink, chain, play_run

pytestmark = pytest.mark.guarantee("SV-1")


@pytest.mark.parametrize("method", ["next_tuple", "async next_tuple"])
def test_a_spout_that_raises_a_hundred_times_in_a_row_is_renewed(method: str) -> None:
    made: list[Any] = []
    raised: list[int] = []

    class Raises(Spout):
        output_fields = Fields("number")

        def open(self) -> None:
            made.append(self)

        def next_tuple(self) -> None:
            if len(made) == 1:
                raised.append(1)
                raise OSError("broken pipe")
            self.collector.emit((1,), 1)
            raise SpoutExhausted

        def close(self) -> None:
            self.closed = True

    class AsyncRaises(Raises):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            Raises.next_tuple(self)

    run = play_run(chain(AsyncRaises if "async" in method else Raises, Sink))
    assert run.state == "complete"
    assert (len(made), len(raised)) == (2, 100)
    assert all(hasattr(each, "closed") for each in made)
    assert run.snapshot().components["source"].restarts == 1


def test_an_emit_before_the_exception_counts_as_a_success() -> None:
    made: list[Any] = []

    class EmitsAndRaises(Numbers):
        def open(self) -> None:
            super().open()
            made.append(self)

        def next_tuple(self) -> None:
            super().next_tuple()
            raise OSError("after the emit")

    spout = EmitsAndRaises(300)
    run = play_run(chain(lambda: spout, Sink))
    assert run.state == "complete"
    assert len(made) == 1
    assert sorted(spout.acked) == list(range(300))
