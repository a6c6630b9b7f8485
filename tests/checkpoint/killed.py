"""Checks the final state of a `killing` topology that was killed, restarted, and is complete (CP-10)."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from engine.state import LayeredState, SealedStores, StatePlace, StateProvider, codec_named
from tests.checkpoint.killing import TOPOLOGY, lines_of

COMPONENTS = ("first", "second")


async def stored_counts(provider: StateProvider, component_id: str, topology: str = TOPOLOGY) -> Counter[int]:
    """Return the stored counts of a component, read by one task that owns all keys. The provider must be open."""
    place = StatePlace(component_id, 0, 1, True, 128)
    stores = SealedStores(provider, topology, {}, txid=lambda: -1, bare=False)
    state: LayeredState[int, int] = LayeredState(await stores.store(component_id, 0, place.slots), codec_named("msgpack"), place)
    await state.load()
    return Counter(dict(state.items()))


def times_emitted(folder: Path) -> Counter[int]:
    """Return how often each number was emitted. Numbers in flight at a kill are emitted again."""
    return Counter(int(line) for line in (folder / "emitted").read_text().split("\n")[:-1])


async def faults_of(folder: Path, messages: int, provider: StateProvider) -> list[str]:
    """Return the faults of the final state. The provider must be open."""
    numbers, emitted = set(range(messages)), times_emitted(folder)
    faults = (
        [f"{len(missing)} numbers were never acked: {sorted(missing)[:9]}"] if (missing := numbers - lines_of(folder / "acked")) else []
    )
    for component_id in COMPONENTS:
        faults += _faults_of(component_id, numbers, emitted, await stored_counts(provider, component_id))
    return faults


def _faults_of(component_id: str, numbers: set[int], emitted: Counter[int], counted: Counter[int]) -> Iterator[str]:
    if lost := numbers - counted.keys():
        yield f"{len(lost)} acked numbers are lost at {component_id}: {sorted(lost)[:9]}"
    if unknown := counted.keys() - numbers:
        yield f"{component_id} counted what was never emitted: {sorted(unknown)[:9]}"
    if twice := [number for number in sorted(numbers) if counted[number] > emitted[number]]:
        yield f"{len(twice)} numbers are counted more often at {component_id} than they were emitted: {twice[:9]}"
