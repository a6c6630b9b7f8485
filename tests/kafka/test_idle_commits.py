"""Commits that brokers would forget while a partition is idle (KS-2). Fake clients, and one broker that forgets after a minute."""

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Final

import pytest

from engine.clock import Clock
from engine.kafka.client.partition import CommittedOffset, PartitionId
from engine.kafka.source.commit_loop import CommitLoop
from engine.kafka.source.group_commits import GroupCommits
from engine.kafka.source.offset_manager import Commit, OffsetManager
from engine.kafka.source.partitions import Partitions
from engine.kernel import mark_done
from engine.testing import run_virtual
from tests.kafka.play import Notes, all_of, gauges, playing, produce, settings
from tests.servers.kafka_admin import create_topic
from tests.servers.kafka_fixtures import NewBroker

pytestmark = pytest.mark.guarantee("KS-2")

HERE: Final = PartitionId("words", 0)
RETENTION_SECS: Final = 60
CHECK_SECS: Final = 3


class Link:
    """Fake link that keeps its commits with their times."""

    def __init__(self) -> None:
        self.commits: list[tuple[float, int, str]] = []

    async def commit(self, commits: Mapping[PartitionId, Commit | CommittedOffset], membership: object) -> None:
        now = asyncio.get_running_loop().time()
        self.commits += [(now, one.offset, one.metadata) for one in commits.values()]

    def exists(self, partition: PartitionId) -> bool:
        return partition.topic == "words"

    def resume(self, partitions: object) -> None:
        """Do nothing."""


async def idle_commits(hours: float, manager: OffsetManager, **changes: Any) -> list[tuple[float, int, str]]:
    """Return the commits of a spout with one partition, which gets no records for this time."""
    now, link, partitions = asyncio.get_running_loop().time, Link(), Partitions()
    partitions.assign((HERE,), None)
    partitions.open_partition(manager)
    context: Any = SimpleNamespace(topology_name="play", clock=Clock(now), counter=lambda name: SimpleNamespace(add=lambda count: None))
    config = settings("h:1", "words", **{"membership": "assign", "offset_commit_period_ms": 30_000, **changes})
    loop = CommitLoop(config, context, partitions, lambda error: None)
    try:
        async with asyncio.timeout(hours * 3600 + 1):
            await loop.commit_periodically(link)  # type: ignore[arg-type]
    except TimeoutError:
        return link.commits
    raise AssertionError("the commits ended")


def acked_up_to(end: int) -> OffsetManager:
    """Return a window whose records below this offset are done."""
    manager = OffsetManager(HERE, 0, limit=100)
    manager.feed([SimpleNamespace(offset=offset) for offset in range(end)])
    for entry in iter(manager.take, None):
        mark_done(entry)
    return manager


def test_an_idle_partition_is_committed_again_every_ten_minutes() -> None:
    commits = run_virtual(lambda: idle_commits(1, acked_up_to(5)))
    assert [offset for _, offset, _ in commits] == [5] * 7
    assert len({metadata for *_, metadata in commits}) == 1
    assert all(600 <= later - earlier <= 630 for (earlier, *_), (later, *_) in pairwise(commits[1:]))


def test_a_repeated_commit_keeps_the_metadata_of_another_program() -> None:
    manager = OffsetManager(HERE, 7, limit=100, committed=7)
    manager.foreign_metadata = "a text of another program"
    commits = run_virtual(lambda: idle_commits(1, manager))
    assert {(offset, metadata) for _, offset, metadata in commits} == {(7, "a text of another program")}
    assert manager.metadata is None


def test_a_member_of_a_group_repeats_no_commit() -> None:
    """Brokers keep the commits of a group that has members."""
    assert len(run_virtual(lambda: idle_commits(1, acked_up_to(5), membership="group"))) == 1


def test_at_most_once_repeats_the_commit_of_records_that_wait() -> None:
    """Given five records that are committed and not emitted yet, then no repeated commit is lower."""
    manager = OffsetManager(HERE, 0, limit=100)
    manager.note_committed(manager.commit_ahead("play", 5, 5))
    manager.feed([SimpleNamespace(offset=offset) for offset in range(5)])
    commits = run_virtual(lambda: idle_commits(1, manager, guarantee="at_most_once"))
    assert [offset for _, offset, _ in commits] == [5] * 6


@pytest.mark.guarantee("TX-10")
def test_the_group_of_an_idle_transactional_spout_is_committed_again() -> None:
    async def commits() -> list[int]:
        link = Link()
        group = GroupCommits(link, "g", "stormcell:3:words:", lambda error: None)  # type: ignore[arg-type]
        group.schedule({HERE: 5})
        task = asyncio.ensure_future(group.commit_when_due())
        await asyncio.sleep(1900)
        task.cancel()
        return [offset for _, offset, _ in link.commits]

    assert run_virtual(commits) == [5] * 4


@pytest.mark.guarantee("TX-10")
def test_an_idle_partition_of_a_busy_transactional_spout_is_committed_again() -> None:
    """Given one partition without records and one with, then the commits of both are repeated; those of deleted topics are not."""
    busy, gone = PartitionId("words", 1), PartitionId("deleted", 0)

    async def commits() -> list[int]:
        link = Link()
        group = GroupCommits(link, "g", "stormcell:3:words:", lambda error: None)  # type: ignore[arg-type]
        group.schedule({HERE: 5, gone: 7})
        task = asyncio.ensure_future(group.commit_when_due())
        for offset in range(100, 290):
            group.schedule({busy: offset, gone: 7})
            await asyncio.sleep(10)
        task.cancel()
        return [offset for _, offset, _ in link.commits if offset < 100]

    assert run_virtual(commits) == [5] * 4


@pytest.mark.deep
async def test_an_idle_partition_loses_nothing_to_the_retention_of_offsets(new_broker: NewBroker) -> None:
    """Given a partition that is idle for longer than the brokers keep commits, then records of the time without a process are read."""
    broker = new_broker(settings={"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": CHECK_SECS * 1000})
    kafka, topic = broker.bootstrap, await create_topic(broker.bootstrap, "in", 1)
    how: dict[str, Any] = {"membership": "assign", "start": "uncommitted_latest", "offset_commit_period_ms": 500, "group": "g"}
    notes = Notes()
    async with playing(settings(kafka, topic, **how), notes) as run:
        await notes.until(lambda: gauges(run, "kafka_position") == {"0": 0})
        await produce(kafka, topic, range(5))
        await notes.until(lambda: len(notes.got) == 5)
        await asyncio.sleep(RETENTION_SECS + 2 * CHECK_SECS)
        await run.drain()
    await produce(kafka, topic, range(5, 15))
    assert await all_of(settings(kafka, topic, **how)) == list(range(5, 15))
