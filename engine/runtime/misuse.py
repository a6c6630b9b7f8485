"""Wrong uses of a collector, found in C, told in words: what happened, where, and the fix."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from engine.api import wrong_values
from engine.errors import EngineError, UsageError
from engine.kernel import stable_hash
from engine.names import did_you_mean
from engine.topology import ComponentSpec


class Misuse:
    """Builds the UsageError for one task; the compiled collectors call it with a kind and what they know."""

    def __init__(self, spec: ComponentSpec) -> None:
        self._where = f"{spec.kind} {spec.component_id!r}"
        self._spec = spec

    def __call__(self, kind: str, **what: Any) -> EngineError:
        """Return the error; the caller raises it."""
        return _BUILDERS[kind](self, what)

    def unknown_stream(self, what: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where} emitted to stream {what['stream']!r}, which it does not declare",
            hint=f"Declare it in {self._spec.fields_declared_at}. {did_you_mean(str(what['stream']), self._spec.streams)}",
        )

    def not_values(self, what: Mapping[str, Any]) -> EngineError:
        return wrong_values(f"{self._where} emitted", what["values"], self._spec.streams[what["stream"]])

    def arity(self, what: Mapping[str, Any]) -> EngineError:
        return wrong_values(f"{self._where} emitted to stream {what['stream']!r}", what["values"], what["fields"])

    def direct_stream(self, what: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where} used emit() on stream {what['stream']!r}, which is direct",
            hint="Name the task: emit_direct(task, values, ...), or declare the stream without direct=True.",
        )

    def not_direct(self, what: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where} used emit_direct() on stream {what['stream']!r}, which is not direct",
            hint=f"Declare it Fields(..., direct=True) in {self._spec.fields_declared_at}, or use emit().",
        )

    def direct_target(self, what: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where} used emit_direct() to task {what['task']}, which does not subscribe to stream {what['stream']!r}",
            hint="Take the task from context.targets(stream); its bolt subscribes by direct_grouping().",
        )

    def custom_target(self, what: Mapping[str, Any]) -> EngineError:
        chosen, targets = what["chosen"], what["targets"]
        strange = [task for task in chosen if task not in targets] if isinstance(chosen, Collection) else []
        fault = f"returned {chosen!r}, which is no list of tasks"
        if strange:
            fault = f"chose task {strange[0]!r}, which is none of its targets {targets}"
        return UsageError(
            f"{self._where}: a custom grouping {fault}",
            hint="Return a list of task ids out of the `targets` that prepare() was given.",
        )

    def key(self, what: Mapping[str, Any]) -> EngineError:
        field = ", ".join(repr(name) for name, key in zip(what["names"], what["keys"], strict=False) if not _is_key(key))
        return UsageError(
            f"{self._where}: a fields grouping cannot use the value of field {field} as a key: {what['error']}",
            hint="Group by a field whose values are None, bool, int, float, str, bytes, datetime, Decimal, UUID, Enum, or tuples and lists "
            "of these; or give its type a __stable_hash__ method.",
        )

    def anchors(self, what: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where} emitted with anchors={what['anchors']!r}, which is no tuple that it was given",
            hint="Pass anchors=tup, a list of such tuples, or nothing.",
        )

    def anchor(self, what: Mapping[str, Any]) -> EngineError:
        tup = what["tuple"]
        if tup.is_settled:
            return UsageError(
                f"{self._where} emitted anchored to {tup!r}, which is settled already",
                hint="Emit before ack() or fail(): a settled tuple's tree may be done.",
            )
        text = f"{self._where} emitted anchored to {tup!r}, which another task was given"
        return UsageError(text, hint="Anchor to inputs of this task only.")

    def not_mine(self, what: Mapping[str, Any]) -> EngineError:
        text = f"{self._where} settled {what['tuple']!r}, which another task was given"
        return UsageError(text, hint="Settle the inputs of this task only.")

    def not_a_tuple(self, what: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where} called {what['method']}({what['given']!r}), which is no tuple that it was given",
            hint=f"Pass the tuple itself: {what['method']}(tup).",
        )

    def thread(self, what: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where} used its collector from another thread than its loop's",
            hint="Use loop.call_soon_threadsafe(...), or let a BasicBolt have threads=n: its collector may be used there.",
        )

    def retired(self, what: Mapping[str, Any]) -> EngineError:
        return UsageError(
            f"{self._where}: an instance that was replaced after an error, or whose run has ended, used its collector",
            hint="End background work in cleanup(), or start it by context.create_task(), which cancels it.",
        )


def _is_key(value: object) -> bool:
    try:
        stable_hash(value)
    except Exception:  # noqa: BLE001 - the __stable_hash__ of a user's type
        return False
    return True


_BUILDERS: dict[str, Callable[[Misuse, Mapping[str, Any]], EngineError]] = {
    name: method for name, method in vars(Misuse).items() if not name.startswith("_")
}
