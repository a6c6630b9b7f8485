"""The provider of `redis://host:port/db`: state in Redis (CP-8), and its inventory for tools.

A topology belongs to the process that claimed its ledger last. There is no lock, so a dead process does not block others. A second process
that starts takes the topology over, and the first process gets StateFenced at its next write. `open` alone does not take a topology over. A
standby process waits until the lease of the first one has ended.

Redis keeps acknowledged writes through a crash only with `appendonly yes`, and all of them only with `appendfsync always`.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from engine.errors import StateError, StateUnavailable
from engine.state.api import Ledger, Row, StateInventory, StateProvider, StoredTopology, TaskDelta
from engine.state.redis.link import TIMEOUT_SECS, RedisAddress, RedisLink, address_of
from engine.state.redis.names import KeyNames, KeyParts, formats_of_all, topology_of
from engine.state.redis.scripts import REMOVE, SIZES
from engine.state.redis.store import RedisLedger, RedisStore, epoch_of, hash_prefix
from engine.state.redis.topology import RedisTopology

KEYS_PER_STEP: Final = 500
FIELDS_PER_STEP: Final = 1000
READS_OF_DELTAS: Final = 5
"""Largest number of reads of a task's deltas while it folds them."""


class RedisProvider(StateProvider):
    """State in Redis."""

    def __init__(self, address: RedisAddress, *, timeout_secs: float = TIMEOUT_SECS) -> None:
        """timeout_secs: limit of one call."""
        self._address = address
        self._timeout_secs = timeout_secs
        self._topology: RedisTopology | None = None
        self._ledgers: dict[str, RedisLedger] = {}

    async def stand_by(self, topology_name: str, on_waiting: Callable[[str], None]) -> None:
        topology = self._topology_of(topology_name)
        try:
            await topology.open()
            await topology.lease.wait(on_waiting)
        except BaseException:
            await self.close()
            raise

    async def open(self, topology_name: str) -> None:
        """Connect, and check the stored format. Raises StateUnavailable at once if the server cannot be reached."""
        try:
            await self._topology_of(topology_name).open()
        except BaseException:
            await self.close()
            raise

    def _topology_of(self, name: str) -> RedisTopology:
        if self._topology is None:
            link = RedisLink(self._address, self._timeout_secs)
            self._topology = RedisTopology(link, KeyNames(self._address.prefix, name))
        return self._topology

    async def close(self) -> None:
        topology, self._topology = self._topology, None
        if topology is not None:
            try:
                await topology.lease.end()
            finally:
                await topology.link.close()

    def ledger(self, name: str) -> Ledger:
        return self._ledgers.setdefault(name, RedisLedger(self._opened, name))

    async def store(self, component_id: str, task_index: int, slots: range) -> RedisStore:
        return RedisStore(self._opened, component_id, task_index, slots)

    def inventory(self) -> StateInventory:
        return RedisInventory(self._address, self._timeout_secs, self._topology)

    @property
    def _opened(self) -> RedisTopology:
        if self._topology is None:
            raise StateError(f"Redis at {self._address} is not open", hint="Call open() first.")
        return self._topology


def redis_provider(url: str) -> RedisProvider:
    """Return the provider of a URL, not yet opened. Raises StateError for an invalid URL."""
    return RedisProvider(address_of(url))


class RedisStoredTopology(StoredTopology):
    """One topology in Redis, which has no snapshots. `version` has the step numbers of folds, because every write of rows raises them."""

    def __init__(self, topology: RedisTopology) -> None:
        self._topology = topology
        self._keys: list[tuple[str, KeyParts]] = []
        self._numbers: dict[tuple[str, str], list[int]] | None = None

    async def _numbers_of(self, role: str) -> dict[str, list[int]]:
        """Return the slots (`rows`) or tasks (`deltas`) of each component, ascending.

        The keys are read once, on first use. A caller that has read the record before finds all deltas that the record commits.
        """
        if self._numbers is None:
            found: dict[tuple[str, str], list[int]] = {}
            names = self._topology.names
            self._keys = [(key, names.parts(key)) for key in await self._topology.link.keys(names.every)]
            for parts in sorted({parts for _, parts in self._keys}):
                found.setdefault((parts.role, parts.owner), []).append(parts.number)
            self._numbers = found
        return {owner: numbers for (each, owner), numbers in self._numbers.items() if each == role}

    async def entries(self, ledger: str) -> dict[str, object]:
        return await RedisLedger(self._topology, ledger).read()

    async def epoch(self, ledger: str) -> int:
        stored = await self._topology.link.command("HGET", self._topology.names.epochs, ledger)
        return 0 if stored is None else epoch_of(self._topology, ledger, stored)

    async def holder(self) -> str | None:
        return await self._topology.lease.holder() or ""

    async def components(self) -> list[str]:
        return sorted({*await self._numbers_of("rows"), *await self._numbers_of("deltas")})

    async def row_sizes(self, component_id: str) -> tuple[int, int]:
        await self._numbers_of("rows")
        keys, size = [key for key, parts in self._keys if parts.role == "rows" and parts.owner == component_id], 0
        for key in keys:
            cursor = b""
            while cursor != b"0":
                cursor, found = await self._topology.link.run(SIZES, [key], [cursor or b"0", FIELDS_PER_STEP])
                size += found
        return sum(await self._topology.link.hash_lengths(keys)) if keys else 0, size

    async def rows(self, component_id: str) -> AsyncIterator[list[Row]]:
        slots = (await self._numbers_of("rows")).get(component_id)
        if slots:
            async for rows in RedisStore(self._topology, component_id, 0, range(slots[0], slots[-1] + 1)).load():
                yield rows

    async def present(self, component_id: str, places: Sequence[tuple[int, bytes]]) -> int:
        names, found = self._topology.names, 0
        for first in range(0, len(places), FIELDS_PER_STEP):
            some = [(names.slot(component_id, slot, hash_prefix(key)), key) for slot, key in places[first : first + FIELDS_PER_STEP]]
            found += sum(await self._topology.link.fields_exist(some))
        return found

    async def deltas(self, component_id: str) -> list[TaskDelta]:
        found = []
        for index in (await self._numbers_of("deltas")).get(component_id, ()):
            found += await self._deltas_of_task(component_id, index)
        return found

    async def _deltas_of_task(self, component_id: str, index: int) -> list[TaskDelta]:
        store = RedisStore(self._topology, component_id, index, range(0))
        for _ in range(READS_OF_DELTAS):
            before = await self.version()
            try:
                return [TaskDelta(index, delta) for delta in await store.deltas()]
            except StateUnavailable:
                raise
            except StateError:
                if await self.version() == before:
                    raise
        raise StateUnavailable(f"{self._topology.link}: {component_id!r} folds its deltas faster than they can be read", hint="Try again.")

    async def version(self) -> object:
        lanes = await self._topology.read_hash(self._topology.names.lanes)
        return await self._topology.seen_owner(), sorted((name, step) for name, step in lanes.items() if b":fold:" in name)


class RedisInventory(StateInventory):
    """Stored topologies of one prefix."""

    removes_by = "A process that runs the topology now loses its state. It cannot write any more, and its run ends with an error."

    def __init__(self, address: RedisAddress, timeout_secs: float, opened: RedisTopology | None) -> None:
        """opened: the open topology of the provider, for removals."""
        self._address = address
        self._timeout_secs = timeout_secs
        self._opened = opened

    @asynccontextmanager
    async def _linked(self) -> AsyncIterator[RedisLink]:
        link = RedisLink(self._address, self._timeout_secs)
        try:
            yield link
        finally:
            await link.close()

    async def topologies(self) -> list[str]:
        prefix = self._address.prefix
        async with self._linked() as link:
            names = [topology_of(prefix, key) for key in await link.keys(formats_of_all(prefix))]
        return sorted(name for name in names if name is not None)

    @asynccontextmanager
    async def look(self, topology_name: str) -> AsyncIterator[StoredTopology]:
        async with self._linked() as link:
            topology = RedisTopology(link, KeyNames(self._address.prefix, topology_name))
            await topology.check_format()
            yield RedisStoredTopology(topology)

    async def remove(self, component_id: str | None) -> AsyncIterator[int]:
        topology = self._opened
        if topology is None:
            raise StateError(f"Redis at {self._address} is not open", hint="Call open() of its provider first.")
        lane, names = topology.lane("remove"), topology.names
        keys = await topology.link.keys(names.every)
        gone = [key for key in keys if names.parts(key).role in ("rows", "namespaces", "deltas", "delta")]
        gone = [key for key in gone if component_id in (None, names.parts(key).owner)]
        for first in range(0, len(gone), KEYS_PER_STEP):
            some = gone[first : first + KEYS_PER_STEP]
            rows = sum(await topology.link.hash_lengths([key for key in some if names.parts(key).role == "rows"]))
            await topology.run_step(lane, REMOVE, some, [])
            yield rows
        if component_id is None:
            rest = [key for key in keys if names.parts(key).role in ("ledger", "epochs", "lanes", "owner", "lease", "format")]
            await topology.run_step(lane, REMOVE, rest, [])
