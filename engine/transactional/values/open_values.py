"""Open map of values, for a task that writes and for programs that read."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

from engine.api import TaskContext
from engine.errors import FatalError, StateError, StateFenced, StateUnavailable, UsageError
from engine.log import EngineLogger
from engine.state import StoreRetry
from engine.state.values import Changes, Found, KeyCodec, Raw, ValueKind, ValueRefused, ValuesMismatch, ValueStore, Writer
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.values.fence import WriteStep, damaged_rows, next_step, updated_twice, vanished

LOGGER: Final = EngineLogger("engine.values")
KEYS_PER_TURN: Final = 2000
"""Keys encoded or combined between two turns of the event loop."""
MOST_ROUNDS: Final = 20
"""Largest number of reads in one update. Another task may raise the fence between read and write."""
_OLDER: Final = "%s keeps its keys in one encoded column, as it was made. A map with a new name would have a typed column for each of %s"
_NEVER: Final = object()
"""Marker that is equal to no stored value."""
K = TypeVar("K")
V = TypeVar("V")
P = TypeVar("P")


class ValuesReader(Generic[K, V]):
    """Reads a map. The newest transaction may still be in its commit phase."""

    def __init__(self, store: ValueStore) -> None:
        self._opened: ValueStore | None = store

    @property
    def _store(self) -> ValueStore:
        if self._opened is None:
            raise UsageError("this map of values is closed", hint="Use it inside of its block: async with values.reader() as words.")
        return self._opened

    async def close(self) -> None:
        """Close the connection to the database. The engine calls it, for a reader at the end of its block."""
        store, self._opened = self._opened, None
        if store is not None:
            await store.close()

    async def get(self, key: K, default: V | None = None) -> V | None:
        """Return the value of a key, else the default."""
        return (await self.get_many([key])).get(key, default)

    async def get_many(self, keys: Iterable[K]) -> dict[K, V]:
        """Return the values of those keys that have one."""
        wanted = list(keys)
        key_codec = await self._store.key_codec((), ())
        found = await self._store.look(await _in_turns(key_codec.keys, wanted))
        values = await _in_turns(self._store.row_codec.read, found.values)
        return {key: value for key, value in zip(wanted, values, strict=True) if value is not None}

    async def items(self) -> AsyncIterator[tuple[K, V]]:
        """Yield each key with its value, in any order. Concurrent changes may be missing.

        A key may be returned as a different but equal value.
        """
        row_codec, key_codec = self._store.row_codec, await self._store.key_codec((), ())
        async for rows in self._store.rows():
            for (key, _), value in zip(rows, row_codec.read([raw for _, raw in rows]), strict=True):
                if value is not None:
                    yield key_codec.key(key), value  # type: ignore[misc]

    async def txid(self) -> int:
        """Return the txid of the newest transaction that has written here, 0 before the first."""
        fence = await self._store.fence()
        return 0 if fence is None else fence.txid


class OpenValues(ValuesReader[K, V]):
    """A map that a task updates once for each batch, in the commit phase."""

    def __init__(self, store: ValueStore, context: TaskContext, where: str) -> None:
        super().__init__(store)
        self._context = context
        self._where = where
        self._retry = StoreRetry(context.config.state_timeout_secs, store=f"the database of {where}")
        self._done = TransactionAttempt(0, 0)
        """The last attempt that was updated."""

    async def update(
        self,
        attempt: TransactionAttempt,
        changes: Mapping[K, P],
        combine: Callable[[V | None, P], V],
        *,
        kind: ValueKind = "transactional",
        key_fields: Sequence[str] = (),
        deletes: bool = False,
    ) -> dict[K, V]:
        """Set each key to `combine(stored, change)`, once for each txid (TX-8). Return the new values by key.

        Call it once for each batch, even without changes, because it prevents writes by older attempts. Two tasks must not share a key: the
        second change of the same batch to a transactional value would be skipped. `stored` excludes this txid, and is None if there is no
        value. A map cannot change its `kind`. `key_fields` name the fields of each key, for the columns of a new map.

        deletes: delete the row of a key for which `combine` returns None. Without it the row stays, with no value and the txid, so that a
        repeated attempt does not combine again. So `combine` must not depend on `stored`. No effect on opaque values.

        Raises StateFenced if a later attempt has written, ValuesMismatch if no retry can succeed, StateUnavailable after
        `state_timeout_secs` without the database.
        """
        if attempt is self._done:  # one that is only equal belongs to a new instance, which publishes the interval again (EO-9)
            raise updated_twice(self._where, attempt)
        context = self._context
        writer = Writer(self._where, kind, context.topology_name, context.component_id, context.task_index)
        update = _Update(self._store, attempt, writer, (changes, key_fields), combine)
        is_known = self._done.txid > 0
        update.deletes = deletes and kind == "transactional"
        with ending_the_run():
            values = await self._retry.call_with_retries(lambda: update.once(is_known))
        if not is_known and self._store.is_older and context.task_index == 0:
            LOGGER.warning(_OLDER, self._where, ", ".join(key_fields))
        self._done = attempt
        return values

    def has_written(self, attempt: TransactionAttempt) -> bool:
        """Tell whether this process has updated the map for an attempt."""
        return attempt == self._done

    async def refused(self, keys: Sequence[K], key_fields: Sequence[str] = ()) -> dict[int, str]:
        """Return the numbers of the keys that the map will never take, with the error of each."""
        refused: dict[int, str] = {}
        codec: KeyCodec | None = None
        with ending_the_run():
            for number, key in enumerate(keys):
                try:
                    if codec is None:  # the first key that fits decides the form of a new map
                        codec = await self._store.key_codec(key_fields, keys[number:])
                    codec.keys([key])
                except ValueRefused as error:
                    refused[number] = error.message
                if number % KEYS_PER_TURN == KEYS_PER_TURN - 1:
                    await asyncio.sleep(0)
        return refused

    async def forget(self) -> None:
        """Forget the txids of an empty map. Raises StateError if it has values, because the same rows would count twice in them."""
        with ending_the_run():
            fence = await self._retry.call_with_retries(self._store.fence)
            if fence is not None and fence.topology != self._context.topology_name:
                text = f"{self._where} belongs to topology {fence.topology!r}, and this is {self._context.topology_name!r}"
                raise StateError(text, hint="Give the map another name.")
            is_empty = await self._retry.call_with_retries(self._store.forget)
        if not is_empty:
            hint = "Empty it first: DELETE or TRUNCATE its table, in Redis DEL the key that ends in :values."
            raise StateError(f"{self._where} has values, in which the same rows would count twice", hint=hint)

    async def get_many(self, keys: Iterable[K]) -> dict[K, V]:
        wanted = list(keys)
        with ending_the_run():
            return await self._retry.call_with_retries(lambda: super(OpenValues, self).get_many(wanted))


@contextmanager
def ending_the_run() -> Iterator[None]:
    """Let the errors of the store that no retry of the batch can repair end the run."""
    try:
        yield
    except (StateUnavailable, StateFenced, ValueRefused, FatalError):
        raise
    except StateError as error:
        raise ValuesMismatch(error.message, hint=error.hint) from error


class _Update(Generic[K, V, P]):
    """One update, which may be repeated from its start."""

    def __init__(
        self,
        store: ValueStore,
        attempt: TransactionAttempt,
        writer: Writer,
        changes: tuple[Mapping[K, P], Sequence[str]],
        combine: Callable[[V | None, P], V],
    ) -> None:
        """changes: by key, and the names of the fields of each key."""
        self._store, self._attempt, self._writer, self._combine = store, attempt, writer, combine
        by_key, self._key_fields = changes
        self._keys = list(by_key)
        self._changes = list(by_key.values())
        self.deletes = False
        """True if keys without a value are deleted."""
        self._key_codec: KeyCodec | None = None
        self._raw_keys: list[Raw] = []
        self._made: list[tuple[list[Raw], list[Raw], list[V], list[Raw]]] = []
        """Results of `combine`: keys, stored values, new values, encoded new values.

        `combine` may change its arguments, so it must not be called again for a key with the same stored value.
        """

    async def _encode_keys(self) -> None:
        """Encode the keys in the form of the map. Another task may have created it in another form meanwhile."""
        key_codec = await self._store.key_codec(self._key_fields, self._keys)
        if key_codec is not self._key_codec:
            self._raw_keys, self._key_codec = await _in_turns(key_codec.keys, self._keys), key_codec

    async def once(self, is_known: bool) -> dict[K, V]:
        """Read, combine and write. Repeat if the fence was raised meanwhile. is_known: the map existed before."""
        store = self._store
        for _ in range(MOST_ROUNDS):
            await self._encode_keys()
            found = await store.look(self._raw_keys)
            fence = found.fence
            step = next_step(self._writer, self._attempt, fence)
            if fence is None:
                if is_known:
                    raise vanished(self._writer.where)
                await self._create()
            elif step is WriteStep.UNDO:
                await store.undo(fence, self._attempt, self._writer)
            elif self._keys and store.lacks_key_columns:
                await store.create(self._writer)
            elif (damage := damaged_rows(self._writer.where, self._attempt, found.txids, self._keys)) is not None:
                now = await store.fence()
                if now is None or now.txid <= self._attempt.txid:  # otherwise a later transaction wrote meanwhile
                    raise damage
            else:
                values, changes = await self._combined(found)
                if await store.write(fence, self._attempt, _without_nothing(changes) if self.deletes else changes, self._writer):
                    return values
        raise StateUnavailable(f"{self._writer.where}: other processes keep writing to it", hint="Run each topology in one process.")

    async def _create(self) -> None:
        await self._store.create(self._writer)
        if self._attempt.txid > 1:
            LOGGER.warning("%s is new, at %s of its topology: it does not contain earlier batches", self._writer.where, self._attempt)

    async def _combined(self, found: Found) -> tuple[dict[K, V], Changes]:
        """Return the new values of all keys, and the rows to write."""
        txid = self._attempt.txid
        done = [at for at, stored in enumerate(found.txids) if stored == txid]
        if not done:
            return await self._changed(self._keys, self._changes, Changes(self._raw_keys, [], found.values))
        if self._writer.kind == "opaque":
            without = [old if stored == txid else value for stored, value, old in zip(*found[1:], strict=True)]
            return await self._changed(self._keys, self._changes, Changes(self._raw_keys, [], without))
        kept = await _in_turns(self._store.row_codec.read, [found.values[at] for at in done])
        left = [at for at, stored in enumerate(found.txids) if stored != txid]
        changed = Changes([self._raw_keys[at] for at in left], [], [found.values[at] for at in left])
        values, changed = await self._changed([self._keys[at] for at in left], [self._changes[at] for at in left], changed)
        return dict(zip([self._keys[at] for at in done], kept, strict=True)) | values, changed

    async def _changed(self, keys: list[K], changes: list[P], changed: Changes) -> tuple[dict[K, V], Changes]:
        """Combine the old value of each key with its change. Reuse earlier results of `combine`."""
        if not self._made:
            values, raws = await self._new(keys, changes, changed.keys, changed.previous)
            return dict(zip(keys, values, strict=True)), changed._replace(values=raws)
        known = {raw: made for rows in self._made for raw, *made in zip(*rows, strict=True)}
        nothing_made: list[Any] = [_NEVER, None, None]
        found = [known.get(raw, nothing_made) for raw in changed.keys]
        left = [at for at, (old, made) in enumerate(zip(changed.previous, found, strict=True)) if made[0] != old]
        if left:
            of_left = [changed.keys[at] for at in left], [changed.previous[at] for at in left]
            new = await self._new([keys[at] for at in left], [changes[at] for at in left], *of_left)
            for at, value, raw in zip(left, *new, strict=True):
                found[at] = [changed.previous[at], value, raw]
        return {key: made[1] for key, made in zip(keys, found, strict=True)}, changed._replace(values=[made[2] for made in found])

    async def _new(self, keys: list[K], changes: list[P], raw_keys: list[Raw], previous: list[Raw]) -> tuple[list[V], list[Raw]]:
        """Call `combine` for each key. Return the new values, plain and encoded."""
        row_codec, combine = self._store.row_codec, self._combine
        values: list[V] = []
        raws: list[Raw] = []
        for first in range(0, len(keys), KEYS_PER_TURN):
            part = slice(first, first + KEYS_PER_TURN)
            new = [combine(old, change) for old, change in zip(row_codec.read(previous[part]), changes[part], strict=True)]
            values += new
            raws += row_codec.values(new, keys[part])
            if first + KEYS_PER_TURN < len(keys):
                await asyncio.sleep(0)
        self._made.append((raw_keys, previous, values, raws))
        return values, raws


def _without_nothing(changes: Changes) -> Changes:
    """Return changes that delete the keys without a value."""
    rows = [row for row in zip(*changes[:3], strict=True) if row[1] is not None]
    deleted = [key for key, value in zip(changes.keys, changes.values, strict=True) if value is None]
    keys, values, previous = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    return Changes(keys, values, previous, deleted)


async def _in_turns(work: Callable[[Sequence[Any]], list[Any]], items: Sequence[Any]) -> list[Any]:
    """Apply work to items, with turns of the event loop between pieces."""
    done: list[Any] = []
    for first in range(0, len(items), KEYS_PER_TURN):
        done += work(items[first : first + KEYS_PER_TURN])
        if first + KEYS_PER_TURN < len(items):
            await asyncio.sleep(0)
    return done
