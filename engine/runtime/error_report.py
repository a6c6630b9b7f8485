"""Reports each component error with its task, the input, the frames of user code, and the engine's next step (SV-5)."""

import asyncio
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal, TypeAlias, cast

from engine.clock import Clock
from engine.errors import EngineBug, EngineError, UsageError, with_hint
from engine.log import EngineLogger
from engine.raised import ENGINE, Frames, frames_of, headline, members_of, notes_of, own_text, owners_of
from engine.safe_text import safe_repr, shorten

LOGGER: Final = EngineLogger("engine.runtime")
MOST_REPORTS: Final = 5
"""Different errors that one task may report within WINDOW_SECS."""
WINDOW_SECS: Final = 10.0
MOST_CAUSES: Final = 10
"""Causes that a traceback shows."""

_Kind: TypeAlias = tuple[type[BaseException], str, int, str]
"""Type, file (or text), line and next step. Within WINDOW_SECS, only the first error of a kind is reported."""


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """One error of one task. Holds text only, so it keeps no frame and no tuple alive (ACK-15)."""

    component_id: str
    task_id: int
    wall: float
    """Time of the error, in seconds since the epoch."""
    text: str
    """Type and text of the error: `KeyError: 'word'`."""
    tuple_text: str | None
    """Input of the call that raised."""
    traceback: str
    """Frames of user code. Empty for an error without a traceback."""
    next_step: str
    """Reaction of the engine."""
    verb: Literal["raised", "reported"] = "raised"
    """`reported` means that the component passed the error to `report_error`."""

    def describe(self) -> str:
        """Return the report as text of several lines."""
        lines = [f"{self.component_id!r} (task {self.task_id}) {self.verb} {self.text}"]
        if self.tuple_text is not None:
            lines.append(f"  input: {self.tuple_text}")
        lines.extend("  " + line for line in self.traceback.splitlines())
        lines.append(f"  next: {self.next_step}")
        return "\n".join(lines)


@dataclass(slots=True, eq=False)
class _Repeats:
    """Number of errors similar to a reported one, until the end of its time window."""

    window: asyncio.TimerHandle
    last_text: str
    count: int = 0


class ErrorReporter:
    """Reports the errors of one task, and limits their number (SV-5).

    Reports the first of similar errors at once, and the number of the others after 10 s. Reports at most 5 different errors in 10 s.
    """

    def __init__(
        self,
        component_id: str,
        task_id: int,
        loop: asyncio.AbstractEventLoop,
        publish: Callable[[ErrorReport], None],
        *,
        full_traceback: bool = False,
    ) -> None:
        """publish: sends a report to the listeners of the run. full_traceback: True to show all frames."""
        self._component_id = component_id
        self._task_id = task_id
        self._loop = loop
        self._clock = Clock.of(loop)
        self._publish = publish
        self._full_traceback = full_traceback
        self._repeats: dict[_Kind, _Repeats] = {}
        self._left_out = 0
        self._logger = LOGGER.for_task(component_id, task_id)
        self.errors = 0
        self.logs = True
        """False: reports are published and not logged, because a listener reports them once more."""

    def report(
        self,
        error: BaseException,
        *,
        tup: object = None,
        next_step: str,
        verb: Literal["raised", "reported"] = "raised",
        text: str | None = None,
    ) -> None:
        """Log and publish an error, or only count it if a limit is reached. text: that of `error_text`, if it is known."""
        if not isinstance(cast(object, error), BaseException):
            text = f"{self._component_id!r} (task {self._task_id}): report_error() was given {safe_repr(error)}, which is not an exception"
            raise UsageError(text, hint='Write report_error(ValueError("...")).')
        self.errors += 1
        kind = _kind_of(error, next_step)
        repeats = self._repeats.get(kind)
        if repeats is not None:
            repeats.count += 1
            repeats.last_text = text or error_text(error)
        elif len(self._repeats) >= MOST_REPORTS:
            self._left_out += 1
        else:
            self._repeats[kind] = _Repeats(self._loop.call_later(WINDOW_SECS, self._end_window, kind), error_text(error))
            self._publish_report(error, tup, next_step, verb)

    def _publish_report(self, error: BaseException, tup: object, next_step: str, verb: Literal["raised", "reported"]) -> None:
        report = ErrorReport(
            self._component_id,
            self._task_id,
            self._clock.wall(),
            error_text(error),
            None if tup is None else safe_repr(tup),
            user_traceback(error, full=self._full_traceback),
            next_step + _left_out_text(self._left_out),
            verb,
        )
        self._left_out = 0
        self._publish(report)
        if self.logs:
            self._logger.error("%s", report.describe())

    def _end_window(self, kind: _Kind) -> None:
        """Log how many similar errors followed."""
        repeats = self._repeats.pop(kind)
        repeats.window.cancel()
        if repeats.count:
            times = f"{repeats.count:,} more time{'s' * (repeats.count > 1)}"
            where = f"{self._component_id!r} (task {self._task_id})"
            self._logger.error("%s raised the same %s within %g s; the last one: %s", where, times, WINDOW_SECS, repeats.last_text)

    def close(self) -> None:
        """Log the errors that are counted and not reported yet."""
        for kind in list(self._repeats):
            self._end_window(kind)

    def warn(self, text: str) -> None:
        """Log a warning about this task."""
        self._logger.warning("%s", text)


def _left_out_text(count: int) -> str:
    if count == 0:
        return ""
    return " (1 more error of this task was left out)" if count == 1 else f" ({count:,} more errors of this task were left out)"


def _kind_of(error: BaseException, next_step: str) -> _Kind:
    """Return the kind of an error. Errors of the same type, line and next step have equal kinds.

    The text replaces the line if the error has no traceback.
    """
    last = error.__traceback__
    if last is None:
        return type(error), error_text(error), 0, next_step
    while last.tb_next is not None:
        last = last.tb_next
    members = [_kind_of(member, "")[:3] for member in members_of(error)[0]]  # a TaskGroup raises all its groups at one line
    return type(error), last.tb_frame.f_code.co_filename + (str(members) if members else ""), last.tb_lineno, next_step


def error_text(error: BaseException) -> str:
    """Return `KeyError: 'word'` with its notes, or with the hint of an engine error."""
    if isinstance(error, EngineError) and error.hint:
        return shorten(f"{type(error).__name__}: {with_hint(error.message, error.hint)}", 2000)
    return shorten("\n".join((headline(error), *notes_of(error))), 2000)


def failure_text(error: BaseException) -> str | None:
    """Return the text of a FailTuple, None if it has none."""
    return shorten(own_text(error), 2000) or None


def user_traceback(error: BaseException, *, full: bool = False, causes: int = MOST_CAUSES) -> str:
    """Return the traceback of an error, of a group's members, and of the causes. Empty if there is none.

    Shows frames of user code. Consecutive frames of libraries and of the engine become one line. Leaves out the engine's
    frames at the top, and those below a call that the engine refused. full: show all frames.
    """
    text = _format_frames(frames_of(error), full=full, refused=_is_refusal(error))
    if not causes or isinstance(error, EngineError):
        return text
    text += _format_members(error, full=full, causes=causes)
    cause, link = error.__cause__, "the cause of"
    if cause is None:
        cause, link = _handled_error(error), "while that was handled"
    if cause is None or cause.__traceback__ is None:
        return text
    return f"{user_traceback(cause, full=full, causes=causes - 1)}{headline(cause)}\n{link}:\n{text}"


def _format_members(error: BaseException, *, full: bool, causes: int) -> str:
    """Return the tracebacks of a group's members."""
    members, more = members_of(error)
    texts = []
    for number, member in enumerate(members, 1):
        lines = f"{user_traceback(member, full=full, causes=causes // 2)}{headline(member)}".splitlines()
        texts.append(f"  sub-exception {number} of {len(members) + more:,}:\n" + "".join(f"    {line}\n" for line in lines))
    return "".join(texts) + (f"  and {more:,} more sub-exceptions\n" if more else "")


def _handled_error(error: BaseException) -> BaseException | None:
    """Return the error that other code was handling when this one was raised.

    Errors that the engine was handling do not count, because it may call components while it handles an earlier error.
    """
    handled = None if error.__suppress_context__ else error.__context__
    frames = [] if handled is None else frames_of(handled)
    return handled if frames and owners_of(frames)[0] != ENGINE else None  # the first frame caught the error


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, EngineError) and not isinstance(error, EngineBug)


def _format_frames(frames: Frames, *, full: bool, refused: bool) -> str:
    if full:
        return "".join(traceback.format_list(frames))
    owners = owners_of(frames)
    first = next((index for index, owner in enumerate(owners) if owner != ENGINE), None)
    if first is None:
        return ""
    last = max(index for index, owner in enumerate(owners) if owner != ENGINE) + 1 if refused else len(frames)
    shown = range(first, last)
    if None not in owners[first:last]:  # no frame of user code: show the frame that raised
        return "".join((*_fold_frames(frames, owners, shown[:-1]), *traceback.format_list(frames[last - 1 : last])))
    return "".join(_fold_frames(frames, owners, shown))


def _fold_frames(frames: Frames, owners: Sequence[str | None], shown: Sequence[int]) -> Iterator[str]:
    """Yield frames of user code unchanged, and one line for each sequence of other frames."""
    for is_users, group in groupby(shown, key=lambda index: owners[index] is None):
        indices = list(group)
        if is_users:
            yield from traceback.format_list([frames[index] for index in indices])
        else:
            names = dict.fromkeys(str(owners[index]) for index in indices)
            yield f"  ... {len(indices)} frame{'s' * (len(indices) > 1)} of {', '.join(names)}\n"
