"""Encodes the entries of ledgers, and has `ValueLedger`, a ledger in one stored value."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from engine.errors import StateDamaged, StateError, StateFenced
from engine.state.api import Ledger
from engine.state.checksums import add_checksum, place_sum, strip_checksum
from engine.state.codec import Codec, MessagePack, Unencodable

Change: TypeAlias = Callable[[bytes | None], bytes]
"""Returns the new value for the stored one (None: nothing stored). May be called repeatedly, and may raise."""
_PLACE: Final = place_sum("value ledger")


def encode_entries(
    changes: Mapping[str, object], ledger: str, codec: Codec, place_of: Callable[[str], int]
) -> tuple[dict[str, bytes], list[str]]:
    """Return the entries to set, encoded with checksums, and the names to remove. place_of: sum of an entry's place."""
    try:
        encoded = {name: codec.encode(value) for name, value in changes.items() if value is not None}
    except Unencodable as error:
        raise StateError(f"the ledger {ledger!r} cannot store the entries: {error}") from None
    removed = [name for name, value in changes.items() if value is None]
    return {name: add_checksum(value, place_of(name)) for name, value in encoded.items()}, removed


class ValueLedger(Ledger):
    """Epoch and entries in one value, for stores that can change a value atomically. A subclass implements `change`."""

    def __init__(self) -> None:
        self._codec = MessagePack()
        self._claimed = 0

    @abstractmethod
    async def change(self, change: Change) -> None:
        """Replace the stored value by `change(value)`, in one atomic, durable step.

        If `change(value)` raises an error, writes nothing and raises the same error.
        """

    async def claim(self) -> int:
        def raise_epoch(stored: bytes | None) -> bytes:
            epoch, entries = self._read(stored)
            claimed.append(epoch + 1)
            return _sealed(self._codec, epoch + 1, entries)

        claimed: list[int] = []
        await self.change(raise_epoch)
        self._claimed = claimed[-1]
        return self._claimed

    async def read(self) -> dict[str, object]:
        def look(stored: bytes | None) -> bytes:
            found.append(self._read(stored))
            return _sealed(self._codec, *found[-1]) if stored is None else stored

        found: list[tuple[int, dict[str, object]]] = []
        await self.change(look)
        return found[-1][1]

    async def write(self, changes: Mapping[str, object]) -> None:
        def enter(stored: bytes | None) -> bytes:
            epoch, entries = self._read(stored)
            if epoch != self._claimed or not epoch:
                raise StateFenced("this ledger was not claimed, or another process has claimed it since")
            return _sealed(self._codec, epoch, {name: value for name, value in {**entries, **changes}.items() if value is not None})

        try:
            await self.change(enter)
        except Unencodable as error:
            raise StateError(f"this ledger cannot store the entries: {error}") from None

    def _read(self, stored: bytes | None) -> tuple[int, dict[str, object]]:
        if stored is None:
            return 0, {}
        try:
            epoch, entries = cast(Any, self._codec.decode(strip_checksum(stored, _PLACE, bare=True)))
            return int(epoch), dict(entries)
        except (TypeError, ValueError) as error:
            raise StateDamaged(f"this ledger cannot be read: {error}", hint="Restore the store from a backup.") from None


def _sealed(codec: MessagePack, epoch: int, entries: Mapping[str, object]) -> bytes:
    return add_checksum(codec.encode([epoch, entries]), _PLACE)
