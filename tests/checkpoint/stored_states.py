"""Writes state as an interrupted run would leave it: rows, committed and uncommitted deltas, and a record."""

from collections.abc import Mapping
from typing import Any

from engine.checkpoint.checkpoints import Checkpoints
from engine.checkpoint.layout import Layout
from engine.checkpoint.machine import Record
from engine.checkpoint.record_entries import LEDGER, checksums_entry, codec_entry, layout_entries, record_entry
from engine.checkpoint.stored import CommittedState
from engine.clock import Clock
from engine.config import Config
from engine.state import LayeredState, SealedStores, StatePlace, StateProvider, codec_named, provider_of
from engine.state.codec import CodecName, MessagePack

Changes = Mapping[Any, Any]
Found = dict[tuple[str, int, Any], Any]
"""Values by component, slot and key."""


class Writer:
    """Writes checkpoints of one topology, like its tasks."""

    def __init__(self, provider: StateProvider, topology: str, places: list[StatePlace], codec: CodecName = "msgpack") -> None:
        self._provider, self.places, self._codec = provider, places, codec_named(codec)
        self._states: dict[StatePlace, LayeredState[Any, Any]] = {}
        self.record = Record()
        keyed = {place.component_id: place.keyed for place in places}
        self._stores = SealedStores(provider, topology, keyed, txid=lambda: self.record.txid, bare=False)

    async def begin(self, **key_of: Any) -> None:
        await self._provider.ledger(LEDGER).claim()
        for place in self.places:
            store = await self._stores.store(place.component_id, place.task_index, place.slots)
            self._states[place] = LayeredState(store, self._codec, place, key_of=key_of.get(place.component_id))
        written = {**record_entry(self.record), **codec_entry(self._codec), **checksums_entry(all_blocks=True)}
        await self._write({**written, **layout_entries(self.places)})

    async def _write(self, entries: Mapping[str, object]) -> None:
        await self._provider.ledger(LEDGER).write(entries)

    async def prepare(self, changes: Mapping[StatePlace, Changes]) -> None:
        """Stage changes for the next txid, which is then PREPARING. None deletes."""
        txid, round_ = self.record.txid + 1, self.record.round + 1
        self.record = Record("preparing", txid, round_, round_, self.record.counted)
        await self._write(record_entry(self.record))
        for place, state in self._states.items():
            for key, value in changes.get(place, {}).items():
                if value is None:
                    state.delete(key)
                else:
                    state.put(key, value)
            state.freeze(txid, round_)
            await state.write_frozen()

    async def commit(self, phase: Any = "committed") -> None:
        """Commit the staged changes. With the phase `committing`, the commit is interrupted."""
        record = self.record
        self.record = Record(
            phase, record.txid, record.round, record.prepared_round, (*record.counted, (record.txid, record.prepared_round))
        )
        await self._write(record_entry(self.record))
        for state in self._states.values():
            await state.commit(record.txid)

    def state_at(self, place: StatePlace) -> LayeredState[Any, Any]:
        """Return the state of a task."""
        return self._states[place]

    async def fold(self) -> None:
        for state in self._states.values():
            await state.fold()


async def write_words(url: str, topology: str = "counts", codec: CodecName = "msgpack", *, folds: bool = True) -> None:
    """Write `count` with keys on two tasks, and `seen` with two tasks of its own.

    Each has rows, a committed delta above them, and a prepared one.
    """
    provider = provider_of(url)
    await provider.open(topology)
    count = [StatePlace("count", index, 2, True, 8) for index in range(2)]
    seen = [StatePlace("seen", index, 2, False, 8) for index in range(2)]
    try:
        writer = Writer(provider, topology, [*count, *seen], codec)
        await writer.begin()
        await writer.prepare(_of(count, {"a": 1, "b": 2, "gone": 3}) | {seen[0]: {"k": "first"}, seen[1]: {"k": "second", (1, "x"): [1]}})
        await writer.commit()
        if folds:
            await writer.fold()
        await writer.prepare(_of(count, {"a": 10, "c": {"deep": (1, 2)}, "gone": None}))
        await writer.commit()
        await writer.prepare(_of(count, {"a": "never committed", "d": 1}))
    finally:
        await provider.close()


def _of(places: list[StatePlace], changes: Changes) -> dict[StatePlace, Changes]:
    """Group the changes by the task that owns each key."""
    return {place: {key: value for key, value in changes.items() if place.slot_of(key) in place.slots} for place in places}


PANE = 1_700_000_000_000_000


async def write_panes(url: str, *, folds: bool, plain: bool = True) -> None:
    """Write namespaces, and if wished a plain key. The last committed checkpoint has dropped one, and put two keys into it again."""
    provider = provider_of(url)
    await provider.open("counts")
    places = [StatePlace("count", index, 2, True, 8) for index in range(2)]
    try:
        writer = Writer(provider, "counts", places)
        await writer.begin()
        if plain:
            _put(writer, places, None, {"plain": 1})
        _put(writer, places, PANE, {f"old {number}": number for number in range(40)})
        _put(writer, places, "late", {"a": 1, "b": [2]})
        await writer.prepare({})
        await writer.commit()
        await writer.fold()
        for place in places:
            writer.state_at(place).namespace(PANE).drop()
        _put(writer, places, PANE, {"new": 7, "old 3": 8})
        _put(writer, places, -5, {"k": 1})
        await writer.prepare({})
        await writer.commit()
        if folds:
            await writer.fold()
        _put(writer, places, "never committed", {"k": 1})
        await writer.prepare({})
    finally:
        await provider.close()


def _put(writer: Writer, places: list[StatePlace], name: Any, values: dict[Any, Any]) -> None:
    for place in places:
        state = writer.state_at(place)
        own = {key: value for key, value in values.items() if place.slot_of(key) in place.slots}
        (state if name is None else state.namespace(name)).put_many(own)


WORDS: dict[str, Any] = {"a": 10, "b": 2, "c": {"deep": (1, 2)}}
"""Values that `write_words` has committed in `count`."""


async def read_with_tools(url: str, topology: str, codec: CodecName = "msgpack") -> Found:
    """Return the state that the tools read."""
    found: Found = {}
    async with provider_of(url).inventory().look(topology) as stored:
        state = await CommittedState.of(stored, topology, unpickles=True)
        for component_id in state.components:
            keys = 0
            async for rows in state.rows(component_id):
                for row in rows:
                    place = component_id, row.slot, MessagePack().decode(row.key)
                    assert place not in found, "a key came twice"
                    found[place] = state.codec.decode(row.value or b"")
                    keys += 1
            assert (await state.sizes(component_id)).keys == keys
    return found


async def read_at_start(url: str, topology: str, places: list[StatePlace], codec: CodecName = "msgpack") -> Found:
    """Return the state that the next run restores before its tasks begin."""
    config = Config(state_provider=url, state_codec=codec)
    provider = provider_of(url)
    await provider.open(topology)
    checkpoints = Checkpoints(topology, provider, config, Clock(), Layout(places, {}))
    try:
        await checkpoints.open()
        found: Found = {}
        for place in places:
            state = await checkpoints.state_of(place, None)
            items: list[tuple[Any, Any]] = list(state.items())
            found |= {(place.component_id, place.slot_of(key), key): value for key, value in items}
        return found
    finally:
        await checkpoints.close(fold=True)
        await provider.close()
