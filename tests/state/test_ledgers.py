"""`ValueLedger` decides which of two processes with the same stored value may write."""

import pytest

from engine.errors import StateFenced
from engine.state import ValueLedger
from engine.state.ledgers import Change


class LedgerOf(ValueLedger):
    """A process's ledger; the store is a list with one value."""

    def __init__(self, stored: list[bytes | None]) -> None:
        super().__init__()
        self._stored = stored

    async def change(self, change: Change) -> None:
        self._stored[0] = change(self._stored[0])


@pytest.mark.guarantee("CP-8")
async def test_only_the_last_claimant_may_write() -> None:
    stored: list[bytes | None] = [None]
    first, second = LedgerOf(stored), LedgerOf(stored)
    assert await first.claim() == 1
    await first.write({"a": 1, "gone": 1})
    assert await second.claim() == 2
    with pytest.raises(StateFenced):
        await first.write({"a": 2})
    await second.write({"b": 2, "gone": None})
    assert await first.read() == await second.read() == {"a": 1, "b": 2}


@pytest.mark.guarantee("CP-8")
async def test_a_claimant_whose_store_was_emptied_cannot_write() -> None:
    stored: list[bytes | None] = [None]
    ledger = LedgerOf(stored)
    await ledger.claim()
    stored[0] = None
    with pytest.raises(StateFenced):
        await ledger.write({"a": 1})
    assert await ledger.read() == {}
