"""Functions that create topics, delete topics and grant rights on a broker."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import IntEnum
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.errors import InvalidReplicationFactorError, for_code
from aiokafka.protocol.admin import CreateAclsRequest, DescribeAclsRequest

SEEN_TRIES: Final = 500
PAUSE_SECS: Final = 0.01
ALLOW: Final = 3
LITERAL: Final = 3


class Resource(IntEnum):
    """Kind of resource, by its number in the protocol."""

    TOPIC = 2
    GROUP = 3
    TRANSACTIONAL_ID = 5


class Operation(IntEnum):
    """Operation of a right, by its number in the protocol."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DESCRIBE = 8


@asynccontextmanager
async def admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """Return a client with all rights."""
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


def fresh_name(begin: str) -> str:
    """Return a new name for a topic or a group."""
    return f"{begin}-{secrets.token_hex(4)}"


async def create_topic(bootstrap: str, name: str, partitions: int = 4, settings: dict[str, str] | None = None) -> str:
    """Create a topic and return its name after each partition has its leader. Raises the broker's error."""
    async with admin(bootstrap) as client:
        for _ in range(SEEN_TRIES):
            answer = await client.create_topics([NewTopic(name, partitions, 1, topic_configs=settings or {})])
            [(_, code, *_)] = answer.topic_errors
            if code != InvalidReplicationFactorError.errno:
                break
            await asyncio.sleep(10 * PAUSE_SECS)  # a thawed broker accepts no replicas before it registers again
        if code:
            raise for_code(code)(name)
        await _until_seen(client, name, partitions)
    return name


async def add_partitions(bootstrap: str, name: str, total: int) -> None:
    """Grow a topic to a number of partitions, and return after each has its leader. Raises the broker's error."""
    async with admin(bootstrap) as client:
        answer = await client.create_partitions({name: NewPartitions(total_count=total)})
        [(_, code, *_)] = answer.topic_errors
        if code:
            raise for_code(code)(name)
        await _until_seen(client, name, total)


async def _until_seen(client: AIOKafkaAdminClient, name: str, partitions: int) -> None:
    for _ in range(SEEN_TRIES):
        [seen] = await client.describe_topics([name])
        if len(seen["partitions"]) == partitions and all(one["leader"] >= 0 for one in seen["partitions"]):
            return
        await asyncio.sleep(PAUSE_SECS)
    raise RuntimeError(f"topic {name} has not been seen with {partitions} partitions")


async def topic_exists(bootstrap: str, name: str) -> bool:
    """Tell whether a topic exists, without a request that would create it."""
    async with admin(bootstrap) as client:
        return any(one["topic"] == name for one in await client.describe_topics())


async def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic, and return after the broker no longer lists it."""
    async with admin(bootstrap) as client:
        await client.delete_topics([name])
        for _ in range(SEEN_TRIES):
            if all(one["topic"] != name for one in await client.describe_topics()):
                return
            await asyncio.sleep(PAUSE_SECS)
        raise RuntimeError(f"topic {name} is deleted, but the broker still lists it")


async def allow(bootstrap: str, user: str, resource: Resource, name: str, *operations: Operation) -> None:
    """Grant a user rights on the topic, group or transactional id of this name. `*` means any.

    Returns after the broker applies them. The controller grants a right, and the broker hears of it a moment later.
    """
    async with admin(bootstrap) as client:
        for operation in operations:
            request = CreateAclsRequest(resource, name, LITERAL, f"User:{user}", "*", operation, ALLOW)
            [(code, message)] = (await client._send_request(request)).creation_responses
            if code:
                raise for_code(code)(message)
            await _until_applied(client, DescribeAclsRequest(resource, name, LITERAL, f"User:{user}", "*", operation, ALLOW))


async def _until_applied(client: AIOKafkaAdminClient, right: DescribeAclsRequest) -> None:
    for _ in range(SEEN_TRIES):
        if (await client._send_request(right)).resources:
            return
        await asyncio.sleep(PAUSE_SECS)
    raise RuntimeError("a right was granted, but the broker does not list it")
