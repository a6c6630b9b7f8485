"""Every error that the engine raises, and the failure of a tuple.

An error says what happened, where, and (its `hint`) what to do. Its `exit_status` is what a command ends with (RUN-4).
"""

import copyreg
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, get_args

FailureReason = Literal["failed", "error", "timeout", "forgotten", "rollback", "task_died"]

_REASONS: Final = get_args(FailureReason)

FAILED: Final = "failed"
ERROR: Final = "error"
TIMEOUT: Final = "timeout"
FORGOTTEN: Final = "forgotten"
ROLLBACK: Final = "rollback"
TASK_DIED: Final = "task_died"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a tuple tree failed, and at which task as far as that is known.

    `error` is the text of an exception, never the exception: frames would keep what they hold alive (ACK-15).
    """

    reason: FailureReason
    component_id: str | None = None
    task_id: int | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if self.reason not in _REASONS:
            raise UsageError(f"{self.reason!r} is no reason of a Failure", hint=f"The reasons are {', '.join(map(repr, _REASONS))}.")

    def because(self, error: str) -> "Failure":
        """Return this failure with a text that says why, of at most 2,000 characters; UsageError for anything but a text."""
        if not isinstance(error, str):
            raise UsageError(f"error must be a text, not {error!r}", hint="Write error=str(...): an exception would keep its frames alive.")
        return replace(self, error=error if len(error) <= _LONGEST_TEXT else f"{error[: _LONGEST_TEXT - 1]}…")

    def describe(self) -> str:
        """Return one sentence for a person, without a full stop.

        >>> Failure("error", "count", 7, "KeyError: 'word'").describe()
        "'count' (task 7) raised: KeyError: 'word'"
        """
        if self.reason == TASK_DIED and self.error and self.component_id is None and self.task_id is None:
            return self.error
        sentence = _SENTENCES[self.reason].format(where=self._where())
        return f"{sentence}: {self.error}" if self.error else sentence

    def _where(self) -> str:
        if self.component_id is None:
            return "an unknown task" if self.task_id is None else f"task {self.task_id}"
        return f"{self.component_id!r}" if self.task_id is None else f"{self.component_id!r} (task {self.task_id})"


_LONGEST_TEXT: Final = 2000
_SENTENCES: Final[dict[FailureReason, str]] = {
    "failed": "{where} failed it",
    "error": "{where} raised",
    "timeout": "timed out; {where} still owes an ack",
    "forgotten": "{where} let go of its tuple without ack or fail",
    "rollback": "{where} rolled its checkpoint back",
    "task_died": "{where} died",
}


def with_hint(message: str, hint: str | None) -> str:
    """Return a message and what to do as one text, with one end of a sentence between them.

    >>> with_hint("no field 'lien'. Did you mean 'line'?", "Fix it.")
    "no field 'lien'. Did you mean 'line'? Fix it."
    """
    end = "" if message.endswith((".", "?", "!")) else "."
    return f"{message}{end} {hint}" if hint else message


class EngineError(Exception):
    """The root of all errors of the engine; survives pickling with its attributes."""

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
    """An error that reports several faults at once; each fault is one text that ends with its fix."""

    def __init__(self, headline: str, faults: Iterable[str], *, hint: str | None = None) -> None:
        self.faults: tuple[str, ...] = tuple(faults)
        if not self.faults:
            raise EngineBug("an error without a fault was raised", headline=headline)
        super().__init__(_listed(headline, self.faults), hint=hint)


def _listed(headline: str, faults: tuple[str, ...]) -> str:
    """Return one line for one fault, else the headline, their number and one indented entry for each."""
    if len(faults) == 1:
        return f"{headline}: {faults[0]}"
    entries = ("\n  - " + fault.replace("\n", "\n    ") for fault in faults)
    return f"{headline}, {len(faults)} faults:{''.join(entries)}"


class TopologyError(_FaultList):
    """A topology cannot run; reports all its faults, each with its fix (GRP-5)."""

    exit_status = 2

    def __init__(self, faults: Iterable[str], *, topology_name: str | None = None) -> None:
        super().__init__("topology" if topology_name is None else f"topology {topology_name!r}", faults)
        self.topology_name = topology_name


class ConfigError(_FaultList):
    """Settings are wrong; reports all their faults, each with its place and fix."""

    exit_status = 2

    def __init__(self, faults: Iterable[str], *, headline: str = "configuration") -> None:
        super().__init__(headline, faults)


class TopologyFileError(EngineError):
    """A topology file cannot be read, does not import, or does not hold the topology that was asked for."""

    exit_status = 2


class ComponentError(EngineError):
    """A component failed for good and ended the run; `error` is what it raised, and is chained."""

    def __init__(
        self, component_id: str, task_id: int | None, error: BaseException | None, *, message: str | None = None, hint: str | None = None
    ) -> None:
        what = message or ("failed for good" if error is None else f"failed for good: {type(error).__name__}: {error}")
        self.component_id = component_id
        self.task_id = task_id
        super().__init__(f"{self.place}: {what}", hint=hint)
        self.__cause__ = error

    @property
    def place(self) -> str:
        """The component and its task, as the message begins with them: `'count' (task 7)`."""
        return f"{self.component_id!r}" if self.task_id is None else f"{self.component_id!r} (task {self.task_id})"

    @property
    def error(self) -> BaseException | None:
        """What the component raised."""
        return self.__cause__


class FatalError(EngineError):
    """Raised by a component: no fresh instance would do better, so the run ends with it at once (a wrong password, a missing topic)."""


class UsageError(EngineError):
    """A component or a host uses the API wrongly: an unknown stream, a wrong number of values, an unhashable key, a wrong state."""


class StateError(EngineError):
    """The state of a topology cannot be kept, read or found: a wrong key or value, a damaged store, another layout, another process."""


class StateDamaged(StateError, FatalError):
    """What is stored is not what was written. No fresh instance would do better: the run ends."""


class StateProviderError(StateError):
    """The setting `state_provider` gives no provider: it names none, or making it raised."""

    exit_status = 2


class StateUnavailable(StateError):
    """A store cannot be reached just now; what was asked of it may be asked again."""


class StateFenced(StateError):
    """Another process has taken the state over; this one may write no more."""


class TupleFailed(EngineError):
    """The tree of a tuple failed; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"the tuple failed: {failure.describe()}")
        self.failure = failure


class EngineBug(EngineError):
    """The engine broke an invariant of its own; carries the values that prove it.

    >>> str(EngineBug("the ledger lost a root", root=7)).splitlines()[0]
    'the ledger lost a root (root=7)'
    """

    def __init__(self, message: str, **values: object) -> None:
        proof = ", ".join(f"{name}={value!r}" for name, value in values.items())
        super().__init__(f"{message} ({proof})" if proof else message, hint="This is a bug in the engine. Please report this text.")
