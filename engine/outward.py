"""Calls out of the engine to functions of the program that are no component, such as the listeners of a run.

The engine makes these calls inside its actors and while it ends a run. Whatever such a function does, it must neither kill the instance
that happens to run nor keep the engine from its own work (RUN-6).
"""

import inspect
import sys
from collections.abc import Callable
from typing import Final

from engine.log import EngineLogger
from engine.program_exit import raise_out_of_loop

LOGGER: Final = EngineLogger("engine.runtime")


def call_outward(what: str, function: Callable[..., object], *args: object) -> None:
    """Call a plain function of the program, and log what it raises: any exception, a CancelledError included. Never raise.

    what: the function in the log, such as `a callback of on_end`. An exit (SystemExit, KeyboardInterrupt) ends the program, but only after
    the engine has finished its step, so that the other functions are called and a run that ends does end.
    """
    handled = sys.exception()
    try:
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


def _drop_context(error: BaseException, context: BaseException | None) -> None:
    """Remove `context` from the context of `error`.

    The engine was handling `context` when the function raised `error`, but `context` is not the cause of `error`.
    """
    inner = error
    while inner.__context__ is not None and inner.__context__ is not context:
        inner = inner.__context__
    inner.__context__ = None
