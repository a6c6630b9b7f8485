"""Events between two steps of the consumer loop, with a fake client."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any, Final

import pytest
from aiokafka import TopicPartition, errors

from engine.clock import Clock
from engine.kafka.client.consumer_link import ConsumerLink
from engine.kafka.client.partition import Membership, PartitionId
from engine.kafka.source import consumer_loop as module
from engine.kafka.source import start_positions
from engine.kafka.source.consumer_loop import ConsumerLoop
from engine.kafka.source.offset_manager import Commit, OffsetManager
from engine.kafka.source.partitions import Partitions
from tests.kafka.play import settings

HERE: Final = PartitionId("words", 0)
US: Final = Membership(7, "us")


class Client:
    """Fake link. Has the given partitions, and records its calls."""

    def __init__(self) -> None:
        self.membership = US
        self.assigned: set[PartitionId] = {HERE}
        self.paused: set[PartitionId] = set()
        self.commits: list[int] = []
        self.polling: Callable[[], Awaitable[Any]] | None = None

    def is_assigned(self, partition: PartitionId) -> bool:
        return partition in self.assigned

    def pause(self, partitions: Collection[PartitionId]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Collection[PartitionId]) -> None:
        self.paused -= set(partitions)

    async def poll(self, timeout_secs: float, most_records: int) -> Any:
        assert self.polling is not None
        return await self.polling()

    async def commit(self, commits: Mapping[PartitionId, Commit], membership: Membership | None) -> None:
        self.commits += [one.offset for one in commits.values()]


class Played:
    """A consumer loop with one partition of ten waiting records, and its fake client."""

    def __init__(self, **changes: Any) -> None:
        self.client: Any = Client()
        self.partitions = Partitions()
        self.partitions.assign((), US)
        self.manager = OffsetManager(HERE, 0, limit=100)
        self.manager.feed([SimpleNamespace(offset=offset) for offset in range(10)])
        self.partitions.open_partition(self.manager)
        counter: Any = SimpleNamespace(add=lambda count: None)
        names = {"topology_name": "play", "component_id": "kafka"}
        context: Any = SimpleNamespace(**names, clock=Clock(lambda: 0.0), task_index=0, tasks=1, counter=lambda name: counter)
        host: Any = SimpleNamespace(report=lambda error: None, wake=lambda: None, forget_partitions=lambda managers: None)
        self.consuming: Any = ConsumerLoop(settings("h:1", "words", **changes), context, "us", self.partitions, host)
        self.consuming._link = self.client


@pytest.mark.guarantee("KS-1")
async def test_a_deactivation_does_not_lower_commits_of_waiting_records() -> None:
    """At most once: ten records are committed and wait. A lower commit would repeat them after a crash."""
    played = Played(guarantee="at_most_once")
    played.partitions.note_committed({HERE: played.manager.commit_ahead("play", 10, 0)})
    await played.consuming.commit()
    assert played.client.commits == []


@pytest.mark.guarantee("KS-6")
async def test_a_failed_sign_of_life_leaves_no_partition_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that is being opened makes any poll fail. Paused partitions must continue all the same."""
    monkeypatch.setattr(module, "_IDLE_POLL_SECS", 0.001)
    played = Played(max_poll_records=5)

    async def failing() -> Any:
        assert played.client.paused == {HERE}
        raise errors.NoOffsetForPartitionError

    played.client.polling = failing
    with pytest.raises(errors.NoOffsetForPartitionError):
        await played.consuming._wait_for_room(played.client)
    assert played.client.paused == set()


@pytest.mark.guarantee("KS-6")
async def test_unassigned_partitions_are_neither_paused_nor_resumed() -> None:
    """The client has a new assignment or subscription some steps before the spout."""

    async def revoked() -> None:
        raise AssertionError

    link = ConsumerLink(settings("h:1", "words"), "us", None, revoked, lambda assigned, membership: None)
    state, there = link._consumer._subscription, PartitionId("words", 1)
    state.subscribe({"words"})
    link.pause([HERE, there])  # nothing is assigned yet
    state.assign_from_subscribed([TopicPartition("words", 1)])
    link.pause([HERE, there])
    assert state.paused_partitions() == {there}
    link.resume([HERE, there])
    assert state.paused_partitions() == set()
    await link.stop()


@pytest.mark.guarantee("KS-5")
async def test_an_error_of_an_old_position_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client starts at the commit before the spout seeks, and keeps the resulting error until the next poll."""

    async def no_find(*arguments: Any) -> Any:
        assert not arguments[3]
        return {}

    monkeypatch.setattr(start_positions, "find_start_positions", no_find)
    played = Played(start="latest", out_of_range="earliest")
    await played.consuming._reset(played.client, errors.OffsetOutOfRangeError({TopicPartition("words", 0): 7}))
    assert played.partitions.owned == {HERE: played.manager}
    assert not played.manager.closed
