"""`describe_tasks` tells where asyncio tasks wait, for the errors of the virtual loop."""

import asyncio
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, Final

_MAX_TASKS: Final = 20
_MAX_PLACES: Final = 8


def describe_tasks(tasks: Iterable["asyncio.Task[Any]"]) -> str:
    """Return one line per task, in order of creation: its name, and where its coroutines wait, outermost first."""
    lines = [f"  - {task.get_name()}: {' > '.join(_places(task)) or 'not started'}" for task in sorted(tasks, key=hash)]
    hidden = len(lines) - _MAX_TASKS
    if hidden > 0:
        lines[_MAX_TASKS:] = [f"  - and {hidden} more"]
    return "\n".join(lines)


def _places(task: "asyncio.Task[Any]") -> list[str]:
    places: list[str] = []
    coroutine: object = task.get_coro()
    while coroutine is not None and len(places) < _MAX_PLACES:
        frame = _first(coroutine, "cr_frame", "gi_frame", "ag_frame")
        if frame is None:
            break
        code = frame.f_code
        places.append(f"{code.co_qualname} ({PurePath(code.co_filename).name}:{frame.f_lineno})")
        coroutine = _first(coroutine, "cr_await", "gi_yieldfrom", "ag_await")
    return places


def _first(coroutine: object, *names: str) -> Any:
    return next((value for name in names if (value := getattr(coroutine, name, None)) is not None), None)
