"""The generator of a producer is closed once on every way out, and before the next one begins."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from engine import Config
from tests.flow.flow_topologies import Numbers, Work, run_flow

pytestmark = [pytest.mark.guarantee("RUN-3"), pytest.mark.guarantee("FC-1")]
CLOSE_SECS = 5.0


class Closes(Numbers):
    """Yields numbers, of which the fifth of the first generator is broken, and writes down the life of each generator."""

    def __init__(self, log: list[str], *, breaks: bool) -> None:
        super().__init__(10**6)
        self.log = log
        self.breaks = breaks

    def item(self, number: int) -> Any:
        return "broken" if self.breaks and number == 5 and len(self.begun_behind) == 1 else (number, number)

    def records(self, after: Any) -> Iterator[Any]:
        self.begun_behind.append(after)
        mine = len(self.begun_behind)
        self.log.append(f"opened {mine}")
        try:
            for number in range((after or 0) + 1, self.count):
                yield self.item(number)
        finally:
            self.log.append(f"closed {mine}")


class ClosesLater(Closes):
    async def records(self, after: Any) -> AsyncIterator[Any]:  # type: ignore[override]
        self.begun_behind.append(after)
        mine = len(self.begun_behind)
        self.log.append(f"opened {mine}")
        try:
            for number in range((after or 0) + 1, self.count):
                await asyncio.sleep(0.01)
                yield self.item(number)
        finally:
            await asyncio.sleep(CLOSE_SECS)
            self.log.append(f"closed {mine}")


@pytest.mark.parametrize("breaks", [False, True], ids=["whole", "broken"])
@pytest.mark.parametrize("end", ["drain", "stop"])
@pytest.mark.parametrize("form", [Closes, ClosesLater])
def test_each_generator_is_closed_once(form: type[Closes], end: str, *, breaks: bool) -> None:
    log: list[str] = []

    async def during(run: Any) -> None:
        await asyncio.sleep(2 * CLOSE_SECS)
        await getattr(run, end)()

    run_flow(lambda: form(log, breaks=breaks), lambda: Work([]), config=Config(drain_timeout_secs=30), during=during)
    opened = 2 if breaks else 1
    assert log == [f"{what} {number}" for number in range(1, opened + 1) for what in ("opened", "closed")]
