"""Connects consumers and waits for their topics. Reports why brokers do not answer.

aiokafka raises only KafkaConnectionError and logs the reason. So `connection_error` connects to each broker to find the reason.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from aiokafka import errors
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.metadata import MetadataRequest

from engine.errors import FatalError
from engine.kafka.client.connection import BrokerAccess
from engine.kafka.client.consumer_link import ConsumerLink, ConsumerSettings
from engine.kafka.client.errors import KafkaWarning, Report, RetryPolicy, describe_error, fatal_error, is_transient
from engine.kafka.client.topic_lookup import log_found_topics
from engine.waits import Wait, waiting_for

_CONNECT_SECS: Final = 5.0
"""Timeout of the first attempt. Each later attempt has twice the timeout of the attempt before."""
_TIMEOUT_SECS: Final = 5.0
_OF_A_CONNECTION: Final = ("sasl_kerberos_service_name", "sasl_kerberos_domain_name")
_LONGEST_PAUSE_SECS: Final = 60.0
_TOPIC_PAUSE_SECS: Final = 0.25
"""Pause between two lookups of a missing topic."""
_SILENT: Final = "{broker} accepts connections, but does not answer. It may be overloaded, expect TLS, or not be a Kafka broker"
_UNREACHED: Final = (
    "broker {node_id} advertises the address {address}, which does not work from here ({reason}). Set the broker's advertised.listeners "
    "to an address that this machine can reach, or correct the name service or the network"
)

L = TypeVar("L", bound=ConsumerLink)


async def connect(make: Callable[[], L], to: BrokerAccess, report: Report) -> L:
    """Return a started link. Retry and report transient errors. Raise FatalError for any other error."""
    with waiting_for(f"a connection to Kafka ({', '.join(to.brokers)})", logs=False):
        return await _connect(make, to, report)


async def _connect(make: Callable[[], L], to: BrokerAccess, report: Report) -> L:
    retry_policy, limit = RetryPolicy(report), _CONNECT_SECS
    while True:
        link: L | None = None
        try:
            link = make()
            async with asyncio.timeout(limit):
                await link.start()
            return link
        except BaseException as error:
            if link is not None:
                await link.stop()
            if not isinstance(error, Exception):
                raise
            real = await find_real_error(error, to, {} if link is None else link.client.advertised())
            await retry_policy.wait_or_raise(real, f"a connection to {', '.join(to.brokers)}")
        limit *= 2


async def find_real_error(error: Exception, to: BrokerAccess, advertised: Mapping[int, str]) -> Exception:
    """Return the reason for a failed connection. If no reason is found, return the given error.

    advertised: the addresses that the brokers advertise, as far as the client has learned them.
    """
    if isinstance(error, TimeoutError):
        return await advertised_error(to, advertised) or ConnectionError(_SILENT.format(broker=", ".join(to.brokers)))
    if not isinstance(error, (errors.KafkaConnectionError, errors.NodeNotReadyError)):
        return error
    return await connection_error(to) or await advertised_error(to, advertised) or error


async def connection_error(to: BrokerAccess) -> Exception | None:
    """Connect to each broker once. Return None if a broker answers, else a permanent error, else a transient error."""
    found: Exception | None = None
    for broker in to.brokers:
        this = await _connection_error(broker, to)
        if this is None:
            return None
        if found is None or is_transient(found):
            found = this
    return found


async def advertised_error(to: BrokerAccess, advertised: Mapping[int, str]) -> Exception | None:
    """Connect to each advertised address once. Return None if all answer, else a permanent error, else a transient error."""
    tries = await asyncio.gather(*(_connection_error(address, to) for address in advertised.values()))
    failed = [(node_id, address, error) for (node_id, address), error in zip(advertised.items(), tries, strict=True) if error is not None]
    for _, _, error in failed:
        if not is_transient(error):
            return error
    for node_id, address, error in failed:
        return ConnectionError(_UNREACHED.format(node_id=node_id, address=address, reason=describe_error(error)))
    return None


async def watch_brokers(to: BrokerAccess, link: ConsumerLink, silence_secs: float, report: Report) -> None:
    """Run forever. Report the reason whenever no broker has answered for `silence_secs`, or one could not be reached for so long.

    Raises FatalError for a permanent reason, such as a changed password.
    """
    silence = waiting_for(f"an answer of Kafka ({', '.join(to.brokers)})", logs=False)
    try:
        await _watch_brokers(to, link, silence_secs, report, silence)
    finally:
        silence.end()


async def _watch_brokers(to: BrokerAccess, link: ConsumerLink, silence_secs: float, report: Report, silence: Wait) -> None:
    now = asyncio.get_running_loop().time
    since, seen = now(), link.answered_at()
    due, pause = 0.0, silence_secs
    while True:
        await asyncio.sleep(silence_secs)
        before, seen = seen, link.answered_at()
        unreached = link.client.unreached_for(silence_secs)
        if seen != before:
            since = now()
            silence.end()
        if seen != before and not unreached:
            due, pause = 0.0, silence_secs
        if (seen != before and not unreached) or now() < due:
            continue
        error = await _reason(to, unreached or link.client.advertised(), is_silent=seen == before)
        if error is None:
            continue
        if not is_transient(error):
            raise fatal_error(error, f"a connection to {', '.join(to.brokers)}")
        report(_silence_warning(error, now() - since if seen == before else None))
        if seen == before:
            silence.begun()
        due, pause = now() + pause, min(2 * pause, _LONGEST_PAUSE_SECS)


async def _reason(to: BrokerAccess, advertised: Mapping[int, str], *, is_silent: bool) -> Exception | None:
    """Return the reason why brokers do not answer. The bootstrap addresses are asked first, unless a broker answers."""
    return (await connection_error(to) if is_silent else None) or await advertised_error(to, advertised)


def _silence_warning(error: Exception, silent_secs: float | None) -> KafkaWarning:
    """Return the report. silent_secs: None if other brokers answer."""
    if silent_secs is None:
        text = f"a broker does not answer, so its partitions wait: {describe_error(error)}"
    else:
        text = f"no broker has answered for {silent_secs:.0f} s: {describe_error(error)}"
    return KafkaWarning(text, hint="No record is lost. Reading and commits continue when a broker answers.")


async def wait_for_topics(link: ConsumerLink, config: ConsumerSettings, report: Report) -> None:
    """Wait until all topics exist. Raise FatalError if a topic is forbidden, or does not appear within `topic_timeout_secs`."""
    if config.pattern is not None:
        if link.is_missing_topics:
            text, hint = (
                f"no topic matches the pattern {config.pattern!r}",
                "Names must match from their beginning. The lookup is repeated every metadata_max_age_ms.",
            )
            report(KafkaWarning(text, hint=hint))
        return
    with waiting_for(f"the topics {', '.join(config.topics)} to appear", logs=False):
        await _wait_until_found(link, config, report)


async def _wait_until_found(link: ConsumerLink, config: ConsumerSettings, report: Report) -> None:
    missing, is_reported = list(config.topics), False
    deadline = asyncio.get_running_loop().time() + config.topic_timeout_secs
    while missing:
        if not await link.look_for(config.topics):  # no broker answers; watch_brokers() reports this
            deadline = asyncio.get_running_loop().time() + config.topic_timeout_secs
            await asyncio.sleep(_TOPIC_PAUSE_SECS)
            continue
        forbidden = sorted(topic for topic in missing if topic in link.forbidden_topics)
        if forbidden:
            raise FatalError(f"Kafka refused reading topic {forbidden[0]!r}", hint="Give the user READ and DESCRIBE on the topic.")
        before, missing = missing, [topic for topic in missing if not link.partitions_of(topic)]
        if is_reported:
            log_found_topics(set(before) - set(missing))
        if not missing:
            return
        if asyncio.get_running_loop().time() >= deadline:
            text = f"topic {missing[0]!r} does not exist, and did not appear within {config.topic_timeout_secs:g} s"
            raise FatalError(text, hint="Create it, correct its name in topics=..., or raise topic_timeout_secs.")
        if not is_reported:
            is_reported = True
            names = ", ".join(map(repr, missing))
            what = f"topic {names} does" if len(missing) == 1 else f"topics {names} do"
            hint = f"The lookup is repeated for {config.topic_timeout_secs:g} s. Topics are never created."
            report(KafkaWarning(f"{what} not exist", hint=hint))
        await asyncio.sleep(_TOPIC_PAUSE_SECS)


async def _connection_error(broker: str, to: BrokerAccess) -> Exception | None:
    """Connect to one broker. Return the error, or None if the broker answers."""
    host, _, port = broker.rpartition(":")
    options = to.security.client_options() | {name: to.client[name] for name in _OF_A_CONNECTION if name in to.client}
    connection: Any = None
    try:
        async with asyncio.timeout(_TIMEOUT_SECS):
            connection = AIOKafkaConnection(host.strip("[]"), int(port), **options)
            await connection.connect()
            await connection.send(MetadataRequest([]))  # a SASL listener answers this request only after authentication
    except TimeoutError:
        return ConnectionError(_SILENT.format(broker=broker))
    except Exception as error:  # noqa: BLE001 - returned
        ended = f"{broker} closed the connection. It may not expect protocol {to.security.protocol}"
        return ConnectionError(ended) if isinstance(error, errors.KafkaConnectionError) or not str(error) else error
    finally:
        if connection is not None:
            _cut(connection)
    return None


def _cut(connection: Any) -> None:
    """Close the socket at once.

    Over TLS, `close` waits for the broker's close_notify. The event loop may end before the close_notify arrives.
    """
    connection.close()
    transport = getattr(connection._protocol, "_transport", None)
    if transport is not None:
        transport.abort()
