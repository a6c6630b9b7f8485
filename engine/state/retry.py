"""Retries of calls to a store that is unavailable, for up to `state_timeout_secs`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from engine.backoff import Backoff
from engine.errors import StateUnavailable
from engine.log import EngineLogger
from engine.waits import waiting_for

BACKOFF: Final = Backoff(0.05, 5.0)
LOGGER: Final = EngineLogger("engine.state")
_T = TypeVar("_T")


def store_named(url: str) -> str:
    """Return the name of a store for the log, without its address, which may have a password: `the state store (redis)`."""
    return f"the state store ({url.partition(':')[0]})"


class StoreRetry:
    """Retries calls while their store is unavailable, and reports the start and the end of the retries. Gives up after `timeout_secs`."""

    def __init__(
        self, timeout_secs: float, on_unavailable: Callable[[str | None], None] = lambda text: None, *, store: str = "the state store"
    ) -> None:
        """on_unavailable: called with the error text when the retries begin, and with None when they end. store: its name, for the log."""
        self._store = store
        self._timeout_secs = timeout_secs
        self._on_unavailable = on_unavailable

    async def call_with_retries(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Return the result of the first call that succeeds.

        Raises StateUnavailable after the timeout, and any other error at once.
        """
        with waiting_for(self._store):
            try:
                return await call()
            except StateUnavailable as error:
                first_error = error
            return await self._retry(call, first_error)

    async def _retry(self, call: Callable[[], Awaitable[_T]], error: StateUnavailable) -> _T:
        LOGGER.warning("%s. Trying again for up to %g s.", error.message, self._timeout_secs)
        self._on_unavailable(error.message)
        try:
            return await self._call_until_success(call, error)
        finally:
            self._on_unavailable(None)

    async def _call_until_success(self, call: Callable[[], Awaitable[_T]], error: StateUnavailable) -> _T:
        now = asyncio.get_running_loop().time
        began, pauses = now(), BACKOFF.pauses()
        while (left := began + self._timeout_secs - now()) > 0:
            await asyncio.sleep(min(next(pauses), left))
            try:
                result = await call()
            except StateUnavailable as another:
                error = another
            else:
                LOGGER.warning("the state can be reached again, after %.1f s", now() - began)
                return result
        raise StateUnavailable(f"{error.message} (tried for {now() - began:.1f} s)", hint=error.hint) from error
