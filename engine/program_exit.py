"""Passes a wish of the program's own code to end the program on to the event loop."""

import asyncio
from typing import Final
from weakref import WeakSet

_LEAVING: Final[WeakSet[asyncio.AbstractEventLoop]] = WeakSet()
"""Loops that will raise an exit in their next turn."""


def raise_out_of_loop(error: KeyboardInterrupt | SystemExit) -> None:
    """Let the running event loop raise `error` out of `run_forever` in its next turn, as it does for an exit of its own callbacks.

    The engine calls the program's code inside its actors, for example a log handler. An exit there must end the program without passing
    through the actor, whose task it would kill first. Of several exits in one turn the first one counts, because another would interrupt
    the clean-up that follows. Without a running loop, `error` is raised at once.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise error from None
    if loop not in _LEAVING:
        _LEAVING.add(loop)
        loop.call_soon(_leave, loop, error)


def _leave(loop: asyncio.AbstractEventLoop, error: BaseException) -> None:
    _LEAVING.discard(loop)
    raise error
