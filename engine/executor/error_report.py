"""Errors of components, told so that a person can act: who, with which input, where in the code, and what happens next."""

import logging
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from engine.clock import Clock
from engine.errors import EngineBug, EngineError, UsageError, with_hint
from engine.log import TaskLogger

LOGGER: Final = logging.getLogger("engine.executor")
MOST_REPORTS: Final = 5
WINDOW_SECS: Final = 10.0
MOST_CAUSES: Final = 10


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
    """From the component's own code on; empty for an error that has no traceback."""
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


class ErrorReporter:
    """Reports the errors of one task: 5 per 10 s at most, the rest is counted (ACK-12)."""

    def __init__(self, component_id: str, task_id: int, clock: Clock, publish: Callable[[ErrorReport], None]) -> None:
        self._component_id = component_id
        self._task_id = task_id
        self._clock = clock
        self._publish = publish
        self._times: deque[float] = deque()
        self._left_out = 0
        self._logger = TaskLogger(LOGGER, component_id, task_id)
        self.errors = 0

    def report(self, error: BaseException, *, tup: object = None, next_step: str) -> None:
        """Log and publish an error, unless too many were of late."""
        if not isinstance(cast(object, error), BaseException):
            text = f"{self._component_id!r} (task {self._task_id}): report_error() was given {error!r}, which is no exception"
            raise UsageError(text, hint='Write report_error(ValueError("...")).')
        self.errors += 1
        now = self._clock.now()
        while self._times and now - self._times[0] >= WINDOW_SECS:
            self._times.popleft()
        if len(self._times) >= MOST_REPORTS:
            self._left_out += 1
            return
        self._times.append(now)
        report = ErrorReport(
            self._component_id,
            self._task_id,
            self._clock.wall(),
            error_text(error),
            None if tup is None else shown(tup),
            user_traceback(error),
            next_step + (f" ({self._left_out} more errors of this task were left out)" if self._left_out else ""),
        )
        self._left_out = 0
        self._publish(report)
        self._logger.error("%s", report.describe())

    def warn(self, text: str) -> None:
        """Log a warning about this task."""
        self._logger.warning("%s", text)


def error_text(error: BaseException) -> str:
    """Return `KeyError: 'word'`, with the hint of an error of the engine."""
    if isinstance(error, EngineError) and error.hint:
        return shorten(f"{type(error).__name__}: {with_hint(error.message, error.hint)}", 2000)
    return shorten(f"{type(error).__name__}: {_own_text(error)}".rstrip(": "), 2000)


def failure_text(error: BaseException) -> str | None:
    """Return what a FailTuple says; None where it says nothing."""
    return shorten(_own_text(error), 2000) or None


def _own_text(error: BaseException) -> str:
    try:
        return str(error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as second:  # noqa: BLE001 - the user's own __str__; what it raised is told instead
        return f"its text cannot be shown, {type(second).__name__}"


def shown(tup: object, most: int = 500) -> str:
    """Return the repr of a tuple, cut to what can be read; also where a value's own repr raises."""
    try:
        return shorten(repr(tup), most)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - the user's own __repr__; what it raised is told instead
        return f"<{type(tup).__name__} that cannot be shown: a value's repr raised {type(error).__name__}>"


def user_traceback(error: BaseException, causes: int = MOST_CAUSES) -> str:
    """Return the traceback without the engine's own frames at its top, and, where the engine refused a call, below that call."""
    frames = list(traceback.extract_tb(error.__traceback__))
    own = [i for i, frame in enumerate(frames) if not is_engine_file(frame.filename)]
    refused = isinstance(error, EngineError) and not isinstance(error, EngineBug)
    text = "".join(traceback.format_list(frames[own[0] : own[-1] + 1 if refused else None])) if own else ""
    cause = error.__cause__
    if causes and cause is not None and cause.__traceback__ is not None and not isinstance(error, EngineError):
        text = f"{user_traceback(cause, causes - 1)}{error_text(cause)}\nthe cause of:\n{text}"
    return text


def is_engine_file(filename: str) -> bool:
    """True for the engine's own modules."""
    path = filename.replace("\\", "/")
    packages = ("executor", "cluster", "checkpoint", "transactional", "state", "topology")
    inside = (*(f"/engine/{package}/" for package in packages), "/_native/")
    return path.startswith("_native/") or any(folder in path for folder in inside)


def shorten(text: str, most: int = 500) -> str:
    """Cut a text that is too long to read."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
