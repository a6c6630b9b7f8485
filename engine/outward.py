"""Calls out of the engine to functions of the program that are no component, such as the listeners of a run.

The engine makes these calls inside its actors and while it ends a run. Whatever such a function does, it must neither kill the instance
that happens to run nor keep the engine from its own work (RUN-6).
"""

import asyncio
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from engine.log import EngineLogger
from engine.program_exit import raise_out_of_loop

LOGGER: Final = EngineLogger("engine.runtime")


def call_outward(what: str, function: Callable[..., object], *args: object) -> None:
    """Call a plain function of the program, and log what it raises: any exception, a CancelledError included. Never raise.

    what: the function in the log, such as `a callback of on_end`. An exit (SystemExit, KeyboardInterrupt) ends the program, but only after
    the engine has finished its step, so that the other functions are called and a run that ends does end. The function runs in no asyncio
    task, like a callback of the loop, so it cannot cancel the task that happens to run, which may be an actor of the run.
    """
    handled = sys.exception()
    try:
        with _outside_aio_task():
            returned = function(*args)
    except (KeyboardInterrupt, SystemExit) as error:
        raise_out_of_loop(error)
    except BaseException as error:
        _drop_context(error, handled)
        LOGGER.error("%s raised", what, exc_info=error)
    else:
        if inspect.iscoroutine(returned):
            returned.close()
            LOGGER.error("%s returned a coroutine, which nobody awaits. Start it by asyncio.create_task()", what)


@contextmanager
def _outside_aio_task() -> Iterator[None]:
    """Leave the running asyncio task for the time of a plain call, so that `asyncio.current_task()` is None.

    `uncancel()` afterwards would not do: before Python 3.13, the task gets the CancelledError nevertheless, at its next `await`.
    """
    try:
        aio_task = asyncio.current_task()
    except RuntimeError:  # without an event loop there is no task to leave
        aio_task = None
    if aio_task is None:
        yield
        return
    loop = aio_task.get_loop()
    asyncio._leave_task(loop, aio_task)
    try:
        yield
    finally:
        asyncio._enter_task(loop, aio_task)


def _drop_context(error: BaseException, context: BaseException | None) -> None:
    """Remove `context` from the context of `error`.

    The engine was handling `context` when the function raised `error`, but `context` is not the cause of `error`.
    """
    inner = error
    while inner.__context__ is not None and inner.__context__ is not context:
        inner = inner.__context__
    inner.__context__ = None
