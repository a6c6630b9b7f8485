"""A ledger in ZooKeeper, which consists of a node, and of its only child with the entries.

The node `…/ledger:name` holds the name of the child. This name, `epoch-token`, is unique. A claim creates a new child with the entries
of the old one, and removes the old one, in one transaction. So an earlier claimer has no node to write to.

A write names the version of the child that it replaces. So an abandoned write that arrives late takes effect at most once.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from kazoo.client import TransactionRequest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from engine.errors import StateDamaged, StateError, StateFenced, StateUnavailable
from engine.randomness import RunRandom
from engine.state.api import Ledger
from engine.state.checksums import add_checksum, place_sum, strip_checksum
from engine.state.codec import MessagePack, Unencodable
from engine.state.zookeeper.topology import ZooKeeperTopology

MOST_BYTES: Final = 1_000_000
"""Largest size of a ledger. By default (jute.maxbuffer), a server closes the connection after a request of more than 1 MB."""
TRIES: Final = 20


class _Stored(NamedTuple):
    """A stored ledger."""

    owner: str
    """Name of the child, "" without one."""
    owner_version: int
    value: bytes
    version: int

    @property
    def epoch(self) -> int:
        """Number of the claim that created the child."""
        return int(self.owner.partition("-")[0] or 0)


class ZooKeeperLedger(Ledger):
    """One ledger."""

    most_bytes = MOST_BYTES // 2

    def __init__(self, topology: ZooKeeperTopology, name: str) -> None:
        self._topology = topology
        self._link = topology.link
        self._path = topology.paths.ledger(name)
        self._name = name
        self._codec = MessagePack()
        self._place = place_sum(self._path)
        self._lock = asyncio.Lock()
        self._own: str | None = None
        """Path of the child that this object's claim created."""
        self._known: tuple[bytes, int] | None = None
        """Value and version of the child, None after a write with an unknown result."""

    # Claiming

    async def claim(self) -> int:
        async with self._lock:
            self._own = self._known = None
            for _ in range(TRIES):
                stored = await self._stored()
                child = f"{stored.epoch + 1}-{RunRandom().seed:016x}"
                try:
                    await self._link.transaction(lambda steps: self._take(steps, stored, child))  # noqa: B023 - in this turn
                except (NoNodeError, NodeExistsError, BadVersionError):
                    continue  # another process has claimed, or the owner has written, meanwhile
                self._own = f"{self._path}/{child}"
                await self._topology.begin()
                return stored.epoch + 1
        raise StateUnavailable(
            f"{self._link}: other processes claim this topology again and again", hint="Run each topology in one process."
        )

    def _take(self, steps: TransactionRequest, stored: _Stored, child: str) -> None:
        if stored.owner:
            steps.set_data(self._path, child.encode(), stored.owner_version)
            steps.delete(f"{self._path}/{stored.owner}", stored.version)
        else:
            steps.create(self._path, child.encode())
        steps.create(f"{self._path}/{child}", stored.value)

    async def _stored(self) -> _Stored:
        """Read owner and entries. If they change between the two reads, a claim with them fails."""
        for _ in range(TRIES):
            try:
                owner, owner_version = await self._link.get(self._path)
            except NoNodeError:
                return _Stored("", -1, self._encode({}), -1)
            name = owner.decode("utf-8", "replace")
            if not name.partition("-")[0].isdigit():
                text = f"{self._link}: {self._path} cannot be read: {owner[:40]!r}"
                raise StateError(text, hint="Another program wrote it, or it is damaged.")
            try:
                value, version = await self._link.get(f"{self._path}/{name}")
            except NoNodeError:
                continue  # another process has claimed meanwhile
            return _Stored(name, owner_version, value, version)
        raise StateUnavailable(f"{self._link}: {self._path} changes faster than it can be read", hint="Try again.")

    async def epoch(self) -> int:
        """Return the newest epoch, 0 before the first claim."""
        return (await self._stored()).epoch

    # Entries

    async def read(self) -> dict[str, object]:
        return self._decode((await self._stored()).value)

    async def write(self, changes: Mapping[str, object]) -> None:
        async with self._lock:
            for _ in range(TRIES):
                if await self._is_written(changes):
                    return
        raise StateUnavailable(f"{self._link}: {self._path} changes again and again", hint="Run each topology in one process.")

    async def _is_written(self, changes: Mapping[str, object]) -> bool:
        """Write once. Return False if the version has changed, because an earlier attempt succeeded after all."""
        was_known = self._known is not None
        value, version = self._known or await self._look_at_own()
        entries = {**self._decode(value), **changes}
        wanted = self._encode({name: each for name, each in entries.items() if each is not None})
        if wanted == value and not was_known:
            self._known = value, version  # the earlier attempt wrote the same
            return True
        own, self._known = self._own_path, None
        try:
            stat = await self._link.call(lambda: self._link.client.set_async(own, wanted, version))
        except BadVersionError:
            return False
        except NoNodeError:
            raise self._fenced() from None
        self._known = wanted, stat.version
        return True

    async def _look_at_own(self) -> tuple[bytes, int]:
        try:
            return await self._link.get(self._own_path)
        except NoNodeError:
            raise self._fenced() from None

    @property
    def _own_path(self) -> str:
        if self._own is None:
            raise StateFenced(f"{self._link}: the ledger {self._name!r} was not claimed", hint="Call claim() first.")
        return self._own

    def _fenced(self) -> StateFenced:
        return StateFenced(f"{self._link}: another process has taken this topology over", hint="Run each topology in one process.")

    def _encode(self, entries: Mapping[str, object]) -> bytes:
        try:
            encoded = add_checksum(self._codec.encode(entries), self._place)
        except Unencodable as error:
            raise StateError(f"the ledger {self._name!r} cannot store the entries: {error}") from None
        if len(encoded) > MOST_BYTES:
            raise StateError(
                f"{self._link}: the ledger {self._name!r} would have {len(encoded):,} bytes, and ZooKeeper accepts at most {MOST_BYTES:,}",
                hint="Use sqlite:///path or redis://host:port/db, or store less.",
            )
        return encoded

    def _decode(self, value: bytes) -> dict[str, object]:
        try:
            block = strip_checksum(value, self._place, bare=self._topology.has_bare_blocks)
            found: dict[str, object] = {**cast(Any, self._codec.decode(block))}
        except (TypeError, ValueError) as error:
            raise StateDamaged(
                f"{self._link}: {self._path} is damaged: {error}",
                hint="Restore it from a backup. To start empty: python -m engine state delete, or deleteall of the topology's node.",
            ) from None
        return found
