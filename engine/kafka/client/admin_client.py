"""`AdminClient` reads topics and groups for tools and committers. `AdminClient` also commits offsets for groups without members."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from aiokafka import AIOKafkaConsumer, TopicPartition, errors
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest

from engine.config import setting
from engine.config.validated import validated
from engine.errors import FatalError, UsageError
from engine.kafka.client.connect import find_real_error
from engine.kafka.client.connection import PLAINTEXT, REFUSED_EVERYWHERE, Brokers, KafkaSecurity, connection_faults
from engine.kafka.client.errors import UnstableOffsetError, describe_error, fatal_error, is_transient
from engine.kafka.client.partition import CommittedOffset, PartitionId
from engine.kafka.client.stable_offsets import StableOffsetFetch, read_stable_offsets
from engine.kafka.client.topic_lookup import prepare_client
from engine.names import did_you_mean, nearest

MOST_METADATA_BYTES: Final = 4096
"""Limit of the metadata of a committed offset, by a broker's default."""
_PAUSE_SECS: Final = 0.1
_MOST_NAMED: Final = 20
_SOME_NAMED: Final = 5
_NO_GENERATION: Final = -1
_NO_RETENTION: Final = -1

Offsets = Mapping[PartitionId, int]


@validated
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Settings with which a tool connects to a cluster."""

    brokers: Brokers
    security: KafkaSecurity = PLAINTEXT
    client: Mapping[str, Any] = field(default_factory=dict)
    client_id: str | None = setting("stormcell-tools", help="Name of this client in the brokers' logs and quotas.")
    request_timeout_ms: int = setting(10_000, minimum=100, help="Milliseconds until a request without an answer fails.")

    def _faults(self) -> Iterator[str]:
        yield from connection_faults(self, REFUSED_EVERYWHERE)

    def client_options(self) -> dict[str, Any]:
        """Return the options of aiokafka's clients. Raise FatalError for unusable certificates."""
        try:
            of_security = self.security.client_options()
        except OSError as error:  # ssl.SSLError is a subclass
            raise FatalError(f"the certificates cannot be used: {error}", hint="Check cafile, certfile and keyfile.") from error
        return {
            "bootstrap_servers": ",".join(self.brokers),
            "client_id": self.client_id,
            "request_timeout_ms": self.request_timeout_ms,
            **of_security,
            **self.client,
        }


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group, and its assigned partitions."""

    member_id: str
    client_id: str
    host: str
    partitions: tuple[PartitionId, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group, as its coordinator describes it."""

    name: str
    state: str
    """Stable, Empty, PreparingRebalance or CompletingRebalance. Dead if the group does not exist, or uses another protocol."""
    members: tuple[Member, ...] = ()


@contextmanager
def translate_errors(config: ClusterConfig, doing: str) -> Iterator[None]:
    """Translate aiokafka's errors into a FatalError with a hint. doing: the operation, such as "reading topic 'a'"."""
    try:
        yield
    except UnstableOffsetError:
        raise  # not translated, because a broker did answer and the error has its own hint
    except (errors.KafkaError, OSError) as error:
        if not is_transient(error):
            raise fatal_error(error, doing) from error
        text = f"Kafka at {','.join(config.brokers)} does not answer ({doing}): {describe_error(error)}"
        hint = "Check the address and whether the brokers run."
        if isinstance(error, errors.NodeNotReadyError):
            hint = "Set the broker's advertised.listeners to an address that this machine can reach, or check whether it runs."
        raise FatalError(text, hint=f"{hint} Then repeat the command.") from error


@asynccontextmanager
async def connected(config: ClusterConfig) -> AsyncIterator["AdminClient"]:
    """Yield a connected client, and disconnect it at the end of the block. Raise FatalError if the cluster cannot be reached."""
    admin = AdminClient(config)
    try:
        await admin.start()
        yield admin
    finally:
        await admin.stop()


def make_consumer(**options: Any) -> AIOKafkaConsumer:
    """Return a consumer that creates no topics, with aiokafka's options. End it with `stop_consumer`."""
    consumer = AIOKafkaConsumer(**options)
    prepare_client(consumer._client)
    return consumer


async def stop_consumer(consumer: AIOKafkaConsumer) -> None:
    """Stop a consumer.

    A consumer that has just started, or pauses after an error, raises CancelledError here. This error must not cancel the caller.
    """
    stopping = asyncio.ensure_future(consumer.stop())
    await asyncio.wait([stopping])
    if stopping.cancelled() or stopping.exception() is not None:
        await consumer._client.close()  # the failed stop left the client open
    if not stopping.cancelled():
        stopping.result()


class AdminClient:
    """Reads the state of one cluster, and commits offsets for groups without members. Raises FatalError. Never creates topics."""

    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
        self._options = config.client_options()
        self._admin = AIOKafkaAdminClient(**self._options)
        self._consumer = AIOKafkaConsumer(**self._options, enable_auto_commit=False)
        prepare_client(self._admin._client)
        prepare_client(self._consumer._client)

    async def start(self) -> None:
        """Connect."""
        try:
            await self._admin.start()
            await self._consumer.start()
            await self._consumer._client.force_metadata_update()  # all topics, or the first offset request waits for metadata
        except (errors.KafkaError, OSError) as error:
            with translate_errors(self.config, "connecting"):
                raise await find_real_error(error, self.config, self._admin._client.advertised()) from error

    async def stop(self) -> None:
        """Disconnect."""
        try:
            await stop_consumer(self._consumer)
        finally:
            await self._admin.close()

    # Topics

    async def topics(self) -> Mapping[str, tuple[PartitionId, ...]]:
        """Return the partitions of each topic that this user may see."""
        with translate_errors(self.config, "listing topics"):
            found = await self._admin.describe_topics()
        return {
            topic["topic"]: tuple(sorted(PartitionId(topic["topic"], one["partition"]) for one in topic["partitions"])) for topic in found
        }

    async def partitions_of(self, topic: str) -> tuple[PartitionId, ...]:
        """Return the partitions of a topic. Raise UsageError if it does not exist."""
        topics = await self.topics()
        if topic not in topics:
            raise UsageError(f"topic {topic!r} does not exist, or you may not see it", hint=nearest_of(topic, topics))
        return topics[topic]

    async def bounds(self, partitions: Collection[PartitionId], end: Literal["earliest", "latest"]) -> Offsets:
        """Return the first offset of each partition, or the offset after its last record."""
        ask = self._consumer.beginning_offsets if end == "earliest" else self._consumer.end_offsets
        with translate_errors(self.config, "asking for offsets"):
            found = await ask([TopicPartition(*partition) for partition in partitions])
        return {PartitionId(*at): offset for at, offset in found.items()}

    async def at_time(self, partitions: Collection[PartitionId], timestamp_ms: int) -> Offsets:
        """Return the first offset at or after a time. Partitions without one are left out."""
        with translate_errors(self.config, "asking for offsets of a time"):
            found = await self._consumer.offsets_for_times({TopicPartition(*partition): timestamp_ms for partition in partitions})
        return {PartitionId(*at): one.offset for at, one in found.items() if one is not None}

    # Groups

    async def group_names(self) -> list[str]:
        """Return the groups that this user may see."""
        with translate_errors(self.config, "listing groups"):
            return sorted(name for name, *_ in await self._admin.list_consumer_groups())

    async def group(self, name: str) -> Group:
        """Return the coordinator's description of a group. The state is Dead if it does not exist."""
        with translate_errors(self.config, f"describing group {name!r}"):
            ask = lambda node_id: self._admin.describe_consumer_groups([name], node_id)  # noqa: E731 - short
            [answer] = await self._ask_coordinator(name, ask, lambda answers: answers[0].groups[0][0])
        _, _, state, kind, _, members, *_ = answer.groups[0]
        is_of_consumers = kind == ConsumerProtocol.PROTOCOL_TYPE  # other types, such as Kafka Connect, encode assignments differently
        return Group(name, state, tuple(_member(one[0], one[1], one[2], one[4] if is_of_consumers else b"") for one in members))

    async def committed(self, group: str) -> Mapping[PartitionId, CommittedOffset]:
        """Return all commits of a group. A transaction that is open or has just ended may still change these commits."""
        with translate_errors(self.config, f"reading the offsets of group {group!r}"):
            # aiokafka's list_consumer_group_offsets ignores this error code. A coordinator that loads would seem to have no commits.
            ask = partial(self._admin._send_request, OffsetFetchRequest(group, None))
            answer = await self._ask_coordinator(group, ask, lambda answer: answer.error_code)
        return {
            PartitionId(topic, number): CommittedOffset(offset, metadata or "")
            for topic, partitions in answer.topics
            for number, offset, metadata, _ in partitions
            if offset >= 0
        }

    async def stable_offsets(
        self, group: str, partitions: Collection[PartitionId], limit_secs: float
    ) -> Mapping[PartitionId, CommittedOffset]:
        """Return the commits of these partitions after all transactions that write offsets of these partitions have ended.

        Raise UnstableOffsetError if a transaction is still open after `limit_secs`.
        """

        async def send(request: StableOffsetFetch) -> Any:
            return await self._admin._send_request(request, await self._admin.find_coordinator(group))

        with translate_errors(self.config, f"reading the offsets of group {group!r}"):
            return await read_stable_offsets(send, group, partitions, limit_secs)

    async def commit(self, group: str, commits: Mapping[PartitionId, CommittedOffset]) -> None:
        """Commit offsets of a group without being a member. The broker accepts this only if the group has no members."""
        rows: dict[str, list[tuple[int, int, str]]] = {}
        for partition, one in commits.items():
            rows.setdefault(partition.topic, []).append((partition.partition, one.offset, one.metadata))
        request = OffsetCommitRequest(group, _NO_GENERATION, "", _NO_RETENTION, list(rows.items()))
        with translate_errors(self.config, f"committing offsets of group {group!r}"):
            try:
                await self._ask_coordinator(group, partial(self._admin._send_request, request), _first_error)  # has no public method
            except (errors.UnknownMemberIdError, errors.IllegalGenerationError) as error:
                raise UsageError(
                    f"group {group!r} has members again", hint="Stop the readers of this group. Then repeat the command."
                ) from error

    async def _ask_coordinator(self, group: str, ask: Callable[[int], Awaitable[Any]], code_of: Callable[[Any], int]) -> Any:
        """Ask the coordinator of a group, by its node id. Retry for `request_timeout_ms` while the coordinator moves or loads.

        Then raise the error of its last answer.
        """
        deadline = asyncio.get_running_loop().time() + self.config.request_timeout_ms / 1000
        while True:
            try:
                answer = await ask(await self._admin.find_coordinator(group))
                if code := code_of(answer):
                    raise errors.for_code(code)(f"group {group!r}")
            except errors.KafkaError as error:
                if not error.retriable or asyncio.get_running_loop().time() >= deadline:
                    raise
            else:
                return answer
            await asyncio.sleep(_PAUSE_SECS)


def nearest_of(name: str, known: Collection[str]) -> str:
    """Return a hint for an unknown name. The hint is the nearest known name, or all known names if there are few."""
    if nearest(name, known):
        return did_you_mean(name, known)
    if not known:
        return "Create it first: none exists."
    some = ", ".join(map(repr, sorted(known)[:_SOME_NAMED]))
    there = did_you_mean(name, known) if len(known) <= _MOST_NAMED else f"There are {len(known)} others: {some}, …"
    return f"Correct the name. {there}"


def _member(member_id: str, client_id: str, host: str, assignment: bytes) -> Member:
    found = ConsumerProtocol.ASSIGNMENT.decode(assignment).partitions() if assignment else ()
    return Member(member_id, client_id, host.removeprefix("/"), tuple(PartitionId(*one) for one in found))


def _first_error(answer: Any) -> int:
    return next((code for _, partitions in answer.topics for _, code in partitions if code), 0)
