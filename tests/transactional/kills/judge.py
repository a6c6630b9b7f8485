"""Checks the final state of a `counting` topology that was killed, restarted, and is complete (TX-8, TX-9)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from engine.state import provider_of
from engine.transactional.transactional_state import LEDGER, record_of
from engine.transactional.values import ValueMap
from engine.transactional.values.reduce import ALL
from tests.transactional.kills.counting import Places


async def faults_of(places: Places, lines: Iterable[str]) -> list[str]:
    """Return the faults of the final state, given the lines."""
    counted = Counter(word for line in lines for word in line.split())
    expected = {"words": dict(counted), "total": {ALL: counted.total()}, "mirror": dict(counted)}
    committed = await committed_txid(places)
    faults: list[str] = []
    for component, values in places.maps().items():
        stored, txid = await _stored(values)
        faults += _differences(component, expected[component], stored)
        if txid != committed:
            faults.append(f"{component} was written last by transaction {txid}, and {committed} is the last that is committed")
    return faults


async def committed_txid(places: Places) -> int:
    """Newest committed txid in the coordinator's state."""
    provider = provider_of(places.state)
    await provider.open(places.name)
    try:
        return record_of(await provider.ledger(LEDGER).read(), places.name, partitioned=True).committed
    finally:
        await provider.close()


async def _stored(values: ValueMap) -> tuple[dict[Any, Any], int]:
    async with values.reader() as reader:
        return {key: value async for key, value in reader.items()}, await reader.txid()


def _differences(component: str, expected: Mapping[Any, int], stored: Mapping[Any, int]) -> Iterator[str]:
    for key in sorted(expected.keys() | stored.keys()):
        if expected.get(key) != stored.get(key):
            yield f"{component}: {key!r} stands at {stored.get(key)}, and is {expected.get(key)}"
