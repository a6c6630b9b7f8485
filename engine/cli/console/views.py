"""Base classes for views without a live table. The views write plain lines to standard error, JSON lines to standard output, or nothing."""

from typing import Any, ClassVar, Generic, Protocol, TypeVar

from engine.cli.console.output import error_fields, print_to_stderr, write_json_event
from engine.errors import EngineError


class ShownSnapshot(Protocol):
    """The part of a snapshot that these views use."""

    @property
    def state(self) -> str:
        """Return the state of the run, in one or two words."""

    def to_dict(self) -> dict[str, Any]:
        """Return all values for JSON."""


_S = TypeVar("_S", bound=ShownSnapshot)
_S_co = TypeVar("_S_co", bound=ShownSnapshot, covariant=True)


class ShownOutcome(Protocol[_S_co]):
    """Result of a session, with a summary in one line."""

    @property
    def exit_status(self) -> int:
        """Return the exit status of the process."""

    @property
    def snapshot(self) -> _S_co | None:
        """Return the last snapshot. None if the run never started."""

    @property
    def error(self) -> EngineError | None:
        """Return the error that ended the run."""

    def summary(self) -> str:
        """Return one line: the final state, the duration and the counts."""


class SilentView:
    """Shows nothing."""

    interval_secs = 3600.0

    async def begin(self, name: str) -> None:
        """Do nothing."""

    def show(self, before: object, now: object) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def end(self, outcome: object) -> None:
        """Do nothing."""


class PlainView:
    """Writes plain lines to standard error, for output that is not a terminal."""

    ctrl_c_text: ClassVar[str]
    """Effect of Ctrl-C, as a sentence."""

    def __init__(self, interval_secs: float) -> None:
        self.interval_secs = interval_secs

    async def begin(self, name: str) -> None:
        """Write that the run has started."""
        self.note(f"{name}: running. {self.ctrl_c_text}")

    def note(self, text: str) -> None:
        """Write the message."""
        print_to_stderr(text)


class JsonView(Generic[_S]):
    """Writes one JSON object per line to standard output. The events are `start`, `snapshot`, `note`, and finally `end`."""

    name_field: ClassVar[str]
    """Field of the event `start` with the name of the run."""

    def __init__(self, interval_secs: float) -> None:
        self.interval_secs = interval_secs

    def snapshot_fields(self, now: _S) -> dict[str, Any]:
        """Return the fields of a snapshot."""
        return now.to_dict()

    def end_fields(self, now: _S | None) -> dict[str, Any]:
        """Return further fields of the event `end`."""
        return {}

    async def begin(self, name: str) -> None:
        """Write `start`."""
        write_json_event("start", **{self.name_field: name})

    def show(self, before: _S | None, now: _S) -> None:
        """Write `snapshot`."""
        write_json_event("snapshot", **self.snapshot_fields(now))

    def note(self, text: str) -> None:
        """Write `note`."""
        write_json_event("note", text=text)

    def end(self, outcome: ShownOutcome[_S]) -> None:
        """Write `end`."""
        now, error = outcome.snapshot, outcome.error
        write_json_event(
            "end",
            exit_status=outcome.exit_status,
            state=None if now is None else now.state,
            summary=outcome.summary(),
            error=None if error is None else error_fields(error),
            **self.end_fields(now),
            snapshot=None if now is None else self.snapshot_fields(now),
        )
