"""A store that fails on demand: before a call, after it with a lost answer, or by a late arrival."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from random import Random
from typing import Literal, TypeVar

from engine.errors import StateUnavailable
from engine.state.values import Changes, Fence, Found, KeyCodec, Raw, ValueStore, Writer
from engine.transactional import TransactionAttempt

Fault = Literal["none", "refused", "lost", "dies", "dies behind it", "late"]
Late = Callable[[], Awaitable[object]]
T = TypeVar("T")


class Died(Exception):
    """The task died at this call."""


class FaultyStore(ValueStore):
    """Wraps a store. `fault_of` gives the fault of each call, by its name."""

    def __init__(self, below: ValueStore, fault_of: Callable[[str], Fault], late: list[Late]) -> None:
        self._below = below
        self._fault_of = fault_of
        self._late = late
        """Calls of dead tasks that have not arrived yet."""
        self.row_codec = below.row_codec

    async def _do(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        fault = self._fault_of(name)
        if fault == "refused":
            raise StateUnavailable("injected: refused")
        if fault == "dies":
            raise Died(name)
        if fault == "late":
            self._late.append(call)
            raise Died(name)
        done = await call()
        if fault == "lost":
            raise StateUnavailable("injected: the answer is lost")
        if fault == "dies behind it":
            raise Died(name)
        return done

    @property
    def lacks_key_columns(self) -> bool:
        return self._below.lacks_key_columns

    async def key_codec(self, fields: Sequence[str], keys: Sequence[object]) -> KeyCodec:
        return await self._below.key_codec(fields, keys)

    async def fence(self) -> Fence | None:
        return await self._do("fence", self._below.fence)

    async def create(self, writer: Writer) -> None:
        await self._do("create", lambda: self._below.create(writer))

    async def look(self, keys: Sequence[Raw]) -> Found:
        return await self._do("look", lambda: self._below.look(keys))

    async def undo(self, seen: Fence, attempt: TransactionAttempt, writer: Writer) -> None:
        await self._do("undo", lambda: self._below.undo(seen, attempt, writer))

    async def write(self, seen: Fence, attempt: TransactionAttempt, changes: Changes, writer: Writer) -> bool:
        return await self._do("write", lambda: self._below.write(seen, attempt, changes, writer))

    async def forget(self) -> bool:
        return await self._do("forget", self._below.forget)

    def rows(self) -> AsyncIterator[list[tuple[Raw, Raw]]]:
        return self._below.rows()

    async def close(self) -> None:
        await self._below.close()


def at_random(random: Random, share: float, faults: Sequence[Fault]) -> Callable[[str], Fault]:
    """Choose one of these faults for this share of all calls."""
    return lambda name: random.choice(faults) if random.random() < share else "none"
