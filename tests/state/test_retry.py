"""`StoreRetry` in virtual time: number of tries, end of the retries, and log."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from engine.errors import StateError, StateUnavailable
from engine.state import StoreRetry
from engine.testing import run_virtual


class Store:
    """Is unavailable until `back_at`, and records the times of the calls."""

    def __init__(self, back_at: float = float("inf"), error: Exception | None = None) -> None:
        self.back_at = back_at
        self.error = error or StateUnavailable("the store is away", hint="Wait.")
        self.tries: list[float] = []

    async def work(self) -> str:
        now = asyncio.get_running_loop().time()
        self.tries.append(round(now, 3))
        if now < self.back_at:
            raise self.error
        return "done"


def virtually(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    run_virtual(main)


def test_a_call_that_succeeds_is_made_once_without_a_log() -> None:
    troubles: list[str | None] = []
    store = Store(back_at=0)

    async def main() -> None:
        assert await StoreRetry(60, troubles.append).call_with_retries(store.work) == "done"

    virtually(main)
    assert (store.tries, troubles) == ([0.0], [])


def test_an_unavailable_store_is_tried_after_growing_pauses(caplog: pytest.LogCaptureFixture) -> None:
    troubles: list[str | None] = []
    store = Store(back_at=20)

    async def main() -> None:
        assert await StoreRetry(60, troubles.append).call_with_retries(store.work) == "done"

    virtually(main)
    assert store.tries == [0.0, 0.05, 0.15, 0.35, 0.75, 1.55, 3.15, 6.35, 11.35, 16.35, 21.35]
    assert troubles == ["the store is away", None]
    assert [record.message for record in caplog.records] == [
        "the store is away. Trying again for up to 60 s.",
        "the state can be reached again, after 21.4 s",
    ]


@pytest.mark.parametrize(("timeout", "last"), [(0, 0.0), (0.1, 0.1), (10, 10.0)])
def test_retries_end_exactly_at_the_timeout(timeout: float, last: float) -> None:
    troubles: list[str | None] = []
    store = Store()

    async def main() -> None:
        with pytest.raises(StateUnavailable, match=rf"the store is away \(tried for {timeout:.1f} s\)") as caught:
            await StoreRetry(timeout, troubles.append).call_with_retries(store.work)
        assert caught.value.hint == "Wait."

    virtually(main)
    assert store.tries[-1] == last
    assert troubles[-1] is None


def test_a_permanent_error_is_not_retried() -> None:
    store = Store(error=StateError("another codec"))

    async def main() -> None:
        with pytest.raises(StateError, match="another codec"):
            await StoreRetry(60).call_with_retries(store.work)

    virtually(main)
    assert store.tries == [0.0]


def test_a_later_permanent_error_ends_the_retries() -> None:
    store = Store()

    async def main() -> None:
        asyncio.get_running_loop().call_later(5, setattr, store, "error", StateError("another codec"))
        with pytest.raises(StateError, match="another codec"):
            await StoreRetry(60).call_with_retries(store.work)

    virtually(main)
    assert store.tries[-1] == 6.35


def test_a_cancelled_call_does_not_leave_the_store_marked_as_unavailable() -> None:
    troubles: list[str | None] = []

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await StoreRetry(60, troubles.append).call_with_retries(Store().work)

    virtually(main)
    assert troubles == ["the store is away", None]
