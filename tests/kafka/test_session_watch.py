"""A process that slept beyond its session asks the group before it emits."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, cast

import pytest

from engine.clock import Clock
from engine.kafka.client.partition import Membership
from engine.kafka.source.partitions import Partitions
from engine.kafka.source.session_watch import SessionWatch
from tests.patience import PATIENCE_SECS

MOST_SECS: Final = 5.0
PERIOD_SECS: Final = 0.001
US: Final = Membership(7, "us")


class Group:
    """Fake client with the calls of a watch."""

    def __init__(self) -> None:
        self.membership = US
        self.asked = 0
        self.answers: asyncio.Queue[bool] = asyncio.Queue()

    async def is_member(self) -> bool:
        self.asked += 1
        return await self.answers.get()


class Watched:
    """A watch, its fake group, and its clock."""

    def __init__(self) -> None:
        self.secs = 0.0
        self.looks = 0
        self.group = cast(Any, Group())
        self.partitions = Partitions()
        self.partitions.assign((), US)
        self.watch = SessionWatch(self.group, self.partitions, Clock(self._now), most_secs=MOST_SECS, period_secs=PERIOD_SECS)

    def _now(self) -> float:
        self.looks += 1
        return self.secs

    async def looked(self, times: int = 2) -> None:
        """Wait until the watch has checked so many more times."""
        goal = self.looks + times
        await self.until(lambda: self.looks >= goal)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_SECS):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(PERIOD_SECS)


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    found = Watched()
    yield found
    found.watch.stop()


@pytest.mark.guarantee("KS-6")
async def test_after_a_sleep_beyond_the_session_nothing_is_emitted_before_a_heartbeat(watched: Watched) -> None:
    watched.secs += MOST_SECS + 0.1
    await watched.until(lambda: watched.group.asked)
    assert watched.partitions.suspended

    watched.group.answers.put_nowait(True)
    await watched.until(lambda: not watched.partitions.suspended)


async def test_a_shorter_sleep_is_ignored(watched: Watched) -> None:
    watched.secs += MOST_SECS
    await watched.looked()

    assert not watched.partitions.suspended
    assert watched.group.asked == 0


async def test_a_broker_that_does_not_answer_is_asked_again(watched: Watched) -> None:
    watched.secs += MOST_SECS + 0.1
    watched.group.answers.put_nowait(False)
    watched.group.answers.put_nowait(True)
    await watched.until(lambda: not watched.partitions.suspended and watched.group.asked)

    assert watched.group.asked == 2


@pytest.mark.guarantee("KS-6")
async def test_a_lost_member_continues_with_the_next_assignment(watched: Watched) -> None:
    watched.secs += MOST_SECS + 0.1
    await watched.until(lambda: watched.group.asked)
    watched.group.membership = Membership(-1, "")
    watched.group.answers.put_nowait(False)
    await watched.looked()
    assert watched.partitions.suspended

    watched.partitions.assign((), Membership(9, "us again"))
    assert not watched.partitions.suspended


@pytest.mark.guarantee("KS-6")
async def test_a_revoke_during_the_heartbeat_is_kept(watched: Watched) -> None:
    watched.secs += MOST_SECS + 0.1
    await watched.until(lambda: watched.group.asked)
    watched.partitions.suspend()
    watched.group.answers.put_nowait(True)
    await watched.looked()

    assert watched.partitions.suspended
