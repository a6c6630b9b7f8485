"""Why a cluster cannot be reached: aiokafka only logs it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiokafka import errors
from aiokafka.conn import create_conn

from engine.kafka import client_errors
from engine.kafka.connection import KafkaSecurity

_TIMEOUT_SECS: Final = 10.0
_OF_A_CONNECTION: Final = ("sasl_kerberos_service_name", "sasl_kerberos_domain_name")


async def real_error(error: Exception, brokers: Sequence[str], security: KafkaSecurity, client: Mapping[str, Any]) -> Exception:
    """Return what is in the way of a connection where aiokafka's error says no more than that there is none.

    Each broker is asked once more; what does not pass by itself goes before what does.
    """
    if not isinstance(error, errors.KafkaConnectionError):
        return error
    found: Exception = error
    for broker in brokers:
        this = await _why_not(broker, security, client)
        if this is not None:
            found = this
            if not client_errors.passes(this):
                break
    return found


async def _why_not(broker: str, security: KafkaSecurity, client: Mapping[str, Any]) -> Exception | None:
    """Connect to one broker; return what comes of it, None where it answers."""
    host, _, port = broker.rpartition(":")
    options = security.client_options() | {name: client[name] for name in _OF_A_CONNECTION if name in client}
    try:
        async with asyncio.timeout(_TIMEOUT_SECS):
            connection = await create_conn(host.strip("[]"), int(port), **options)
    except TimeoutError:
        return ConnectionError(f"{broker} takes connections, and does not answer. Perhaps it speaks TLS, or something else than Kafka")
    except Exception as error:  # noqa: BLE001 - it is what was asked for
        ended = f"{broker} ended the connection. Perhaps it speaks another protocol than {security.protocol}"
        return error if str(error) else ConnectionError(ended)
    connection.close()
    return None
