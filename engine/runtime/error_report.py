"""Errors of components, told so that a person can act: who, with which input, where in the code, and what happens next."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from engine.clock import Clock
from engine.errors import EngineError, UsageError, with_hint
from engine.log import TaskLogger
from engine.raised import headline, members_of, own_text
from engine.runtime.tracebacks import user_traceback

LOGGER: Final = logging.getLogger("engine.runtime")
MOST_REPORTS: Final = 5
WINDOW_SECS: Final = 10.0

_Kind: TypeAlias = tuple[type[BaseException], str, int, str]
"""Type, file or text, line, next step: equal for errors that are told once."""


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """One error of one task. Everything is text: no frame and no tuple is kept alive (ACK-15)."""

    component_id: str
    task_id: int
    wall: float
    """Seconds since the epoch."""
    text: str
    """`KeyError: 'word'`"""
    tuple_text: str | None
    """The input that was being executed."""
    traceback: str
    """The user's frames; empty for an error that has no traceback."""
    next_step: str
    """What the engine does about it."""

    def describe(self) -> str:
        """Return the report as a person reads it, over several lines."""
        lines = [f"{self.component_id!r} (task {self.task_id}) raised {self.text}"]
        if self.tuple_text is not None:
            lines.append(f"  input: {self.tuple_text}")
        lines.extend("  " + line for line in self.traceback.splitlines())
        lines.append(f"  next: {self.next_step}")
        return "\n".join(lines)


@dataclass(slots=True, eq=False)
class _Burst:
    """Equal errors of one task: the first is reported, the others are counted."""

    window: asyncio.TimerHandle
    text: str
    """Of the last one."""
    more: int = 0


class ErrorReporter:
    """Reports the errors of one task: of equal ones the first, and their number after 10 s; at most 5 different ones in 10 s (SV-5)."""

    def __init__(
        self,
        component_id: str,
        task_id: int,
        loop: asyncio.AbstractEventLoop,
        publish: Callable[[ErrorReport], None],
        *,
        full_traceback: bool = False,
    ) -> None:
        """publish: tells the listeners of the run. full_traceback: fold no frames."""
        self._component_id = component_id
        self._task_id = task_id
        self._loop = loop
        self._clock = Clock.of(loop)
        self._publish = publish
        self._full_traceback = full_traceback
        self._bursts: dict[_Kind, _Burst] = {}
        self._left_out = 0
        self._logger = TaskLogger(LOGGER, component_id, task_id)
        self.errors = 0

    def report(self, error: BaseException, *, tup: object = None, next_step: str) -> None:
        """Log and publish an error; only count it where an equal one, or too many, were of late."""
        if not isinstance(cast(object, error), BaseException):
            text = f"{self._component_id!r} (task {self._task_id}): report_error() was given {error!r}, which is no exception"
            raise UsageError(text, hint='Write report_error(ValueError("...")).')
        self.errors += 1
        kind = _kind_of(error, next_step)
        burst = self._bursts.get(kind)
        if burst is not None:
            burst.more += 1
            burst.text = error_text(error)
        elif len(self._bursts) >= MOST_REPORTS:
            self._left_out += 1
        else:
            self._bursts[kind] = _Burst(self._loop.call_later(WINDOW_SECS, self._end_burst, kind), error_text(error))
            self._tell(error, tup, next_step)

    def _tell(self, error: BaseException, tup: object, next_step: str) -> None:
        report = ErrorReport(
            self._component_id,
            self._task_id,
            self._clock.wall(),
            error_text(error),
            None if tup is None else shown(tup),
            user_traceback(error, full=self._full_traceback),
            next_step + (f" ({self._left_out:,} more errors of this task were left out)" if self._left_out else ""),
        )
        self._left_out = 0
        self._publish(report)
        self._logger.error("%s", report.describe())

    def _end_burst(self, kind: _Kind) -> None:
        """Log how many more equal errors came."""
        burst = self._bursts.pop(kind)
        burst.window.cancel()
        if burst.more:
            times = f"{burst.more:,} more time{'s' * (burst.more > 1)}"
            where = f"{self._component_id!r} (task {self._task_id})"
            self._logger.error("%s raised the same %s within %g s; the last one: %s", where, times, WINDOW_SECS, burst.text)

    def close(self) -> None:
        """Log what is counted and not told yet."""
        for kind in list(self._bursts):
            self._end_burst(kind)

    def warn(self, text: str) -> None:
        """Log a warning about this task."""
        self._logger.warning("%s", text)


def _kind_of(error: BaseException, next_step: str) -> _Kind:
    """Return the same for equal errors: one type, raised at one line of code (without a traceback: one text), and one next step."""
    last = error.__traceback__
    if last is None:
        return type(error), error_text(error), 0, next_step
    while last.tb_next is not None:
        last = last.tb_next
    members = [_kind_of(member, "")[:3] for member in members_of(error)[0]]  # a TaskGroup raises at one line, whatever it holds
    return type(error), last.tb_frame.f_code.co_filename + (str(members) if members else ""), last.tb_lineno, next_step


def error_text(error: BaseException) -> str:
    """Return `KeyError: 'word'`, with its notes, or with the hint of an error of the engine."""
    if isinstance(error, EngineError) and error.hint:
        return shorten(f"{type(error).__name__}: {with_hint(error.message, error.hint)}", 2000)
    notes = getattr(error, "__notes__", ())
    text = headline(error)
    return shorten("\n".join((text, *(note for note in notes if isinstance(note, str)))) if isinstance(notes, list) else text, 2000)


def failure_text(error: BaseException) -> str | None:
    """Return what a FailTuple says; None where it says nothing."""
    return shorten(own_text(error), 2000) or None


def shown(tup: object, most: int = 500) -> str:
    """Return the repr of a tuple, cut to what can be read; also where a value's own repr raises."""
    try:
        return shorten(repr(tup), most)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - the user's own __repr__; what it raised is told instead
        return f"<{type(tup).__name__} that cannot be shown: a value's repr raised {type(error).__name__}>"


def shorten(text: str, most: int = 500) -> str:
    """Cut a text that is too long to read."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
