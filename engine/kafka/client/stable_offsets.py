"""Reads committed offsets that no open transaction is about to change (KIP-447).

The offsets of a transaction stay pending until the transaction ends. A coordinator may answer the next producer of the same transactional
id before it applies these offsets. Until then a plain read returns the older offset, and a reader that starts at this offset repeats a
written batch. Version 7 of OffsetFetch makes the coordinator refuse such a read. aiokafka has no version above 3, so the request is defined
here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from aiokafka import errors
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

from engine.backoff import Backoff
from engine.kafka.client.errors import UnstableOffsetError
from engine.kafka.client.partition import CommittedOffset, PartitionId

_VERSION: Final = 7
_BACKOFF: Final = Backoff(0.01, 0.1)
"""Short pauses, because a coordinator applies the offsets of an ended transaction within milliseconds."""
_NO_TAGS: Final[Mapping[int, bytes]] = {}

Send: TypeAlias = Callable[["StableOffsetFetch"], Awaitable[Any]]
"""Sends a request to the coordinator of the group, and returns the answer."""


class OffsetFetchResponseV7(Response):  # type: ignore[misc]
    """Committed offsets, with an error for each partition."""

    API_KEY = OffsetFetchRequest.API_KEY
    API_VERSION = _VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", CompactString("utf-8")),
                        ("error_code", Int16),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("error_code", Int16),
        ("tags", TaggedFields),
    )


class OffsetFetchRequestV7(RequestStruct):  # type: ignore[misc]
    """Request for committed offsets that can demand stable ones."""

    FLEXIBLE_VERSION = True
    API_KEY = OffsetFetchRequest.API_KEY
    API_VERSION = _VERSION
    RESPONSE_TYPE = OffsetFetchResponseV7
    SCHEMA = Schema(
        ("consumer_group", CompactString("utf-8")),
        ("topics", CompactArray(("topic", CompactString("utf-8")), ("partitions", CompactArray(Int32)), ("tags", TaggedFields))),
        ("require_stable", Boolean),
        ("tags", TaggedFields),
    )


class StableOffsetFetch(OffsetFetchRequest):  # type: ignore[misc]
    """Request that the coordinator refuses while a transaction may change one of the offsets.

    The request must list its partitions. An answer for all partitions omits a partition whose first commit is still pending.
    """

    def __init__(self, group: str, partitions: Collection[PartitionId]) -> None:
        numbers: dict[str, list[int]] = {}
        for topic, number in partitions:
            numbers.setdefault(topic, []).append(number)
        super().__init__(group, list(numbers.items()))

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Any:
        """Return the request in version 7, or in aiokafka's newest version for a broker older than Kafka 2.5.

        Such a broker cannot tell that an offset is pending, and may answer with the older offset.
        """
        lowest, highest = versions.get(self.API_KEY, (0, 0))
        if not lowest <= _VERSION <= highest:
            return super().prepare(versions)
        topics = [(topic, numbers, _NO_TAGS) for topic, numbers in self._partitions]
        return OffsetFetchRequestV7(self._consumer_group, topics, True, _NO_TAGS)


async def read_stable_offsets(
    send: Send, group: str, partitions: Collection[PartitionId], limit_secs: float
) -> dict[PartitionId, CommittedOffset]:
    """Return the commits of a group after all transactions that write to it have ended. Omits partitions without a commit.

    Retries transient errors for `limit_secs`, then raises the last error. The last error is UnstableOffsetError if a transaction is still
    open.
    """
    now, pauses = asyncio.get_running_loop().time, _BACKOFF.pauses()
    deadline = now() + limit_secs
    while True:
        try:
            return _offsets_in(await send(StableOffsetFetch(group, partitions)), group)
        except errors.KafkaError as error:
            pause = next(pauses)
            if not error.retriable or now() + pause > deadline:
                raise
        await asyncio.sleep(pause)


def _offsets_in(answer: Any, group: str) -> dict[PartitionId, CommittedOffset]:
    """Return the offsets in an answer of any version. Raise the first error in the answer."""
    fields = answer.to_object()
    _raise_code(fields["error_code"], f"group {group!r}")
    found = {}
    for topic in fields["topics"]:
        for one in topic["partitions"]:
            partition = PartitionId(topic["topic"], one["partition"])
            if one["error_code"] == UnstableOffsetError.errno:
                raise UnstableOffsetError.of(group, partition)
            _raise_code(one["error_code"], f"{partition} of group {group!r}")
            if one["offset"] >= 0:
                found[partition] = CommittedOffset(one["offset"], one["metadata"] or "")
    return found


def _raise_code(code: int, where: str) -> None:
    if code:
        raise errors.for_code(code)(where)


async def send_to_coordinator(coordinator: Any, send: Callable[[Any], Awaitable[Any]], request: Any) -> Any:
    """Send a request. Raise the top-level error of an OffsetFetch answer.

    aiokafka checks only the errors of partitions. A coordinator that loads or has moved returns no partitions. Such an answer looks like a
    group without commits.
    """
    answer = await send(request)
    if isinstance(request, OffsetFetchRequest) and (code := getattr(answer, "error_code", 0)):
        if code != errors.GroupLoadInProgressError.errno:
            coordinator.coordinator_dead()  # makes the client look for the coordinator again
        raise errors.for_code(code)("reading the offsets of the group")
    return answer
