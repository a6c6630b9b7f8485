"""Connects to the addresses that brokers advertise. Tells which of them cannot be reached, and bootstraps anew if no broker can.

A client learns the addresses of all brokers from the first one that answers. aiokafka only logs that such an address does not work, and
never asks the bootstrap addresses again. So a wrong `advertised.listeners`, or a broker that came back at another address, would be silent.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.conn import create_conn
from aiokafka.errors import KafkaError, NodeNotReadyError
from aiokafka.protocol.metadata import MetadataRequest

from engine.log import EngineLogger
from engine.waits import waiting_for

CONNECT_SECS: Final = 10.0
"""Timeout of one connection, as in Java's client. An address that swallows packets must not hold up other brokers for longer."""
_FORGET_SECS: Final = 3.0
"""Time after the last attempt. Then nobody waits for the broker. Shorter than `LONG_SECS`, so one stray attempt is no long wait."""
_BOOTSTRAP_PAUSE_SECS: Final = 1.0
"""Shortest time between two attempts to bootstrap anew."""
_OF_A_CONNECTION: Final = (
    "client_id",
    "request_timeout_ms",
    "ssl_context",
    "security_protocol",
    "sasl_mechanism",
    "sasl_plain_username",
    "sasl_plain_password",
    "sasl_kerberos_service_name",
    "sasl_kerberos_domain_name",
    "sasl_oauth_token_provider",
)
_LOG: Final = EngineLogger("aiokafka")


class UnreachedBroker:
    """A broker that a client needs and has no connection to. The run waits for it (SV-11)."""

    def __init__(self, unreached: "dict[int, UnreachedBroker]", node_id: int, address: str) -> None:
        """unreached: from which the broker removes itself."""
        self.address: Final = address
        self._unreached, self._node_id, self._loop = unreached, node_id, asyncio.get_running_loop()
        self._since = asyncio.get_running_loop().time()
        self._wait = waiting_for(f"broker {node_id} of Kafka at {address}").begun()
        self._attempts = 0
        self._forgetting: asyncio.TimerHandle | None = None

    @property
    def secs(self) -> float:
        """Time since the first attempt."""
        return asyncio.get_running_loop().time() - self._since

    def begin_attempt(self) -> None:
        """Note the begin of an attempt to connect."""
        self._attempts += 1
        self._stop_timer()

    def end_attempt(self, *, is_reached: bool) -> None:
        """Note the end of an attempt. After a failure the broker is forgotten, unless another attempt begins soon."""
        self._attempts -= 1
        if is_reached:
            self.forget()
        elif self._attempts == 0:
            self._stop_timer()
            self._forgetting = self._loop.call_later(_FORGET_SECS, self.forget)

    def forget(self) -> None:
        """Wait no longer for the broker."""
        self._stop_timer()
        self._wait.end()
        if self._unreached.get(self._node_id) is self:
            del self._unreached[self._node_id]

    def _stop_timer(self) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
            self._forgetting = None


class AdvertisedClient(AIOKafkaClient):  # type: ignore[misc]
    """A client that tells which brokers it cannot reach, and that bootstraps anew.

    An existing client becomes one by its `__class__` and `begin_watching`.
    """

    def begin_watching(self) -> None:
        """Set the own fields."""
        self.unreached: dict[int, UnreachedBroker] = {}
        self._bootstrap_due = 0.0

    def advertised(self) -> Mapping[int, str]:
        """Return the addresses that the brokers advertise, by broker. Empty before the first answer."""
        return {one.nodeId: _address(one) for one in self.cluster.brokers()}

    def unreached_for(self, least_secs: float) -> Mapping[int, str]:
        """Return the addresses of brokers that are needed, and could not be reached for this time."""
        return {node_id: one.address for node_id, one in self.unreached.items() if one.secs >= least_secs}

    async def close(self) -> None:
        """Disconnect."""
        for one in list(self.unreached.values()):
            one.forget()
        await super().close()

    async def ready(self, node_id: int, *, group: ConnectionGroup = ConnectionGroup.DEFAULT) -> bool:
        """Connect to a broker that a request needs. Return False if it cannot be reached."""
        connection, broker = self._conns.get((node_id, group)), self.cluster.broker_metadata(node_id)
        if broker is not None and (connection is None or not connection.connected()):
            self._note_need(node_id, _address(broker))
        return bool(await super().ready(node_id, group=group))

    def _note_need(self, node_id: int, address: str) -> None:
        one = self.unreached.get(node_id)
        if one is not None and one.address != address:
            one.forget()
        if node_id not in self.unreached:
            self.unreached[node_id] = UnreachedBroker(self.unreached, node_id, address)

    async def send(self, node_id: int, request: Any, *, group: ConnectionGroup = ConnectionGroup.DEFAULT) -> Any:
        """Send a request. The error names the address of a broker that cannot be reached."""
        try:
            return await super().send(node_id, request, group=group)
        except NodeNotReadyError as error:
            address = self.advertised().get(node_id)
            if address is None:
                raise
            raise NodeNotReadyError(f"broker {node_id} cannot be reached at {address}, the address that it advertises") from error

    async def _get_conn(self, node_id: int, *, group: ConnectionGroup = ConnectionGroup.DEFAULT, no_hint: bool = False) -> Any:
        needed, connection = self.unreached.get(node_id), None
        if needed is None:  # only the metadata are needed, which another broker may tell
            return await self._connect(node_id, group, no_hint=no_hint)
        needed.begin_attempt()
        try:
            connection = await self._connect(node_id, group, no_hint=no_hint)
        finally:
            needed.end_attempt(is_reached=connection is not None)
        return connection

    async def _connect(self, node_id: int, group: ConnectionGroup, *, no_hint: bool) -> Any:
        self._drop_moved(node_id, group)
        try:
            async with asyncio.timeout(CONNECT_SECS):
                return await super()._get_conn(node_id, group=group, no_hint=no_hint)
        except TimeoutError:
            _LOG.error("Unable connect to node with id %s: no answer within %g s", node_id, CONNECT_SECS)  # as aiokafka does
            self.force_metadata_update()
            return None

    def _drop_moved(self, node_id: int, group: ConnectionGroup) -> None:
        """Close the connection to a broker that now advertises another address."""
        connection, broker = self._conns.get((node_id, group)), self.cluster.broker_metadata(node_id)
        if connection is not None and broker is not None and (connection.host, connection.port) != (broker.host, broker.port):
            del self._conns[node_id, group]
            connection.close()

    async def _metadata_update(self, cluster_metadata: Any, topics: Any) -> bool:
        return await super()._metadata_update(cluster_metadata, topics) or await self._bootstrap_again(cluster_metadata, topics)

    async def _bootstrap_again(self, cluster_metadata: Any, topics: Any) -> bool:
        """Ask the bootstrap addresses, because no known broker answers. Return False if none of them answers, or it is too soon to ask.

        As `metadata.recovery.strategy=rebootstrap` of Java's client (KIP-899).
        """
        now = asyncio.get_running_loop().time()
        if now < self._bootstrap_due:
            return False
        self._bootstrap_due = now + _BOOTSTRAP_PAUSE_SECS
        for host, port, _ in self.hosts:
            try:
                async with asyncio.timeout(CONNECT_SECS):
                    metadata = await self._ask_for_metadata(host, port, topics)
            except (OSError, KafkaError, TimeoutError) as error:
                _LOG.error('Unable connect to "%s:%s": %s', host, port, error)  # as aiokafka does
                continue
            if metadata.brokers:
                cluster_metadata.update_metadata(metadata)
                return True
        return False

    async def _ask_for_metadata(self, host: str, port: int, topics: Any) -> Any:
        request = MetadataRequest(list(topics) if topics else None)
        request._allow_auto_topic_creation = False
        connection = await self._connect_to(host, port)
        try:
            return await connection.send(request)
        finally:
            connection.close()

    async def _connect_to(self, host: str, port: int) -> Any:
        return await create_conn(host, port, **{name: getattr(self, f"_{name}") for name in _OF_A_CONNECTION})


def _address(broker: Any) -> str:
    return f"[{broker.host}]:{broker.port}" if ":" in broker.host else f"{broker.host}:{broker.port}"
