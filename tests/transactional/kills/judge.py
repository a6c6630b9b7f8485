"""Checks of a topology of `counting` after kills, restarts and its end (TX-8, TX-9)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from engine.state import provider_of
from engine.transactional.transactional_state import LEDGER, record_of
from engine.transactional.values import ValueMap
from engine.transactional.values.reduce import ALL
from tests.transactional.kills.counting import Places


async def faults_of(places: Places, lines: Iterable[str]) -> list[str]:
    """Return the differences from a plain count of the lines."""
    counted = Counter(word for line in lines for word in line.split())
    expected = {"words": dict(counted), "total": {ALL: counted.total()}, "mirror": dict(counted)}
    committed = await committed_txid(places)
    faults: list[str] = []
    for component, values in places.maps().items():
        stored, txid = await _stored(values)
        faults += _differences(component, expected[component], stored)
        if txid != committed:
            faults.append(f"{component} was written last by transaction {txid}, but the last committed one is {committed}")
    return faults


async def committed_txid(places: Places) -> int:
    """Return the newest committed txid in the coordinator's state."""
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
            yield f"{component}: {key!r} is stored as {stored.get(key)}, but {expected.get(key)} is right"
