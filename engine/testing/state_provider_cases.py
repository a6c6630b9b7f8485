"""What the cases of `StateProviderSuite` share: decorators, rows in chunks, and injected breaks."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, Final
from unittest import SkipTest

from engine.errors import StateError
from engine.state import KeyValueState, Row, StoredTopology

Test = Callable[[Any, Path], None]
Rows = dict[tuple[int, bytes], bytes]

TOPOLOGY: Final = "suite"
OTHER: Final = "another: topology/ü"
SLOTS: Final = range(4)
MANY_KEYS: Final = 100_000
MANY_ROWS: Final = 25_000
COUNTS: Final[Callable[[int, int], bool]] = lambda txid, round_: True  # noqa: E731


def async_test(test: Callable[[Any, Path], Coroutine[Any, Any, None]]) -> Test:
    """Turn a coroutine function into a plain test."""

    @functools.wraps(test)
    def run(self: Any, tmp_path: Path) -> None:
        asyncio.run(test(self, tmp_path))

    return run


def needs_durable(test: Test) -> Test:
    """Leave a test out if the provider does not store data durably."""
    return _needs("durable", test)


def needs_rows(test: Test) -> Test:
    """Leave a test of rows and deltas out if the provider keeps only ledgers."""
    return _needs("keeps_rows", test)


def _needs(attribute: str, test: Test) -> Test:
    """Note a class attribute without which a class does not get the test."""
    test.__dict__["needs"] = (*needs_of(test), attribute)
    return test


def needs_of(test: object) -> tuple[str, ...]:
    return getattr(test, "needs", ())


def needs_inventory(test: Callable[[Any, Path], Coroutine[Any, Any, None]]) -> Test:
    """Turn a coroutine function into a plain test, which is left out or skipped if the provider has no inventory."""

    @functools.wraps(test)
    def run(self: Any, tmp_path: Path) -> None:
        try:
            self.provider(tmp_path).inventory()
        except StateError as error:
            raise SkipTest(f"this provider has no inventory: {error.message}") from None
        async_test(test)(self, tmp_path)

    return needs_durable(_needs("has_inventory", run))


async def blobs(*parts: bytes) -> AsyncIterator[bytes]:
    """Yield the blobs of a delta."""
    for part in parts:
        yield part


async def chunks(rows: Iterable[Row], *, breaks_after: int | None = None) -> AsyncIterator[list[Row]]:
    """Yield rows in chunks of a hundred. After `breaks_after` chunks raise InjectedBreak, as if the process died."""
    listed = list(rows)
    for number, first in enumerate(range(0, len(listed), 100)):
        if number == breaks_after:
            raise InjectedBreak
        yield listed[first : first + 100]


class InjectedBreak(Exception):
    """Interrupts a stage or a fold."""


async def assert_raises(kind: type[BaseException], work: Awaitable[object]) -> None:
    """Check that work raises an error of this class."""
    try:
        await work
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


async def rows_in(stored: StoredTopology, component_id: str = "count") -> dict[tuple[int, bytes], bytes | None]:
    """Return all rows of a component, and check that none comes twice."""
    found = [row for rows in [each async for each in stored.rows(component_id)] for row in rows]
    rows = {(row.slot, row.key): row.value for row in found}
    assert len(rows) == len(found), "a row came twice"
    return rows


async def removed(steps: AsyncIterator[int]) -> int:
    """Return how many rows a removal removed."""
    return sum([rows async for rows in steps])


async def checkpoint(state: KeyValueState[Any, Any], txid: int) -> None:
    """Prepare and commit a checkpoint."""
    await state.prepare_commit(txid)
    await state.commit(txid)
