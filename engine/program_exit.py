"""Passes a wish of the program's own code to end the program on to the event loop."""

import asyncio


def raise_out_of_loop(error: KeyboardInterrupt | SystemExit) -> None:
    """Let the running event loop raise `error` out of `run_forever` in its next turn, as it does for an exit of its own callbacks.

    The engine calls the program's code inside its actors, for example a log handler. An exit there must end the program without passing
    through the actor, whose task it would kill first. Without a running loop, `error` is raised at once.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise error from None
    loop.call_soon(_raise, error)


def _raise(error: BaseException) -> None:
    raise error
