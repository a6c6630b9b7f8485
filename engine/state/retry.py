"""Trying again: what a store cannot do now it may do soon, within a time that the user sets (`state_timeout_secs`)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from engine.errors import StateUnavailable

FIRST_PAUSE_SECS: Final = 0.05
LONGEST_PAUSE_SECS: Final = 5.0
LOGGER: Final = logging.getLogger("engine.state")
_T = TypeVar("_T")


class Patience:
    """Tries what a store does again while it is unavailable, and says so; gives up after `timeout_secs` of one trouble."""

    def __init__(self, timeout_secs: float, on_trouble: Callable[[str | None], None] = lambda text: None) -> None:
        self._timeout_secs = timeout_secs
        self._on_trouble = on_trouble

    async def with_(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Return what work returns, by its first try that succeeds.

        Raises StateUnavailable when it is out of time, StateError for what will never do. Meanwhile `on_trouble` has the text of the
        trouble, and None after it, however it ended.
        """
        try:
            return await work()
        except StateUnavailable as error:
            trouble = error
        LOGGER.warning("%s. Trying again for up to %g s.", trouble.message, self._timeout_secs)
        self._on_trouble(trouble.message)
        try:
            return await self._again(work, trouble)
        finally:
            self._on_trouble(None)

    async def _again(self, work: Callable[[], Awaitable[_T]], trouble: StateUnavailable) -> _T:
        now = asyncio.get_running_loop().time
        began, pause = now(), FIRST_PAUSE_SECS
        while (left := began + self._timeout_secs - now()) > 0:
            await asyncio.sleep(min(pause, left))
            try:
                result = await work()
            except StateUnavailable as error:
                trouble = error
            else:
                LOGGER.warning("the state can be reached again, after %.1f s", now() - began)
                return result
            pause = min(2 * pause, LONGEST_PAUSE_SECS)
        raise StateUnavailable(f"{trouble.message} (tried for {now() - began:.1f} s)", hint=trouble.hint) from trouble
