"""Moments of death around a call. Each moment replaces one call by a deadly one."""

import asyncio
import functools
import importlib
import inspect
import os
import signal
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

Call: TypeAlias = Callable[..., Any]
Moment: TypeAlias = Callable[["Trigger", Call], Call]
"""Replaces one call by another one, in which the process dies."""

WRONG_STEP: Final = 70
"""Exit status of a process whose step does not fit the code."""


@dataclass
class Trigger:
    """Dies when a matching call comes for the n-th time."""

    counts: Callable[..., bool]
    number: int
    flight_secs: float
    """Seconds between a sent request and the death, for deaths in the middle of a call."""

    def is_due(self, *arguments: Any) -> bool:
        """Tell whether the process dies at this call."""
        try:
            if not self.counts(*arguments):
                return False
        except Exception:  # the step does not fit the code any more, and no test may pass without its kill
            traceback.print_exc()
            os._exit(WRONG_STEP)
        self.number -= 1
        return self.number <= 0

    def strike(self) -> NoReturn:
        """Die."""
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("not dead")


def put_deadly_call(target: str, moment: Moment, trigger: Trigger) -> None:
    """Make this process die at the call `module:Class.method`."""
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for each in outer:
        owner = getattr(owner, each)
    setattr(owner, name, moment(trigger, getattr(owner, name)))


def before(trigger: Trigger, call: Call) -> Call:
    """Dies before the call."""

    @functools.wraps(call)
    def dying(*arguments: Any, **named: Any) -> Any:
        if trigger.is_due(*arguments):
            trigger.strike()
        return call(*arguments, **named)

    return dying


def signalled(number: signal.Signals) -> Moment:
    """Return a moment before the call that strikes once, with any signal: an interrupt or a pause, for example."""

    def moment(trigger: Trigger, call: Call) -> Call:
        is_sent = False

        @functools.wraps(call)
        def signalling(*arguments: Any, **named: Any) -> Any:
            nonlocal is_sent
            if not is_sent and trigger.is_due(*arguments):
                is_sent = True
                os.kill(os.getpid(), number)
            return call(*arguments, **named)

        return signalling

    return moment


def after(trigger: Trigger, call: Call) -> Call:
    """Dies after the call, before the caller gets the result."""

    @functools.wraps(call)
    async def dying_later(*arguments: Any, **named: Any) -> Any:
        result = await call(*arguments, **named)
        if trigger.is_due(*arguments):
            trigger.strike()
        return result

    @functools.wraps(call)
    def dying(*arguments: Any, **named: Any) -> Any:
        result = call(*arguments, **named)
        if trigger.is_due(*arguments):
            trigger.strike()
        return result

    return dying_later if inspect.iscoroutinefunction(call) else dying


def in_flight(trigger: Trigger, call: Call) -> Call:
    """Dies during the call: the sent request may be done, not done, or done later."""

    @functools.wraps(call)
    async def dying(*arguments: Any, **named: Any) -> Any:
        if trigger.is_due(*arguments):
            await asyncio.wait([asyncio.ensure_future(call(*arguments, **named))], timeout=trigger.flight_secs)
            trigger.strike()
        return await call(*arguments, **named)

    return dying


def in_transaction(trigger: Trigger, call: Call) -> Call:
    """Dies after the work of the call, before its commit."""

    @functools.wraps(call)
    def dying(owner: Any, work: Call) -> Any:
        def deadly(*arguments: Any) -> NoReturn:
            work(*arguments)
            trigger.strike()

        return call(owner, deadly if trigger.is_due(owner, work) else work)

    return dying


def half_way(trigger: Trigger, call: Call) -> Call:
    """Dies after half of the rows are emitted."""

    @functools.wraps(call)
    def dying(emitter: Any, rows: list[Any], *stream: str) -> Any:
        if trigger.is_due(emitter, rows):
            call(emitter, rows[: len(rows) // 2], *stream)
            trigger.strike()
        return call(emitter, rows, *stream)

    return dying


def between(trigger: Trigger, call: Call) -> Call:
    """Dies between two items of a generator."""

    @functools.wraps(call)
    def dying(*arguments: Any) -> Iterator[Any]:
        for number, part in enumerate(call(*arguments)):
            if number and trigger.is_due(*arguments):
                trigger.strike()
            yield part

    return dying


def when_done(*others: tuple[str, int]) -> Moment:
    """Dies before an update, after the named other committers (component, task) are done with the same batch."""

    def moment(trigger: Trigger, call: Call) -> Call:
        done: defaultdict[Any, set[tuple[str, int]]] = defaultdict(set)
        changed = asyncio.Condition()

        @functools.wraps(call)
        async def dying(values: Any, attempt: Any, *arguments: Any, **named: Any) -> Any:
            if trigger.is_due(values, attempt):
                async with changed:
                    await changed.wait_for(lambda: done[attempt].issuperset(others))
                trigger.strike()
            result = await call(values, attempt, *arguments, **named)
            async with changed:
                done[attempt].add((values._context.component_id, values._context.task_index))
                changed.notify_all()
            return result

        return dying

    return moment
