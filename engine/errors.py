"""Defines all error classes of the engine, and `Failure`, the reason why a tuple tree failed.

The message of an error says what happened and where. The `hint` of the error says what to do. A command that fails with the error exits
with `exit_status` (RUN-4).
"""

import copyreg
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, get_args

from engine.safe_text import safe_repr, safe_str

FailureReason = Literal["failed", "error", "timeout", "forgotten", "rollback", "task_died"]

_REASONS: Final = get_args(FailureReason)

FAILED: Final = "failed"
ERROR: Final = "error"
TIMEOUT: Final = "timeout"
FORGOTTEN: Final = "forgotten"
ROLLBACK: Final = "rollback"
TASK_DIED: Final = "task_died"

ENDS_OF_ITERATION: Final = (StopIteration, StopAsyncIteration, GeneratorExit)
"""Errors that mean something to code that iterates or awaits. If a call of a component raises one, only this call fails (ACK-12)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason why a tuple tree failed, with the component and the task if they are known.

    `error` is the text of an exception, never the exception itself, because its frames would keep tuples alive (ACK-15).
    """

    reason: FailureReason
    component_id: str | None = None
    task_id: int | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if self.reason not in _REASONS:
            raise UsageError(f"{self.reason!r} is not a reason of a Failure", hint=f"The reasons are {', '.join(map(repr, _REASONS))}.")

    def because(self, error: str | BaseException) -> "Failure":
        """Return this failure with the text of an error, cut to 2,000 characters. Raises UsageError for other types."""
        text = error_as_text(error)
        return replace(self, error=text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…")

    def describe(self) -> str:
        """Return one sentence for users, without a full stop.

        >>> Failure("error", "count", 7, "KeyError: 'word'").describe()
        "'count' (task 7) raised: KeyError: 'word'"
        """
        if self.reason == TASK_DIED and self.error and self.component_id is None and self.task_id is None:
            return self.error
        sentence = _SENTENCES[self.reason].format(where=self._where())
        return f"{sentence}: {self.error}" if self.error else sentence

    def __str__(self) -> str:
        return self.describe()

    def _where(self) -> str:
        if self.component_id is None:
            return "an unknown task" if self.task_id is None else f"task {self.task_id}"
        return f"{self.component_id!r}" if self.task_id is None else f"{self.component_id!r} (task {self.task_id})"


_LONGEST_TEXT: Final = 2000
_SENTENCES: Final[dict[FailureReason, str]] = {
    "failed": "{where} failed it",
    "error": "{where} raised",
    "timeout": "timed out; {where} still owes an ack",
    "forgotten": "{where} dropped its tuple without ack or fail",
    "rollback": "{where} rolled back its checkpoint",
    "task_died": "{where} died",
}


def error_as_text(error: str | BaseException) -> str:
    """Return the text that a bolt has given to a `fail`, or `KeyError: 'word'` for an exception. Raises UsageError for other types.

    >>> error_as_text(KeyError("word")), error_as_text(TimeoutError())
    ("KeyError: 'word'", 'TimeoutError')
    """
    if isinstance(error, str):
        return str.__str__(error)  # no subclass of str, which may be a value that pickle cannot store
    if not isinstance(error, BaseException):
        raise UsageError(f"error must be a text or an exception, not {safe_repr(error)}", hint='Write fail(tup, error="why").')
    text = with_hint(error.message, error.hint) if isinstance(error, EngineError) else safe_str(error)
    return f"{type(error).__name__}: {text}".rstrip(": ")


def with_hint(message: str, hint: str | None) -> str:
    """Join a message and a hint with one full stop between them.

    >>> with_hint("no field 'lien'. Did you mean 'line'?", "Fix it.")
    "no field 'lien'. Did you mean 'line'? Fix it."
    """
    end = "" if message.endswith((".", "?", "!")) else "."
    return f"{message}{end} {hint}" if hint else message


class EngineError(Exception):
    """Base class of all errors of the engine. Pickling keeps its attributes."""

    exit_status: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nFix: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class _FaultList(EngineError):
    """Base class of errors with several faults. Each fault is a text that ends with its fix."""

    def __init__(self, headline: str, faults: Iterable[str], *, hint: str | None = None) -> None:
        self.faults: tuple[str, ...] = tuple(faults)
        if not self.faults:
            raise EngineBug("an error with an empty list of faults was raised", headline=headline)
        super().__init__(_listed(headline, self.faults), hint=hint)


def _listed(headline: str, faults: tuple[str, ...]) -> str:
    """Return one line for a single fault, else a headline with their number and an indented line for each."""
    if len(faults) == 1:
        return f"{headline}: {faults[0]}"
    entries = ("\n  - " + fault.replace("\n", "\n    ") for fault in faults)
    return f"{headline}, {len(faults)} faults:{''.join(entries)}"


class TopologyError(_FaultList):
    """A topology is invalid. Reports all its faults, each with its fix (GRP-5)."""

    exit_status = 2

    def __init__(self, faults: Iterable[str], *, topology_name: str | None = None) -> None:
        super().__init__("topology" if topology_name is None else f"topology {topology_name!r}", faults)
        self.topology_name = topology_name


class ConfigError(_FaultList):
    """Settings are invalid. Reports all faults, each with its place and its fix."""

    exit_status = 2

    def __init__(self, faults: Iterable[str], *, headline: str = "configuration") -> None:
        super().__init__(headline, faults)


class TopologyFileError(EngineError):
    """A topology file cannot be read, fails to import, or does not contain the requested topology."""

    exit_status = 2


class ComponentError(EngineError):
    """A component failed for good and ended the run. `error` is its exception, which is also chained."""

    def __init__(
        self, component_id: str, task_id: int | None, error: BaseException | None, *, message: str | None = None, hint: str | None = None
    ) -> None:
        what = message or ("failed for good" if error is None else f"failed for good: {type(error).__name__}: {safe_str(error)}")
        self.component_id = component_id
        self.task_id = task_id
        super().__init__(f"{self.place}: {what}", hint=hint)
        self.__cause__ = error

    @property
    def place(self) -> str:
        """The component and its task, such as `'count' (task 7)`. The message begins with this text."""
        return f"{self.component_id!r}" if self.task_id is None else f"{self.component_id!r} (task {self.task_id})"

    @property
    def error(self) -> BaseException | None:
        """The exception of the component."""
        return self.__cause__


class FatalError(EngineError):
    """Ends the run at once when a component raises it.

    Raise it for errors that a new instance cannot repair, such as a wrong password or a missing topic.
    """


class BadRows(FatalError):
    """A committer raises it for rows that its target refuses, and would refuse again. It has published nothing then.

    In a topology without batches these rows become dead letters, and the others are published (EO-9). Otherwise it ends the run.
    """

    def __init__(self, message: str, *, rows: Iterable[int] | Mapping[int, str] = (), hint: str | None = None) -> None:
        """rows: numbers of the rows, as this instance has executed them, from 0, or a dict with the error of each.

        Empty: which ones is not known, and the run ends.
        """
        super().__init__(message, hint=hint)
        self.rows: tuple[int, ...] = tuple(rows)
        self.errors: Mapping[int, str] = dict(rows) if isinstance(rows, Mapping) else dict.fromkeys(self.rows, message)
        """The error of each row."""


class UsageError(EngineError):
    """A component, or the program that embeds the engine, uses the API wrongly.

    Examples are an unknown stream, a wrong number of values, an unhashable key, and a call in the wrong state.
    """


class StateError(EngineError):
    """The state of a topology cannot be stored, read or found.

    Examples are a wrong key or value, a damaged store, another layout, and another process that holds the state.
    """


class StateDamaged(StateError, FatalError):
    """Stored data differs from the data that was written. A new instance cannot repair the data, so the run ends."""


class StateProviderError(StateError):
    """The setting `state_provider` names no provider, or creating the provider raised."""

    exit_status = 2


class StateUnavailable(StateError):
    """A store is unavailable at the moment. The operation can be retried."""


class StateFenced(StateError):
    """Another process has taken over the state, so this process must not write to it."""


class EventTimeError(EngineError):
    """A row has no time, or one that cannot be right."""


class WrongTimeUnit(EventTimeError, FatalError):
    """The times of a source seem to have another unit than its settings say. The run ends, because all its rows would be wrong."""


class TupleFailed(EngineError):
    """The tree of a tuple failed. `failure` has the reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"the tuple failed: {failure.describe()}")
        self.failure = failure


class EngineBug(EngineError):
    """The engine broke one of its own invariants. The message has the values that prove it.

    >>> str(EngineBug("the ledger lost a root", root=7)).splitlines()[0]
    'the ledger lost a root (root=7)'
    """

    def __init__(self, message: str, **values: object) -> None:
        proof = ", ".join(f"{name}={value!r}" for name, value in values.items())
        super().__init__(f"{message} ({proof})" if proof else message, hint="This is a bug in the engine. Please report this text.")
